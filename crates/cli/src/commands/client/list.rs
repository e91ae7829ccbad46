//! `quipu list`: all counters, or those with a prefix.

use super::{
    say,
    server::{Ask, Server, key, member, parse},
    shown,
};
use crate::failure::Failure;
use percent_encoding::{NON_ALPHANUMERIC, percent_encode};
use serde_json::Value;
use std::ffi::OsString;

/// Counters in one answer of the server.
const PAGE: usize = 1_000;

const EXAMPLES: &str = "\
Examples:
  quipu list                    all counters, a line for each: key, tab, value
  quipu list user:              those whose key begins with user:
  quipu list --limit 10 --json  the first ten, as JSON";

/// List counters in the order of their keys
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Only keys that begin so
    #[arg(default_value = "")]
    prefix: OsString,
    /// At most this many
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
    #[command(flatten)]
    server: Server,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let prefix = percent_encode(args.prefix.as_encoded_bytes(), NON_ALPHANUMERIC).to_string();
    let mut left = args.limit.unwrap_or(usize::MAX);
    let mut cursor = String::new();
    while left > 0 {
        let path = format!("?{}&prefix={prefix}&limit={}{cursor}", args.server.values(), left.min(PAGE));
        let page = parse(&args.server.ask(&Ask::get(&path))?)?;
        let counters = page["counters"].as_array().map(Vec::as_slice).unwrap_or_default();
        for counter in counters {
            show(args, counter)?;
        }
        left = left.saturating_sub(counters.len());
        match page["next"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    Ok(())
}

fn show(args: &Args, counter: &Value) -> Result<(), Failure> {
    match args.server.json {
        true => say(counter),
        false => say(format_args!("{}\t{}", shown(&key(counter)?), member(counter, "value")?)),
    }
}
