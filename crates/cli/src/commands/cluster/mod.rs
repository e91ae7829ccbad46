//! `quipu cluster`: several sites in one terminal, and the links between them in your hands.
//!
//! Each site is a `quipu serve` of its own ([`site`]); each link between two of them goes through a line of this process
//! that can be cut ([`cable`]). [`watcher`] asks the sites how they stand, and a [`snapshot`] of it is shown on a
//! [`screen`] or as [`plain`] text.

pub(crate) mod api;
pub(crate) mod cable;
mod keys;
mod order;
mod plain;
mod screen;
pub(crate) mod site;
mod sites;
mod snapshot;
mod watcher;

use crate::failure::Failure;
use order::Order;
use sites::Sites;
use snapshot::Snapshot;
use std::{
    io::{IsTerminal, Write as _},
    path::PathBuf,
    sync::{
        atomic::Ordering,
        mpsc::{Receiver, RecvTimeoutError},
    },
    time::{Duration, Instant},
};
use tempfile::TempDir;
use watcher::Watcher;

/// How long at most nobody looks whether somebody has pressed Ctrl-C.
const WAIT_TIME_MAX: Duration = Duration::from_millis(100);

const EXAMPLES: &str = "\
Examples:
  quipu cluster                             three sites; their addresses are on the screen
  redis-cli -p PORT incr hits               count at one of them, from another terminal
  quipu cluster --sites 5 --data ./cluster  five sites, and their data is kept
  (echo add 1 hits 5; sleep 5) | quipu cluster --plain

Keys: 1 to 5 choose a site, the arrows a link. c cuts the link and heals it, s makes it silent
(nothing comes through, and nobody is told). + and - count at the site, k kills it with SIGKILL
and starts it again. q quits.

With --plain, or where the output is no terminal, there is a line of text every second, and
orders come as lines of the standard input, the end of which is the end of the cluster:
  cut 1 2    heal 1 2    silence 1 2    add 1 KEY AMOUNT    kill 1    start 1    quit";

/// Several sites in this terminal, with a live view, and keys to cut and heal the links between them
///
/// Each site is an ordinary `quipu serve` on free ports of this machine.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// How many sites, 2 to 5
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u16).range(2..=5))]
    sites: u16,
    /// The folder that holds the sites' data and logs, and is kept; otherwise it is a temporary one
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Lines of text instead of a screen
    #[arg(long)]
    plain: bool,
}

/// Where the data is.
enum Folder {
    Kept(PathBuf),
    /// Removed when this is dropped.
    Temporary(TempDir),
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    // Before anything is started: whoever stops it then still gets an orderly end.
    let _ = crate::interrupt::flag();
    let folder = Folder::make(args.data.clone())?;
    let mut sites = Sites::start(folder.path(), args.sites)?;
    let is_screen = !args.plain && std::io::stdout().is_terminal() && std::io::stdin().is_terminal();
    let shown = if is_screen { screen::run(&mut sites) } else { plain::run(&mut sites) };
    let stopped = sites.stop();
    shown.and(stopped)?;
    if let Folder::Kept(path) = &folder {
        // Nobody may be left to read it.
        let _ = writeln!(std::io::stdout(), "stopped; the data is in {}", path.display());
    }
    Ok(())
}

impl Folder {
    fn make(kept: Option<PathBuf>) -> Result<Self, Failure> {
        let Some(path) = kept else {
            let made = tempfile::Builder::new().prefix("quipu-cluster-").tempdir();
            let failed = |error| {
                Failure::failed(format!("cannot make a temporary folder: {error}; name one with --data"))
            };
            return made.map(Self::Temporary).map_err(failed);
        };
        match std::fs::create_dir_all(&path) {
            Ok(()) => Ok(Self::Kept(path)),
            Err(error) => {
                let problem = format!("{} cannot be made: {error}; name another folder", path.display());
                Err(Failure::Usage { flag: "--data", problem })
            }
        }
    }

    fn path(&self) -> &std::path::Path {
        match self {
            Self::Kept(path) => path,
            Self::Temporary(folder) => folder.path(),
        }
    }
}

/// What is told to whoever shows it.
enum Told {
    /// What came of an order.
    Answer(Result<String, String>),
    Snapshot(Snapshot),
}

/// Obeys orders, and looks at all sites again and again, until there are no more orders or nobody wants to be told.
/// What is no order comes with the reason.
fn conduct(
    sites: &mut Sites,
    orders: &Receiver<Result<Order, String>>,
    look_every: Duration,
    mut tell: impl FnMut(Told) -> bool,
) {
    let mut watcher = Watcher::default();
    let mut next_look = Instant::now();
    while !crate::interrupt::flag().load(Ordering::Relaxed) {
        let wait = next_look.saturating_duration_since(Instant::now()).min(WAIT_TIME_MAX);
        match orders.recv_timeout(wait) {
            Ok(order) => {
                let is_last = order == Ok(Order::Quit);
                let answer = order.and_then(|order| sites.obey(&order));
                if !tell(Told::Answer(answer)) || is_last {
                    return;
                }
            }
            Err(RecvTimeoutError::Timeout) if Instant::now() < next_look => {}
            Err(RecvTimeoutError::Timeout) => {
                next_look = Instant::now() + look_every;
                if !tell(Told::Snapshot(watcher.look(sites))) {
                    return;
                }
            }
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}
