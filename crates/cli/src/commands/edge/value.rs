//! `quipu edge value`.

use super::state::State;
use crate::{
    commands::client::{say, shown},
    failure::Failure,
};
use quipu_edge::{Edge, Reading, SyncError};
use std::ffi::OsString;

/// So many counters are asked for before the next ones are.
const AT_ONCE: usize = 4096;
/// After so many exchanges that tell nothing new the others are not known.
const IDLE_MAX: usize = 3;
/// So many of those are named.
const SHOWN_MAX: usize = 5;

const EXAMPLES: &str = "\
Examples:
  quipu edge value hits --state counts.quipu --servers http://127.0.0.1:7380
  quipu edge value hits misses --state counts.quipu     a line for each: key, tab, value
  quipu edge value hits --state counts.quipu --offline  what was counted here and is not known to have arrived

Exit code 2 if no server has told of some of them: standard error names these, and what is printed for them is what only
this file knows.";

#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The counters
    #[arg(required = true, value_name = "KEY")]
    keys: Vec<OsString>,
    /// Ask nobody
    #[arg(long)]
    offline: bool,
    #[command(flatten)]
    state: State,
}

pub(super) fn run(args: &Args) -> Result<(), Failure> {
    args.state.must_exist()?;
    let edge = args.state.open()?;
    let (mut unknown, mut failed) = (Vec::new(), None);
    for keys in args.keys.chunks(AT_ONCE) {
        if !args.offline && failed.is_none() {
            failed = ask(&edge, keys)?.err();
        }
        for key in keys {
            let Reading { value, heard } = read(&edge, key)?;
            if !args.offline && heard.is_none() {
                unknown.push(shown(key.as_encoded_bytes()));
            }
            match args.keys.len() {
                1 => say(value)?,
                _ => say(format_args!("{}\t{value}", shown(key.as_encoded_bytes())))?,
            }
        }
    }
    if unknown.is_empty() && failed.is_none() {
        return Ok(());
    }
    let why = failed.map(|why| format!(": {why}")).unwrap_or_default();
    Err(Failure::CannotTell(format!(
        "no server has told what others have counted of {}{why}",
        some_of(&unknown)
    )))
}

fn read(edge: &Edge, key: &OsString) -> Result<Reading, Failure> {
    edge.value(key.as_encoded_bytes()).map_err(Failure::failed)
}

/// Asks servers for these counters, in as many exchanges as it takes.
fn ask(edge: &Edge, keys: &[OsString]) -> Result<Result<(), SyncError>, Failure> {
    let unheard = || {
        let heard: Result<Vec<_>, Failure> = keys.iter().map(|key| Ok(read(edge, key)?.heard)).collect();
        Ok::<_, Failure>(heard?.into_iter().filter(Option::is_none).count())
    };
    // From now on servers are asked for them.
    let (mut left, mut idle) = (unheard()?, 0);
    // With nothing to ask for, somebody wants to know whether a server is there.
    loop {
        if let Err(why) = edge.sync() {
            return Ok(Err(why));
        }
        let now = unheard()?;
        idle = if now < left { 0 } else { idle + 1 };
        left = now;
        if left == 0 || idle == IDLE_MAX {
            return Ok(Ok(()));
        }
    }
}

/// How many, and the first of them.
fn some_of(keys: &[String]) -> String {
    let first = keys.iter().take(SHOWN_MAX).cloned().collect::<Vec<_>>().join(", ");
    match keys.len() {
        0 => "these counters".to_owned(),
        1 => first,
        count if count <= SHOWN_MAX => format!("{count} counters ({first})"),
        count => format!("{count} counters ({first}, …)"),
    }
}
