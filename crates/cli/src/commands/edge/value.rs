//! `quipu edge value`.

use super::state::State;
use crate::{
    commands::client::{say, shown},
    failure::Failure,
};
use std::ffi::OsString;

const EXAMPLES: &str = "\
Examples:
  quipu edge value hits --state counts.quipu --servers http://127.0.0.1:7380
  quipu edge value hits misses --state counts.quipu     a line for each: key, tab, value
  quipu edge value hits --state counts.quipu --offline  what was counted here and is not known to have arrived

Exit code 2 if no server could be asked: what is printed is then what only this file knows.";

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
    let read = |key: &OsString| edge.value(key.as_encoded_bytes()).map_err(Failure::failed);
    for key in &args.keys {
        read(key)?; // From now on servers are asked for it.
    }
    let asked = if args.offline { Ok(()) } else { edge.sync() };
    for key in &args.keys {
        let value = read(key)?.value;
        match args.keys.len() {
            1 => say(value)?,
            _ => say(format_args!("{}\t{value}", shown(key.as_encoded_bytes())))?,
        }
    }
    asked.map_err(|why| Failure::CannotTell(format!("no server has told what others have counted: {why}")))
}
