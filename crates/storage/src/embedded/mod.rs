//! The embedded backend: one process, one folder.
//!
//! ```text
//! quipu-data/
//!   LOCK       locked while a process works here; holds its number
//!   FORMAT     the format and the store's own number
//!   log/       the commit point: preallocated files of frames, one sequence per worker
//!   table/     the rows, kept by fjall, behind the log
//! ```
//!
//! A group commit is one write and one flush, whatever the number of shards. Start reading at [`Logs`]; the bytes are
//! in [`mod@frame`], what happens when a flush fails in `wal.rs`, what recovery accepts in `scan.rs`.

pub mod disk;
pub mod flaws;
mod format;
pub mod frame;
mod lock;
mod logs;
mod scan;
mod shards;
mod table;
mod wal;

use std::{fs, path::Path, sync::Arc};

pub use self::{
    disk::{Disk, DiskFile, Folder},
    logs::{EmbeddedLog, LogConfig, Logs},
    table::{FjallTable, TABLE_FILES_MAX},
};
use crate::StorageError;
use lock::FolderLock;

/// A folder, opened and locked.
///
/// ```
/// use quipu_storage::{Batch, Flush, Outcome, ShardId, Store};
/// use quipu_storage::embedded::{Embedded, LogConfig};
///
/// let folder = tempfile::tempdir().unwrap();
/// let config = LogConfig { segment_bytes: 1024 * 1024, ..LogConfig::default() };
/// let embedded = Embedded::open(folder.path(), config)?;
/// let mut store = Store::new(embedded.log(0), embedded.table());
/// store.open(ShardId(3))?;
/// let outcomes = store.commit(&[Batch { shard: ShardId(3), record: b"+1".to_vec() }], Flush::Now);
/// assert!(matches!(outcomes[0], Outcome::Committed { .. }));
/// drop((store, embedded));
///
/// let embedded = Embedded::open(folder.path(), config)?;
/// let mut store = Store::new(embedded.log(0), embedded.table());
/// assert_eq!(store.open(ShardId(3))?.records[0].bytes, b"+1");
/// # Ok::<(), quipu_storage::StorageError>(())
/// ```
#[derive(Debug)]
pub struct Embedded {
    logs: Logs<Folder>,
    table: Arc<FjallTable>,
}

impl Embedded {
    /// Opens the folder, created if it does not exist. The lock is held until this and every log and table that
    /// came from it are dropped.
    pub fn open(folder: &Path, config: LogConfig) -> Result<Self, StorageError> {
        let failed = |error| StorageError::io(format!("creating {}", folder.display()), error);
        fs::create_dir_all(folder).map_err(failed)?;
        let lock = Arc::new(FolderLock::take(folder)?);
        let store = format::open(folder)?;
        let disk = Folder::create(folder.join("log")).map_err(failed)?.under(Arc::clone(&lock));
        // The log's folder must not vanish with what is committed in it.
        Folder::create(folder).and_then(|folder| folder.sync_names()).map_err(failed)?;
        let logs = Logs::open(disk, store, config)?;
        let table = Arc::new(FjallTable::open(&folder.join("table"), lock)?);
        Ok(Self { logs, table })
    }

    /// The log of a worker, counted from 0.
    ///
    /// # Panics
    /// If there are not so many workers.
    pub fn log(&self, worker: u16) -> EmbeddedLog<Folder> {
        self.logs.log(worker)
    }

    /// The table, shared by all workers.
    pub fn table(&self) -> Arc<FjallTable> {
        Arc::clone(&self.table)
    }

    /// How many segments hold records: how much the table lags behind.
    pub fn segments(&self) -> usize {
        self.logs.segments()
    }
}
