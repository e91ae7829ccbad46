//! Reading a worker's segments: which frames count, and where the log ends.
//!
//! A crash may leave the frames that were not yet flushed torn, in part, or missing: a *torn tail*, which is normal
//! and was never reported. Anything else that is not sound is damage to committed data: an error, never a guess.

use std::collections::BTreeMap;

use super::{
    disk::{Disk, DiskFile},
    flaws::{Flaws, Gaps},
    frame::{self, Entry, Frame, HEADER_BYTES, Header, Kind, NoHeader, SegmentId},
    notes::Held,
};
use crate::{Position, ShardId, StorageError};

/// A segment that is no longer written to.
#[derive(Debug)]
pub(super) struct Segment {
    pub name: String,
    pub number: u64,
    /// The number of its first frame.
    pub first: u64,
    /// Up to here it holds frames that were flushed.
    pub bytes: u64,
    /// The newest position of each shard that has a batch in it.
    pub newest: BTreeMap<ShardId, Position>,
    /// Whether every flush of the file went well, as far as this process knows. A file of which that is not known
    /// is not used again: what the system still holds of it may be older than what it says.
    pub reusable: bool,
    /// It is noted that the segment does not belong to the log any more: it is not noted again.
    pub released: bool,
}

/// What the files of one worker are, by their names.
#[derive(Debug, Default)]
pub(super) struct Files {
    /// Segments by number.
    pub segments: BTreeMap<u64, String>,
    /// Files that wait to be used again.
    pub spares: Vec<String>,
}

pub(super) fn segment_name(worker: u16, number: u64) -> String {
    format!("w{worker}-{number:010}.log")
}

pub(super) fn spare_name(worker: u16, number: u64) -> String {
    format!("w{worker}-{number:010}.spare")
}

/// Sorts the names of a folder by worker. Names that are not ours are left alone.
pub(super) fn sort_names(names: Vec<String>) -> BTreeMap<u16, Files> {
    let mut workers: BTreeMap<u16, Files> = BTreeMap::new();
    for name in names {
        let parse = || {
            let (stem, kind) = name.strip_prefix('w')?.split_once('.')?;
            let (worker, number) = stem.split_once('-')?;
            Some((worker.parse::<u16>().ok()?, number.parse::<u64>().ok()?, kind == "log", kind == "spare"))
        };
        match parse() {
            Some((worker, number, true, _)) => {
                workers.entry(worker).or_default().segments.insert(number, name);
            }
            Some((worker, _, _, true)) => workers.entry(worker).or_default().spares.push(name),
            _ => {}
        }
    }
    workers
}

/// A frame that may not have been flushed before the crash.
#[derive(Debug)]
pub(super) struct TailFrame {
    pub sequence: u64,
    pub payload: Vec<u8>,
}

/// What one worker's log holds.
#[derive(Debug, Default)]
pub(super) struct Scanned {
    pub segments: Vec<Segment>,
    /// Files whose header was never written: nothing in them counts.
    pub unbegun: Vec<String>,
    /// The last frame that was certainly flushed.
    pub synced: u64,
    /// The frames after it.
    pub tail: Vec<TailFrame>,
}

/// Where and how to scan.
pub(super) struct Scanner<'a, D> {
    pub disk: &'a D,
    pub store: u64,
    pub worker: u16,
    pub flaws: Flaws,
    /// Frames from this number on are not looked at.
    pub until: u64,
    /// Frames up to this one are noted to have been flushed.
    pub noted: u64,
}

/// A segment with a sound header.
struct Begun {
    name: String,
    header: Header,
}

impl<D: Disk> Scanner<'_, D> {
    /// Reads all segments in order and shows every entry that counts to `visit`.
    pub(super) fn scan(
        &self,
        segments: &BTreeMap<u64, String>,
        visit: &mut dyn FnMut(Entry<'_>),
    ) -> Result<Scanned, StorageError> {
        let mut begun = Vec::new();
        let mut scanned = Scanned::default();
        for (&number, name) in segments {
            match self.header(number, name)? {
                Some(header) => begun.push(Begun { name: name.clone(), header }),
                None => scanned.unbegun.push(name.clone()),
            }
        }
        for (at, segment) in begun.iter().enumerate() {
            let next = begun.get(at + 1).map(|next| next.header.first);
            self.segment(segment, next, visit, &mut scanned)?;
        }
        // A file without a header between two others is harmless: their frames have just been found to follow
        // each other. Behind them all it must not have begun.
        let last = begun.last().map_or(0, |last| last.header.id.number);
        for (&number, name) in segments.range(last + 1..) {
            self.must_be_unbegun(number, name)?;
        }
        Ok(scanned)
    }

    fn id(&self, number: u64) -> SegmentId {
        SegmentId { store: self.store, worker: self.worker, number }
    }

    /// What is gone of the segments that were noted, in words.
    pub(super) fn missing(
        &self,
        held: &Held,
        segments: &BTreeMap<u64, String>,
    ) -> Result<Vec<String>, StorageError> {
        let mut missing = Vec::new();
        for (at, piece) in held.segments.iter().enumerate() {
            let (first, last) = held.frames(at);
            let held = format!("it held the group commits {first} to {last} of worker {}", self.worker);
            let name = segment_name(self.worker, piece.number);
            let file = self.disk.describe(&name);
            if !segments.contains_key(&piece.number) {
                missing.push(format!("{file} is gone: {held}"));
                continue;
            }
            let length = self.disk.open(&name).and_then(|mut file| file.length());
            let length = length.map_err(|error| StorageError::io(format!("reading {file}"), error))?;
            if length < piece.bytes {
                missing.push(format!("{file} has {length} bytes, and had {}: {held}", piece.bytes));
            } else if self.header(piece.number, &name)?.is_none() {
                missing.push(format!("{file} has no sound header any more: {held}"));
            }
        }
        Ok(missing)
    }

    fn read(&self, name: &str, bytes: usize) -> Result<Vec<u8>, StorageError> {
        let read = self.disk.open(name).and_then(|mut file| file.read_start(bytes));
        read.map_err(|error| StorageError::io(format!("reading {}", self.disk.describe(name)), error))
    }

    fn corrupt(&self, name: &str, offset: usize, why: impl Into<String>) -> StorageError {
        StorageError::Corrupt { file: self.disk.describe(name), offset: offset as u64, why: why.into() }
    }

    fn header(&self, number: u64, name: &str) -> Result<Option<Header>, StorageError> {
        match Header::decode(&self.read(name, HEADER_BYTES)?, self.id(number)) {
            Ok(header) => Ok(Some(header)),
            Err(NoHeader::Invalid) => Ok(None),
            Err(NoHeader::Format(found)) => {
                let file = self.disk.describe(name);
                Err(StorageError::UnknownFormat { file, found, known: frame::FORMAT })
            }
        }
    }

    /// The first frames of a segment are flushed before its header. Only if later ones are there, which tell that the
    /// first were flushed, was there a header, and it is damaged.
    fn must_be_unbegun(&self, number: u64, name: &str) -> Result<(), StorageError> {
        let bytes = self.read(name, usize::MAX)?;
        let id = self.id(number);
        let frames = || frame::find_frames(&bytes, HEADER_BYTES, 0..=u64::MAX, id, self.flaws.checksum);
        let first = frames().map(|(_, frame)| frame.sequence).min().unwrap_or(u64::MAX);
        if frames().any(|(_, frame)| frame.synced >= first) {
            return Err(self.corrupt(name, 0, "its header is not sound, but there are frames behind it"));
        }
        Ok(())
    }

    /// Takes the frames of one segment up to the first of the next one.
    fn segment(
        &self,
        segment: &Begun,
        next: Option<u64>,
        visit: &mut dyn FnMut(Entry<'_>),
        scanned: &mut Scanned,
    ) -> Result<(), StorageError> {
        let Begun { name, header } = segment;
        let bytes = self.read(name, usize::MAX)?;
        let until = next.unwrap_or(u64::MAX).min(self.until);
        let (frames, end) = self.frames(&bytes, *header, until);
        let expected = header.first.saturating_add(frames.len() as u64);
        self.check_end(name, &bytes, *header, (end, expected), next)?;

        // Frames before a segment's first were flushed before the segment began; so was what a later frame tells.
        let told = frames.iter().map(|frame| frame.synced).max().unwrap_or(0);
        scanned.synced = told.max(header.first.saturating_sub(1)).max(scanned.synced);
        let last = next.is_none();
        let mut newest = BTreeMap::new();
        let mut flushed = HEADER_BYTES;
        for frame in frames {
            if frame.sequence <= scanned.synced {
                flushed += frame.bytes;
            }
            let entries = frame::decode_entries(frame.payload).ok_or_else(|| {
                self.corrupt(name, end, "a sound frame holds something that is not an entry")
            })?;
            let in_tail = last && frame.sequence > scanned.synced;
            for entry in entries {
                if entry.kind == Kind::Batch && !in_tail {
                    let position = newest.entry(entry.shard).or_insert(entry.position);
                    *position = entry.position.max(*position);
                }
                visit(entry);
            }
            if in_tail {
                scanned.tail.push(TailFrame { sequence: frame.sequence, payload: frame.payload.to_vec() });
            }
        }
        scanned.segments.push(Segment {
            name: name.clone(),
            number: header.id.number,
            first: header.first,
            bytes: flushed as u64,
            newest,
            reusable: false,
            released: false,
        });
        Ok(())
    }

    /// The sound frames that follow each other from the header on, and where they end.
    fn frames<'b>(&self, bytes: &'b [u8], header: Header, until: u64) -> (Vec<Frame<'b>>, usize) {
        let checksum = self.flaws.checksum;
        let mut frames = Vec::new();
        let mut at = HEADER_BYTES;
        let mut expected = header.first;
        while expected < until {
            let found = match frame::decode_frame(bytes, at, header.id, checksum) {
                Some(frame) if frame.sequence == expected => Some((at, frame)),
                _ => self.flaws.gaps.skip(bytes, at, expected, header.id, checksum),
            };
            let Some((start, frame)) = found else { break };
            at = start + frame.bytes;
            expected = frame.sequence.saturating_add(1);
            frames.push(frame);
        }
        (frames, at)
    }

    /// Tells a torn tail from damage, where the sound frames end.
    fn check_end(
        &self,
        name: &str,
        bytes: &[u8],
        header: Header,
        (end, expected): (usize, u64),
        next: Option<u64>,
    ) -> Result<(), StorageError> {
        if self.flaws.gaps != Gaps::Refused {
            return Ok(());
        }
        // How far the frames must go: to the next segment's first, or as far as a running log or a note knows they do.
        let known = if self.until == u64::MAX { self.noted.saturating_add(1) } else { self.until };
        let required = next.map_or(known, |next| next.min(self.until));
        if expected < required {
            let why = format!("frames {expected} to {} were committed and are not sound", required - 1);
            return Err(self.corrupt(name, end, why));
        }
        if next.is_some() || expected >= self.until {
            return Ok(());
        }
        let numbers = expected..=expected.saturating_add(bytes.len() as u64);
        let told = frame::find_frames(bytes, end, numbers, header.id, self.flaws.checksum)
            .map(|(_, frame)| frame.synced)
            .max();
        match told {
            Some(told) if told >= expected => {
                let why = format!("frame {expected} is not sound, but a later one tells that it was flushed");
                Err(self.corrupt(name, end, why))
            }
            _ => Ok(()),
        }
    }
}
