//! The log of a shard: the commit point, behind a fence.

use crate::StorageError;

/// The largest record that one commit of one shard may carry. A remote store refuses larger ones, so all do.
pub const BATCH_BYTES_MAX: usize = 16 * 1024 * 1024;

/// A fixed slice of the keys, the same everywhere in a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ShardId(pub u16);

/// The number of a record in its shard's log. The first is 1; each commit takes the next. 0 is "before all".
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Position(pub u64);

impl Position {
    /// The position after this one.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

/// What one shard commits at once: stored whole or not at all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch {
    /// Whose it is.
    pub shard: ShardId,
    /// Bytes that mean something to the caller alone. At most [`BATCH_BYTES_MAX`].
    pub record: Vec<u8>,
}

/// A committed record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Where it stands in its shard's log.
    pub position: Position,
    /// What was committed.
    pub bytes: Vec<u8>,
}

/// When a commit is on the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flush {
    /// Before it is reported committed.
    Now,
    /// At the next [`Log::flush`], or before: a crash may take back the newest commits, never one between others
    /// of its shard. A backend that cannot tell the difference flushes now.
    Later,
}

/// What became of one shard's batch.
#[derive(Debug, Clone)]
pub enum Outcome {
    /// Stored under this position, for good.
    Committed {
        /// Its position.
        position: Position,
    },
    /// Somebody else has taken the shard. Nothing was stored, and this log can store nothing more for it.
    Fenced,
    /// Nothing was stored. Memory that already holds the batch's effects is reloaded ([`crate::Store::reload`]).
    Failed(StorageError),
    /// It may be stored, now or later. Release nothing; call [`Log::settle`] until it says what happened.
    Unknown(StorageError),
}

/// What became of a commit that had ended in [`Outcome::Unknown`].
#[derive(Debug, Clone)]
pub enum Settled {
    /// Stored under this position, once.
    Committed {
        /// Its position.
        position: Position,
    },
    /// The shard has another owner, which alone knows whether the record was stored. The client's answer is
    /// "unknown, ask again with your id", never "not counted".
    Lost,
    /// Still unknown, for this reason. Ask again.
    Unknown(StorageError),
    /// There is nothing to settle for this shard.
    Nothing,
}

/// Where a shard's log stands, for whoever has its fence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Taken {
    /// Everything up to here is in the table.
    pub checkpoint: Position,
    /// The newest record.
    pub last: Position,
}

/// A fence as somebody has seen it: by whom the shard was taken, under a name of that one taking, and how far its log had
/// got. Either changes with whatever its owner does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fenced {
    /// The name of the taking.
    pub name: u128,
    /// The newest record.
    pub last: Position,
}

/// A checkpoint: the table holds everything of the shard up to the position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    /// The shard.
    pub shard: ShardId,
    /// The last position that the table covers.
    pub position: Position,
}

/// The logs of the shards that one worker owns.
///
/// Laws, checked for every backend by [`crate::conformance`]:
/// - *Atomic*: after any crash a batch is there whole or not at all.
/// - *Durable*: what was reported committed with [`Flush::Now`] is there after any crash.
/// - *Ordered*: the records of a shard have positions without gaps, in the order of their commits.
/// - *Fenced*: after [`Log::take`] by another, nothing more is stored by the former owner.
/// - *Once*: a commit whose outcome was unknown is stored at most once, however often it is settled.
pub trait Log: Send {
    /// Takes the fence of a shard, from whoever has it. Only what was committed before is there afterwards.
    fn take(&mut self, shard: ShardId) -> Result<Taken, StorageError>;

    /// Takes the fence only if it still stands as it was seen; `seen` is `None` for a shard that nobody ever had. `None`:
    /// it does not, and nothing was changed. So nobody takes a shard from somebody who is at work on it again. (Only stores
    /// that several processes share have fences to be seen.)
    fn take_seen(&mut self, shard: ShardId, seen: Option<Fenced>) -> Result<Option<Taken>, StorageError> {
        let _ = seen;
        self.take(shard).map(Some)
    }

    /// Gives the fence back, in a store that several processes share: nobody has the shard then, and this log can store
    /// nothing more for it, even if the store does not answer. Nothing of it is under way or unsettled.
    fn release(&mut self, shard: ShardId) -> Result<(), StorageError> {
        let _ = shard;
        Ok(())
    }

    /// The committed records of a shard of ours after `after`, in order.
    fn read(&mut self, shard: ShardId, after: Position) -> Result<Vec<Record>, StorageError>;

    /// Commits at most one batch for each shard; one outcome per batch, in the same order.
    fn commit(&mut self, batches: &[Batch], flush: Flush) -> Vec<Outcome>;

    /// Begins to commit, as [`Self::commit`] does. What is not done when it returns, `None`, is under way: its outcome comes
    /// from [`Self::finished`], and until then the shard takes no other batch. A backend far away answers so, that the
    /// commits of different shards run side by side and nobody waits for them.
    fn begin(&mut self, batches: Vec<Batch>, flush: Flush) -> Vec<Option<Outcome>> {
        self.commit(&batches, flush).into_iter().map(Some).collect()
    }

    /// What became of commits that were under way. With `wait`, it waits until at least one has come to its end, if there
    /// are any.
    fn finished(&mut self, wait: bool) -> Vec<(ShardId, Outcome)> {
        let _ = wait;
        Vec::new()
    }

    /// Puts everything reported committed with [`Flush::Later`] on the device.
    fn flush(&mut self) -> Result<(), StorageError>;

    /// Finds out about a commit that ended in unknown, by issuing the same record again.
    fn settle(&mut self, shard: ShardId) -> Settled;

    /// Moves the checkpoints of shards of ours; the records up to them may go. Only after the rows that they
    /// cover are durable in the table: [`crate::Store::checkpoint`] keeps that order. A mark never moves back.
    fn checkpoint(&mut self, marks: &[Mark]) -> Result<(), StorageError>;

    /// Whether the shard is still ours, asked of the store itself, and where its log stands. (What is unsettled is
    /// not committed, and does not count.)
    fn confirm(&mut self, shard: ShardId) -> Result<Taken, StorageError>;
}

impl<L: Log + ?Sized> Log for Box<L> {
    fn take(&mut self, shard: ShardId) -> Result<Taken, StorageError> {
        (**self).take(shard)
    }

    fn take_seen(&mut self, shard: ShardId, seen: Option<Fenced>) -> Result<Option<Taken>, StorageError> {
        (**self).take_seen(shard, seen)
    }

    fn release(&mut self, shard: ShardId) -> Result<(), StorageError> {
        (**self).release(shard)
    }

    fn read(&mut self, shard: ShardId, after: Position) -> Result<Vec<Record>, StorageError> {
        (**self).read(shard, after)
    }

    fn commit(&mut self, batches: &[Batch], flush: Flush) -> Vec<Outcome> {
        (**self).commit(batches, flush)
    }

    fn begin(&mut self, batches: Vec<Batch>, flush: Flush) -> Vec<Option<Outcome>> {
        (**self).begin(batches, flush)
    }

    fn finished(&mut self, wait: bool) -> Vec<(ShardId, Outcome)> {
        (**self).finished(wait)
    }

    fn flush(&mut self) -> Result<(), StorageError> {
        (**self).flush()
    }

    fn settle(&mut self, shard: ShardId) -> Settled {
        (**self).settle(shard)
    }

    fn checkpoint(&mut self, marks: &[Mark]) -> Result<(), StorageError> {
        (**self).checkpoint(marks)
    }

    fn confirm(&mut self, shard: ShardId) -> Result<Taken, StorageError> {
        (**self).confirm(shard)
    }
}
