//! Why a load could not be put on an endpoint, and what to do about it.

use super::replies::NotAReply;
use std::time::Duration;

/// What became of commands that were not answered is unknown: they may have been counted.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BenchError {
    #[error(
        "{flag}: cannot connect to {address}: {error}; start a server there (`quipu serve --resp {address}`), or name \
         another address"
    )]
    Unreachable { flag: &'static str, address: String, error: std::io::Error },
    #[error(
        "--connections: opened {opened} to {address}, then: {error}; ask for fewer, or allow more open files \
         (`ulimit -n`)"
    )]
    OutOfFiles { address: String, opened: usize, error: std::io::Error },
    #[error("--password: {address} refuses it: {text}")]
    Password { address: String, text: String },
    #[error(
        "{address} closed connection {connection} with {unanswered} commands unanswered; look at its log"
    )]
    Closed { address: String, connection: usize, unanswered: usize },
    #[error(
        "{address} has not answered {unanswered} commands on connection {connection} within {} s; is it overloaded or \
         stopped? Wait longer with --timeout",
        limit.as_secs_f64()
    )]
    Silent { address: String, connection: usize, unanswered: usize, limit: Duration },
    #[error("{address} does not answer as a RESP server: {error}; check host and port")]
    NotResp { address: String, error: NotAReply },
    #[error("{address} answered {got} where {expected} was expected; is it a server of counters?")]
    Unexpected { address: String, got: String, expected: String },
    #[error("{address} answered with an error: {text}{remedy}")]
    Answer { address: String, text: String, remedy: &'static str },
    #[error(
        "an operation was tried {attempts} times and never acknowledged, so its outcome is unknown; the last time: {last}. \
         Try a smaller --loss, smaller delays or a longer --timeout-ms"
    )]
    NeverAcknowledged { attempts: u32, last: Box<BenchError> },
    #[error("{address}: {error}")]
    Io { address: String, error: std::io::Error },
}
