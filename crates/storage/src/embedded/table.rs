//! The table on `fjall`: a keyspace for the rows that are kept, one for each slice, one for the floors.
//!
//! Key: the shard, two bytes with the high one first, then the row's key. Value: the version, eight bytes with the low
//! one first, then the row's bytes.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    ops::Bound,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, OnceLock, RwLock},
};

use fjall::{
    AbstractTree, Database, DatabaseBuilder, Keyspace, KeyspaceCreateOptions, LsmError, PersistMode,
    config::PartitioningPolicy,
};

use super::{
    disk::Folder,
    lock::FolderLock,
    notes::Notes,
    table_files::{self, Depth, Journal, Looked, TableHeld},
};
use crate::{Page, Row, Scan, ShardId, Slice, StorageError, Table, Write, table::check_sizes};

/// Small memtables: flushing a large one holds writers up for hundreds of milliseconds.
const MEMTABLE_BYTES: u64 = 16 * 1024 * 1024;
/// The least that fjall accepts.
const JOURNAL_BYTES_MAX: u64 = 64 * 1024 * 1024;
const CACHE_BYTES: u64 = 32 * 1024 * 1024;

/// Files of rows that are kept open to be read from. Others are opened for each read: what a process may open is for
/// its clients too.
pub const TABLE_FILES_MAX: usize = 128;

const ROWS: &str = "rows";
const FLOORS: &str = "floors";
const SLICE: &str = "slice-";

/// fjall numbers our rows and its own notes about keyspaces (that one was made, that one was deleted) with one counter,
/// and when it opens a folder it goes on after the last *row*. A note could then get a lower number than an earlier one
/// about the same keyspace, and not count: a slice that was deleted right before the end of a process would hide one
/// that is made in the next. So each note is followed by a row, and opening moves the counter past all notes that may
/// have been made without one.
const NOTES_MAX: usize = 256;
/// The key of that row, among the floors. Theirs have two bytes.
const NOTED: &[u8] = b"noted";
/// The key of the row, among the floors, that says which store the table belongs to.
const STORE: &[u8] = b"store";

/// The rows of a folder.
pub struct FjallTable {
    database: Database,
    rows: Keyspace,
    floors: Keyspace,
    slices: RwLock<Slices>,
    /// A write looks at the stored version first; no other may come between. What it knows of the journals is on the device.
    writing: Mutex<BTreeMap<u64, Journal>>,
    folder: PathBuf,
    notes: Arc<Notes<Folder>>,
    /// Which files were found damaged when something could not be read.
    damaged: OnceLock<Vec<String>>,
    _lock: Arc<FolderLock>,
}

#[derive(Default)]
struct Slices {
    floors: BTreeMap<ShardId, Slice>,
    spaces: BTreeMap<Slice, Space>,
}

struct Space {
    keyspace: Keyspace,
    /// The shards that may have rows in it. When the last has dropped them, the whole keyspace goes.
    shards: BTreeSet<ShardId>,
}

impl std::fmt::Debug for FjallTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FjallTable").finish_non_exhaustive()
    }
}

fn failed(doing: &str) -> impl Fn(fjall::Error) -> StorageError + '_ {
    move |error| match error {
        fjall::Error::Io(error) => StorageError::io(format!("{doing} the table"), error),
        fjall::Error::Poisoned => StorageError::Table {
            doing: doing.to_owned(),
            why: "an earlier write failed, so it takes no more; restart to go on".to_owned(),
        },
        error => StorageError::Table { doing: doing.to_owned(), why: error.to_string() },
    }
}

fn place(shard: ShardId, key: &[u8]) -> Vec<u8> {
    let mut place = Vec::with_capacity(2 + key.len());
    place.extend_from_slice(&shard.0.to_be_bytes());
    place.extend_from_slice(key);
    place
}

fn encode(row: &Row) -> Vec<u8> {
    let mut value = Vec::with_capacity(8 + row.bytes.len());
    value.extend_from_slice(&row.version.to_le_bytes());
    value.extend_from_slice(&row.bytes);
    value
}

fn decode(value: &[u8]) -> Result<Row, StorageError> {
    match value.split_first_chunk::<8>() {
        Some((version, bytes)) => Ok(Row { version: u64::from_le_bytes(*version), bytes: bytes.to_vec() }),
        None => Err(StorageError::Table {
            doing: "reading a row".to_owned(),
            why: format!("{} bytes are too few for a version", value.len()),
        }),
    }
}

impl FjallTable {
    pub(super) fn open(
        folder: &Path,
        lock: Arc<FolderLock>,
        notes: Arc<Notes<Folder>>,
    ) -> Result<Self, StorageError> {
        let opened = builder(folder).open().map_err(failed("opening"));
        let database = opened.map_err(|error| match damaged_files(folder) {
            missing if missing.is_empty() => error,
            missing => StorageError::Missing { missing },
        })?;
        let rows = keyspace(&database, ROWS)?;
        let floors = keyspace(&database, FLOORS)?;
        for _ in 0..NOTES_MAX {
            follow_note(&floors)?;
        }
        database.persist(PersistMode::SyncData).map_err(failed("writing to"))?;
        let mut journals = BTreeMap::new();
        table_files::follow(folder, &mut journals)
            .map_err(|error| StorageError::io("reading the table", error))?;
        let mut table = Self {
            database,
            rows,
            floors,
            slices: RwLock::default(),
            writing: Mutex::new(journals),
            folder: folder.to_owned(),
            notes,
            damaged: OnceLock::new(),
            _lock: lock,
        };
        let slices = table.read_slices()?;
        table.slices = RwLock::new(slices);
        table.note(&table.write_lock());
        table.notes.write_both()?;
        // A crash may have come between the floor and what lies below it.
        table.sweep(&table.write_lock())?;
        Ok(table)
    }

    fn read_slices(&self) -> Result<Slices, StorageError> {
        let mut slices = Slices::default();
        for guard in self.floors.iter() {
            let (shard, floor) = guard.into_inner().map_err(self.unread())?;
            if let (Ok(shard), Ok(floor)) = (shard.as_ref().try_into(), floor.as_ref().try_into()) {
                let shard = ShardId(u16::from_be_bytes(shard));
                slices.floors.insert(shard, Slice(u32::from_le_bytes(floor)));
            }
        }
        for name in self.database.list_keyspace_names() {
            if let Some(number) = name.strip_prefix(SLICE).and_then(|number| number.parse().ok()) {
                let keyspace = keyspace(&self.database, &name)?;
                let shards = shards_in(&keyspace).map_err(self.unread())?;
                slices.spaces.insert(Slice(number), Space { keyspace, shards });
            }
        }
        Ok(slices)
    }

    /// Why rows could not be read, with the names of the damaged files if it is that.
    fn unread(&self) -> impl Fn(fjall::Error) -> StorageError + '_ {
        |error| match &error {
            // The system could not read: that says nothing of what is there.
            fjall::Error::Storage(LsmError::Io(_)) => failed("reading")(error),
            fjall::Error::Storage(_) => match self.damaged() {
                missing if missing.is_empty() => failed("reading")(error),
                missing => StorageError::Missing { missing },
            },
            _ => failed("reading")(error),
        }
    }

    /// The files that are not what was written, found once.
    fn damaged(&self) -> Vec<String> {
        if let Some(damaged) = self.damaged.get() {
            return damaged.clone();
        }
        // fjall goes on writing and deleting: what it has just changed is not found twice.
        let (mut damaged, again) = (damaged_files(&self.folder), damaged_files(&self.folder));
        damaged.retain(|file| again.contains(file));
        if damaged.is_empty() { damaged } else { self.damaged.get_or_init(|| damaged).clone() }
    }

    /// Lets it be noted what belongs to the table. Call it when all that was written is on the device.
    fn note(&self, journals: &BTreeMap<u64, Journal>) {
        let slices = self.slices();
        let spaces = slices.spaces.values().map(|space| &space.keyspace);
        let keyspaces = spaces.chain([&self.rows, &self.floors]).map(Keyspace::id).collect();
        self.notes.set_table(TableHeld { keyspaces, journals: journals.clone() });
    }

    /// Something was written, and is on the device.
    fn wrote(&self, journals: &mut BTreeMap<u64, Journal>) {
        // What cannot be read now stays unnoted: the last note is as true as before.
        if table_files::follow(&self.folder, journals).is_ok() {
            self.note(journals);
        }
    }

    /// All rows of a slice that are in memory are written to files of their own.
    #[cfg(feature = "testing")]
    pub fn write_files(&self, slice: Slice) -> Result<(), StorageError> {
        let space = match slice {
            Slice::KEPT => Some(self.rows.clone()),
            _ => self.slices().spaces.get(&slice).map(|space| space.keyspace.clone()),
        };
        space.map_or(Ok(()), |space| space.rotate_memtable_and_wait()).map_err(failed("writing to"))
    }

    /// Demands that the table says that it belongs to this store, or lets it say so.
    pub(super) fn belong_to(&self, store: u64, is_known: bool) -> Result<(), StorageError> {
        let said = self.floors.get(STORE).map_err(self.unread())?;
        if said.as_deref() == Some(&store.to_le_bytes()[..]) {
            return Ok(());
        }
        if is_known {
            let why = if said.is_some() { "is that of another folder" } else { "has lost its rows" };
            return Err(StorageError::Missing { missing: vec![format!("the table {why}")] });
        }
        let mut batch = self.database.batch().durability(Some(PersistMode::SyncData));
        batch.insert(&self.floors, STORE, store.to_le_bytes());
        batch.commit().map_err(failed("writing to"))
    }

    fn write_lock(&self) -> MutexGuard<'_, BTreeMap<u64, Journal>> {
        self.writing.lock().expect("a thread that wrote to the table panicked")
    }

    fn slices(&self) -> std::sync::RwLockReadGuard<'_, Slices> {
        self.slices.read().expect("a thread that changed slices panicked")
    }

    fn slices_mut(&self) -> std::sync::RwLockWriteGuard<'_, Slices> {
        self.slices.write().expect("a thread that changed slices panicked")
    }

    /// The keyspace of a slice, if the slice is not below the shard's floor and has rows at all.
    fn space(&self, shard: ShardId, slice: Slice) -> Option<Keyspace> {
        if slice == Slice::KEPT {
            return Some(self.rows.clone());
        }
        let slices = self.slices();
        if slices.is_dropped(shard, slice) {
            return None;
        }
        slices.spaces.get(&slice).map(|space| space.keyspace.clone())
    }

    /// The same for a write, which may be the first of the slice.
    fn space_for_write(&self, shard: ShardId, slice: Slice) -> Result<Option<Keyspace>, StorageError> {
        if slice == Slice::KEPT {
            return Ok(Some(self.rows.clone()));
        }
        let mut slices = self.slices_mut();
        if slices.is_dropped(shard, slice) {
            return Ok(None);
        }
        if let Some(space) = slices.spaces.get_mut(&slice) {
            space.shards.insert(shard);
            return Ok(Some(space.keyspace.clone()));
        }
        let keyspace = keyspace(&self.database, &format!("{SLICE}{}", slice.0))?;
        follow_note(&self.floors)?;
        let space = Space { keyspace: keyspace.clone(), shards: BTreeSet::from([shard]) };
        slices.spaces.insert(slice, space);
        Ok(Some(keyspace))
    }

    /// Deletes the keyspaces whose shards have all dropped them.
    fn sweep(&self, journals: &BTreeMap<u64, Journal>) -> Result<(), StorageError> {
        let mut slices = self.slices_mut();
        let Slices { floors, spaces } = &mut *slices;
        for (slice, space) in spaces.iter_mut() {
            space.shards.retain(|shard| floors.get(shard).is_none_or(|floor| slice >= floor));
        }
        let gone: Vec<Slice> =
            spaces.iter().filter(|(_, space)| space.shards.is_empty()).map(|(&slice, _)| slice).collect();
        let gone: Vec<(Slice, Space)> =
            gone.into_iter().filter_map(|slice| spaces.remove_entry(&slice)).collect();
        drop(slices);
        if gone.is_empty() {
            return Ok(());
        }
        // What is noted has to be there: so it is noted no more before it goes.
        self.note(journals);
        if let Err(error) = self.notes.write_both() {
            self.slices_mut().spaces.extend(gone);
            return Err(error);
        }
        for (_, space) in gone {
            self.database.delete_keyspace(space.keyspace).map_err(failed("dropping a slice of"))?;
            follow_note(&self.floors)?;
        }
        Ok(())
    }
}

impl Slices {
    fn is_dropped(&self, shard: ShardId, slice: Slice) -> bool {
        self.floors.get(&shard).is_some_and(|&floor| slice < floor)
    }
}

fn builder(folder: &Path) -> DatabaseBuilder<Database> {
    Database::builder(folder)
        .worker_threads(1)
        .cache_size(CACHE_BYTES)
        .max_cached_files(Some(TABLE_FILES_MAX))
        .max_journaling_size(JOURNAL_BYTES_MAX)
}

/// Which files are not what was written, read in full.
fn damaged_files(folder: &Path) -> Vec<String> {
    // What cannot be looked at says nothing.
    table_files::look(folder, None, Depth::Bytes).map(|looked| looked.wrong).unwrap_or_default()
}

/// Says what is missing in the folder of a table, or damaged, and changes nothing there.
pub(super) fn look(
    folder: &Path,
    held: Option<&TableHeld>,
    depth: Depth,
) -> Result<Vec<String>, StorageError> {
    let Looked { mut wrong, gone } = table_files::look(folder, held, depth)?;
    if wrong.is_empty() && !gone.is_empty() {
        let held = held.cloned().unwrap_or_default();
        let written = written_to_files(folder)?;
        for (number, journal) in gone {
            let is_lost = |(id, newest): (&u64, &u64)| {
                held.keyspaces.contains(id) && written.get(id).is_none_or(|written| written < newest)
            };
            if journal.newest.iter().any(is_lost) {
                let path = folder.join(format!("{number}.jnl"));
                wrong.push(format!("{} is gone: it held rows that are nowhere else", path.display()));
            }
        }
    }
    Ok(wrong)
}

/// For each keyspace the number of the newest batch whose rows are in files of their own.
fn written_to_files(folder: &Path) -> Result<BTreeMap<u64, u64>, StorageError> {
    let trial = folder.with_extension("trial");
    let failed_io = |error| StorageError::io(format!("making {}", trial.display()), error);
    let remove = || match fs::remove_dir_all(&trial) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed_io(error)),
        _ => Ok(()),
    };
    remove()?;
    table_files::make_trial(folder, &trial).map_err(failed_io)?;
    let written = written_in(&trial);
    remove()?;
    written
}

fn written_in(trial: &Path) -> Result<BTreeMap<u64, u64>, StorageError> {
    // No thread works there.
    let database = builder(trial).worker_threads_unchecked(0).open().map_err(failed("opening"))?;
    let mut written = BTreeMap::new();
    for name in database.list_keyspace_names() {
        let keyspace = keyspace(&database, &name)?;
        written.extend(keyspace.tree.get_highest_persisted_seqno().map(|newest| (keyspace.id(), newest)));
    }
    Ok(written)
}

fn keyspace(database: &Database, name: &str) -> Result<Keyspace, StorageError> {
    // In parts that the cache can hold: a whole filter of millions of rows would be read again for every look-up.
    let in_parts = || PartitioningPolicy::all(true);
    let options = || {
        KeyspaceCreateOptions::default()
            .max_memtable_size(MEMTABLE_BYTES)
            .filter_block_partitioning_policy(in_parts())
            .index_block_partitioning_policy(in_parts())
    };
    database.keyspace(name, options).map_err(failed("opening"))
}

/// Lets the next note about a keyspace have a higher number than the last: see [`NOTES_MAX`].
fn follow_note(floors: &Keyspace) -> Result<(), StorageError> {
    floors.insert(NOTED, b"").map_err(failed("writing to"))
}

/// Which shards have rows, found by jumping from one to the next.
fn shards_in(keyspace: &Keyspace) -> fjall::Result<BTreeSet<ShardId>> {
    let mut shards = BTreeSet::new();
    let mut from = Some(0u16);
    while let Some(shard) = from {
        let Some(guard) = keyspace.range(shard.to_be_bytes()..).next() else { break };
        let key = guard.key()?;
        let Some((&found, _)) = key.split_first_chunk::<2>() else { break };
        let found = u16::from_be_bytes(found);
        shards.insert(ShardId(found));
        from = found.checked_add(1);
    }
    Ok(shards)
}

impl Table for FjallTable {
    fn get(&self, shard: ShardId, slice: Slice, key: &[u8]) -> Result<Option<Row>, StorageError> {
        let Some(space) = self.space(shard, slice) else { return Ok(None) };
        let value = space.get(place(shard, key)).map_err(self.unread())?;
        value.map(|value| decode(&value)).transpose()
    }

    fn put(&self, shard: ShardId, writes: &[Write]) -> Result<(), StorageError> {
        check_sizes(writes)?;
        let mut journals = self.write_lock();
        // One put may name a key twice: the batch would keep the last, which need not be the newest.
        let mut newest: BTreeMap<(Slice, &[u8]), &Row> = BTreeMap::new();
        for write in writes {
            let row = newest.entry((write.slice, &write.key)).or_insert(&write.row);
            if row.version < write.row.version {
                *row = &write.row;
            }
        }
        let mut batch = self.database.batch().durability(Some(PersistMode::SyncData));
        for ((slice, key), row) in newest {
            let Some(space) = self.space_for_write(shard, slice)? else { continue };
            let place = place(shard, key);
            let known = space.get(&place).map_err(self.unread())?;
            let known = known.map(|value| decode(&value)).transpose()?;
            if known.is_none_or(|known| known.version < row.version) {
                batch.insert(&space, place, encode(row));
            }
        }
        if !batch.is_empty() {
            batch.commit().map_err(failed("writing to"))?;
            self.wrote(&mut journals);
        }
        Ok(())
    }

    fn scan(&self, shard: ShardId, scan: Scan<'_>) -> Result<Page, StorageError> {
        let Some(space) = self.space(shard, scan.slice) else { return Ok(Page::default()) };
        let prefix = place(shard, scan.prefix);
        let from = match scan.after {
            Some(after) if after >= scan.prefix => Bound::Excluded(place(shard, after)),
            _ => Bound::Included(prefix.clone()),
        };
        let mut page = Page::default();
        let mut seen = None;
        for (at, guard) in space.range::<Vec<u8>, _>((from, Bound::Unbounded)).enumerate() {
            let (place, value) = guard.into_inner().map_err(self.unread())?;
            if !place.starts_with(&prefix) {
                break;
            }
            if at == scan.rows_max.max(1) {
                page.next = seen;
                break;
            }
            let key = place[2..].to_vec();
            let row = decode(&value)?;
            if row.bytes.is_empty() {
                seen = Some(key);
            } else {
                seen = Some(key.clone());
                page.rows.push((key, row));
            }
        }
        Ok(page)
    }

    fn drop_slices(&self, shard: ShardId, floor: Slice) -> Result<(), StorageError> {
        let mut journals = self.write_lock();
        if self.slices().floors.get(&shard).is_some_and(|&known| known >= floor) {
            return Ok(());
        }
        // The floor first: rows below it count for nothing from then on, whether they are gone yet or not.
        let mut batch = self.database.batch().durability(Some(PersistMode::SyncData));
        batch.insert(&self.floors, shard.0.to_be_bytes(), floor.0.to_le_bytes());
        batch.commit().map_err(failed("writing to"))?;
        self.wrote(&mut journals);
        self.slices_mut().floors.insert(shard, floor);
        self.sweep(&journals)
    }
}
