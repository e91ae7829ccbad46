//! The table: rows with their version as the write timestamp.
//!
//! The rows of [`Slice::KEPT`] are spread over a few partitions by the hash of their key, and listed by asking all of
//! them. A slice is a partition of its own, which is dropped whole and never used again: no read ever passes over
//! rows that were deleted one by one.

use std::sync::Arc;

use futures_util::{StreamExt, TryStreamExt, future::try_join_all, stream};
use quipu_storage::{
    KEY_BYTES_MAX, Page, Row, Scan, ShardId, Slice, StorageError, Table, Write, check_sizes,
};
use scylla::statement::batch::{Batch, BatchType};
use xxhash_rust::xxh3::xxh3_64;

use crate::{
    away,
    error::while_doing,
    fence::shard_number,
    floors,
    rows::{self, Coded},
    statements::RowStatements,
    store::{Inner, Link},
};

/// How much one write to a partition carries.
const WRITE_ROWS_MAX: usize = 128;
const WRITE_BYTES_MAX: usize = 64 * 1024;
/// So many writes are under way at once.
const WRITES_AT_ONCE: usize = 16;
/// How often a row is read whose parts are missing.
const READS_MAX: usize = 3;

/// The rows of a keyspace.
#[derive(Debug)]
pub struct CassandraTable {
    inner: Arc<Inner>,
}

/// A partition of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) shard: ShardId,
    pub(crate) slice: Slice,
    bucket: i32,
}

impl Place {
    fn of(link: &Link, shard: ShardId, slice: Slice, key: &[u8]) -> Self {
        let buckets = if slice == Slice::KEPT { u64::from(link.buckets) } else { 1 };
        Self { shard, slice, bucket: i32::try_from(xxh3_64(key) % buckets).unwrap_or(0) }
    }

    /// All partitions of a slice.
    fn all(link: &Link, shard: ShardId, slice: Slice) -> impl Iterator<Item = Self> + use<> {
        let buckets = if slice == Slice::KEPT { i32::from(link.buckets) } else { 1 };
        (0..buckets).map(move |bucket| Self { shard, slice, bucket })
    }

    /// Shard, slice and bucket, as the database keeps them.
    pub(crate) fn key(self) -> (i32, i64, i32) {
        (shard_number(self.shard), i64::from(self.slice.0), self.bucket)
    }

    fn statements(self, link: &Link) -> &RowStatements {
        let table = &link.statements.table;
        if self.slice == Slice::KEPT { &table.kept } else { &table.slices }
    }
}

impl CassandraTable {
    pub(crate) fn new(inner: Arc<Inner>) -> Self {
        Self { inner }
    }

    fn run<T, F>(&self, task: impl FnOnce(Arc<Link>) -> F) -> Result<T, StorageError>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, StorageError>> + Send + 'static,
    {
        let link = Arc::clone(&self.inner.link);
        link.away.check()?;
        let task = task(Arc::clone(&link));
        self.inner.bridge.run(async move {
            let result = task.await;
            away::note(&link, &result);
            result
        })
    }
}

impl Table for CassandraTable {
    fn get(&self, shard: ShardId, slice: Slice, key: &[u8]) -> Result<Option<Row>, StorageError> {
        let key = key.to_vec();
        self.run(|link| async move {
            if floors::is_dropped(&link, shard, slice).await? {
                return Ok(None);
            }
            get(&link, Place::of(&link, shard, slice, &key), &key).await
        })
    }

    fn put(&self, shard: ShardId, writes: &[Write]) -> Result<(), StorageError> {
        check_sizes(writes)?;
        let writes = writes.to_vec();
        self.run(|link| async move { put(&link, shard, writes).await })
    }

    fn scan(&self, shard: ShardId, scan: Scan<'_>) -> Result<Page, StorageError> {
        let (slice, rows_max) = (scan.slice, scan.rows_max.max(1));
        let from = match scan.after {
            // The least that is greater.
            Some(after) if after >= scan.prefix => [after, &[0]].concat(),
            _ => scan.prefix.to_vec(),
        };
        let before = end_of(scan.prefix);
        self.run(|link| async move {
            if floors::is_dropped(&link, shard, slice).await? {
                return Ok(Page::default());
            }
            list(&link, shard, slice, Keys { from, before }, rows_max).await
        })
    }

    fn drop_slices(&self, shard: ShardId, floor: Slice) -> Result<(), StorageError> {
        self.run(|link| async move { drop_slices(&link, shard, floor).await })
    }

    fn is_away(&self) -> bool {
        self.inner.link.away.is_away()
    }
}

/// Reads a row. One that is stored in parts may be replaced meanwhile, and its parts be gone: then there is a newer one.
async fn get(link: &Link, place: Place, key: &[u8]) -> Result<Option<Row>, StorageError> {
    for _ in 1..READS_MAX {
        match get_once(link, place, key).await {
            Err(StorageError::Corrupt { .. }) => {}
            answer => return answer,
        }
    }
    get_once(link, place, key).await
}

async fn get_once(link: &Link, place: Place, key: &[u8]) -> Result<Option<Row>, StorageError> {
    let doing = || format!("reading a row of shard {}", place.shard.0);
    let (shard, slice, bucket) = place.key();
    let answer = link.session.execute_unpaged(&place.statements(link).get, (shard, slice, bucket, key)).await;
    let rows = answer.map_err(while_doing(doing()))?.into_rows_result().map_err(while_doing(doing()))?;
    match rows.maybe_first_row::<(&[u8], i64)>().map_err(while_doing(doing()))? {
        Some((coded, version)) => rows::decode(link, place, key, coded, version).await.map(Some),
        None => Ok(None),
    }
}

async fn put(link: &Link, shard: ShardId, mut writes: Vec<Write>) -> Result<(), StorageError> {
    if writes.iter().any(|write| write.slice != Slice::KEPT) {
        let floor = floors::floor(link, shard).await?;
        writes.retain(|write| write.slice == Slice::KEPT || write.slice >= floor);
    }
    let mut coded = Vec::with_capacity(writes.len());
    for write in writes {
        let place = Place::of(link, shard, write.slice, &write.key);
        coded.push((place, rows::encode(link, place, write).await?));
    }
    coded.sort_by_key(|(place, _)| *place);
    let groups = coded.chunk_by(|(one, _), (next, _)| one == next).flat_map(batches);
    let writes = groups.map(|group| write_group(link, group));
    stream::iter(writes.collect::<Vec<_>>()).buffer_unordered(WRITES_AT_ONCE).try_collect::<()>().await?;
    for (place, row) in coded.iter().filter(|(_, row)| row.is_in_parts) {
        rows::forget_older(link, *place, row).await;
    }
    Ok(())
}

/// Divides the rows of a partition into writes of a bounded size.
fn batches(rows: &[(Place, Coded)]) -> Vec<&[(Place, Coded)]> {
    let mut groups = Vec::new();
    let (mut start, mut bytes) = (0, 0);
    for (at, (_, row)) in rows.iter().enumerate() {
        let more = row.key.len() + row.value.len();
        if at > start && (bytes + more > WRITE_BYTES_MAX || at - start == WRITE_ROWS_MAX) {
            groups.push(&rows[start..at]);
            (start, bytes) = (at, 0);
        }
        bytes += more;
    }
    groups.push(&rows[start..]);
    groups
}

/// Writes rows of one partition, as one mutation.
async fn write_group(link: &Link, group: &[(Place, Coded)]) -> Result<(), StorageError> {
    let Some((place, _)) = group.first() else { return Ok(()) };
    let put = &place.statements(link).put;
    let mut batch = Batch::new(BatchType::Unlogged);
    batch.set_is_idempotent(true);
    let mut values = Vec::with_capacity(group.len());
    for (place, row) in group {
        let (shard, slice, bucket) = place.key();
        batch.append_statement(put.clone());
        values.push((shard, slice, bucket, &row.key, &row.value, row.version));
    }
    let written = link.session.batch(&batch, values).await;
    written.map_err(while_doing(format!("writing rows of shard {}", place.shard.0)))?;
    Ok(())
}

/// A range of keys.
#[derive(Debug, Clone)]
struct Keys {
    from: Vec<u8>,
    before: Vec<u8>,
}

/// The least key that is greater than all with the prefix, or than all keys.
fn end_of(prefix: &[u8]) -> Vec<u8> {
    let mut end = prefix.to_vec();
    while let Some(last) = end.pop() {
        if let Some(next) = last.checked_add(1) {
            end.push(next);
            return end;
        }
    }
    vec![u8::MAX; KEY_BYTES_MAX + 1]
}

/// One row of a listing.
type Listed = (Vec<u8>, Row);

/// Lists rows in the order of their keys: each partition gives its first ones, and what lies beyond the last of a
/// partition that has more waits for the next page.
async fn list(
    link: &Link,
    shard: ShardId,
    slice: Slice,
    keys: Keys,
    rows_max: usize,
) -> Result<Page, StorageError> {
    let asked = Place::all(link, shard, slice).map(|place| list_place(link, place, &keys, rows_max));
    let mut found: Vec<Listed> = Vec::new();
    let mut end: Option<Vec<u8>> = None;
    for rows in try_join_all(asked).await? {
        if let (true, Some((last, _))) = (rows.len() == rows_max, rows.last()) {
            end = Some(end.map_or_else(|| last.clone(), |end| end.min(last.clone())));
        }
        found.extend(rows);
    }
    found.sort_by(|(one, _), (other, _)| one.cmp(other));
    if let Some(end) = &end {
        found.truncate(found.partition_point(|(key, _)| key <= end));
    }
    let is_cut = found.len() > rows_max;
    found.truncate(rows_max);
    let next = if is_cut || end.is_some() { found.last().map(|(key, _)| key.clone()) } else { None };
    // Deleted rows were looked at, and are not listed.
    found.retain(|(_, row)| !row.bytes.is_empty());
    Ok(Page { rows: found, next })
}

async fn list_place(
    link: &Link,
    place: Place,
    keys: &Keys,
    rows_max: usize,
) -> Result<Vec<Listed>, StorageError> {
    let doing = || format!("listing rows of shard {}", place.shard.0);
    let (shard, slice, bucket) = place.key();
    let limit = i32::try_from(rows_max).unwrap_or(i32::MAX);
    let values = (shard, slice, bucket, &keys.from, &keys.before, limit);
    let answer = link.session.execute_unpaged(&place.statements(link).scan, values).await;
    let rows = answer.map_err(while_doing(doing()))?.into_rows_result().map_err(while_doing(doing()))?;
    let mut listed = Vec::with_capacity(rows.rows_num());
    for row in rows.rows::<(&[u8], &[u8], i64)>().map_err(while_doing(doing()))? {
        let (key, coded, version) = row.map_err(while_doing(doing()))?;
        let row = match rows::decode(link, place, key, coded, version).await {
            Err(StorageError::Corrupt { .. }) => get(link, place, key).await?,
            row => row.map(Some)?,
        };
        listed.extend(row.map(|row| (key.to_vec(), row)));
    }
    Ok(listed)
}

/// Drops the slices below a floor. The floor is moved last: when it stands there, they are gone.
async fn drop_slices(link: &Link, shard: ShardId, floor: Slice) -> Result<(), StorageError> {
    let known = floors::floor(link, shard).await?;
    if floor <= known {
        return Ok(());
    }
    let doing = || format!("dropping slices of shard {}", shard.0);
    let gone = (known.0.max(1)..floor.0).flat_map(|slice| Place::all(link, shard, Slice(slice)));
    let table = &link.statements.table;
    stream::iter(gone)
        .map(|place| async move {
            link.session.execute_unpaged(&table.drop_slice, place.key()).await?;
            link.session.execute_unpaged(&table.drop_parts, place.key()).await
        })
        .buffer_unordered(WRITES_AT_ONCE)
        .try_for_each(|_| async { Ok(()) })
        .await
        .map_err(while_doing(doing()))?;
    floors::raise(link, shard, floor).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_end_where_the_next_begins() {
        assert_eq!(end_of(b"ab"), b"ac");
        assert_eq!(end_of(&[1, 255, 255]), [2]);
        for all in [&[][..], &[255, 255]] {
            assert!(end_of(all) > vec![u8::MAX; KEY_BYTES_MAX]);
        }
    }
}
