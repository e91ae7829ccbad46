//! `quipu edge value`.

use super::state::State;
use crate::{
    commands::client::{say, shown},
    failure::Failure,
};
use quipu_edge::{Edge, Reading, SyncError};
use quipu_server::config::parse_duration;
use std::{
    ffi::OsString,
    thread,
    time::{Duration, Instant},
};

/// So many counters are asked for before the next ones are.
const AT_ONCE: usize = 4096;
/// The pause after an exchange that told nothing new. A relay asks its site about once a second.
const IDLE_PAUSE: Duration = Duration::from_millis(200);
/// So many of those are named.
const SHOWN_MAX: usize = 5;

const EXAMPLES: &str = "\
Examples:
  quipu edge value hits --state counts.quipu --servers http://127.0.0.1:7380
  quipu edge value hits misses --state counts.quipu     a line for each: key, tab, value
  quipu edge value hits --state counts.quipu --offline  what was counted here and is not known to have arrived

A relay that does not know a counter yet asks a site for it, which takes a second or two.
Exit code 2 if no server has told of some of them: standard error names these, and what is printed for them is what
only this file knows.";

#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The counters
    #[arg(required = true, value_name = "KEY")]
    keys: Vec<OsString>,
    /// Ask nobody
    #[arg(long)]
    offline: bool,
    /// Stop asking when servers have told nothing new for so long
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = parse_duration)]
    deadline: Duration,
    #[command(flatten)]
    state: State,
}

pub(super) fn run(args: &Args) -> Result<(), Failure> {
    args.state.must_exist()?;
    let edge = args.state.open()?;
    let (mut unknown, mut failed) = (Vec::new(), None);
    for keys in args.keys.chunks(AT_ONCE) {
        if !args.offline && failed.is_none() {
            failed = ask(&edge, keys, args.deadline)?.err();
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

/// Asks servers for these counters, in as many exchanges as it takes, until they have told nothing new for so long.
fn ask(edge: &Edge, keys: &[OsString], idle_max: Duration) -> Result<Result<(), SyncError>, Failure> {
    let unheard = || {
        let heard: Result<Vec<_>, Failure> = keys.iter().map(|key| Ok(read(edge, key)?.heard)).collect();
        Ok::<_, Failure>(heard?.into_iter().filter(Option::is_none).count())
    };
    // From now on servers are asked for them.
    let (mut left, mut told_at) = (unheard()?, Instant::now());
    // With nothing to ask for, somebody wants to know whether a server is there.
    loop {
        if let Err(why) = edge.sync() {
            return Ok(Err(why));
        }
        let now = unheard()?;
        let has_told = now < left;
        left = now;
        let idle = told_at.elapsed();
        if left == 0 || !has_told && idle >= idle_max {
            return Ok(Ok(()));
        }
        match has_told {
            true => told_at = Instant::now(),
            false => thread::sleep(IDLE_PAUSE.min(idle_max - idle)),
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
