//! The log in memory.

use std::collections::{BTreeMap, BTreeSet};

use super::{Answer, Attempt, Crash, Fault, Flaw, Inner, Memory, ShardLog};
use crate::{
    BATCH_BYTES_MAX, Batch, Fenced, Flush, Log, Mark, NodeId, Outcome, Position, Record, Settled, ShardId,
    StorageError, Taken,
};

const CRASHED: StorageError = StorageError::Injected("the process has crashed");

/// One process's logs.
#[derive(Debug)]
pub struct MemoryLog {
    memory: Memory,
    /// Whose it is, where several nodes share the memory.
    node: Option<NodeId>,
    generation: u64,
    fences: BTreeMap<ShardId, u64>,
    unsettled: BTreeMap<ShardId, Attempt>,
    /// Commits under way, by their numbers: of a memory that is far away.
    under_way: BTreeMap<ShardId, u64>,
}

impl MemoryLog {
    pub(super) fn new(memory: Memory, node: Option<NodeId>) -> Self {
        let generation = memory.lock().generation;
        Self {
            memory,
            node,
            generation,
            fences: BTreeMap::new(),
            unsettled: BTreeMap::new(),
            under_way: BTreeMap::new(),
        }
    }

    /// The number of the shard's commit that is under way.
    pub fn under_way(&self, shard: ShardId) -> Option<u64> {
        self.under_way.get(&shard).copied()
    }

    fn check(&self, inner: &Inner, shard: ShardId) -> Result<u64, StorageError> {
        if inner.generation != self.generation {
            return Err(CRASHED);
        }
        let fence = *self.fences.get(&shard).ok_or(StorageError::NotOpen(shard))?;
        match inner.shards.get(&shard) {
            Some(log) if log.fence == fence || inner.flaw == Some(Flaw::CommitsUnfenced) => Ok(fence),
            _ => Err(StorageError::Fenced(shard)),
        }
    }

    fn take_now(&mut self, inner: &mut Inner, shard: ShardId) -> Taken {
        inner.fence += 1;
        let fence = inner.fence;
        let log = inner.shards.entry(shard).or_default();
        (log.fence, log.by) = (fence, self.node);
        // Whoever opens a shard acts on what it reads, so that has to stay.
        log.flushed = log.last;
        self.fences.insert(shard, fence);
        self.unsettled.remove(&shard);
        self.under_way.remove(&shard);
        let taken = Taken { checkpoint: log.checkpoint, last: log.last };
        let early = self.node.and_then(|node| inner.early.get(&(node, shard)));
        early.map_or(taken, |(early, _)| *early)
    }

    fn prepare(&self, inner: &Inner, batch: &Batch) -> Result<Attempt, StorageError> {
        let shard = batch.shard;
        let fence = self.check(inner, shard)?;
        if self.unsettled.contains_key(&shard) || self.under_way.contains_key(&shard) {
            return Err(StorageError::Unsettled(shard));
        }
        let bytes = batch.record.len();
        if bytes > BATCH_BYTES_MAX {
            return Err(StorageError::TooLarge { what: "a batch", bytes, max: BATCH_BYTES_MAX });
        }
        let position = inner.shards[&shard].last.next();
        Ok(Attempt { shard, fence, record: Record { position, bytes: batch.record.clone() } })
    }

    /// One conditional write, with the fault that waits for it.
    fn attempt(inner: &mut Inner, attempt: &Attempt) -> Outcome {
        let shard = attempt.shard;
        let unknown = || Outcome::Unknown(StorageError::Injected("the store did not answer in time"));
        match inner.faults.get_mut(&shard).and_then(std::collections::VecDeque::pop_front) {
            Some(Fault::Error) => return Outcome::Failed(StorageError::Injected("the write was refused")),
            Some(Fault::Full) => {
                return Outcome::Failed(StorageError::Full { doing: "appending to memory".to_owned() });
            }
            Some(Fault::UnknownNotStored) => return unknown(),
            Some(Fault::UnknownStored) => {
                inner.try_store(attempt);
                return unknown();
            }
            Some(Fault::UnknownLate) => {
                inner.late.push(attempt.clone());
                return unknown();
            }
            Some(Fault::Taken) => {
                inner.fence += 1;
                let fence = inner.fence;
                inner.shards.entry(shard).or_default().fence = fence;
            }
            None => {}
        }
        let position = attempt.record.position;
        if inner.try_store(attempt) { Outcome::Committed { position } } else { Outcome::Fenced }
    }

    fn die(inner: &mut Inner, crash: Crash, attempts: &[Result<Attempt, StorageError>]) {
        let stored = |at: usize| match crash {
            Crash::Before => false,
            Crash::Between => at % 2 == 1,
            Crash::After => true,
        };
        for (at, attempt) in attempts.iter().enumerate() {
            if let (true, Ok(attempt)) = (stored(at), attempt) {
                inner.try_store(attempt);
                inner.flush_shard(attempt.shard);
            }
        }
        inner.crash();
    }
}

impl Log for MemoryLog {
    fn take(&mut self, shard: ShardId) -> Result<Taken, StorageError> {
        let memory = self.memory.clone();
        let mut inner = memory.lock();
        if inner.generation != self.generation {
            return Err(CRASHED);
        }
        Ok(self.take_now(&mut inner, shard))
    }

    fn take_seen(&mut self, shard: ShardId, seen: Option<Fenced>) -> Result<Option<Taken>, StorageError> {
        let memory = self.memory.clone();
        let mut inner = memory.lock();
        if inner.generation != self.generation {
            return Err(CRASHED);
        }
        let now = inner.shards.get(&shard).map(ShardLog::fenced);
        let is_as_seen = now == seen || inner.flaw.is_some_and(Flaw::takes_anyway);
        Ok(is_as_seen.then(|| self.take_now(&mut inner, shard)))
    }

    fn release(&mut self, shard: ShardId) -> Result<(), StorageError> {
        let mut inner = self.memory.lock();
        let mine = self.check(&inner, shard);
        self.fences.remove(&shard);
        mine?;
        inner.fence += 1;
        let fence = inner.fence;
        let log = inner.shards.entry(shard).or_default();
        (log.fence, log.by) = (fence, None);
        Ok(())
    }

    fn read(&mut self, shard: ShardId, after: Position) -> Result<Vec<Record>, StorageError> {
        let mut inner = self.memory.lock();
        self.check(&inner, shard)?;
        let early = self.node.and_then(|node| inner.early.remove(&(node, shard)));
        let records = early.as_ref().map_or(&inner.shards[&shard].records, |(_, early)| early);
        // An unsettled record may or may not be there: it is not committed until it is settled.
        let before = self.unsettled.get(&shard).map_or(u64::MAX, |attempt| attempt.record.position.0);
        Ok(records
            .iter()
            .filter(|record| record.position > after && record.position.0 < before)
            .cloned()
            .collect())
    }

    fn commit(&mut self, batches: &[Batch], flush: Flush) -> Vec<Outcome> {
        let memory = self.memory.clone();
        let mut inner = memory.lock();
        let mut seen = BTreeSet::new();
        let attempts: Vec<_> = batches
            .iter()
            .map(|batch| match seen.insert(batch.shard) {
                true => self.prepare(&inner, batch),
                false => Err(StorageError::Twice(batch.shard)),
            })
            .collect();
        if let (Some(crash), true) = (inner.crash, inner.generation == self.generation) {
            Self::die(&mut inner, crash, &attempts);
            return batches.iter().map(|_| Outcome::Unknown(CRASHED)).collect();
        }
        let mut outcomes = Vec::with_capacity(batches.len());
        for attempt in attempts {
            outcomes.push(match attempt {
                Err(StorageError::Fenced(_)) => Outcome::Fenced,
                Err(error) => Outcome::Failed(error),
                Ok(attempt) => {
                    let outcome = Self::attempt(&mut inner, &attempt);
                    let unknown = matches!(outcome, Outcome::Unknown(_));
                    if flush == Flush::Now || unknown {
                        inner.flush_shard(attempt.shard);
                    }
                    if unknown {
                        self.unsettled.insert(attempt.shard, attempt);
                    }
                    outcome
                }
            });
        }
        outcomes
    }

    fn begin(&mut self, batches: Vec<Batch>, flush: Flush) -> Vec<Option<Outcome>> {
        let memory = self.memory.clone();
        if !memory.lock().is_far {
            return self.commit(&batches, flush).into_iter().map(Some).collect();
        }
        let mut inner = memory.lock();
        let mut begin = |batch: &Batch| match self.prepare(&inner, batch) {
            Ok(attempt) => {
                self.under_way.insert(batch.shard, inner.send(attempt));
                None
            }
            Err(StorageError::Fenced(_)) => Some(Outcome::Fenced),
            Err(error) => Some(Outcome::Failed(error)),
        };
        batches.iter().map(&mut begin).collect()
    }

    /// Whoever waits lets everything arrive.
    fn finished(&mut self, wait: bool) -> Vec<(ShardId, Outcome)> {
        if wait {
            self.under_way.values().for_each(|number| self.memory.answer(*number, Answer::Told));
        }
        let mut inner = self.memory.lock();
        let mut finished = Vec::new();
        for (shard, number) in self.under_way.clone() {
            let Some((attempt, outcome)) = inner.hear(number) else { continue };
            self.under_way.remove(&shard);
            if matches!(outcome, Outcome::Unknown(_)) {
                self.unsettled.insert(shard, attempt);
            }
            finished.push((shard, outcome));
        }
        finished
    }

    fn flush(&mut self) -> Result<(), StorageError> {
        let mut inner = self.memory.lock();
        if inner.generation != self.generation {
            return Err(CRASHED);
        }
        for &shard in self.fences.keys() {
            inner.flush_shard(shard);
        }
        Ok(())
    }

    fn settle(&mut self, shard: ShardId) -> Settled {
        let mut inner = self.memory.lock();
        let Some(attempt) = self.unsettled.get(&shard) else { return Settled::Nothing };
        if inner.generation != self.generation {
            return Settled::Unknown(CRASHED);
        }
        if self.check(&inner, shard).is_err() {
            self.unsettled.remove(&shard);
            return Settled::Lost;
        }
        let position = attempt.record.position;
        let outcome = match Self::attempt(&mut inner, attempt) {
            // The position is taken and the fence is ours: what stands there is the record itself.
            Outcome::Fenced if self.check(&inner, shard).is_ok() => Outcome::Committed { position },
            outcome => outcome,
        };
        match outcome {
            Outcome::Committed { position } => {
                inner.flush_shard(shard);
                self.unsettled.remove(&shard);
                Settled::Committed { position }
            }
            Outcome::Fenced => {
                self.unsettled.remove(&shard);
                Settled::Lost
            }
            // A refused attempt says nothing about the one before it.
            Outcome::Failed(error) | Outcome::Unknown(error) => Settled::Unknown(error),
        }
    }

    fn checkpoint(&mut self, marks: &[Mark]) -> Result<(), StorageError> {
        let mut inner = self.memory.lock();
        for mark in marks {
            self.check(&inner, mark.shard)?;
            let log = inner.shards.entry(mark.shard).or_default();
            if mark.position > log.last {
                let Mark { shard, position } = *mark;
                return Err(StorageError::Beyond { shard, position, last: log.last });
            }
            log.checkpoint = log.checkpoint.max(mark.position);
            log.flushed = log.flushed.max(log.checkpoint);
            log.records.retain(|record| record.position > log.checkpoint);
        }
        Ok(())
    }

    fn confirm(&mut self, shard: ShardId) -> Result<Taken, StorageError> {
        let inner = self.memory.lock();
        self.check(&inner, shard)?;
        let ShardLog { checkpoint, last, .. } = inner.shards[&shard];
        let unsettled = self.unsettled.get(&shard).map(|attempt| Position(attempt.record.position.0 - 1));
        Ok(Taken { checkpoint, last: unsettled.map_or(last, |before| before.min(last)) })
    }
}
