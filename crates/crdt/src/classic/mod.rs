//! The classic counters, for a fixed, small set of replicas: one small file per type.
//!
//! Start with [`GCounter`] (only grows) and [`PnCounter`] (goes both ways), which exchange whole states.
//! [`DeltaPnCounter`] sends only what a peer lacks, [`OpCounter`] sends the operations themselves,
//! [`Escrow`] never sells more than there is, and [`ShardedCounter`] spreads one hot counter over the cores
//! of one machine. Their shared state is [`Slots`]: one entry for each replica, written by that replica
//! alone.

mod delta;
mod escrow;
mod grow_only;
mod op;
mod pn;
mod sharded;
mod slots;

pub use delta::{DeltaMessage, DeltaPnCounter};
pub use escrow::{Escrow, OutOfQuota, Pass, Spend, Transfer, TransferRefused};
pub use grow_only::GCounter;
pub use op::{OUT_OF_ORDER_OPERATIONS_MAX, OUTBOX_OPERATIONS_MAX, OpCounter, OpMessage};
pub use pn::PnCounter;
pub use sharded::{ShardedCounter, Writer};
pub use slots::Slots;

use crate::algebra::{Overflow, Twin};

/// No peer of this name was declared. State unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no peer of this name was declared; nothing was changed")]
pub struct UnknownPeer;

/// A message that cannot be taken. State unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// It speaks for a replica that is not a peer of this one.
    #[error(transparent)]
    UnknownPeer(#[from] UnknownPeer),
    /// It is addressed to another replica.
    #[error("the message is for another replica; nothing was changed")]
    NotForUs,
    /// Somebody else writes under our name.
    #[error(transparent)]
    Twin(#[from] Twin),
    /// It would take a sum beyond 64 bits, which no honest peer causes.
    #[error(transparent)]
    Overflow(#[from] Overflow),
}
