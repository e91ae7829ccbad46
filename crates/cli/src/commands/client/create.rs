//! `quipu create`: a counter with limits.

use super::{
    say,
    server::{Ask, Server, member, parse, path},
};
use crate::failure::Failure;
use serde_json::json;
use std::ffi::OsString;
use ureq::http::Method;

const EXAMPLES: &str = "\
Examples:
  quipu create stock --min 0 --value 100    never below 0
  quipu create seats --min 0 --max 200      never above 200 either

Counters without limits need no creation: the first add makes them.";

/// Create a counter that never crosses a minimum or a maximum
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
#[command(group(clap::ArgGroup::new("limit").required(true).multiple(true).args(["min", "max"])))]
pub(crate) struct Args {
    /// The counter
    key: OsString,
    /// The value is never less
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    min: Option<i64>,
    /// The value is never greater
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    max: Option<i64>,
    /// The value to begin with
    #[arg(long, value_name = "N", default_value_t = 0, allow_negative_numbers = true)]
    value: i64,
    #[command(flatten)]
    server: Server,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let body = json!({ "min": args.min, "max": args.max, "value": args.value });
    let path = format!("{}?{}", path(&args.key), args.server.values());
    let text = args.server.ask(&Ask {
        method: Method::PUT,
        path: format!("/counters{path}"),
        body: Some(&body),
        id: None,
    })?;
    match args.server.json {
        true => say(text),
        false => say(member(&parse(&text)?, "value")?),
    }
}
