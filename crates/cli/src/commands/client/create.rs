//! `quipu create`: a counter with limits.

use super::{
    say,
    server::{Ask, Server, member, parse, path},
};
use crate::failure::Failure;
use quipu_server::{SITES_WAIT_MS_MAX, resp::read_shares};
use serde_json::{Value, json};
use std::{ffi::OsString, time::Duration};
use ureq::http::Method;

const EXAMPLES: &str = "\
Examples:
  quipu create stock --min 0 --value 100    never below 0
  quipu create seats --min 0 --max 200      never above 200 either
  quipu create stock --min 0 --value 500 --spread even           every site may sell its part at once
  quipu create stock --min 0 --value 500 --spread 1=300,2=200    site 1 begins with 300, site 2 with 200
  quipu create stock --min 0 --wait 10000   waits up to ten seconds for the other sites

Counters without limits need no creation: the first add makes them. A counter with limits takes effect when all sites
have its definition; if some have not answered in time it does so by itself later, and the exit code is 1.
What a site may count without asking others are its rights. All begin at the site that is asked, unless they are spread; \
`quipu move` moves them.";

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
    /// Who holds the rights in the beginning: `creator`, `even`, or shares, such as `1=300,2=200`
    #[arg(long, value_name = "HOW", value_parser = spread)]
    spread: Option<Value>,
    /// Wait so many milliseconds until all sites have it
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(..=SITES_WAIT_MS_MAX))]
    wait: Option<u64>,
    #[command(flatten)]
    server: Server,
}

/// As the server takes it.
fn spread(text: &str) -> Result<Value, String> {
    if let "creator" | "even" = text {
        return Ok(json!(text));
    }
    let shares = read_shares(text.as_bytes())?;
    let shares = shares.into_iter().map(|(site, share)| (site.to_string(), json!(share)));
    Ok(Value::Object(shares.collect()))
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let mut body = json!({ "min": args.min, "max": args.max, "value": args.value });
    if let Some(spread) = &args.spread {
        body["spread"] = spread.clone();
    }
    if let Some(wait_ms) = args.wait {
        body["wait_ms"] = json!(wait_ms);
    }
    let path = format!("{}?{}", path(&args.key), args.server.values());
    let sites_time = Duration::from_millis(args.wait.unwrap_or(0));
    let ask = Ask { method: Method::PUT, path, body: Some(&body), id: None, sites_time };
    let text = args.server.ask(&ask)?;
    let answer = parse(&text)?;
    if args.server.json {
        say(&text)?;
    }
    // Not all sites have it yet.
    if answer.get("missing").is_some() {
        return Err(Failure::failed(member(&answer, "detail")?));
    }
    match args.server.json {
        true => Ok(()),
        false => say(member(&answer, "value")?),
    }
}
