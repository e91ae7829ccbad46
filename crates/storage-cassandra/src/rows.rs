//! How a row stands in the table: its version is the write timestamp, its value begins with a byte that says how to
//! read the rest, and a large one is stored in parts, which are there before the row that counts them.

use futures_util::{StreamExt, TryStreamExt, stream};
use quipu_storage::{Row, StorageError, Write};

use crate::{
    body::{PARTS_AT_ONCE, missing, parts},
    error::while_doing,
    store::Link,
    table::Place,
};

/// Up to here a row stands in the table itself.
const INLINE_BYTES_MAX: usize = 256 * 1024;

/// The row follows; nothing follows a deleted one.
const INLINE: u8 = 0;
/// The number of parts follows, four bytes with the low one first.
const IN_PARTS: u8 = 1;

/// A row as it is written.
#[derive(Debug)]
pub(crate) struct Coded {
    pub(crate) key: Vec<u8>,
    pub(crate) value: Vec<u8>,
    pub(crate) version: i64,
    pub(crate) is_in_parts: bool,
}

/// Gets a row ready to be written; stores its parts if it is large.
pub(crate) async fn encode(link: &Link, place: Place, write: Write) -> Result<Coded, StorageError> {
    let Write { key, row, .. } = write;
    let version = i64::try_from(row.version).map_err(|_| StorageError::Table {
        doing: "writing a row".to_owned(),
        why: format!("version {} is beyond what a timestamp holds", row.version),
    })?;
    let is_in_parts = row.bytes.len() > INLINE_BYTES_MAX;
    let value = if is_in_parts {
        let count = store_parts(link, place, &key, version, &row.bytes).await?;
        [&[IN_PARTS][..], &count.to_le_bytes()].concat()
    } else {
        [&[INLINE][..], &row.bytes].concat()
    };
    Ok(Coded { key, value, version, is_in_parts })
}

async fn store_parts(
    link: &Link,
    place: Place,
    key: &[u8],
    version: i64,
    bytes: &[u8],
) -> Result<i32, StorageError> {
    let (shard, slice, bucket) = place.key();
    let puts = parts(bytes).map(|(part, bytes)| async move {
        let values = (shard, slice, bucket, key, version, part, bytes);
        link.session.execute_unpaged(&link.statements.table.put_part, values).await
    });
    let stored: Vec<_> = stream::iter(puts.collect::<Vec<_>>())
        .buffer_unordered(PARTS_AT_ONCE)
        .try_collect()
        .await
        .map_err(while_doing(format!("writing a large row of shard {}", place.shard.0)))?;
    Ok(i32::try_from(stored.len()).unwrap_or(i32::MAX))
}

/// Deletes the parts of earlier versions of a row that has just been written. Those that stay behind go with the next.
pub(crate) async fn forget_older(link: &Link, place: Place, row: &Coded) {
    let (shard, slice, bucket) = place.key();
    let values = (shard, slice, bucket, &row.key, row.version);
    // Nobody reads them any more, whether they are gone or not.
    let _ = link.session.execute_unpaged(&link.statements.table.forget_parts, values).await;
}

/// Reads a row that stands in the table.
pub(crate) async fn decode(
    link: &Link,
    place: Place,
    key: &[u8],
    coded: &[u8],
    version: i64,
) -> Result<Row, StorageError> {
    let stored_version = version;
    let version = u64::try_from(version).unwrap_or(0);
    match coded.split_first() {
        Some((&INLINE, bytes)) => Ok(Row { version, bytes: bytes.to_vec() }),
        Some((&IN_PARTS, count)) if let Ok(count) = count.try_into() => {
            let count = i32::from_le_bytes(count);
            let bytes = load_parts(link, place, key, stored_version, count).await?;
            Ok(Row { version, bytes })
        }
        _ => Err(StorageError::Table {
            doing: "reading a row".to_owned(),
            why: format!("{} bytes of an unknown form", coded.len()),
        }),
    }
}

async fn load_parts(
    link: &Link,
    place: Place,
    key: &[u8],
    version: i64,
    count: i32,
) -> Result<Vec<u8>, StorageError> {
    let doing = || format!("reading a large row of shard {}", place.shard.0);
    let (shard, slice, bucket) = place.key();
    let gets = (0..count).map(|part| async move {
        let values = (shard, slice, bucket, key, version, part);
        link.session.execute_unpaged(&link.statements.table.get_part, values).await
    });
    let mut bytes = Vec::new();
    let mut answers = stream::iter(gets.collect::<Vec<_>>()).buffered(PARTS_AT_ONCE);
    while let Some(answer) = answers.next().await {
        let rows = answer.map_err(while_doing(doing()))?.into_rows_result().map_err(while_doing(doing()))?;
        let part = rows.maybe_first_row::<(&[u8],)>().map_err(while_doing(doing()))?;
        let (part,) = part.ok_or_else(|| missing(doing(), bytes.len()))?;
        bytes.extend_from_slice(part);
    }
    Ok(bytes)
}
