//! What is left of a folder of which something is gone, and a log made of that.
//!
//! Of each shard the records count that follow each other without a gap after its checkpoint, and no later ones: the shard is
//! then what it was at some moment, like a copy that was made at that moment. So a repaired folder is treated like a copy: it
//! is not opened until it was restored.
//!
//! Order: the new log under another name; `FORMAT` says that a repair is under way; the damaged files get other names, which
//! they keep; the new log gets its name; `FORMAT` says that the folder was repaired. Until the first of these the folder is
//! unchanged, and after it a repair that was interrupted goes on.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    sync::Arc,
};

use super::{
    LogConfig,
    disk::{Disk, DiskFile},
    format::{Format, Wholeness},
    frame::{self, Checksum, Entry, HEADER_BYTES, Header, Kind, SegmentId},
    notes::{self, Note},
    opening::read_logs,
    scan::{Files, segment_name, sort_names},
    shards::Found,
};
use crate::{Position, Record, ShardId, StorageError};

/// The new log, until it gets its name.
const DRAFT: &str = "repaired.draft";
/// What is added to the names of files that count no more.
const ASIDE: &str = "damaged";
/// A new log is divided into frames of about this many bytes.
const FRAME_BYTES_AIM: usize = 1024 * 1024;

/// What is wrong with a folder, and what a repair would do about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Findings {
    /// What is missing or damaged, in words. Nothing: the folder is whole.
    pub wrong: Vec<String>,
    /// What a repair would lose, in words.
    pub lost: Vec<String>,
    /// What a repair would do.
    pub remedy: Remedy,
}

/// What can be done about a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Remedy {
    /// Nothing needs to be done.
    Whole,
    /// `FORMAT` is written again; nothing is lost.
    Format,
    /// The log is made anew of what is left of it. The folder is then like a copy, which has to be restored.
    Log,
    /// Nothing: the rows are gone.
    None,
}

/// What can be read of all logs.
struct Salvage {
    shards: BTreeMap<ShardId, Kept>,
    lost: Vec<String>,
}

/// What is left of a shard.
struct Kept {
    epoch: u64,
    checkpoint: Position,
    records: Vec<Record>,
}

/// The logs of a folder that may be damaged.
pub(super) struct Patient<D> {
    pub disk: Arc<D>,
    pub root: D,
    /// Are there rows?
    pub has_table: bool,
    /// What is wrong with them, in words.
    pub wrong_in_table: Vec<String>,
}

impl<D: Disk> Patient<D> {
    /// Looks at the folder and changes nothing.
    pub(super) fn examine(&self) -> Result<Findings, StorageError> {
        let whole = Findings { wrong: Vec::new(), lost: Vec::new(), remedy: Remedy::Whole };
        let names = self.list()?;
        let format = match Format::read(&self.root) {
            Err(error) if error.is_damage() => None,
            read => read?,
        };
        let Some(store) = format.map(|format| format.store).or_else(|| self.store(&names)) else {
            let wrong = vec!["nothing in it says which store it is".to_owned()];
            return Ok(Findings { wrong, remedy: Remedy::None, ..whole });
        };
        let mut wrong = Vec::new();
        if format.is_none() {
            wrong.push(format!("{} is gone or not sound", self.root.describe("FORMAT")));
        }
        let note = self.note(store, format)?;
        let is_noted = format.is_some_and(Format::has_notes);
        if !self.has_table && (is_noted || note.is_some()) {
            wrong.push("the table is gone, and with it all that the log does not hold any more".to_owned());
            return Ok(Findings { wrong, remedy: Remedy::None, ..whole });
        }
        if !self.wrong_in_table.is_empty() {
            wrong.extend(self.wrong_in_table.iter().cloned());
            wrong.push("a repair would lose these rows, which the log does not hold any more".to_owned());
            return Ok(Findings { wrong, remedy: Remedy::None, ..whole });
        }
        let is_unknown = is_noted && note.is_none();
        if is_unknown {
            wrong.push(format!("{} and {} are gone or not sound", notes::NAMES[0], notes::NAMES[1]));
        }
        let read = read_logs(&self.disk, store, note.as_ref(), LogConfig::default());
        let is_repairing = format.is_some_and(|format| format.wholeness == Wholeness::Repairing);
        match read {
            Ok(_) if wrong.is_empty() && !is_repairing => Ok(whole),
            Ok(_) if !is_unknown && !is_repairing => Ok(Findings { wrong, remedy: Remedy::Format, ..whole }),
            Err(error) if !error.is_damage() => Err(error),
            read => {
                match read {
                    Err(StorageError::Missing { missing }) => wrong.extend(missing),
                    Err(error) => wrong.push(error.to_string()),
                    Ok(_) if is_repairing => wrong.push("a repair was interrupted".to_owned()),
                    Ok(_) => {}
                }
                let mut lost = self.salvage(store, note.as_ref())?.lost;
                if is_unknown {
                    lost.push(
                        "how far the logs went is not known: what is gone at their ends is lost".to_owned(),
                    );
                }
                Ok(Findings { wrong, lost, remedy: Remedy::Log })
            }
        }
    }

    /// Does what [`Patient::examine`] says.
    pub(super) fn repair(&self) -> Result<Findings, StorageError> {
        let findings = self.examine()?;
        let names = self.list()?;
        let format = Format::read(&self.root).ok().flatten();
        let Some(store) = format.map(|format| format.store).or_else(|| self.store(&names)) else {
            return Ok(findings);
        };
        let note = self.note(store, format)?;
        match findings.remedy {
            Remedy::Whole | Remedy::None => {}
            Remedy::Format => {
                let plain = Format::without_notes(store, Wholeness::Whole);
                if note.is_some() { plain.with_notes() } else { plain }.write(&self.root)?;
            }
            Remedy::Log => {
                let repairing = Format::without_notes(store, Wholeness::Repairing);
                if format.is_none_or(|format| format.wholeness != Wholeness::Repairing) {
                    let salvage = self.salvage(store, note.as_ref())?;
                    self.write_draft(store, &salvage)
                        .map_err(|error| failed(self.disk.as_ref(), DRAFT, error))?;
                    repairing.write(&self.root)?;
                }
                self.replace().map_err(|error| failed(self.disk.as_ref(), DRAFT, error))?;
                Format::without_notes(store, Wholeness::Repaired).write(&self.root)?;
            }
        }
        Ok(findings)
    }

    /// What was noted of the logs, if that counts.
    fn note(&self, store: u64, format: Option<Format>) -> Result<Option<Note>, StorageError> {
        let noted = notes::noted(&self.root, store)?.filter(|_| format.is_none_or(Format::has_notes));
        Ok(noted.map(|noted| noted.logs))
    }

    fn list(&self) -> Result<Vec<String>, StorageError> {
        self.disk.list().map_err(|error| StorageError::io("listing the log's files", error))
    }

    /// The number of the store as a note or the segments say it.
    fn store(&self, names: &[String]) -> Option<u64> {
        notes::store_of(&self.root).or_else(|| {
            let files =
                sort_names(names.to_vec()).into_values().flat_map(|files| files.segments.into_values());
            files.into_iter().find_map(|name| {
                let bytes = self.disk.open(&name).and_then(|mut file| file.read_start(HEADER_BYTES)).ok()?;
                Header::store_of(&bytes)
            })
        })
    }

    fn salvage(&self, store: u64, note: Option<&Note>) -> Result<Salvage, StorageError> {
        let mut found: BTreeMap<ShardId, Found> = BTreeMap::new();
        let mut lost = Vec::new();
        let files = sort_names(self.list()?);
        let workers: BTreeSet<u16> =
            files.keys().chain(note.iter().flat_map(|note| note.keys())).copied().collect();
        for worker in workers {
            let held = note.and_then(|note| note.get(&worker));
            let required = held.and_then(|held| Some((held.segments.first()?.first, held.synced)));
            let none = Files::default();
            let segments = &files.get(&worker).unwrap_or(&none).segments;
            for (first, last) in self.salvage_worker((store, worker), segments, required, &mut found)? {
                lost.push(format!("the group commits {first} to {last} of worker {worker}"));
            }
        }
        let mut shards = BTreeMap::new();
        let mut orphans = BTreeMap::new();
        for (shard, found) in found {
            let (epoch, checkpoint) = (found.epoch, found.checkpoint);
            let mut records = found.resolve(checkpoint);
            let follows =
                |(at, record): &(usize, &Record)| record.position.0 == checkpoint.0 + 1 + *at as u64;
            let kept = records.iter().enumerate().take_while(follows).count();
            if kept < records.len() {
                orphans.insert(shard.0, records.len() - kept);
            }
            records.truncate(kept);
            shards.insert(shard, Kept { epoch, checkpoint, records });
        }
        if !orphans.is_empty() {
            let all: usize = orphans.values().sum();
            let shards: Vec<String> = orphans.keys().map(ToString::to_string).collect();
            lost.push(format!(
                "{all} later records of the shards {}, which follow on lost ones",
                shards.join(", ")
            ));
        }
        Ok(Salvage { shards, lost })
    }

    /// Shows all sound frames in force of a worker's files, and returns the numbers of those that are missing.
    fn salvage_worker(
        &self,
        (store, worker): (u64, u16),
        segments: &BTreeMap<u64, String>,
        required: Option<(u64, u64)>,
        found: &mut BTreeMap<ShardId, Found>,
    ) -> Result<Vec<(u64, u64)>, StorageError> {
        let mut present = BTreeSet::new();
        let (mut from, mut to) = required.unwrap_or((u64::MAX, 0));
        // Frames from a segment's first on do not count in earlier ones: so the latest is read first.
        let mut until = u64::MAX;
        for (&number, name) in segments.iter().rev() {
            let bytes = self.disk.open(name).and_then(|mut file| file.read_start(usize::MAX));
            let bytes = bytes.map_err(|error| failed(self.disk.as_ref(), name, error))?;
            let id = SegmentId { store, worker, number };
            for (_, frame) in frame::find_frames(&bytes, HEADER_BYTES, 0..=u64::MAX, id, Checksum::Whole) {
                if frame.sequence >= until || !present.insert(frame.sequence) {
                    continue;
                }
                to = to.max(frame.synced).max(frame.sequence);
                for entry in frame::decode_entries(frame.payload).into_iter().flatten() {
                    found.entry(entry.shard).or_default().add(entry);
                }
            }
            if let Ok(header) = Header::decode(&bytes, id) {
                until = until.min(header.first);
                from = if required.is_none() { from.min(header.first) } else { from };
                to = to.max(header.first.saturating_sub(1));
            }
        }
        let mut gaps = Vec::new();
        let mut expected = from;
        let past = to.saturating_add(1);
        for sequence in present.range(from.min(past)..past).copied().chain([past]) {
            if expected < sequence {
                gaps.push((expected, sequence - 1));
            }
            expected = sequence.saturating_add(1);
        }
        Ok(gaps)
    }

    /// Writes the log that is to take the place of all others.
    fn write_draft(&self, store: u64, salvage: &Salvage) -> io::Result<()> {
        let names = self.disk.list()?;
        let number = 1 + names.iter().filter_map(|name| number_of(name)).max().unwrap_or(0);
        let header = Header { id: SegmentId { store, worker: 0, number }, first: 1 };
        let mut payloads = vec![Vec::new()];
        for (&shard, Kept { epoch, checkpoint: position, .. }) in &salvage.shards {
            let entry =
                Entry { kind: Kind::Checkpoint, shard, epoch: *epoch, position: *position, record: &[] };
            frame::encode_entry(payloads.last_mut().expect("there is one"), entry);
        }
        for (&shard, Kept { epoch, records, .. }) in &salvage.shards {
            for Record { position, bytes: record } in records {
                if payloads.last().is_some_and(|last| last.len() > FRAME_BYTES_AIM) {
                    payloads.push(Vec::new());
                }
                let entry = Entry { kind: Kind::Batch, shard, epoch: *epoch, position: *position, record };
                frame::encode_entry(payloads.last_mut().expect("there is one"), entry);
            }
        }
        let mut bytes = header.encode().to_vec();
        for (sequence, payload) in (1..).zip(&payloads) {
            frame::encode_frame(&mut bytes, header.id, sequence, 0, payload, Checksum::Whole);
        }
        if names.iter().any(|name| name == DRAFT) {
            self.disk.remove(DRAFT)?;
        }
        let mut file = self.disk.create(DRAFT)?;
        file.write_at(0, &bytes)?;
        file.sync()?;
        self.disk.sync_names()
    }

    /// The draft takes the place of all logs. If there is no draft, it has done so.
    fn replace(&self) -> io::Result<()> {
        let mut names = self.disk.list()?;
        if !names.iter().any(|name| name == DRAFT) {
            return Ok(());
        }
        let header = self.disk.open(DRAFT)?.read_start(HEADER_BYTES)?;
        let number = Header::number_of(&header).ok_or(io::ErrorKind::InvalidData)?;
        for files in sort_names(names.clone()).into_values() {
            for name in files.segments.into_values() {
                let free = (1..).map(|count| format!("{name}.{ASIDE}-{count}"));
                let aside = free.into_iter().find(|aside| !names.contains(aside)).unwrap_or_default();
                self.disk.rename(&name, &aside)?;
                names.push(aside);
            }
        }
        self.disk.sync_names()?;
        self.disk.rename(DRAFT, &segment_name(0, number))?;
        self.disk.sync_names()
    }
}

/// The number of a segment, whatever became of it.
fn number_of(name: &str) -> Option<u64> {
    let (stem, _) = name.strip_prefix('w')?.split_once('.')?;
    stem.split_once('-')?.1.parse().ok()
}

fn failed<D: Disk>(disk: &D, name: &str, error: io::Error) -> StorageError {
    StorageError::io(format!("repairing {}", disk.describe(name)), error)
}
