//! `quipu get`: read counters.

use super::{
    say,
    server::{Ask, Server, Trouble, member, parse, path},
    shown_argument,
};
use crate::failure::Failure;
use std::ffi::OsString;

const EXAMPLES: &str = "\
Examples:
  quipu get hits              its value
  quipu get hits misses       a line for each: key, tab, value
  quipu get hits --json       {\"key\":\"hits\",\"value\":42}

Exit code 1 if one of them does not exist.";

/// Print the values of counters
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The counters
    #[arg(required = true, value_name = "KEY")]
    keys: Vec<OsString>,
    #[command(flatten)]
    server: Server,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let mut absent = Vec::new();
    for key in &args.keys {
        let ask = Ask::get(&format!("{}?{}", path(key), args.server.values()));
        let text = match args.server.ask(&ask) {
            Err(Trouble::Refused { kind, .. }) if kind == "no-such-counter" => {
                absent.push(shown_argument(key));
                continue;
            }
            other => other?,
        };
        if args.server.json {
            say(text)?;
            continue;
        }
        let answer = parse(&text)?;
        let value = member(&answer, "value")?;
        match args.keys.len() {
            1 => say(value)?,
            _ => say(format_args!("{}\t{value}", shown_argument(key)))?,
        }
    }
    match absent.is_empty() {
        true => Ok(()),
        false => Err(Failure::failed(format!("there is no counter {}", absent.join(", ")))),
    }
}
