//! A table that sees every row that is written to it.

use std::{
    collections::BTreeMap,
    sync::{Arc, Condvar, Mutex},
};

use quipu_storage::{Page, Row, Scan, ShardId, Slice, StorageError, Table, Write, memory::MemoryTable};

type Place = (ShardId, Slice, Vec<u8>, u64);

/// Everything ever written, by place and version. It outlives crashes.
#[derive(Debug, Clone, Default)]
pub(crate) struct Seen {
    inner: Arc<Mutex<Inner>>,
    /// Is the table to wait before it writes?
    held: Arc<(Mutex<bool>, Condvar)>,
}

#[derive(Debug, Default)]
struct Inner {
    written: BTreeMap<Place, Vec<u8>>,
    wrong: Option<String>,
}

impl Seen {
    /// The same version always means the same bytes.
    pub(crate) fn check(&self) -> Result<(), String> {
        self.inner.lock().unwrap().wrong.clone().map_or(Ok(()), Err)
    }

    /// Rows that are written from now on wait until they are let through.
    pub(crate) fn hold(&self, hold: bool) {
        *self.held.0.lock().unwrap() = hold;
        self.held.1.notify_all();
    }

    fn wait(&self) {
        let held = self.held.0.lock().unwrap();
        drop(self.held.1.wait_while(held, |held| *held).unwrap());
    }

    fn note(&self, shard: ShardId, write: &Write) {
        let mut inner = self.inner.lock().unwrap();
        let place = (shard, write.slice, write.key.clone(), write.row.version);
        let text = format!("two rows of one version: {place:?}");
        let before = inner.written.entry(place).or_insert_with(|| write.row.bytes.clone());
        if *before != write.row.bytes {
            inner.wrong = Some(text);
        }
    }
}

#[derive(Debug)]
pub(crate) struct WatchedTable {
    pub(crate) table: MemoryTable,
    pub(crate) seen: Seen,
}

impl Table for WatchedTable {
    fn get(&self, shard: ShardId, slice: Slice, key: &[u8]) -> Result<Option<Row>, StorageError> {
        self.table.get(shard, slice, key)
    }

    fn put(&self, shard: ShardId, writes: &[Write]) -> Result<(), StorageError> {
        self.seen.wait();
        writes.iter().for_each(|write| self.seen.note(shard, write));
        self.table.put(shard, writes)
    }

    fn scan(&self, shard: ShardId, scan: Scan<'_>) -> Result<Page, StorageError> {
        self.table.scan(shard, scan)
    }

    fn drop_slices(&self, shard: ShardId, floor: Slice) -> Result<(), StorageError> {
        self.table.drop_slices(shard, floor)
    }
}
