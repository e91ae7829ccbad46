//! The embedded backend: one process, one folder.
//!
//! ```text
//! quipu-data/
//!   LOCK       locked while a process works here; holds its number
//!   FORMAT     the format and the store's own number
//!   NOTED.1, NOTED.2   what belongs to the folder, so that nothing is missing without a word
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
mod notes;
mod opening;
mod repair;
mod scan;
mod shards;
mod table;
mod table_files;
mod wal;

use std::{fs, io, path::Path, sync::Arc, time::Duration};

pub use self::{
    disk::{Disk, DiskFile, Folder},
    logs::{EmbeddedLog, LogConfig, Logs},
    repair::{Findings, Remedy},
    table::{FjallTable, TABLE_FILES_MAX},
};
use crate::StorageError;
use format::{Format, Wholeness};
use lock::FolderLock;
use notes::Noted;
use opening::Opening;
use repair::Patient;
use table_files::Depth;

/// What belongs to a folder is noted so often.
const NOTE_EVERY: Duration = Duration::from_millis(500);

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
    format: Format,
}

impl Embedded {
    /// Opens the folder, created if it does not exist. The lock is held until this and every log and table that
    /// came from it are dropped.
    pub fn open(folder: &Path, config: LogConfig) -> Result<Self, StorageError> {
        match Self::open_repaired(folder, config)? {
            opened if opened.is_repaired() => {
                Err(StorageError::Repaired { folder: folder.display().to_string() })
            }
            opened => Ok(opened),
        }
    }

    /// The same for those who treat the folder as a copy, as one has to be that was repaired.
    pub fn open_repaired(folder: &Path, config: LogConfig) -> Result<Self, StorageError> {
        let failed = |error| StorageError::io(format!("creating {}", folder.display()), error);
        fs::create_dir_all(folder).map_err(failed)?;
        let lock = Arc::new(FolderLock::take(folder)?);
        let table = folder.join("table");
        let holds_table = (!is_empty(&table).map_err(failed)?).then(|| table.display().to_string());
        let disk = Folder::create(folder.join("log")).map_err(failed)?.under(Arc::clone(&lock));
        // The log's folder must not vanish with what is committed in it.
        let root = Folder::create(folder).map_err(failed)?;
        root.sync_names().map_err(failed)?;
        let is_noted = Format::read(&root)?.is_some_and(Format::has_notes);
        if is_noted && holds_table.is_none() {
            let missing = vec![format!("{} is gone: it held all rows", table.display())];
            return Err(StorageError::Missing { missing });
        }
        let missing = wrong_in_table(&root, &table, Depth::Start)?;
        if !missing.is_empty() && config.flaws.missing == flaws::Missing::Refused {
            return Err(StorageError::Missing { missing });
        }
        let opening = Opening::begin(disk, root, holds_table, config)?;
        let table = FjallTable::open(&table, lock, opening.notes())?;
        table.belong_to(opening.format.store, is_noted)?;
        let format = opening.format.with_notes();
        let logs = opening.finish()?;
        logs.note_every(NOTE_EVERY)?;
        Ok(Self { logs, table: Arc::new(table), format })
    }

    /// Was the folder repaired, and not restored since?
    pub fn is_repaired(&self) -> bool {
        self.format.wholeness == Wholeness::Repaired
    }

    /// The folder was restored: it stands for what it holds. Durable when it returns.
    pub fn set_restored(&mut self) -> Result<(), StorageError> {
        if self.is_repaired() {
            self.format.wholeness = Wholeness::Whole;
            self.format.write(self.logs.root())?;
        }
        Ok(())
    }

    /// Says what is missing or damaged in a folder that is not in use, and what a repair would lose. Changes nothing.
    pub fn examine(folder: &Path) -> Result<Findings, StorageError> {
        patient(folder)?.1.examine()
    }

    /// Makes a folder one that can be opened and restored, of what is left of it.
    pub fn repair(folder: &Path) -> Result<Findings, StorageError> {
        let (_lock, patient) = patient(folder)?;
        patient.repair()
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

    /// Notes what belongs to the folder, if that has changed. A thread does it about twice a second.
    pub fn note(&self) -> Result<(), StorageError> {
        self.logs.note()
    }

    /// How many segments hold records: how much the table lags behind.
    pub fn segments(&self) -> usize {
        self.logs.segments()
    }
}

fn patient(folder: &Path) -> Result<(FolderLock, Patient<Folder>), StorageError> {
    let failed = |error| StorageError::io(format!("reading {}", folder.display()), error);
    fs::read_dir(folder).map_err(failed)?;
    let lock = FolderLock::take(folder)?;
    let disk = Arc::new(Folder::create(folder.join("log")).map_err(failed)?);
    let root = Folder::create(folder).map_err(failed)?;
    let has_table = !is_empty(&folder.join("table")).map_err(failed)?;
    let wrong_in_table = wrong_in_table(&root, &folder.join("table"), Depth::Bytes)?;
    Ok((lock, Patient { disk, root, has_table, wrong_in_table }))
}

/// What is missing or damaged of the table, if the folder was said to have one. Changes nothing.
fn wrong_in_table(root: &Folder, table: &Path, depth: Depth) -> Result<Vec<String>, StorageError> {
    let format = match Format::read(root) {
        Err(error) if error.is_damage() => None,
        read => read?,
    };
    let store = format.map(|format| format.store).or_else(|| notes::store_of(root));
    let noted = store.map(|store| notes::noted(root, store)).transpose()?.flatten();
    let is_noted = format.map_or(noted.is_some(), Format::has_notes);
    let has_table = !is_empty(table).map_err(|error| StorageError::io("reading the table", error))?;
    if !is_noted || !has_table {
        return Ok(Vec::new());
    }
    table::look(table, noted.and_then(|Noted { table, .. }| table).as_ref(), depth)
}

/// Is there nothing in a folder, or no folder?
fn is_empty(folder: &Path) -> io::Result<bool> {
    match fs::read_dir(folder) {
        Ok(mut entries) => Ok(entries.next().is_none()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(true),
        Err(error) => Err(error),
    }
}
