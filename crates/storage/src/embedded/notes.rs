//! What belongs to a folder, noted beside its logs: the segments of each worker, and a frame up to which everything is on
//! the device; the keyspaces and the journals of the table.
//!
//! Without a note a log that was deleted, emptied or cut looks like one that never had more. The note is written about
//! once a second and never waited for by a commit, except where files are let go of. There are two copies, written in
//! turn, in place: a crash spoils at most the one that is being written, and either alone is true.
//!
//! Three orders keep a healthy folder from being refused. A frame is noted when it has been flushed. A segment is noted when
//! its header has been flushed, and as long as some frame in force stands in it. A file goes when both copies have ceased
//! to name it.

use std::{
    collections::BTreeMap,
    io,
    sync::{Mutex, MutexGuard},
};

use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::{
    disk::{Disk, DiskFile},
    flaws::{Flaws, Noting},
    table_files::{Journal, TableHeld},
};
use crate::StorageError;

/// The two copies.
pub(super) const NAMES: [&str; 2] = ["NOTED.1", "NOTED.2"];

const MAGIC: [u8; 8] = *b"QUIPUHAS";
/// A note that says nothing of the table, as earlier versions wrote it.
const WITHOUT_TABLE: u32 = 1;
/// A note that says what belongs to the table, before it says what belongs to the logs.
const WITH_TABLE: u32 = 2;
const HEAD_BYTES: usize = 32;
/// A copy is made with so much space, so that a full disk does not keep notes from being written.
const RESERVE_BYTES: u64 = 16 * 1024;

/// A segment that belongs to a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Piece {
    pub number: u64,
    /// The number of its first frame.
    pub first: u64,
    /// Up to here it holds frames that were flushed.
    pub bytes: u64,
}

/// What belongs to one worker's log.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Held {
    /// Every frame up to this one has been flushed.
    pub synced: u64,
    /// In the order of their numbers; none: the worker has no log.
    pub segments: Vec<Piece>,
}

impl Held {
    /// The frames that a segment holds, by its place in the list.
    pub(super) fn frames(&self, at: usize) -> (u64, u64) {
        let next = self.segments.get(at + 1).map_or(self.synced, |next| next.first.saturating_sub(1));
        (self.segments[at].first, next)
    }
}

/// All that is noted of the logs, by worker.
pub(super) type Note = BTreeMap<u16, Held>;

/// All that is noted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Noted {
    pub logs: Note,
    /// `None`: nothing is said of the table.
    pub table: Option<TableHeld>,
}

fn put(bytes: &mut Vec<u8>, number: u64) {
    bytes.extend_from_slice(&number.to_le_bytes());
}

fn encode(store: u64, number: u64, noted: &Noted) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend_from_slice(&MAGIC);
    let format = if noted.table.is_some() { WITH_TABLE } else { WITHOUT_TABLE };
    bytes.extend_from_slice(&format.to_le_bytes());
    bytes.extend_from_slice(&[0; 4]);
    put(&mut bytes, store);
    put(&mut bytes, number);
    if let Some(table) = &noted.table {
        encode_table(&mut bytes, table);
    }
    for (worker, held) in noted.logs.iter().filter(|(_, held)| !held.segments.is_empty()) {
        put(&mut bytes, u64::from(*worker));
        put(&mut bytes, held.segments.len() as u64);
        put(&mut bytes, held.synced);
        for piece in &held.segments {
            [piece.number, piece.first, piece.bytes].into_iter().for_each(|field| put(&mut bytes, field));
        }
    }
    let length = u32::try_from(bytes.len()).expect("a folder has fewer segments");
    bytes[12..16].copy_from_slice(&length.to_le_bytes());
    let sum = xxh3_64_with_seed(&bytes, store);
    put(&mut bytes, sum);
    bytes
}

fn encode_table(bytes: &mut Vec<u8>, TableHeld { keyspaces, journals }: &TableHeld) {
    put(bytes, keyspaces.len() as u64);
    keyspaces.iter().for_each(|id| put(bytes, *id));
    put(bytes, journals.len() as u64);
    for (number, journal) in journals {
        [*number, journal.bytes, journal.newest.len() as u64].into_iter().for_each(|field| put(bytes, field));
        for (keyspace, newest) in &journal.newest {
            [*keyspace, *newest].into_iter().for_each(|field| put(bytes, field));
        }
    }
}

/// The number of a copy and what it says; `None` if it is not a sound one of this store.
fn decode(bytes: &[u8], store: u64) -> Option<(u64, Noted)> {
    let u64_at = |at: usize| Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
    let head = bytes.get(..HEAD_BYTES)?;
    let length = usize::try_from(u32::from_le_bytes(head[12..16].try_into().ok()?)).ok()?;
    let format = u32::from_le_bytes(head[8..12].try_into().ok()?);
    let is_known = [WITHOUT_TABLE, WITH_TABLE].contains(&format);
    let is_ours = head[..8] == MAGIC && is_known && u64_at(16)? == store;
    if !is_ours || length < HEAD_BYTES || xxh3_64_with_seed(bytes.get(..length)?, store) != u64_at(length)? {
        return None;
    }
    let (mut logs, mut at) = (Note::new(), HEAD_BYTES);
    let table = match format {
        WITH_TABLE => Some(decode_table(bytes.get(..length)?, &mut at)?),
        _ => None,
    };
    while at < length {
        let (worker, segments) = (u16::try_from(u64_at(at)?).ok()?, u64_at(at + 8)?);
        let mut held = Held { synced: u64_at(at + 16)?, segments: Vec::new() };
        at += 24;
        for _ in 0..segments {
            held.segments.push(Piece {
                number: u64_at(at)?,
                first: u64_at(at + 8)?,
                bytes: u64_at(at + 16)?,
            });
            at += 24;
        }
        logs.insert(worker, held);
    }
    Some((u64_at(24)?, Noted { logs, table }))
}

fn decode_table(bytes: &[u8], at: &mut usize) -> Option<TableHeld> {
    let mut next = || {
        let number = u64::from_le_bytes(bytes.get(*at..*at + 8)?.try_into().ok()?);
        *at += 8;
        Some(number)
    };
    let mut held = TableHeld::default();
    for _ in 0..next()? {
        held.keyspaces.insert(next()?);
    }
    for _ in 0..next()? {
        let (number, mut journal) = (next()?, Journal { bytes: next()?, ..Journal::default() });
        for _ in 0..next()? {
            journal.newest.insert(next()?, next()?);
        }
        held.journals.insert(number, journal);
    }
    Some(held)
}

/// The store that a copy belongs to, if it is sound: for a folder whose `FORMAT` is gone.
pub(super) fn store_of<D: Disk>(root: &D) -> Option<u64> {
    NAMES.iter().find_map(|name| {
        let bytes = root.open(name).and_then(|mut file| file.read_start(usize::MAX)).ok()?;
        let store = u64::from_le_bytes(bytes.get(16..24)?.try_into().ok()?);
        decode(&bytes, store).map(|_| store)
    })
}

/// What the newer of the sound copies says, with its number and its place; `None`: there is no sound one.
fn read<D: Disk>(root: &D, store: u64) -> Result<Option<(u64, usize, Noted)>, StorageError> {
    let mut newest: Option<(u64, usize, Noted)> = None;
    for (at, name) in NAMES.iter().enumerate() {
        let bytes = match root.open(name).and_then(|mut file| file.read_start(usize::MAX)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            read => read.map_err(|error| failed(root, "reading", name, error))?,
        };
        if let Some((number, note)) = decode(&bytes, store)
            && newest.as_ref().is_none_or(|(known, ..)| *known < number)
        {
            newest = Some((number, at, note));
        }
    }
    Ok(newest)
}

/// What a folder's note says; `None`: it has none that is sound.
pub(super) fn noted<D: Disk>(root: &D, store: u64) -> Result<Option<Noted>, StorageError> {
    Ok(read(root, store)?.map(|(.., note)| note))
}

fn failed<D: Disk>(root: &D, doing: &str, name: &str, error: io::Error) -> StorageError {
    StorageError::io(format!("{doing} {}", root.describe(name)), error)
}

/// The note of a folder that is open.
#[derive(Debug)]
pub(super) struct Notes<D: Disk> {
    root: D,
    store: u64,
    flaws: Flaws,
    /// As it is now, by worker. Locked for moments only: commits wait for it.
    standing: Vec<Mutex<Held>>,
    /// As it was when the table last wrote something.
    table: Mutex<Option<TableHeld>>,
    /// Locked while a copy is written.
    pen: Mutex<Pen<D::File>>,
}

#[derive(Debug)]
struct Pen<F> {
    /// Counts the notes that were written.
    number: u64,
    /// Open files; `None`: to be made anew, because it does not exist, or it is not known what it holds.
    copies: [Option<F>; 2],
    /// The copy that is known to be sound: the other one is written next.
    sound: usize,
    /// What the sound copy says, if this process has written it.
    written: Option<Noted>,
}

const POISONED: &str = "a thread that noted what belongs to the folder panicked";

impl<D: Disk> Notes<D> {
    /// Goes on with the copies that there are. `workers` have logs.
    pub(super) fn open(root: D, store: u64, workers: usize, flaws: Flaws) -> Result<Self, StorageError> {
        // The table is opened later: until then what was noted of it stands.
        let (number, sound, table) =
            read(&root, store)?.map_or((0, 1, None), |(number, at, noted)| (number, at, noted.table));
        let table = Mutex::new(table);
        let copies = NAMES.map(|name| root.open(name).ok());
        let pen = Mutex::new(Pen { number, copies, sound, written: None });
        let standing = (0..workers).map(|_| Mutex::new(Held::default())).collect();
        Ok(Self { root, store, flaws, standing, table, pen })
    }

    pub(super) fn root(&self) -> &D {
        &self.root
    }

    fn held(&self, worker: u16) -> MutexGuard<'_, Held> {
        self.standing[usize::from(worker)].lock().expect(POISONED)
    }

    /// This belongs to the worker's log now.
    pub(super) fn set(&self, worker: u16, held: Held) {
        *self.held(worker) = held;
    }

    /// This belongs to the table now. All of it is on the device.
    pub(super) fn set_table(&self, held: TableHeld) {
        *self.table.lock().expect(POISONED) = Some(held);
    }

    /// More frames of the newest segment, which has `bytes` now, have been flushed.
    pub(super) fn advance(&self, worker: u16, synced: u64, bytes: u64) {
        let mut held = self.held(worker);
        held.synced = synced;
        if let Some(newest) = held.segments.last_mut() {
            newest.bytes = bytes;
        }
    }

    /// More frames were written, and are not flushed yet: nothing to note.
    pub(super) fn wrote(&self, worker: u16, sequence: u64) {
        match self.flaws.noting {
            Noting::Flushed => {}
            #[cfg(feature = "testing")]
            Noting::Written => self.held(worker).synced = sequence,
        }
        #[cfg(not(feature = "testing"))]
        let _ = (worker, sequence);
    }

    /// Writes down what belongs to the folder, unless that is what was last written. Durable when it returns.
    pub(super) fn write(&self) -> Result<(), StorageError> {
        let mut pen = self.pen.lock().expect(POISONED);
        let noted = self.noted();
        if pen.written.as_ref() == Some(&noted) { Ok(()) } else { self.write_copy(&mut pen, noted) }
    }

    /// Writes it to both copies: from then on neither names what is no longer there.
    pub(super) fn write_both(&self) -> Result<(), StorageError> {
        let mut pen = self.pen.lock().expect(POISONED);
        let noted = self.noted();
        self.write_copy(&mut pen, noted.clone())?;
        self.write_copy(&mut pen, noted)
    }

    fn noted(&self) -> Noted {
        let workers = u16::try_from(self.standing.len()).unwrap_or(u16::MAX);
        let logs = (0..workers).map(|worker| (worker, self.held(worker).clone())).collect();
        Noted { logs, table: self.table.lock().expect(POISONED).clone() }
    }

    fn write_copy(&self, pen: &mut Pen<D::File>, noted: Noted) -> Result<(), StorageError> {
        let at = 1 - pen.sound;
        let bytes = encode(self.store, pen.number + 1, &noted);
        // After an error it is not known what the copy holds, or what a later flush of it would prove.
        let copy = pen.copies[at].take();
        let written = match copy {
            Some(mut file) => file.write_at(0, &bytes).and_then(|()| file.sync()).map(|()| file),
            None => self.make_copy(NAMES[at], &bytes),
        };
        let file = written.map_err(|error| failed(&self.root, "writing", NAMES[at], error))?;
        pen.copies[at] = Some(file);
        (pen.number, pen.sound, pen.written) = (pen.number + 1, at, Some(noted));
        Ok(())
    }

    fn make_copy(&self, name: &str, bytes: &[u8]) -> io::Result<D::File> {
        match self.root.remove(name) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut file = self.root.create(name)?;
        file.reserve(RESERVE_BYTES)?;
        file.write_at(0, bytes)?;
        file.sync()?;
        self.root.sync_names()?;
        Ok(file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_comes_back_and_a_spoilt_one_does_not() {
        let piece = |number| Piece { number, first: 10 * number, bytes: 500 };
        let held = Held { synced: 77, segments: vec![piece(3), piece(4)] };
        assert_eq!((held.frames(0), held.frames(1)), ((30, 39), (40, 77)));
        let logs = Note::from([(0, held.clone()), (9, Held { synced: 5, ..held })]);
        let journal = Journal { bytes: 700, newest: BTreeMap::from([(1, 30), (4, 31)]) };
        let journals = BTreeMap::from([(2, Journal::default()), (3, journal)]);
        let table = TableHeld { keyspaces: [1, 2, 4].into(), journals };
        for table in [None, Some(TableHeld::default()), Some(table)] {
            let noted = Noted { logs: logs.clone(), table };
            let bytes = encode(8, 12, &noted);
            assert_eq!(decode(&bytes, 8), Some((12, noted)));
            assert_eq!(decode(&bytes, 9), None, "of another store");
            for at in 0..bytes.len() {
                let mut spoilt = bytes.clone();
                spoilt[at] ^= 4;
                assert_eq!(decode(&spoilt, 8), None, "byte {at}");
                assert_eq!(decode(&bytes[..at], 8), None, "cut at {at}");
            }
        }
    }
}
