//! The backend for tests: everything in memory, faults injected, a crash is a call.
//!
//! Handles of one [`Memory`] see the same stored data, as processes do that share a store. A fault is queued for a
//! shard and meets its next commit (or the next attempt to settle one). A memory can be [far away](Memory::move_far_away):
//! then its commits are under way for as long as a test wants.

mod far;
mod flaw;
mod log;
mod registry;
mod table;

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::{Arc, Mutex, MutexGuard},
};

use self::far::Sent;
pub use self::{far::Answer, flaw::Flaw, log::MemoryLog, registry::MemoryRegistry, table::MemoryTable};
use crate::{Fenced, NodeId, Position, Record, Registered, Row, ShardId, Slice, Taken};

/// Something that goes wrong with one shard's next commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The write is refused with an error; nothing is stored.
    Error,
    /// The disk is full; nothing is stored.
    Full,
    /// The outcome is unknown: the record was stored.
    UnknownStored,
    /// The outcome is unknown: the record was not stored.
    UnknownNotStored,
    /// The outcome is unknown: the record is under way and lands with [`Memory::land`], if it still can.
    UnknownLate,
    /// Somebody else takes the fence just before.
    Taken,
}

/// When the process dies in the next commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Crash {
    /// Before anything is stored.
    Before,
    /// When every other batch of the call is stored.
    Between,
    /// When all is stored, and nothing is reported.
    After,
}

/// Stored data that outlives its handles.
#[derive(Debug, Clone, Default)]
pub struct Memory {
    inner: Arc<Mutex<Inner>>,
}

#[derive(Debug, Clone, Default)]
struct Inner {
    /// Handles of an earlier generation died in a crash.
    generation: u64,
    /// The nonce of the last fence taken.
    fence: u64,
    shards: BTreeMap<ShardId, ShardLog>,
    rows: BTreeMap<(ShardId, Slice, Vec<u8>), Row>,
    floors: BTreeMap<ShardId, Slice>,
    faults: BTreeMap<ShardId, VecDeque<Fault>>,
    late: Vec<Attempt>,
    crash: Option<Crash>,
    put_fails_after: Option<usize>,
    nodes: BTreeMap<NodeId, Registered>,
    /// They do not come back under their names.
    removed: BTreeSet<NodeId>,
    /// Who is wanted to give its shards away, or to keep them.
    drains: BTreeMap<NodeId, bool>,
    is_far: bool,
    /// How many commits were sent.
    sent: u64,
    /// Those that their logs have not heard of, by number.
    under_way: BTreeMap<u64, Sent>,
    flaw: Option<Flaw>,
    /// What nodes have read of logs before they took them, which is a flaw.
    early: BTreeMap<(NodeId, ShardId), (Taken, Vec<Record>)>,
}

#[derive(Debug, Clone, Default)]
struct ShardLog {
    fence: u64,
    /// Who has it, if somebody does and has said so.
    by: Option<NodeId>,
    checkpoint: Position,
    last: Position,
    /// Everything up to here survives a crash.
    flushed: Position,
    records: Vec<Record>,
}

impl ShardLog {
    fn fenced(&self) -> Fenced {
        Fenced { name: u128::from(self.fence), last: self.last }
    }
}

/// A conditional write: "if the fence is mine and the next position is p".
#[derive(Debug, Clone)]
struct Attempt {
    shard: ShardId,
    fence: u64,
    record: Record,
}

impl Inner {
    /// Stores the record if its condition holds.
    fn try_store(&mut self, attempt: &Attempt) -> bool {
        let log = self.shards.entry(attempt.shard).or_default();
        if self.flaw == Some(Flaw::CommitsUnfenced) {
            log.last = log.last.next();
            log.records.push(Record { position: log.last, ..attempt.record.clone() });
            return true;
        }
        let holds = log.fence == attempt.fence && log.last.next() == attempt.record.position;
        if holds {
            log.last = attempt.record.position;
            log.records.push(attempt.record.clone());
        }
        holds
    }

    /// What is stored of a shard's log outlives a crash.
    fn flush_shard(&mut self, shard: ShardId) {
        if let Some(log) = self.shards.get_mut(&shard) {
            log.flushed = log.last;
        }
    }

    fn crash(&mut self) {
        self.generation += 1;
        self.crash = None;
        for log in self.shards.values_mut() {
            log.records.retain(|record| record.position <= log.flushed);
            log.last = log.flushed.max(log.checkpoint);
        }
    }
}

impl Memory {
    /// Empty.
    pub fn new() -> Self {
        Self::default()
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().expect("a test that panicked while it held the memory has failed already")
    }

    /// A log, as a process that starts now would have.
    pub fn log(&self) -> MemoryLog {
        MemoryLog::new(self.clone(), None)
    }

    /// The same, for one of several nodes that share this memory.
    pub fn log_of(&self, node: NodeId) -> MemoryLog {
        MemoryLog::new(self.clone(), Some(node))
    }

    /// The register of nodes, as one of them sees it.
    pub fn registry(&self, own: NodeId) -> MemoryRegistry {
        MemoryRegistry::new(self.clone(), own)
    }

    /// The table.
    pub fn table(&self) -> MemoryTable {
        MemoryTable::new(self.clone())
    }

    /// Queues a fault for a shard's next commit.
    pub fn inject(&self, shard: ShardId, fault: Fault) {
        self.lock().faults.entry(shard).or_default().push_back(fault);
    }

    /// Takes all queued faults back.
    pub fn heal(&self) {
        self.lock().faults.clear();
    }

    /// Lets the process die during its next commit.
    pub fn crash_in_next_commit(&self, crash: Crash) {
        self.lock().crash = Some(crash);
    }

    /// Lets the next `put` fail after so many of its rows.
    pub fn fail_next_put_after(&self, rows: usize) {
        self.lock().put_fails_after = Some(rows);
    }

    /// The process dies now: all handles are dead, and what was not flushed is lost.
    pub fn crash(&self) {
        self.lock().crash();
    }

    /// A copy of what is stored now, apart from this one: without what is not flushed, and without faults.
    pub fn copy(&self) -> Self {
        let mut inner = self.lock().clone();
        inner.crash();
        inner.faults.clear();
        inner.late.clear();
        inner.put_fails_after = None;
        Self { inner: Arc::new(Mutex::new(inner)) }
    }

    /// Lets late writes land, those whose condition still holds. Returns how many did.
    pub fn land(&self) -> usize {
        let mut inner = self.lock();
        let late = std::mem::take(&mut inner.late);
        let landed = late.iter().filter(|attempt| inner.try_store(attempt)).count();
        // A late write is a write of a remote store, which flushes by itself.
        for attempt in late {
            let log = inner.shards.entry(attempt.shard).or_default();
            log.flushed = log.last;
        }
        landed
    }

    /// How many records the shard's log holds.
    pub fn records(&self, shard: ShardId) -> usize {
        self.lock().shards.get(&shard).map_or(0, |log| log.records.len())
    }
}
