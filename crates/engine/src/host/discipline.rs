//! What a host must get right, and the wrong ways that tests choose to see themselves catch them.
//!
//! Without the feature `testing` there is one way, and choosing costs nothing.

use quipu_storage::{Log, Position, ShardId, StorageError, Store, Table, Write};

use super::Released;
use crate::{Outputs, Refusal};

/// When what leaves the process leaves it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Discipline {
    /// After the state it speaks of is durable.
    #[default]
    Right,
    /// Wrong: all replies go out before the batch is stored.
    #[cfg(feature = "testing")]
    ReplyFirst,
    /// Wrong: reads do not wait for the batch whose effects they have seen.
    #[cfg(feature = "testing")]
    ReadsDoNotWait,
    /// Wrong: after a batch that was not stored, memory goes on with its effects.
    #[cfg(feature = "testing")]
    MemoryIsKept,
    /// Wrong: checkpoints write what is not committed yet.
    #[cfg(feature = "testing")]
    CheckpointsUncommitted,
    /// Wrong: a node that may have lost a shard without knowing speaks of what it has in memory.
    #[cfg(feature = "testing")]
    TrustsBlindly,
    /// Wrong: of a commit that nobody knows the outcome of it is said that it was not stored, when the shard has another
    /// owner.
    #[cfg(feature = "testing")]
    DeniesDoubt,
    /// Wrong: the log forgets what a checkpoint covers before the table has it.
    #[cfg(feature = "testing")]
    MarksBeforeRows,
    /// Wrong: a shard is opened whose table lacks rows that the log does not hold any more.
    #[cfg(feature = "testing")]
    OpensWithoutRows,
}

impl Discipline {
    #[cfg(not(feature = "testing"))]
    pub(super) fn before_commit(self, _: &mut [(ShardId, Outputs)], _: &mut Released) {}

    #[cfg(feature = "testing")]
    pub(super) fn before_commit(self, waiting: &mut [(ShardId, Outputs)], released: &mut Released) {
        use crate::Reply;
        for (_, outputs) in waiting {
            let early = |reply: &Reply| match self {
                Self::ReplyFirst => true,
                Self::ReadsDoNotWait => matches!(reply, Reply::Value(_)),
                _ => false,
            };
            let (now, later) =
                std::mem::take(&mut outputs.replies).into_iter().partition(|(_, reply)| early(reply));
            released.replies.extend::<Vec<_>>(now);
            outputs.replies = later;
        }
    }

    pub(super) fn keeps_memory(self) -> bool {
        #[cfg(feature = "testing")]
        return self == Self::MemoryIsKept;
        #[cfg(not(feature = "testing"))]
        false
    }

    pub(super) fn trusts_blindly(self) -> bool {
        #[cfg(feature = "testing")]
        return self == Self::TrustsBlindly;
        #[cfg(not(feature = "testing"))]
        false
    }

    pub(super) fn opens_without_rows(self) -> bool {
        #[cfg(feature = "testing")]
        // What the one does wrong is to be seen in what is counted.
        return matches!(self, Self::OpensWithoutRows | Self::MarksBeforeRows);
        #[cfg(not(feature = "testing"))]
        false
    }

    pub(super) fn checkpoints_early(self) -> bool {
        #[cfg(feature = "testing")]
        return self == Self::CheckpointsUncommitted;
        #[cfg(not(feature = "testing"))]
        false
    }

    /// What is said of a command that only the shard's new owner knows the outcome of.
    pub(super) fn in_doubt(self, why: String) -> Refusal {
        #[cfg(feature = "testing")]
        if self == Self::DeniesDoubt {
            return Refusal::NotHere;
        }
        Refusal::InDoubt(why)
    }

    /// Brings the table up to date, and lets the log forget what it holds then.
    pub(super) fn checkpoint<L: Log, T: Table>(
        self,
        store: &mut Store<L, T>,
        shard: ShardId,
        position: Position,
        rows: &[Write],
    ) -> Result<(), StorageError> {
        #[cfg(feature = "testing")]
        if self == Self::MarksBeforeRows {
            store.log().checkpoint(&[quipu_storage::Mark { shard, position }])?;
            return store.table().put(shard, rows);
        }
        store.checkpoint(shard, position, rows)
    }
}
