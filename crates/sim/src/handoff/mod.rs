//! The experiments of “Scalable eventually consistent counters over unreliable networks” (Almeida and Baquero,
//! section 8), run with the replicas of `quipu-crdt`: how much do servers remember, when clients come and go?
//!
//! - [`clients`]: ever more clients arrive (figure 6).
//! - [`sessions`]: they are active only for a part of the time (figure 7).
//! - [`reconnect`]: they go offline without a word and come back to another server (figure 8).
//! - [`retire`]: they retire, some of them cut off from their servers (figure 9).
//! - [`example1`]: the deployment of the paper's Example 1, with what each node has to keep.
//!
//! Each is a function `run(&Params, sink)`; the sink gets a [`Row`] every so often and says whether to go on.
//! The defaults are the paper's values.
//!
//! Three tiers: nodes of tier 0, servers of tier 1, clients of tier 2. Two patterns of messages: in the first
//! ([`clients`], [`sessions`], naive [`reconnect`]) whoever receives a message answers it; in the second
//! (smart [`reconnect`], [`retire`]) everybody sends to whom it has open business with, once in a while.
//!
//! Checked while it runs, at every message: a replica reports no more than was counted anywhere, and no less
//! than before. At every row: what was counted is what the replicas hold plus the tokens whose slots are open.
//! After the end counting stops, and once nothing is left at the servers every node of tier 0 must report
//! exactly the increments that were handed off.

mod audit;
pub mod clients;
pub mod example1;
mod fleet;
mod ids;
pub mod reconnect;
pub mod retire;
mod run;
pub mod sessions;
mod setup;
#[cfg(test)]
mod tests;

pub use setup::{CLIENTS_MAX, Cleanup, SERVERS_MAX, TIER0_MAX, TIME_MS_MAX};

use crate::Refused;
use crate::core::Millis;

/// The replicas of the experiments.
type Replica = quipu_crdt::handoff::Handoff<u32, u64>;

/// What they send to each other.
type Seen = quipu_crdt::handoff::View<u32, u64>;

/// The state of a run at one time, after all that happened in that millisecond.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Row {
    /// When, in virtual milliseconds.
    pub time_ms: Millis,
    /// Clients that are there.
    pub clients: u64,
    /// Of these, the ones that count.
    pub active: u64,
    /// How many entries a naive version vector would have, on average over the servers.
    pub ids: f64,
    /// How many slots a server holds, on average.
    pub slots: f64,
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Summary {
    /// Did the sink end it early? Then the end was not checked.
    pub stopped: bool,
    /// Increments issued.
    pub issued: u64,
    /// Of these, handed off: exactly what every node of tier 0 reports at the end.
    pub handed_off: u64,
    /// Of these, still with clients at the end: offline ones, and tokens that nobody will fetch.
    pub at_clients: u64,
    /// Of these, vanished with clients that were cut off.
    pub vanished: u64,
    /// Clients that vanished.
    pub abandoned: u64,
    /// Slots of them that were folded and are still open, over all servers.
    pub folded: u64,
    /// The size of the bitmaps of folded slots, over all servers.
    pub folded_bytes: u64,
    /// Messages sent until the end; how long a run takes depends on them.
    pub messages: u64,
    /// How often reports were checked: at every message that was merged.
    pub reports_checked: u64,
    /// How often conservation was checked: at every row.
    pub audits: u64,
    /// Virtual time after the end until everything was accounted for.
    pub settled_after_ms: Millis,
}

/// Why a run did not end well.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A parameter cannot be. Nothing was run.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// A condition did not hold: the counter, or this simulation of it, is wrong.
    #[error("seed {seed}, {time_ms} ms: {what}")]
    Violation {
        /// The seed of the run.
        seed: u64,
        /// When, in virtual milliseconds.
        time_ms: Millis,
        /// Which condition, and how.
        what: String,
    },
}
