//! The backend for those who keep little and start often: log and table in one file.
//!
//! ```text
//! ┌────────┬──────────────────────────────┬───────┬───────┬───┬───────┐
//! │ header │ frames: all that there was   │ frame │ frame │ … │ zeros │
//! └────────┴──────────────────────────────┴───────┴───────┴───┴───────┘
//!            when the file was written      and since, one after the other
//! ```
//!
//! All of it is in memory too (`image.rs`), so that nothing has to be read from a file that is in doubt: after a failed
//! write or flush the whole file is written again under another name, flushed, and renamed (`writer.rs`). The same is
//! done when half of the file has become garbage. The bytes are in `entry.rs` and `docs/format.md`.
//!
//! It is for one shard of some thousand rows, and works with more. Whoever opens the file has it alone: it is locked
//! ([`SingleFile`]), and stays so through renaming.

mod entry;
mod image;
mod log;
mod nowhere;
mod place;
mod table;
mod writer;

use std::{
    path::Path,
    sync::{Arc, Mutex, MutexGuard},
};

use self::{image::Image, writer::Writer};
pub use self::{log::FileLog, nowhere::Nowhere, place::SingleFile, table::FileTable};
use crate::{StorageError, embedded::Disk};

/// A store in one file.
///
/// ```
/// use quipu_storage::{Batch, Flush, Outcome, ShardId, Store, file::StateFile};
///
/// let folder = tempfile::tempdir().unwrap();
/// let path = folder.path().join("state");
/// let file = StateFile::open(&path)?;
/// let mut store = Store::new(file.log(), file.table());
/// store.open(ShardId(0))?;
/// let outcomes = store.commit(&[Batch { shard: ShardId(0), record: b"+1".to_vec() }], Flush::Now);
/// assert!(matches!(outcomes[0], Outcome::Committed { .. }));
/// assert!(StateFile::open(&path).is_err(), "it is in use");
/// drop((store, file));
///
/// let file = StateFile::open(&path)?;
/// assert_eq!(Store::new(file.log(), file.table()).open(ShardId(0))?.records[0].bytes, b"+1");
/// # Ok::<(), quipu_storage::StorageError>(())
/// ```
#[derive(Debug)]
pub struct StateFile<D: Disk> {
    shared: Shared<D>,
}

type Shared<D> = Arc<Mutex<State<D>>>;

#[derive(Debug)]
struct State<D: Disk> {
    image: Image,
    writer: Writer<D>,
}

impl StateFile<SingleFile> {
    /// Opens the file, made if it does not exist or is empty. It is locked until this and every log and table that came
    /// from it are dropped.
    pub fn open(path: &Path) -> Result<Self, StorageError> {
        let disk = SingleFile::at(path)?;
        let name = disk.name();
        Self::on(disk, &name)
    }
}

impl StateFile<Nowhere> {
    /// One that is gone when it is dropped.
    pub fn in_memory() -> Result<Self, StorageError> {
        Self::on(Nowhere, "memory")
    }
}

impl<D: Disk> StateFile<D> {
    /// Opens a file of this name, made if it does not exist or is empty.
    pub fn on(disk: D, name: &str) -> Result<Self, StorageError> {
        let (writer, image) = Writer::open(disk, name)?;
        Ok(Self { shared: Arc::new(Mutex::new(State { image, writer })) })
    }

    /// A log on it.
    pub fn log(&self) -> FileLog<D> {
        FileLog::new(Arc::clone(&self.shared))
    }

    /// The table.
    pub fn table(&self) -> FileTable<D> {
        FileTable::new(Arc::clone(&self.shared))
    }

    /// Removes the file for good. Logs and tables that came from it must have been dropped before.
    pub fn remove(self) -> Result<(), StorageError> {
        lock(&self.shared).writer.remove()
    }

    /// How many bytes of records no checkpoint covers. They are in memory and are read again at the next opening.
    pub fn unsaved_bytes(&self) -> usize {
        lock(&self.shared).image.record_bytes()
    }
}

fn lock<D: Disk>(shared: &Shared<D>) -> MutexGuard<'_, State<D>> {
    shared.lock().expect("a thread that wrote to this file panicked")
}
