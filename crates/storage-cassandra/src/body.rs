//! Records too large for the log itself: their bytes are stored first, under a name that only the record will tell.
//!
//! A conditional write keeps all that it changes in the state of its ballots too, and reads it again with the next one,
//! so that it gets slower with every kilobyte: a record of 36 kB took 8.6 ms in the log itself and 3.9 ms beside it
//! (`examples/commits.rs`). And Cassandra takes no more than half a segment of its commit log (16 MiB unless set
//! otherwise) in one piece. So only what names the bytes is written on a condition.

use std::collections::BTreeMap;

use futures_util::{StreamExt, TryStreamExt, stream};
use quipu_storage::{Position, ShardId, StorageError};
use uuid::Uuid;

use crate::{
    error::while_doing,
    fence::{shard_number, stored},
    store::Link,
};

/// Up to here a record stands in the log itself: one write instead of two.
pub(crate) const INLINE_BYTES_MAX: usize = 8 * 1024;
/// How large a part is.
pub(crate) const PART_BYTES: usize = 1024 * 1024;
/// So many parts are under way at once.
pub(crate) const PARTS_AT_ONCE: usize = 4;
/// Records that are not larger than this together are read at once.
const READ_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Where the bytes of a record are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Body {
    pub(crate) name: Uuid,
    pub(crate) bytes: usize,
}

/// A record whose bytes are elsewhere.
pub(crate) type Named = (Position, Body);

/// Parts with their numbers.
pub(crate) fn parts(bytes: &[u8]) -> impl Iterator<Item = (i32, &[u8])> {
    (0..).zip(bytes.chunks(PART_BYTES))
}

/// Stores the bytes of a record. They are at a quorum when this returns.
pub(crate) async fn store(
    link: &Link,
    shard: ShardId,
    position: Position,
    record: &[u8],
) -> Result<Body, StorageError> {
    let name = Uuid::now_v7();
    let puts = parts(record).map(|(part, bytes)| async move {
        let values = (shard_number(shard), stored(position.0), name, part, bytes);
        link.session.execute_unpaged(&link.statements.log.put_part, values).await
    });
    stream::iter(puts.collect::<Vec<_>>())
        .buffer_unordered(PARTS_AT_ONCE)
        .try_for_each(|_| async { Ok(()) })
        .await
        .map_err(while_doing(format!("storing a record of shard {}", shard.0)))?;
    Ok(Body { name, bytes: record.len() })
}

/// Reads records of a shard, given in the order of their positions.
pub(crate) async fn load(
    link: &Link,
    shard: ShardId,
    named: &[Named],
) -> Result<BTreeMap<Position, Vec<u8>>, StorageError> {
    let reads = groups(named).into_iter().map(|group| load_group(link, shard, group));
    let read: Vec<_> =
        stream::iter(reads.collect::<Vec<_>>()).buffer_unordered(PARTS_AT_ONCE).try_collect().await?;
    Ok(read.into_iter().flatten().collect())
}

/// Divides records into those that are read at once.
fn groups(named: &[Named]) -> Vec<&[Named]> {
    let mut groups = Vec::new();
    let (mut start, mut bytes) = (0, 0);
    for (at, (_, body)) in named.iter().enumerate() {
        if at > start && bytes + body.bytes > READ_BYTES_MAX {
            groups.push(&named[start..at]);
            (start, bytes) = (at, 0);
        }
        bytes += body.bytes;
    }
    groups.push(&named[start..]);
    groups
}

async fn load_group(
    link: &Link,
    shard: ShardId,
    group: &[Named],
) -> Result<Vec<(Position, Vec<u8>)>, StorageError> {
    let (Some((first, body)), Some((last, _))) = (group.first(), group.last()) else { return Ok(Vec::new()) };
    if body.bytes > READ_BYTES_MAX {
        return Ok(vec![(*first, load_one(link, shard, *first, *body).await?)]);
    }
    let doing = || format!("reading records of shard {}", shard.0);
    let values = (shard_number(shard), stored(first.0), stored(last.0));
    let answer = link.session.execute_unpaged(&link.statements.log.get_parts, values).await;
    let rows = answer.map_err(while_doing(doing()))?.into_rows_result().map_err(while_doing(doing()))?;
    let mut found: BTreeMap<(i64, Uuid), Vec<u8>> = BTreeMap::new();
    // In the order of their parts. There may be bodies that no record names: of commits that came to nothing.
    for row in rows.rows::<(i64, Uuid, &[u8])>().map_err(while_doing(doing()))? {
        let (position, name, bytes) = row.map_err(while_doing(doing()))?;
        found.entry((position, name)).or_default().extend_from_slice(bytes);
    }
    let whole = |(position, body): &Named| {
        let bytes = found.remove(&(stored(position.0), body.name)).unwrap_or_default();
        check(shard, *position, *body, bytes).map(|bytes| (*position, bytes))
    };
    group.iter().map(whole).collect()
}

async fn load_one(
    link: &Link,
    shard: ShardId,
    position: Position,
    body: Body,
) -> Result<Vec<u8>, StorageError> {
    let doing = || format!("reading record {} of shard {}", position.0, shard.0);
    let count = i32::try_from(body.bytes.div_ceil(PART_BYTES)).unwrap_or(i32::MAX);
    let gets = (0..count).map(|part| async move {
        let values = (shard_number(shard), stored(position.0), body.name, part);
        link.session.execute_unpaged(&link.statements.log.get_part, values).await
    });
    let mut record = Vec::with_capacity(body.bytes);
    let mut answers = stream::iter(gets.collect::<Vec<_>>()).buffered(PARTS_AT_ONCE);
    while let Some(answer) = answers.next().await {
        let rows = answer.map_err(while_doing(doing()))?.into_rows_result().map_err(while_doing(doing()))?;
        let part = rows.maybe_first_row::<(&[u8],)>().map_err(while_doing(doing()))?;
        record.extend_from_slice(part.map_or(&[], |(bytes,)| bytes));
    }
    check(shard, position, body, record)
}

/// They were there before the record was: if not all are, the database has lost some.
fn check(shard: ShardId, position: Position, body: Body, bytes: Vec<u8>) -> Result<Vec<u8>, StorageError> {
    if bytes.len() == body.bytes {
        return Ok(bytes);
    }
    Err(missing(format!("record {} of shard {}", position.0, shard.0), bytes.len()))
}

/// Bytes that are counted and not there.
pub(crate) fn missing(what: String, offset: usize) -> StorageError {
    StorageError::Corrupt { file: what, offset: offset as u64, why: "a part is missing".to_owned() }
}
