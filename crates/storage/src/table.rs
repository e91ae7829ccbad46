//! The table: sorted bytes to versioned rows, per shard.

use crate::{ShardId, StorageError};

/// The longest key of a row.
pub const KEY_BYTES_MAX: usize = 1024;

/// The largest row.
pub const ROW_BYTES_MAX: usize = 16 * 1024 * 1024;

/// A part of a shard's rows that is dropped whole. Numbers are used in rising order and never again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slice(pub u32);

impl Slice {
    /// The slice that is never dropped.
    pub const KEPT: Self = Self(0);
}

/// What the table holds under a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// Grows with every change. The same version always means the same bytes.
    pub version: u64,
    /// Empty: deleted. The version stays, so that a late write does not bring the row back.
    pub bytes: Vec<u8>,
}

/// A row to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Write {
    /// The slice it belongs to.
    pub slice: Slice,
    /// Its key, at most [`KEY_BYTES_MAX`].
    pub key: Vec<u8>,
    /// The row.
    pub row: Row,
}

/// Which rows to list: those of a slice whose key has the prefix, after the cursor, in the order of their keys.
#[derive(Debug, Clone, Copy)]
pub struct Scan<'a> {
    /// The slice.
    pub slice: Slice,
    /// What the keys begin with.
    pub prefix: &'a [u8],
    /// The last key that has been seen; `None` to begin.
    pub after: Option<&'a [u8]>,
    /// At most so many rows are looked at for one page.
    pub rows_max: usize,
}

/// One page of a scan.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Page {
    /// Rows that are not deleted. There may be none although more follow.
    pub rows: Vec<(Vec<u8>, Row)>,
    /// The cursor of the next page; `None` when this was the last.
    pub next: Option<Vec<u8>>,
}

/// Rows by shard, slice and key.
///
/// Laws: a write counts only if its version is higher than the stored one, so repeating, delaying and reordering
/// writes changes nothing; what `put` has returned for is durable; a slice below the floor stays empty whatever
/// is written to it.
pub trait Table: Send + Sync {
    /// The row under a key, deleted rows included.
    fn get(&self, shard: ShardId, slice: Slice, key: &[u8]) -> Result<Option<Row>, StorageError>;

    /// Writes rows, each unless the stored version is as high. Durable when it returns; after a crash or an error
    /// some may be written and others not: write them again.
    fn put(&self, shard: ShardId, writes: &[Write]) -> Result<(), StorageError>;

    /// Lists rows.
    fn scan(&self, shard: ShardId, scan: Scan<'_>) -> Result<Page, StorageError>;

    /// Drops all slices of the shard below `floor`, except [`Slice::KEPT`], for good. The floor never moves back.
    fn drop_slices(&self, shard: ShardId, floor: Slice) -> Result<(), StorageError>;

    /// Is the store far away, and does it not answer at the moment? Then calls fail at once, until it does again.
    fn is_away(&self) -> bool {
        false
    }
}

/// Refuses what no backend stores: keys longer than [`KEY_BYTES_MAX`] and rows larger than [`ROW_BYTES_MAX`].
pub fn check_sizes(writes: &[Write]) -> Result<(), StorageError> {
    for write in writes {
        for (what, bytes, max) in
            [("a key", write.key.len(), KEY_BYTES_MAX), ("a row", write.row.bytes.len(), ROW_BYTES_MAX)]
        {
            if bytes > max {
                return Err(StorageError::TooLarge { what, bytes, max });
            }
        }
    }
    Ok(())
}

impl<T: Table + ?Sized> Table for std::sync::Arc<T> {
    fn get(&self, shard: ShardId, slice: Slice, key: &[u8]) -> Result<Option<Row>, StorageError> {
        (**self).get(shard, slice, key)
    }

    fn put(&self, shard: ShardId, writes: &[Write]) -> Result<(), StorageError> {
        (**self).put(shard, writes)
    }

    fn scan(&self, shard: ShardId, scan: Scan<'_>) -> Result<Page, StorageError> {
        (**self).scan(shard, scan)
    }

    fn drop_slices(&self, shard: ShardId, floor: Slice) -> Result<(), StorageError> {
        (**self).drop_slices(shard, floor)
    }

    fn is_away(&self) -> bool {
        (**self).is_away()
    }
}
