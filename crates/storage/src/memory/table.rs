//! The table in memory.

use std::ops::Bound;

use super::{Flaw, Inner, Memory};
use crate::{Page, Row, Scan, ShardId, Slice, StorageError, Table, Write, table::check_sizes};

/// The table of a [`Memory`].
#[derive(Debug, Clone)]
pub struct MemoryTable {
    memory: Memory,
    generation: u64,
}

impl MemoryTable {
    pub(super) fn new(memory: Memory) -> Self {
        let generation = memory.lock().generation;
        Self { memory, generation }
    }

    fn check(&self, inner: &Inner) -> Result<(), StorageError> {
        if inner.generation == self.generation {
            Ok(())
        } else {
            Err(StorageError::Injected("the process has crashed"))
        }
    }
}

impl Table for MemoryTable {
    fn get(&self, shard: ShardId, slice: Slice, key: &[u8]) -> Result<Option<Row>, StorageError> {
        let inner = self.memory.lock();
        self.check(&inner)?;
        Ok(inner.rows.get(&(shard, slice, key.to_vec())).cloned())
    }

    fn put(&self, shard: ShardId, writes: &[Write]) -> Result<(), StorageError> {
        check_sizes(writes)?;
        let mut inner = self.memory.lock();
        self.check(&inner)?;
        let stop = inner.put_fails_after.take().unwrap_or(usize::MAX);
        let floor = inner.floors.get(&shard).copied().unwrap_or(Slice::KEPT);
        for (at, write) in writes.iter().enumerate() {
            if at >= stop {
                break;
            }
            if write.slice < floor && write.slice != Slice::KEPT {
                continue;
            }
            let place = (shard, write.slice, write.key.clone());
            let is_newer = inner.rows.get(&place).is_none_or(|row| row.version < write.row.version);
            if is_newer || inner.flaw == Some(Flaw::RowsWithoutVersions) {
                inner.rows.insert(place, write.row.clone());
            }
        }
        match stop {
            usize::MAX => Ok(()),
            _ => Err(StorageError::Injected("the table failed within a put")),
        }
    }

    fn scan(&self, shard: ShardId, scan: Scan<'_>) -> Result<Page, StorageError> {
        let inner = self.memory.lock();
        self.check(&inner)?;
        let place = |key: &[u8]| (shard, scan.slice, key.to_vec());
        let from = match scan.after {
            Some(after) if after >= scan.prefix => Bound::Excluded(place(after)),
            _ => Bound::Included(place(scan.prefix)),
        };
        let mut page = Page::default();
        let mut seen = None;
        let rows = inner.rows.range((from, Bound::Unbounded)).take_while(|((owner, slice, key), _)| {
            *owner == shard && *slice == scan.slice && key.starts_with(scan.prefix)
        });
        for (at, ((_, _, key), row)) in rows.enumerate() {
            if at == scan.rows_max.max(1) {
                page.next = seen;
                break;
            }
            seen = Some(key.clone());
            if !row.bytes.is_empty() {
                page.rows.push((key.clone(), row.clone()));
            }
        }
        Ok(page)
    }

    fn drop_slices(&self, shard: ShardId, floor: Slice) -> Result<(), StorageError> {
        let mut inner = self.memory.lock();
        self.check(&inner)?;
        let known = inner.floors.entry(shard).or_insert(Slice::KEPT);
        *known = floor.max(*known);
        let floor = *known;
        inner.rows.retain(|(owner, slice, _), _| *owner != shard || *slice == Slice::KEPT || *slice >= floor);
        Ok(())
    }
}
