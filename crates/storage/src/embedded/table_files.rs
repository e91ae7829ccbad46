//! What belongs to the table's folder, looked at before fjall opens it.
//!
//! fjall takes what it finds for all that there was: it cuts a journal at the first batch that is not sound, makes a new tree
//! where the file `current` is gone, and deletes the files and keyspaces that nothing names. So whatever is missing has to be
//! found before. Nothing here writes to the folder.
//!
//! ```text
//! table/
//!   version, lock
//!   7.jnl                       batches of rows, the newest in the file with the highest number
//!   keyspaces/0                 the names of the others
//!   keyspaces/3/current         the number of its version, and the checksum of the version's file
//!   keyspaces/3/v12             a version: the files of rows that belong to it, with their checksums
//!   keyspaces/3/tables/5        rows, in blocks with a checksum each
//! ```

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, File},
    io::{self, BufReader, Cursor, Read, Seek, SeekFrom},
    path::{Path, PathBuf},
};

use xxhash_rust::xxh3::{Xxh3, xxh3_64, xxh3_128};

use crate::StorageError;

/// The number of a keyspace, and of its folder.
type KeyspaceId = u64;

/// The keyspace that has the names of the others.
const NAMES: KeyspaceId = 0;
const KEYSPACES: &str = "keyspaces";
const CURRENT: &str = "current";
const MARKER: &str = "version";
const LOCK: &str = "lock";
const MARKER_BYTES: &[u8] = b"FJL\x03";
/// Files of rows up to this size are read in full at each start, those among them that fjall itself needs.
const SMALL_BYTES_MAX: u64 = 256 * 1024;
/// What ends a file of parts: "SFA!", two bytes, a checksum, the place and the length of the list of parts.
const TRAILER_BYTES: u64 = 38;
const READ_BYTES: usize = 256 * 1024;

/// What belongs to a table, noted beside the logs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct TableHeld {
    /// All keyspaces that were made and not deleted.
    pub keyspaces: BTreeSet<KeyspaceId>,
    /// By number.
    pub journals: BTreeMap<u64, Journal>,
}

/// What a journal holds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Journal {
    /// Up to here it holds sound batches.
    pub bytes: u64,
    /// The number of the newest batch with rows of each keyspace. The file goes when all these rows are in files of their own.
    pub newest: BTreeMap<KeyspaceId, u64>,
}

/// What was found in the folder of a table.
#[derive(Debug, Default)]
pub(super) struct Looked {
    /// What is missing or damaged, in words.
    pub wrong: Vec<String>,
    /// Journals that were noted and are gone: rightly, if their rows are in files of their own.
    pub gone: BTreeMap<u64, Journal>,
}

/// How thoroughly files of rows are looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Depth {
    /// They are there and can be opened. The rows of large ones are checked when they are read.
    Start,
    /// All their bytes are what was written.
    Bytes,
}

/// Looks at a folder that is not a new one. `held`: what was noted to belong to it, if anything was.
pub(super) fn look(folder: &Path, held: Option<&TableHeld>, depth: Depth) -> Result<Looked, StorageError> {
    let failed = |error| StorageError::io(format!("reading {}", folder.display()), error);
    look_in(folder, held, depth).map_err(failed)
}

fn look_in(folder: &Path, held: Option<&TableHeld>, depth: Depth) -> io::Result<Looked> {
    let mut looked = Looked::default();
    let marker = folder.join(MARKER);
    match read_if_there(&marker)? {
        None => looked.wrong.push(format!("{} is gone", marker.display())),
        Some(bytes) if bytes != MARKER_BYTES => {
            looked.wrong.push(format!("{} is not what was written", marker.display()));
        }
        Some(_) => {}
    }
    let lock = folder.join(LOCK);
    if !lock.try_exists()? {
        looked.wrong.push(format!("{} is gone: an empty file of that name is enough", lock.display()));
    }
    let nothing = TableHeld::default();
    let held = held.unwrap_or(&nothing);
    let present = keyspaces(folder)?;
    for &id in held.keyspaces.iter().chain([&NAMES]).chain(&present).collect::<BTreeSet<_>>() {
        // Without a note it is not known whether it has just been made or deleted.
        let must_be = id == NAMES || held.keyspaces.contains(&id);
        look_at_keyspace(&keyspace_path(folder, id), must_be, depth, &mut looked.wrong)?;
    }
    look_at_journals(folder, held, &mut looked)?;
    Ok(looked)
}

fn read_if_there(path: &Path) -> io::Result<Option<Vec<u8>>> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn keyspace_path(folder: &Path, id: KeyspaceId) -> PathBuf {
    folder.join(KEYSPACES).join(id.to_string())
}

/// The keyspaces that have a folder.
fn keyspaces(folder: &Path) -> io::Result<BTreeSet<KeyspaceId>> {
    let names = match fs::read_dir(folder.join(KEYSPACES)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BTreeSet::new()),
        names => names?,
    };
    let mut ids = BTreeSet::new();
    for name in names {
        ids.extend(name?.file_name().to_str().and_then(|name| name.parse::<KeyspaceId>().ok()));
    }
    Ok(ids)
}

fn look_at_keyspace(path: &Path, must_be: bool, depth: Depth, wrong: &mut Vec<String>) -> io::Result<()> {
    let current = path.join(CURRENT);
    let Some(bytes) = read_if_there(&current)? else {
        if must_be {
            wrong.push(format!("{} is gone: the rows beside it would be deleted", current.display()));
        }
        return Ok(());
    };
    let Ok([number @ .., 0]) = <[u8; 25]>::try_from(bytes) else {
        wrong.push(format!("{} is not what was written", current.display()));
        return Ok(());
    };
    let (number, checksum) = number.split_at(8);
    let number = u64::from_le_bytes(number.try_into().expect("it has 8 bytes"));
    let version = path.join(format!("v{number}"));
    let Some(bytes) = read_if_there(&version)? else {
        wrong.push(format!("{} is gone, which {} names", version.display(), current.display()));
        return Ok(());
    };
    let files = (xxh3_128(&bytes).to_le_bytes() == checksum).then(|| files_of_rows(&bytes)).flatten();
    let Some(files) = files else {
        wrong.push(format!("{}, or {}, is not what was written", version.display(), current.display()));
        return Ok(());
    };
    for (id, checksum) in files {
        let file = path.join("tables").join(id.to_string());
        match File::open(&file) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                wrong.push(format!("{} is gone: it held rows", file.display()));
            }
            opened => {
                let opened = opened?;
                let is_read = depth == Depth::Bytes || opened.metadata()?.len() <= SMALL_BYTES_MAX;
                if !opens(&opened)? || is_read && checksum_of(opened)? != checksum {
                    wrong.push(format!("{} is not what was written: it held rows", file.display()));
                }
            }
        }
    }
    Ok(())
}

fn checksum_of(mut file: File) -> io::Result<u128> {
    file.rewind()?;
    let (mut sum, mut bytes) = (Xxh3::new(), vec![0; READ_BYTES]);
    loop {
        match file.read(&mut bytes)? {
            0 => return Ok(sum.digest128()),
            read => sum.update(&bytes[..read]),
        }
    }
}

/// A part of a file of fjall's.
struct Section {
    name: Vec<u8>,
    at: u64,
    bytes: u64,
}

/// The parts of a file: they stand one after the other, then the list of them, then a trailer. `None`: the list is not sound.
fn sections(file: &mut (impl Read + Seek)) -> io::Result<Option<Vec<Section>>> {
    let length = file.seek(SeekFrom::End(0))?;
    let Some(trailer_at) = length.checked_sub(TRAILER_BYTES) else { return Ok(None) };
    let trailer = read_at(file, trailer_at, TRAILER_BYTES)?;
    let Some(trailer) = trailer.strip_prefix(b"SFA!\x01\x00") else { return Ok(None) };
    let (checksum, place) = trailer.split_at(16);
    let list_at = u64::from_le_bytes(place[..8].try_into().expect("it has 8 bytes"));
    let Some(list_bytes) = trailer_at.checked_sub(list_at) else { return Ok(None) };
    let list = read_at(file, list_at, list_bytes)?;
    let is_sound = xxh3_128(&list).to_le_bytes() == checksum;
    Ok(is_sound.then(|| sections_in(&list)).flatten())
}

fn sections_in(list: &[u8]) -> Option<Vec<Section>> {
    let mut list = Fields(list.strip_prefix(b"TOC!")?);
    let mut sections = Vec::new();
    for _ in 0..list.u32()? {
        let (at, bytes, name) = (list.u64()?, list.u64()?, list.u16()?);
        sections.push(Section { name: list.take(usize::from(name))?.to_vec(), at, bytes });
    }
    Some(sections)
}

/// So many bytes, or as many as there are.
fn read_at(file: &mut (impl Read + Seek), at: u64, bytes: u64) -> io::Result<Vec<u8>> {
    let mut read = Vec::new();
    file.seek(SeekFrom::Start(at))?;
    file.take(bytes).read_to_end(&mut read)?;
    Ok(read)
}

/// Is what fjall reads of a file of rows when it opens it what was written?
fn opens(mut file: &File) -> io::Result<bool> {
    let Some(sections) = sections(&mut file)? else { return Ok(false) };
    let is_in_parts = sections.iter().any(|section| section.name == b"filter_tli");
    for Section { name, at, bytes } in &sections {
        let is_one_block = match &name[..] {
            b"meta" | b"tli" | b"filter_tli" => true,
            b"filter" => !is_in_parts,
            _ => false,
        };
        if is_one_block && !is_sound_block(&read_at(&mut file, *at, *bytes)?) {
            return Ok(false);
        }
    }
    Ok(sections.iter().any(|section| section.name == b"meta"))
}

fn is_sound_block(block: &[u8]) -> bool {
    let Some((head, data)) = block.split_at_checked(33) else { return false };
    let (head, sum) = head.split_at(29);
    xxh3_128(head).to_le_bytes()[..4] == *sum && xxh3_128(data).to_le_bytes() == head[5..21]
}

/// The files of rows that a version names, with their checksums; `None`: it cannot be read.
fn files_of_rows(version: &[u8]) -> Option<Vec<(u64, u128)>> {
    let sections = sections(&mut Cursor::new(version)).ok()??;
    let Section { at, bytes, .. } = sections.iter().find(|section| section.name == b"tables")?;
    let mut tables = Fields(version.get(usize::try_from(*at).ok()?..)?);
    tables = Fields(tables.take(usize::try_from(*bytes).ok()?)?);
    let mut files = Vec::new();
    for _ in 0..tables.u8()? {
        for _ in 0..tables.u8()? {
            for _ in 0..tables.u32()? {
                let id = tables.u64()?;
                let _kind_of_checksum = tables.u8()?;
                let checksum = u128::from_le_bytes(tables.take(16)?.try_into().ok()?);
                let _number_of_batch = tables.u64()?;
                files.push((id, checksum));
            }
        }
    }
    Some(files)
}

/// Numbers with their low byte first, one after the other.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn take(&mut self, bytes: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(bytes)?;
        self.0 = rest;
        Some(taken)
    }

    fn u8(&mut self) -> Option<u8> {
        self.take(1).map(|bytes| bytes[0])
    }

    fn u16(&mut self) -> Option<u16> {
        Some(u16::from_le_bytes(self.take(2)?.try_into().ok()?))
    }

    fn u32(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.take(4)?.try_into().ok()?))
    }

    fn u64(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.take(8)?.try_into().ok()?))
    }
}

fn journal_path(folder: &Path, number: u64) -> PathBuf {
    folder.join(format!("{number}.jnl"))
}

/// The numbers of the journals that are there.
fn journals(folder: &Path) -> io::Result<BTreeSet<u64>> {
    let mut numbers = BTreeSet::new();
    for name in fs::read_dir(folder)? {
        let name = name?.file_name();
        numbers.extend(name.to_str().and_then(|name| name.strip_suffix(".jnl")?.parse::<u64>().ok()));
    }
    Ok(numbers)
}

fn look_at_journals(folder: &Path, held: &TableHeld, looked: &mut Looked) -> io::Result<()> {
    let present = journals(folder)?;
    if present.is_empty() && held.journals.is_empty() {
        looked.wrong.push(format!("{} has no journal any more: it held rows", folder.display()));
    }
    for (&number, journal) in held.journals.iter().filter(|(number, _)| !present.contains(number)) {
        // They go in the order of their numbers, and the newest stays.
        if present.first().is_none_or(|&first| first < number) {
            looked.wrong.push(format!("{} is gone: it held rows", journal_path(folder, number).display()));
        } else {
            looked.gone.insert(number, journal.clone());
        }
    }
    for number in present {
        let path = journal_path(folder, number);
        let mut journal = Journal::default();
        let file = File::open(&path)?;
        journal.read_on(&file)?;
        let noted = held.journals.get(&number).map_or(0, |noted| noted.bytes);
        if journal.bytes < noted {
            let Journal { bytes, .. } = journal;
            looked.wrong.push(format!(
                "{} is cut or damaged at byte {bytes}: it held rows up to byte {noted}",
                path.display()
            ));
        }
    }
    Ok(())
}

impl Journal {
    /// Reads the batches after those that are known, up to the first that is not sound.
    fn read_on(&mut self, mut file: &File) -> io::Result<()> {
        file.seek(SeekFrom::Start(self.bytes))?;
        let mut reader = BufReader::with_capacity(READ_BYTES, file);
        let mut bytes = Vec::new();
        while let Some(batch) = Batch::read(&mut reader, &mut bytes)? {
            self.bytes += bytes.len() as u64;
            for keyspace in batch.keyspaces {
                let newest = self.newest.entry(keyspace).or_default();
                *newest = batch.number.max(*newest);
            }
            bytes.clear();
        }
        Ok(())
    }
}

/// A batch in a journal.
struct Batch {
    number: u64,
    keyspaces: BTreeSet<KeyspaceId>,
}

impl Batch {
    const START: u8 = 1;
    const ROW: u8 = 2;
    const END: u8 = 3;
    const CLEAR: u8 = 4;

    /// The next batch, and its bytes; `None` if it is not sound, or there is none.
    fn read(reader: &mut impl Read, bytes: &mut Vec<u8>) -> io::Result<Option<Self>> {
        let mut next = |bytes: &mut Vec<u8>, length: usize| -> io::Result<Option<usize>> {
            let at = bytes.len();
            let read = reader.by_ref().take(length as u64).read_to_end(bytes)?;
            Ok((read == length).then_some(at))
        };
        let Some(at) = next(bytes, 13)? else { return Ok(None) };
        let mut fields = Fields(&bytes[at..]);
        let (Some(Self::START), Some(rows), Some(number)) = (fields.u8(), fields.u32(), fields.u64()) else {
            return Ok(None);
        };
        let mut batch = Self { number, keyspaces: BTreeSet::new() };
        let first = bytes.len();
        for _ in 0..rows {
            let Some(at) = next(bytes, 1)? else { return Ok(None) };
            let (skipped, length) = match bytes[at] {
                Self::ROW => (2, 20),
                Self::CLEAR => (0, 8),
                _ => return Ok(None),
            };
            let Some(at) = next(bytes, length)? else { return Ok(None) };
            let mut fields = Fields(&bytes[at + skipped..]);
            batch.keyspaces.extend(fields.u64());
            if let (Some(key), Some(_), Some(value)) = (fields.u16(), fields.u32(), fields.u32()) {
                let length = usize::from(key) + usize::try_from(value).unwrap_or(usize::MAX / 2);
                let Some(_) = next(bytes, length)? else { return Ok(None) };
            }
        }
        let sum = xxh3_64(&bytes[first..]);
        let Some(at) = next(bytes, 13)? else { return Ok(None) };
        let mut fields = Fields(&bytes[at..]);
        let is_sound = (fields.u8(), fields.u64(), fields.0) == (Some(Self::END), Some(sum), MARKER_BYTES);
        Ok(is_sound.then_some(batch))
    }
}

/// Brings what is known of the journals up to date. All that they hold must be on the device.
pub(super) fn follow(folder: &Path, known: &mut BTreeMap<u64, Journal>) -> io::Result<()> {
    let present = journals(folder)?;
    let newest = known.keys().last().copied().unwrap_or(0);
    let mut followed: BTreeMap<u64, Journal> = BTreeMap::new();
    for number in present {
        let mut journal = known.get(&number).cloned().unwrap_or_default();
        if number >= newest || journal == Journal::default() {
            match File::open(journal_path(folder, number)) {
                // Its rows have just become files of their own.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                opened => journal.read_on(&opened?)?,
            }
        }
        followed.insert(number, journal);
    }
    *known = followed;
    Ok(())
}

/// Makes a folder like that of the table, without journals: all its files of rows under second names. fjall says in it which rows
/// are in files of their own.
pub(super) fn make_trial(folder: &Path, trial: &Path) -> io::Result<()> {
    fs::create_dir(trial)?;
    File::create(trial.join(LOCK))?;
    fs::write(trial.join(MARKER), MARKER_BYTES)?;
    for id in keyspaces(folder)? {
        let (from, to) = (keyspace_path(folder, id), keyspace_path(trial, id));
        fs::create_dir_all(to.join("tables"))?;
        for entry in fs::read_dir(&from)? {
            let entry = entry?;
            if entry.file_type()?.is_file() {
                fs::copy(entry.path(), to.join(entry.file_name()))?;
            }
        }
        let tables = from.join("tables");
        for entry in
            if tables.try_exists()? { Some(fs::read_dir(tables)?) } else { None }.into_iter().flatten()
        {
            let entry = entry?;
            let name = to.join("tables").join(entry.file_name());
            fs::hard_link(entry.path(), &name).or_else(|_| fs::copy(entry.path(), &name).map(drop))?;
        }
    }
    Ok(())
}
