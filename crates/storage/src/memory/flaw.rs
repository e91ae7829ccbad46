//! Wrong ways to share a store, for tests that must catch them.

use super::Inner;
#[cfg(feature = "testing")]
use super::Memory;
use crate::{NodeId, Taken};

/// What goes wrong with a memory that nodes share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flaw {
    /// A commit is stored whoever has the shard.
    CommitsUnfenced,
    /// A shard is taken however its fence stands by now.
    TakesUnseen,
    /// A commit that was not answered is not issued again: if it is not there, it counts as failed.
    SettlesByReading,
    /// Whoever takes a shard, however its fence stands by now, goes on from what it read before.
    ReadsBeforeFencing,
    /// The last one to write a row has its way, whatever the versions.
    RowsWithoutVersions,
}

impl Flaw {
    /// Does it take shards that are not as they were seen?
    pub(super) fn takes_anyway(self) -> bool {
        matches!(self, Self::TakesUnseen | Self::ReadsBeforeFencing)
    }
}

impl Inner {
    /// A node reads all logs before it takes any, which is too early.
    pub(super) fn read_early(&mut self, node: NodeId) {
        for (shard, log) in &self.shards {
            let taken = Taken { checkpoint: log.checkpoint, last: log.last };
            self.early.insert((node, *shard), (taken, log.records.clone()));
        }
    }
}

#[cfg(feature = "testing")]
impl Memory {
    /// Lets it go wrong.
    pub fn set_flaw(&self, flaw: Option<Flaw>) {
        self.lock().flaw = flaw;
    }
}
