//! The records of a log: reading them, and deleting those that the table has.

use futures_util::{StreamExt, TryStreamExt, stream};
use quipu_storage::{Mark, Position, Record, ShardId, StorageError};
use uuid::Uuid;

use crate::{
    body::{self, Body},
    error::while_doing,
    fence::{shard_number, stored},
    store::Link,
};

/// How many records are asked for at once, and how many such requests are under way.
const RECORDS_PER_READ: u64 = 256;
const READS_AT_ONCE: usize = 4;

/// Deletes records up to a checkpoint. What is left behind by an error, or by a clock that is late, goes with the next.
/// Returns whether all that lay beside the log is gone.
pub(crate) async fn forget(link: &Link, mark: Mark, has_parts: bool) -> bool {
    let values = (shard_number(mark.shard), stored(mark.position.0));
    let log = &link.statements.log;
    let forgotten = link.session.execute_unpaged(&log.forget, values).await;
    forgotten.is_ok() && has_parts && link.session.execute_unpaged(&log.forget_parts, values).await.is_ok()
}

/// The records after one position up to another, in order.
pub(crate) async fn read(
    link: &Link,
    shard: ShardId,
    after: Position,
    last: Position,
) -> Result<Vec<Record>, StorageError> {
    let starts = (after.0..last.0).step_by(usize::try_from(RECORDS_PER_READ).unwrap_or(1));
    let reads = starts.map(|from| read_some(link, shard, from, last.0.min(from + RECORDS_PER_READ)));
    let read: Vec<Vec<Record>> =
        stream::iter(reads.collect::<Vec<_>>()).buffered(READS_AT_ONCE).try_collect().await?;
    Ok(read.into_iter().flatten().collect())
}

async fn read_some(link: &Link, shard: ShardId, after: u64, last: u64) -> Result<Vec<Record>, StorageError> {
    type Stored = (i64, Option<Vec<u8>>, Option<Uuid>, Option<i32>);
    let doing = || format!("reading the log of shard {}", shard.0);
    let values = (shard_number(shard), stored(after), stored(last));
    let answer = link.session.execute_unpaged(&link.statements.log.records, values).await;
    let rows = answer.map_err(while_doing(doing()))?.into_rows_result().map_err(while_doing(doing()))?;
    let mut records = Vec::with_capacity(rows.rows_num());
    let mut elsewhere = Vec::new();
    for row in rows.rows::<Stored>().map_err(while_doing(doing()))? {
        let (position, record, name, bytes) = row.map_err(while_doing(doing()))?;
        let position = Position(u64::try_from(position).unwrap_or(0));
        if let (None, Some(name), Some(bytes)) = (&record, name, bytes) {
            elsewhere.push((position, Body { name, bytes: usize::try_from(bytes).unwrap_or(0) }));
        }
        records.push(Record { position, bytes: record.unwrap_or_default() });
    }
    let mut loaded = body::load(link, shard, &elsewhere).await?;
    for record in &mut records {
        if let Some(bytes) = loaded.remove(&record.position) {
            record.bytes = bytes;
        }
    }
    Ok(records)
}
