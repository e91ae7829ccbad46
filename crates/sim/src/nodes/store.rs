//! The shared store as a node reaches it. Every request goes over a [`Line`], on which it can be slow, get no answer, or be
//! done late, and at which a node that is paused comes to a halt: the world goes on inside the request.

use super::line::{Line, Reached};
use super::trouble::Call;
use quipu_storage::memory::{Fault, Memory, MemoryLog, MemoryRegistry, MemoryTable};
use quipu_storage::{
    Batch, Fenced, Flush, Held, Log, Mark, NodeId, Outcome, Page, Position, Record, Registered, Registry,
    Row, Scan, Settled, ShardId, Slice, StorageError, Table, Taken, Write,
};
use std::sync::Arc;

/// What a node hears that gets no answer.
pub(super) fn unanswered(doing: &str) -> StorageError {
    StorageError::Unanswered { doing: doing.to_owned(), why: "the store did not answer in time".to_owned() }
}

/// A node's logs.
pub(super) struct FarLog {
    pub(super) line: Line,
    pub(super) memory: Memory,
    pub(super) log: MemoryLog,
}

impl Log for FarLog {
    fn take(&mut self, shard: ShardId) -> Result<Taken, StorageError> {
        self.log.take(shard)
    }

    fn take_seen(&mut self, shard: ShardId, seen: Option<Fenced>) -> Result<Option<Taken>, StorageError> {
        let taken = match self.line.reach(Call::Take)? {
            Reached::Done => self.log.take_seen(shard, seen)?,
            Reached::Unheard => {
                self.log.take_seen(shard, seen)?;
                return Err(unanswered("taking a shard"));
            }
            Reached::Late { .. } | Reached::Lost => return Err(unanswered("taking a shard")),
        };
        self.line.halt(Call::Taken)?;
        Ok(taken)
    }

    fn release(&mut self, shard: ShardId) -> Result<(), StorageError> {
        match self.line.reach(Call::Release)? {
            Reached::Done => self.log.release(shard),
            Reached::Unheard => {
                self.log.release(shard)?;
                Err(unanswered("releasing a shard"))
            }
            Reached::Late { .. } | Reached::Lost => Err(unanswered("releasing a shard")),
        }
    }

    fn read(&mut self, shard: ShardId, after: Position) -> Result<Vec<Record>, StorageError> {
        match self.line.reach(Call::Read)? {
            Reached::Done => self.log.read(shard, after),
            _ => Err(unanswered("reading a log")),
        }
    }

    fn commit(&mut self, batches: &[Batch], flush: Flush) -> Vec<Outcome> {
        for batch in batches {
            match self.line.reach(Call::Commit) {
                Ok(Reached::Done) => {}
                Ok(Reached::Unheard) => self.memory.inject(batch.shard, Fault::UnknownStored),
                Ok(Reached::Late { after_ms }) => {
                    self.memory.inject(batch.shard, Fault::UnknownLate);
                    self.line.land(after_ms);
                }
                Ok(Reached::Lost) => self.memory.inject(batch.shard, Fault::UnknownNotStored),
                Err(died) => return batches.iter().map(|_| Outcome::Unknown(died.clone())).collect(),
            }
        }
        let outcomes = self.log.commit(batches, flush);
        // A fault that met nothing must not meet the next commit.
        self.memory.heal();
        outcomes
    }

    fn begin(&mut self, batches: Vec<Batch>, flush: Flush) -> Vec<Option<Outcome>> {
        if let Err(died) = self.line.halt(Call::Commit) {
            return batches.iter().map(|_| Some(Outcome::Unknown(died.clone()))).collect();
        }
        let shards: Vec<ShardId> = batches.iter().map(|batch| batch.shard).collect();
        let begun = self.log.begin(batches, flush);
        for (shard, begun) in shards.into_iter().zip(&begun) {
            if let (None, Some(number)) = (begun, self.log.under_way(shard)) {
                self.line.sent(shard, number);
            }
        }
        begun
    }

    fn finished(&mut self, wait: bool) -> Vec<(ShardId, Outcome)> {
        self.log.finished(wait)
    }

    fn flush(&mut self) -> Result<(), StorageError> {
        self.log.flush()
    }

    fn settle(&mut self, shard: ShardId) -> Settled {
        match self.line.reach(Call::Settle) {
            Ok(Reached::Done) => {}
            Ok(Reached::Unheard) => {
                self.line.reissue(shard);
                self.memory.inject(shard, Fault::UnknownStored);
            }
            Ok(Reached::Late { after_ms }) => {
                self.line.reissue(shard);
                self.memory.inject(shard, Fault::UnknownLate);
                self.line.land(after_ms);
            }
            Ok(Reached::Lost) => return Settled::Unknown(unanswered("settling a commit")),
            Err(died) => return Settled::Unknown(died),
        }
        let settled = self.log.settle(shard);
        // A fault that met nothing must not meet the next commit.
        self.memory.heal();
        if matches!(settled, Settled::Committed { .. }) {
            self.line.settled(shard);
        }
        settled
    }

    fn checkpoint(&mut self, marks: &[Mark]) -> Result<(), StorageError> {
        match self.line.reach(Call::Mark)? {
            Reached::Done => self.log.checkpoint(marks),
            Reached::Unheard => {
                self.log.checkpoint(marks)?;
                Err(unanswered("moving a checkpoint"))
            }
            Reached::Late { .. } | Reached::Lost => Err(unanswered("moving a checkpoint")),
        }
    }

    fn confirm(&mut self, shard: ShardId) -> Result<Taken, StorageError> {
        match self.line.reach(Call::Confirm)? {
            Reached::Done => self.log.confirm(shard),
            _ => Err(unanswered("asking how a log stands")),
        }
    }
}

/// The table as a node reaches it.
pub(super) struct FarTable {
    pub(super) line: Line,
    pub(super) table: MemoryTable,
}

impl Table for FarTable {
    fn get(&self, shard: ShardId, slice: Slice, key: &[u8]) -> Result<Option<Row>, StorageError> {
        match self.line.reach(Call::Row)? {
            Reached::Done => self.table.get(shard, slice, key),
            _ => Err(unanswered("reading a row")),
        }
    }

    fn put(&self, shard: ShardId, writes: &[Write]) -> Result<(), StorageError> {
        match self.line.reach(Call::Put)? {
            Reached::Done => self.table.put(shard, writes),
            Reached::Unheard => {
                // Some of them are written.
                self.table.put(shard, &writes[..writes.len().div_ceil(2)])?;
                Err(unanswered("writing rows"))
            }
            Reached::Late { after_ms } => {
                self.line.put_late(shard, writes, after_ms);
                Err(unanswered("writing rows"))
            }
            Reached::Lost => Err(unanswered("writing rows")),
        }
    }

    fn scan(&self, shard: ShardId, scan: Scan<'_>) -> Result<Page, StorageError> {
        match self.line.reach(Call::Row)? {
            Reached::Done => self.table.scan(shard, scan),
            _ => Err(unanswered("listing rows")),
        }
    }

    fn drop_slices(&self, shard: ShardId, floor: Slice) -> Result<(), StorageError> {
        match self.line.reach(Call::Put)? {
            Reached::Lost => Err(unanswered("dropping slices")),
            Reached::Done => self.table.drop_slices(shard, floor),
            _ => {
                self.table.drop_slices(shard, floor)?;
                Err(unanswered("dropping slices"))
            }
        }
    }
}

/// The register of nodes as one of them reaches it.
#[derive(Clone)]
pub(super) struct FarRegistry {
    pub(super) line: Line,
    pub(super) registry: MemoryRegistry,
}

impl FarRegistry {
    pub(super) fn shared(&self) -> Arc<dyn Registry> {
        Arc::new(self.clone())
    }
}

impl Registry for FarRegistry {
    fn own(&self) -> NodeId {
        self.registry.own()
    }

    fn write(&self, registered: &Registered) -> Result<(), StorageError> {
        match self.line.reach(Call::Beat)? {
            Reached::Done => self.registry.write(registered)?,
            Reached::Unheard => {
                self.registry.write(registered)?;
                return Err(unanswered("writing that this node is there"));
            }
            Reached::Late { after_ms } => {
                self.line.beat_late(registered, after_ms);
                return Err(unanswered("writing that this node is there"));
            }
            Reached::Lost => return Err(unanswered("writing that this node is there")),
        }
        self.line.halt(Call::Beaten)
    }

    fn remove(&self, node: NodeId) -> Result<(), StorageError> {
        match self.line.reach(Call::Beat)? {
            Reached::Done => self.registry.remove(node),
            _ => Err(unanswered("taking a node out of the register")),
        }
    }

    fn nodes(&self) -> Result<Vec<Registered>, StorageError> {
        match self.line.reach(Call::Nodes)? {
            Reached::Done => self.registry.nodes(),
            _ => Err(unanswered("looking who is there")),
        }
    }

    fn held(&self) -> Result<Vec<Held>, StorageError> {
        match self.line.reach(Call::Held)? {
            Reached::Done => self.registry.held(),
            _ => Err(unanswered("looking who has which shard")),
        }
    }

    fn last(&self, shard: ShardId) -> Result<Option<Record>, StorageError> {
        match self.line.reach(Call::Last)? {
            Reached::Done => self.registry.last(shard),
            _ => Err(unanswered("reading what was committed last")),
        }
    }

    fn ask_to_drain(&self, node: NodeId, drains: bool) -> Result<(), StorageError> {
        self.registry.ask_to_drain(node, drains)
    }

    fn is_asked_to_drain(&self) -> Result<Option<bool>, StorageError> {
        self.registry.is_asked_to_drain()
    }
}
