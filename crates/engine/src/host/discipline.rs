//! What a host must get right, and the wrong ways that tests choose to see themselves catch them.
//!
//! Without the feature `testing` there is one way, and choosing costs nothing.

use quipu_storage::ShardId;

use super::Released;
use crate::Outputs;

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

    pub(super) fn checkpoints_early(self) -> bool {
        #[cfg(feature = "testing")]
        return self == Self::CheckpointsUncommitted;
        #[cfg(not(feature = "testing"))]
        false
    }
}
