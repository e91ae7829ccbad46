//! `quipu info`: everything that is known about a counter.

use super::{
    say,
    server::{Ask, Server, member, parse, path},
    shown_argument,
};
use crate::failure::Failure;
use serde_json::Value;
use std::ffi::OsString;

const EXAMPLES: &str = "\
Examples:
  quipu info stock         its limits, what each site has counted and may still count, and what may be taken back
  quipu info stock --json  the same for programs";

/// Print everything that is known about a counter
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The counter
    key: OsString,
    #[command(flatten)]
    server: Server,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let text = args.server.ask(&Ask::get(format!("{}/info?{}", path(&args.key), args.server.values())))?;
    if args.server.json {
        return say(text);
    }
    let info = parse(&text)?;
    say(format_args!("key      {}", shown_argument(&args.key)))?;
    say(format_args!("value    {}", member(&info, "value")?))?;
    if member(&info, "provisional")? != "0" {
        say(format_args!(
            "of that  {} may be taken back: a retry may have counted at two sites",
            member(&info, "provisional")?
        ))?;
    }
    say(format_args!("version  {}", member(&info, "version")?))?;
    let bounds = &info["bounds"];
    if !bounds.is_null() {
        let limit = |name: &str| bounds[name].as_str().unwrap_or("none").to_owned();
        say(format_args!("minimum  {}", limit("min")))?;
        say(format_args!("maximum  {}", limit("max")))?;
        if (limit("parked_added"), limit("parked_subtracted")) != ("0".to_owned(), "0".to_owned()) {
            let (added, subtracted) = (limit("parked_added"), limit("parked_subtracted"));
            say(format_args!(
                "waiting  for rights: {added} to add, {subtracted} to subtract, handed over by edges"
            ))?;
        }
        say(format_args!("created  with {} at site {}", limit("initial"), limit("creator")))?;
    }
    for site in info["sites"].as_array().map(Vec::as_slice).unwrap_or_default() {
        say(site_line(site)?)?;
    }
    Ok(())
}

fn site_line(site: &Value) -> Result<String, Failure> {
    let mut line = format!(
        "site {}   added {}, subtracted {}",
        member(site, "site")?,
        member(site, "added")?,
        member(site, "subtracted")?
    );
    for (name, verb) in [("rights_to_add", "add"), ("rights_to_subtract", "subtract")] {
        if let Some(rights) = site[name].as_str() {
            line += &format!("; may {verb} {rights}");
        }
        if let Some(waiting) = site[format!("{name}_waiting")].as_str().filter(|waiting| *waiting != "0") {
            line += &format!(" (and {waiting} once an id is settled)");
        }
    }
    if let Some(heard) = site["heard_ms_ago"].as_str() {
        line += &format!("; heard from {heard} ms ago");
    }
    Ok(line)
}
