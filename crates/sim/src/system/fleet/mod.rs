//! Edges and relays: the same engine as at the sites, which hands over what it counts.
//!
//! - `plan`: who is there, what they do, and what befalls them, as data.
//! - `replica`: an edge or a relay, with or without a process; `asks`: all that is asked of its engine.
//! - `letter`: what goes between them and the servers.
//! - `ledger`: what was counted, what was handed over, and what may be lost.

mod asks;
mod ledger;
mod letter;
mod plan;
mod replica;

pub(super) use ledger::{Balance, Ended, Ledger, Standing as TargetStanding, TokenKey};
pub(super) use letter::{Answered, Content, Letter, Said};
pub use plan::{EDGES_MAX, Fleet, Mishap, RELAYS_MAX, Who};
pub(super) use replica::{Asked, Purpose, Replica, Stage, Waiting};

use super::calls::Key;

/// The number of the counter with this name: names end with it.
pub(super) fn number_of(name: &[u8]) -> usize {
    let digits = name.get(1..).and_then(|digits| std::str::from_utf8(digits).ok());
    digits.and_then(|digits| digits.parse().ok()).expect("counters are named by their numbers")
}

/// The name of a counter, for people.
pub(super) fn shown(key: &Key) -> String {
    String::from_utf8_lossy(&key.name).into_owned()
}
