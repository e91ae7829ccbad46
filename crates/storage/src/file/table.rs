//! The table of a state file.

use std::ops::Bound;

use super::{Shared, State, entry::Entry, lock};
use crate::{
    Page, Row, Scan, ShardId, Slice, StorageError, Table, Write, embedded::Disk, table::check_sizes,
};

/// The table of a state file. Deleted rows are forgotten when the mark of their shard moves: in one file nobody can
/// come later with what was there before it.
#[derive(Debug)]
pub struct FileTable<D: Disk> {
    shared: Shared<D>,
}

impl<D: Disk> FileTable<D> {
    pub(super) fn new(shared: Shared<D>) -> Self {
        Self { shared }
    }

    fn append(&self, entries: &[Entry<'_>]) -> Result<(), StorageError> {
        let mut state = lock(&self.shared);
        let State { image, writer } = &mut *state;
        writer.ready(image)?;
        let mut payload = Vec::new();
        entries.iter().for_each(|entry| entry.encode(&mut payload));
        writer.append(&payload)?;
        entries.iter().try_for_each(|entry| image.apply(entry))
    }
}

impl<D: Disk> Table for FileTable<D> {
    fn get(&self, shard: ShardId, slice: Slice, key: &[u8]) -> Result<Option<Row>, StorageError> {
        Ok(lock(&self.shared).image.rows().get(&(shard, slice, key.to_vec())).cloned())
    }

    fn put(&self, shard: ShardId, writes: &[Write]) -> Result<(), StorageError> {
        check_sizes(writes)?;
        let entries = writes.iter().map(|write| Entry::row(shard, write.slice, &write.key, &write.row));
        self.append(&entries.collect::<Vec<_>>())
    }

    fn scan(&self, shard: ShardId, scan: Scan<'_>) -> Result<Page, StorageError> {
        let state = lock(&self.shared);
        let place = |key: &[u8]| (shard, scan.slice, key.to_vec());
        let from = match scan.after {
            Some(after) if after >= scan.prefix => Bound::Excluded(place(after)),
            _ => Bound::Included(place(scan.prefix)),
        };
        let rows =
            state.image.rows().range((from, Bound::Unbounded)).take_while(|((owner, slice, key), _)| {
                *owner == shard && *slice == scan.slice && key.starts_with(scan.prefix)
            });
        let (mut page, mut seen) = (Page::default(), None);
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
        self.append(&[Entry::Floor { shard, slice: floor }])
    }
}
