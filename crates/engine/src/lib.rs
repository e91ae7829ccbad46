//! One shard of a counter database: a single-writer state machine without I/O, and the one way to run it over a store.
//!
//! Start with [`Shard`]: commands go in; what to persist, then replies, come out. [`Host`] runs shards over a
//! [`quipu_storage::Store`] and keeps the one rule: *nothing leaves the process before the state it speaks of is
//! durable*. The server and the simulations run the same host.

pub mod call;
mod command;
pub mod council;
mod counter;
mod counters;
pub mod coverage;
mod entry;
#[cfg(feature = "testing")]
pub mod fuzzing;
mod gate;
pub mod handoff;
pub mod host;
mod links;
mod membership;
pub mod nodes;
mod operations;
mod recent;
mod record;
mod rules;
mod settings;
mod shard;
mod site;
mod slot;

pub use command::{
    Action, Add, Added, Beyond, BoundedView, Command, Inspection, Limits, Move, OperationId, Outcome,
    OwnedCommand, Refusal, Reply, STORED_SINCE_BYTES, SiteView, Spread,
};
pub use council::Council;
pub use host::{
    Counting, Envelope, Host, HostStats, OpenError, Overdue, Released, Unfinished, passed_on, withdrawn,
};
pub use links::{BadMessage, EXCHANGE_BYTES_MAX, MESSAGE_BYTES_MAX, Message, WaitsFor};
pub use membership::Membership;
pub use operations::{FilterStats, OperationStats};
pub use quipu_crdt::{Pn, bounded::Right};
pub use recent::Recent;
pub use rules::{Rule, Rules};
pub use settings::{BadWindow, Moment, Settings, Window, WindowMode};
pub use shard::{
    Event, Listing, Outputs, Sealed, Shard, ShardAudit, SiteAudit, Suspicion, Suspicious, Ticket, Uncounted,
    Unreadable,
};
pub use site::{BadSiteId, SiteId};
pub use slot::{SLOTS, Shards, hash_tag, slot_of};

/// The longest key.
pub const KEY_BYTES_MAX: usize = 512;

/// The longest name of a producer, and the longest id that a producer gives an operation.
pub const OPERATION_ID_BYTES_MAX: usize = 255;
