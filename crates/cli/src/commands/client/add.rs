//! `quipu add`: count, exactly once however often it has to be sent.

use super::{
    say,
    server::{Ask, Server, Trouble, member, parse, path},
};
use crate::failure::Failure;
use serde_json::{Map, Value, json};
use std::{ffi::OsString, time::Duration};
use ureq::http::Method;

/// How often it is sent at most.
const TRIES_MAX: u32 = 6;
/// How long to wait before the second time; then twice as long each time.
const WAIT_FIRST: Duration = Duration::from_millis(100);

const EXAMPLES: &str = "\
Examples:
  quipu add hits                        one more
  quipu add stock -5 --min 0            five less, but not below 0
  quipu add stock -5 --beyond saturate  as many of five as the limits allow
  quipu add orders 1 --id order-4711    counted once, however often this is run within the server's window

Each add is sent with an id, so that it is counted once even if the connection breaks and it is sent again.";

/// Add to a counter and print its value
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The counter; the first add makes it
    key: OsString,
    /// How much; subtracted if negative
    #[arg(default_value_t = 1, allow_negative_numbers = true)]
    amount: i64,
    /// Names this operation, so that it is counted once; made up if it is not given
    #[arg(long)]
    id: Option<String>,
    /// The value must not end below
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    min: Option<i64>,
    /// The value must not end above
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    max: Option<i64>,
    /// What to do if it would, or if the counter's own limits are in the way
    #[arg(long, value_enum, default_value_t = Beyond::Refuse)]
    beyond: Beyond,
    #[command(flatten)]
    server: Server,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Beyond {
    /// Count nothing; exit code 1
    Refuse,
    /// Count nothing; exit code 0
    Skip,
    /// Count as much as fits
    Saturate,
}

impl Args {
    fn body(&self) -> Value {
        let mut body = Map::from_iter([("amount".to_owned(), json!(self.amount))]);
        for (name, limit) in [("lower", self.min), ("upper", self.max)] {
            if let Some(limit) = limit {
                body.insert(name.to_owned(), json!(limit));
            }
        }
        let beyond = match self.beyond {
            Beyond::Refuse => "refuse",
            Beyond::Skip => "skip",
            Beyond::Saturate => "saturate",
        };
        body.insert("beyond".to_owned(), json!(beyond));
        Value::Object(body)
    }
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let made_up;
    let id = match &args.id {
        Some(id) => id,
        None => {
            made_up = uuid::Uuid::now_v7().to_string();
            &made_up
        }
    };
    let text = send(args, id)?;
    if args.server.json {
        return say(text);
    }
    let answer = parse(&text)?;
    let applied = member(&answer, "applied")?;
    if applied != args.amount.to_string() {
        eprintln!("only {applied} of {} counted: a limit is in the way", args.amount);
    }
    say(member(&answer, "value")?)
}

/// Sends it until there is an answer. The id makes that safe.
fn send(args: &Args, id: &str) -> Result<String, Failure> {
    let body = args.body();
    let path = format!("{}/add?{}", path(&args.key), args.server.values());
    let ask = Ask { method: Method::POST, path: format!("/counters{path}"), body: Some(&body), id: Some(id) };
    let mut wait = WAIT_FIRST;
    let mut sent_before = false;
    for attempt in 1.. {
        let trouble = match args.server.ask(&ask) {
            Ok(text) => return Ok(text),
            Err(trouble) => trouble,
        };
        let last = attempt == TRIES_MAX;
        match trouble {
            Trouble::Usage(failure) => return Err(failure),
            // Without a server nothing was sent; if something was sent before, the server may come back.
            Trouble::NoServer(_) if !sent_before => return Err(trouble.into()),
            Trouble::NoServer(what) | Trouble::NoAnswer(what) if last => return Err(unknown(&what, id)),
            Trouble::Refused { ref kind, ref detail, .. } if last && kind == "in-doubt" => {
                return Err(unknown(detail, id));
            }
            Trouble::Refused { status, ref kind, .. } if last || !passing(status, kind) => {
                return Err(trouble.into());
            }
            _ => sent_before = true,
        }
        std::thread::sleep(wait);
        wait *= 2;
    }
    Err(unknown("no answer", id))
}

/// May the same request go through a moment later?
fn passing(status: u16, kind: &str) -> bool {
    matches!(status, 408 | 503) || kind == "still-running"
}

fn unknown(what: &str, id: &str) -> Failure {
    Failure::failed(format!(
        "{what}\nIt is not known whether this was counted. Run it again with --id {id}: then it is counted once"
    ))
}
