//! `quipu retire`: lets a relay leave, and tells how far it is.

use super::{
    say,
    server::{Ask, Server, parse},
};
use crate::failure::Failure;
use serde_json::Value;
use std::{
    thread,
    time::{Duration, Instant},
};
use ureq::http::Method;

/// How often it is asked how far it is.
const ASK_EVERY: Duration = Duration::from_millis(200);

const EXAMPLES: &str = "\
Examples:
  quipu retire --url http://10.0.1.1:7380        the relay there hands over everything; then it may be stopped for good

It takes nothing any more as soon as it is asked, and never again. The same command tells how far it is.";

/// Let a relay retire: it hands over all that it has, leaves what it keeps for edges to a site, and may be stopped then
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// For how many seconds to wait until it is done
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    wait: u64,
    #[command(flatten)]
    server: Server,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let until = Instant::now() + Duration::from_secs(args.wait);
    let mut said = String::new();
    loop {
        let ask = Ask {
            method: Method::POST,
            path: "/retire".to_owned(),
            body: None,
            id: None,
            sites_time: Duration::ZERO,
        };
        let text = args.server.ask(&ask)?;
        let answer = parse(&text)?;
        let is_done = answer["status"] == "done";
        if args.server.json {
            if is_done || text != said {
                say(&text)?;
            }
            said = text;
        } else if is_done {
            let heirs = names(&answer["heirs"]);
            return say(format_args!(
                "retired: everything is handed over, and {heirs} keeps what was open for edges. Stop it for good; its folder \
                 is not needed any more"
            ));
        } else {
            let now = progress(&answer);
            if now != said {
                say(&now)?;
            }
            said = now;
        }
        if is_done {
            return Ok(());
        }
        if Instant::now() >= until {
            let trouble = answer["trouble"].as_str().map_or_else(String::new, |it| format!(" ({it})"));
            let missing = names(&answer["waits_for"]);
            let missing =
                if missing.is_empty() { "a parent".to_owned() } else { format!("an answer of {missing}") };
            return Err(Failure::failed(format!(
                "not done yet: it waits for {missing}{trouble}. It goes on by itself, and must not be stopped for good; the \
                 same command tells how far it is"
            )));
        }
        thread::sleep(ASK_EVERY);
    }
}

fn names(value: &Value) -> String {
    let names = value.as_array().into_iter().flatten().filter_map(Value::as_str);
    names.collect::<Vec<_>>().join(", ")
}

fn progress(answer: &Value) -> String {
    format!(
        "{} counters to hand over, {} on their way, {} shards to leave to a site",
        answer["counters"], answer["tokens"], answer["estates"]
    )
}
