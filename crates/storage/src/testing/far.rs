//! A store far away, for tests: what is committed is under way until the store answers.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use crate::{
    Batch, Fenced, Flush, Log, Mark, Outcome, Position, Record, Settled, ShardId, StorageError, Taken,
};

/// A log that begins commits and hears of their end later.
#[derive(Debug)]
pub struct Far<L> {
    log: L,
    under_way: Vec<(Batch, Flush)>,
    silent: Arc<AtomicBool>,
}

/// Whether the store answers.
#[derive(Debug, Clone, Default)]
pub struct Silence(Arc<AtomicBool>);

impl Silence {
    /// From now on it answers, or does not, except to those who wait.
    pub fn set(&self, silent: bool) {
        self.0.store(silent, Ordering::Relaxed);
    }
}

impl<L: Log> Far<L> {
    /// Puts this log far away.
    pub fn new(log: L, silence: &Silence) -> Self {
        Self { log, under_way: Vec::new(), silent: Arc::clone(&silence.0) }
    }
}

impl<L: Log> Log for Far<L> {
    fn begin(&mut self, batches: Vec<Batch>, flush: Flush) -> Vec<Option<Outcome>> {
        let begun = batches.iter().map(|_| None).collect();
        self.under_way.extend(batches.into_iter().map(|batch| (batch, flush)));
        begun
    }

    fn finished(&mut self, wait: bool) -> Vec<(ShardId, Outcome)> {
        if self.silent.load(Ordering::Relaxed) && !wait {
            return Vec::new();
        }
        let mut finished = Vec::new();
        for (batch, flush) in self.under_way.drain(..) {
            let shard = batch.shard;
            finished.extend(self.log.commit(&[batch], flush).into_iter().map(|outcome| (shard, outcome)));
        }
        finished
    }

    fn take(&mut self, shard: ShardId) -> Result<Taken, StorageError> {
        self.log.take(shard)
    }

    fn take_seen(&mut self, shard: ShardId, seen: Option<Fenced>) -> Result<Option<Taken>, StorageError> {
        self.log.take_seen(shard, seen)
    }

    fn release(&mut self, shard: ShardId) -> Result<(), StorageError> {
        self.log.release(shard)
    }

    fn read(&mut self, shard: ShardId, after: Position) -> Result<Vec<Record>, StorageError> {
        self.log.read(shard, after)
    }

    fn commit(&mut self, batches: &[Batch], flush: Flush) -> Vec<Outcome> {
        self.log.commit(batches, flush)
    }

    fn flush(&mut self) -> Result<(), StorageError> {
        self.log.flush()
    }

    fn settle(&mut self, shard: ShardId) -> Settled {
        self.log.settle(shard)
    }

    fn checkpoint(&mut self, marks: &[Mark]) -> Result<(), StorageError> {
        self.log.checkpoint(marks)
    }

    fn confirm(&mut self, shard: ShardId) -> Result<Taken, StorageError> {
        self.log.confirm(shard)
    }
}
