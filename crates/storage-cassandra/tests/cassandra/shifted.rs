//! Shards under other numbers: a test that wants fresh data gets fresh shards, because making a keyspace takes seconds.

use quipu_storage::{
    Batch, Fenced, Flush, Held, Log, Mark, NodeId, Outcome, Page, Position, Record, Registered, Registry,
    Row, Scan, Settled, ShardId, Slice, StorageError, Table, Taken, Write,
};

/// A log or a table whose shard 0 is another one.
#[derive(Debug)]
pub(crate) struct Shifted<T> {
    pub(crate) inner: T,
    pub(crate) by: u16,
}

impl<T> Shifted<T> {
    pub(crate) fn shift(&self, shard: ShardId) -> ShardId {
        ShardId(shard.0 + self.by)
    }

    /// Errors name the shard that the caller knows.
    fn back(&self, error: StorageError) -> StorageError {
        let back = |shard: ShardId| ShardId(shard.0 - self.by);
        match error {
            StorageError::Fenced(shard) => StorageError::Fenced(back(shard)),
            StorageError::NotOpen(shard) => StorageError::NotOpen(back(shard)),
            StorageError::Unsettled(shard) => StorageError::Unsettled(back(shard)),
            StorageError::Twice(shard) => StorageError::Twice(back(shard)),
            other => other,
        }
    }
}

impl<L: Log> Log for Shifted<L> {
    fn take(&mut self, shard: ShardId) -> Result<Taken, StorageError> {
        self.inner.take(self.shift(shard)).map_err(|error| self.back(error))
    }

    fn take_seen(&mut self, shard: ShardId, seen: Option<Fenced>) -> Result<Option<Taken>, StorageError> {
        self.inner.take_seen(self.shift(shard), seen).map_err(|error| self.back(error))
    }

    fn release(&mut self, shard: ShardId) -> Result<(), StorageError> {
        self.inner.release(self.shift(shard)).map_err(|error| self.back(error))
    }

    fn read(&mut self, shard: ShardId, after: Position) -> Result<Vec<Record>, StorageError> {
        self.inner.read(self.shift(shard), after).map_err(|error| self.back(error))
    }

    fn commit(&mut self, batches: &[Batch], flush: Flush) -> Vec<Outcome> {
        let shift = |batch: &Batch| Batch { shard: self.shift(batch.shard), record: batch.record.clone() };
        let batches: Vec<Batch> = batches.iter().map(shift).collect();
        let outcomes = self.inner.commit(&batches, flush);
        let back = |outcome| match outcome {
            Outcome::Failed(error) => Outcome::Failed(self.back(error)),
            outcome => outcome,
        };
        outcomes.into_iter().map(back).collect()
    }

    fn flush(&mut self) -> Result<(), StorageError> {
        self.inner.flush()
    }

    fn settle(&mut self, shard: ShardId) -> Settled {
        self.inner.settle(self.shift(shard))
    }

    fn checkpoint(&mut self, marks: &[Mark]) -> Result<(), StorageError> {
        let shift = |mark: &Mark| Mark { shard: self.shift(mark.shard), position: mark.position };
        let marks: Vec<Mark> = marks.iter().map(shift).collect();
        self.inner.checkpoint(&marks).map_err(|error| self.back(error))
    }

    fn confirm(&mut self, shard: ShardId) -> Result<Taken, StorageError> {
        self.inner.confirm(self.shift(shard)).map_err(|error| self.back(error))
    }
}

impl<T: Table> Table for Shifted<T> {
    fn get(&self, shard: ShardId, slice: Slice, key: &[u8]) -> Result<Option<Row>, StorageError> {
        self.inner.get(self.shift(shard), slice, key)
    }

    fn put(&self, shard: ShardId, writes: &[Write]) -> Result<(), StorageError> {
        self.inner.put(self.shift(shard), writes)
    }

    fn scan(&self, shard: ShardId, scan: Scan<'_>) -> Result<Page, StorageError> {
        self.inner.scan(self.shift(shard), scan)
    }

    fn drop_slices(&self, shard: ShardId, floor: Slice) -> Result<(), StorageError> {
        self.inner.drop_slices(self.shift(shard), floor)
    }
}

impl<R: Registry> Registry for Shifted<R> {
    fn own(&self) -> NodeId {
        self.inner.own()
    }

    fn write(&self, registered: &Registered) -> Result<(), StorageError> {
        self.inner.write(registered)
    }

    fn remove(&self, node: NodeId) -> Result<(), StorageError> {
        self.inner.remove(node)
    }

    fn nodes(&self) -> Result<Vec<Registered>, StorageError> {
        self.inner.nodes()
    }

    fn held(&self) -> Result<Vec<Held>, StorageError> {
        let held = self.inner.held()?.into_iter().filter(|held| held.shard.0 >= self.by);
        Ok(held.map(|held| Held { shard: ShardId(held.shard.0 - self.by), ..held }).collect())
    }

    fn last(&self, shard: ShardId) -> Result<Option<Record>, StorageError> {
        self.inner.last(self.shift(shard))
    }

    fn ask_to_drain(&self, node: NodeId, drains: bool) -> Result<(), StorageError> {
        self.inner.ask_to_drain(node, drains)
    }

    fn is_asked_to_drain(&self) -> Result<Option<bool>, StorageError> {
        self.inner.is_asked_to_drain()
    }
}
