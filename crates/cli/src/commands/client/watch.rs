//! `quipu watch`: a counter as it changes.

use super::{
    say,
    server::{Ask, Server, parse, path},
};
use crate::failure::Failure;
use std::{
    ffi::OsString,
    io::{BufRead, BufReader},
};

const EXAMPLES: &str = "\
Examples:
  quipu watch hits            the value now, and each new one, until Ctrl-C
  quipu watch hits --count 1  the value now

Where there is no such counter, the line is a dash. Values that change faster than they are read are left out, never the
last one.";

/// Print a counter's value whenever it changes
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The counter
    key: OsString,
    /// End after this many values
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    #[command(flatten)]
    server: Server,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let ask = Ask::get(&format!("{}/watch?{}", path(&args.key), args.server.values()));
    let lines = BufReader::new(args.server.stream(&ask)?).lines();
    let mut left = args.count.unwrap_or(u64::MAX);
    for line in lines {
        let line = line.map_err(|error| Failure::failed(format!("the connection broke: {error}")))?;
        let Some(data) = line.strip_prefix("data:") else { continue };
        show(args, data.trim_start())?;
        left -= 1;
        if left == 0 {
            return Ok(());
        }
    }
    Err(Failure::failed("the server has ended the connection"))
}

fn show(args: &Args, data: &str) -> Result<(), Failure> {
    match args.server.json {
        true => say(data),
        false => say(parse(data)?["value"].as_str().unwrap_or("-")),
    }
}
