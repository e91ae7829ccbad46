//! Records too large for one write: their parts are stored first, under a name that only the record will tell.
//!
//! Cassandra takes no more than half a segment of its commit log (16 MiB unless set otherwise) in one piece, and a
//! conditional write puts all that it changes there twice.

use futures_util::{StreamExt, TryStreamExt, stream};
use quipu_storage::{Position, ShardId, StorageError};
use uuid::Uuid;

use crate::{
    error::while_doing,
    fence::{shard_number, stored},
    store::Link,
};

/// Up to here a record stands in the log itself, and a row in the table itself.
pub(crate) const INLINE_BYTES_MAX: usize = 256 * 1024;
/// How large a part is.
pub(crate) const PART_BYTES: usize = 1024 * 1024;
/// So many parts are under way at once.
pub(crate) const PARTS_AT_ONCE: usize = 4;

/// Where the parts of a record are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Body {
    pub(crate) name: Uuid,
    pub(crate) parts: i32,
}

/// Parts with their numbers.
pub(crate) fn parts(bytes: &[u8]) -> impl Iterator<Item = (i32, &[u8])> {
    (0..).zip(bytes.chunks(PART_BYTES))
}

/// Stores the parts of a record. They are at a quorum when this returns.
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
    let stored: Vec<_> = stream::iter(puts.collect::<Vec<_>>())
        .buffer_unordered(PARTS_AT_ONCE)
        .try_collect()
        .await
        .map_err(while_doing(format!("storing a large record of shard {}", shard.0)))?;
    Ok(Body { name, parts: i32::try_from(stored.len()).unwrap_or(i32::MAX) })
}

/// Reads a record that is stored in parts.
pub(crate) async fn load(
    link: &Link,
    shard: ShardId,
    position: Position,
    body: Body,
) -> Result<Vec<u8>, StorageError> {
    let doing = || format!("reading record {} of shard {}", position.0, shard.0);
    let mut record = Vec::new();
    let gets = (0..body.parts).map(|part| async move {
        let values = (shard_number(shard), stored(position.0), body.name, part);
        link.session.execute_unpaged(&link.statements.log.get_part, values).await
    });
    let mut answers = stream::iter(gets.collect::<Vec<_>>()).buffered(PARTS_AT_ONCE);
    while let Some(answer) = answers.next().await {
        let rows = answer.map_err(while_doing(doing()))?.into_rows_result().map_err(while_doing(doing()))?;
        let part = rows.maybe_first_row::<(&[u8],)>().map_err(while_doing(doing()))?;
        let (bytes,) = part.ok_or_else(|| missing(doing(), record.len()))?;
        record.extend_from_slice(bytes);
    }
    Ok(record)
}

/// A part that is named and not there.
pub(crate) fn missing(doing: String, offset: usize) -> StorageError {
    StorageError::Corrupt { file: doing, offset: offset as u64, why: "a part is missing".to_owned() }
}
