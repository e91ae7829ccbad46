//! `quipu move`: rights of a counter with limits, from one site to another.

use super::{
    say,
    server::{Ask, Server, member, parse, path},
};
use crate::failure::Failure;
use quipu_engine::SiteId;
use quipu_server::SITES_WAIT_MS_MAX;
use serde_json::json;
use std::{ffi::OsString, time::Duration};
use ureq::http::Method;

const EXAMPLES: &str = "\
Examples:
  quipu move stock 100 --from 1 --to 2                  site 2 may sell 100 more, site 1 as many fewer
  quipu move seats 10 --from 1 --to 3 --right add       of a counter with a minimum and a maximum

The site that holds the rights passes them on; any site can be asked. Prints how many have moved: fewer, if that site
holds fewer. `quipu info` shows what each site holds. Repeated, it moves again.";

/// Move rights of a counter with limits from one site to another
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The counter
    key: OsString,
    /// How many rights
    #[arg(value_parser = clap::value_parser!(u64).range(1..=u64::MAX / 2))]
    amount: u64,
    /// The site that passes them on
    #[arg(long, value_name = "SITE")]
    from: SiteId,
    /// The site that gets them
    #[arg(long, value_name = "SITE")]
    to: SiteId,
    /// Which rights, if the counter has a minimum and a maximum
    #[arg(long, value_name = "RIGHT", value_parser = ["subtract", "add"])]
    right: Option<String>,
    /// Wait so many milliseconds for the site that holds them
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(..=SITES_WAIT_MS_MAX))]
    wait: Option<u64>,
    #[command(flatten)]
    server: Server,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let (from, to) = (args.from.to_string(), args.to.to_string());
    let mut body = json!({ "amount": args.amount, "from": from, "to": to });
    if let Some(right) = &args.right {
        body["right"] = json!(right);
    }
    if let Some(wait_ms) = args.wait {
        body["wait_ms"] = json!(wait_ms);
    }
    let path = format!("{}/move?{}", path(&args.key), args.server.values());
    let sites_time = Duration::from_millis(args.wait.unwrap_or(0));
    let text =
        args.server.ask(&Ask { method: Method::POST, path, body: Some(&body), id: None, sites_time })?;
    match args.server.json {
        true => say(&text),
        false => say(member(&parse(&text)?, "moved")?),
    }
}
