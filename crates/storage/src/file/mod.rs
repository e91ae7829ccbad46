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
//! done when half of the file has become garbage. The bytes are in `entry.rs` and `docs/format.md`, what a torn end is and what
//! damage in `reader.rs`.
//!
//! It is for one shard of some thousand rows, and works with more. Whoever opens the file has it alone: it is locked
//! ([`SingleFile`]), and stays so through renaming.

mod entry;
mod image;
mod log;
mod nowhere;
mod place;
mod reader;
mod table;
mod writer;

use std::{
    path::Path,
    sync::{Arc, Mutex, MutexGuard},
};

use self::{image::Image, writer::Writer};
pub use self::{log::FileLog, nowhere::Nowhere, place::SingleFile, reader::Ending, table::FileTable};
use crate::{
    StorageError,
    embedded::{Disk, DiskFile},
};

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
    /// Opens the file, made if it does not exist. It is locked until this and every log and table that came
    /// from it are dropped.
    pub fn open(path: &Path) -> Result<Self, StorageError> {
        let disk = SingleFile::at(path)?;
        let name = disk.name();
        Self::on(disk, &name)
    }

    /// Says what is wrong with a file that is not in use; `None`: nothing. Changes nothing.
    pub fn examine(path: &Path) -> Result<Option<Damage>, StorageError> {
        let disk = SingleFile::at(path)?;
        let name = disk.name();
        let bytes = read_all(&disk, &name)?.1;
        let why = match (bytes.is_empty(), reader::read(&bytes, Ending::default())) {
            (true, _) => {
                StorageError::Corrupt { file: disk.describe(&name), offset: 0, why: "it is empty".into() }
            }
            (_, Ok(_)) => return Ok(None),
            (_, Err(why)) => why.of(&disk.describe(&name)),
        };
        if !why.is_damage() {
            return Err(why);
        }
        let used = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        let (frames_kept, end) =
            reader::read_front(&bytes).map_or((0, 0), |(read, _)| (read.sequence, read.end));
        Ok(Some(Damage { why, frames_kept, bytes_lost: used.saturating_sub(end) as u64 }))
    }

    /// Makes a file of what stands before the damage. The damaged one stays beside it, under another name. Returns what
    /// was wrong.
    ///
    /// What is made is like an old copy: what it has may have been handed over since. So `mark` says so in its table, before
    /// the file has the name of the damaged one.
    pub fn repair<E: From<StorageError>>(
        path: &Path,
        mark: impl FnOnce(&FileTable<Nowhere>) -> Result<(), E>,
    ) -> Result<Option<Damage>, E> {
        let Some(damage) = Self::examine(path)? else { return Ok(None) };
        let disk = SingleFile::at(path)?;
        let name = disk.name();
        let (file, bytes) = read_all(&disk, &name)?;
        let Ok((read, _)) = reader::read_front(&bytes) else { return Err(damage.why.into()) };
        let failed = |error| StorageError::io(format!("setting {} aside", disk.describe(&name)), error);
        let aside = disk.path_of(&format!("{name}.damaged"));
        std::fs::copy(disk.path_of(&name), &aside).map_err(failed)?;
        std::fs::File::open(&aside).and_then(|aside| aside.sync_all()).map_err(failed)?;
        let draft = StateFile::of_image(read.image)?;
        mark(&draft.table())?;
        let image = std::mem::take(&mut lock(&draft.shared).image);
        Writer::make(disk, &name, file, image)?;
        Ok(Some(damage))
    }
}

/// What is wrong with a file.
#[derive(Debug)]
pub struct Damage {
    /// In words.
    pub why: StorageError,
    /// So many frames stand before the damage, each of them a group of counts that was stored in one go, or more.
    pub frames_kept: u64,
    /// So many bytes behind them hold something.
    pub bytes_lost: u64,
}

fn read_all(disk: &SingleFile, name: &str) -> Result<(std::fs::File, Vec<u8>), StorageError> {
    let failed = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::WouldBlock => {
            StorageError::Locked { folder: disk.describe(name), holder: "another process".to_owned() }
        }
        _ => StorageError::io(format!("reading {}", disk.describe(name)), error),
    };
    let mut file = disk.open(name).map_err(failed)?;
    let bytes = file.read_start(usize::MAX).map_err(failed)?;
    Ok((file, bytes))
}

impl StateFile<Nowhere> {
    /// One that is gone when it is dropped.
    pub fn in_memory() -> Result<Self, StorageError> {
        Self::on(Nowhere, "memory")
    }

    fn of_image(image: Image) -> Result<Self, StorageError> {
        let file =
            Nowhere.create("memory").map_err(|error| StorageError::io("making memory".to_owned(), error))?;
        let (writer, image) = Writer::make(Nowhere, "memory", file, image)?;
        Ok(Self { shared: Arc::new(Mutex::new(State { image, writer })) })
    }
}

impl<D: Disk> StateFile<D> {
    /// Opens a file of this name, made if it does not exist.
    pub fn on(disk: D, name: &str) -> Result<Self, StorageError> {
        Self::with(disk, name, Ending::default())
    }

    /// The same, with what tests choose to see themselves catch it.
    pub fn with(disk: D, name: &str, ending: Ending) -> Result<Self, StorageError> {
        let (writer, image) = Writer::open(disk, name, ending)?;
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
