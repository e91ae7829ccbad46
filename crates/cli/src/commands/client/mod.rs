//! Commands that ask a running server, over HTTP.

pub(crate) mod add;
pub(crate) mod audit;
pub(crate) mod create;
pub(crate) mod get;
pub(crate) mod import;
pub(crate) mod info;
pub(crate) mod list;
pub(crate) mod movement;
pub(crate) mod node;
pub(crate) mod retire;
mod server;
pub(crate) mod site;
pub(crate) mod watch;

pub(super) use server::{Login, key as key_of, parse as parse_answer};

use crate::failure::Failure;
use std::{
    ffi::OsStr,
    fmt::Display,
    io::{ErrorKind, Write},
};

/// Writes a line. A reader that has gone away, as `head` does, is no failure: nobody is left to be told.
pub(super) fn say(line: impl Display) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    match writeln!(out, "{line}").and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => std::process::exit(0),
        other => other.map_err(|error| Failure::failed(format!("cannot write: {error}"))),
    }
}

/// A key as it is shown: as it is if that is a line of text, else with escapes.
pub(super) fn shown(key: &[u8]) -> String {
    match std::str::from_utf8(key) {
        Ok(text) if !text.chars().any(char::is_control) => text.to_owned(),
        _ => format!("\"{}\"", key.escape_ascii()),
    }
}

fn shown_argument(key: &OsStr) -> String {
    shown(key.as_encoded_bytes())
}
