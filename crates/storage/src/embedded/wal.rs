//! One worker's log: segments, the frames that are not known to be durable, and what to do when a flush fails.
//!
//! The rule that keeps recovery simple: a segment's header names its first frame, and frames with that number or
//! above in *earlier* segments do not count. So whenever it is not certain what a file holds (a failed write, a
//! failed flush, a crash), the log begins a new segment at the first frame in doubt and writes it there again.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use super::{
    disk::{Disk, DiskFile},
    flaws::{Begin, Flaws, Letting, Reclaim},
    frame::{self, Entry, HEADER_BYTES, Header, Kind, SegmentId},
    notes::{Held, Notes, Piece},
    scan::{Files, Scanner, Segment, segment_name, spare_name},
};
use crate::{Position, ShardId, StorageError};

/// Files that are kept to be used again, for each worker.
const SPARES_MAX: usize = 2;

/// How a log is laid out.
#[derive(Debug, Clone, Copy)]
pub(super) struct Layout {
    pub store: u64,
    pub worker: u16,
    pub segment_bytes: u64,
    pub reserve_bytes: u64,
    pub flaws: Flaws,
}

impl Layout {
    /// How much of a file is reserved when so much of it is needed: in steps, and no more than a segment gets.
    fn reserve(&self, needed: u64) -> u64 {
        needed.next_multiple_of(self.reserve_bytes.max(1)).min(self.segment_bytes).max(needed)
    }
}

/// A frame that is not known to be durable.
#[derive(Debug)]
struct Pending {
    sequence: u64,
    payload: Vec<u8>,
    /// Reported committed (to be flushed later), or found by recovery: it must not be dropped any more.
    reported: bool,
}

#[derive(Debug)]
struct Active<F> {
    segment: Segment,
    file: F,
    /// Where the next frame goes.
    end: u64,
    /// Up to here the file is there, as zeros.
    reserved: u64,
}

/// What the log needs to know about shards while it writes.
pub(super) trait Shards {
    /// Entries that every new segment begins with: all checkpoints, in case their own segments go.
    fn snapshot(&self) -> Vec<u8>;
    /// Whether an unreported batch may still be stored.
    fn is_current(&self, shard: ShardId, epoch: u64) -> bool;
    /// A batch whose outcome was in doubt is stored now.
    fn stored(&self, shard: ShardId, position: Position);
}

#[derive(Debug)]
pub(super) struct Wal<D: Disk> {
    disk: Arc<D>,
    layout: Layout,
    /// Set when the log has been read and found whole.
    notes: Option<Arc<Notes<D>>>,
    sealed: VecDeque<Segment>,
    active: Option<Active<D::File>>,
    spares: Vec<String>,
    /// Files of attempts to begin a segment that failed.
    abandoned: Vec<String>,
    /// The highest segment number used.
    number: u64,
    /// The next frame's number.
    next: u64,
    /// Every frame up to this one is durable.
    synced: u64,
    pending: VecDeque<Pending>,
    /// A file was let go of, and that may not be durable yet.
    names_owed: bool,
    /// The active file is not trusted any more: the next thing to do is to begin another.
    doubtful: bool,
}

impl<D: Disk> Wal<D> {
    /// Reads what is there and shows every entry that counts. Nothing is written before [`Wal::resume`].
    pub(super) fn recover(
        disk: Arc<D>,
        layout: Layout,
        (files, noted): (Files, u64),
        visit: &mut dyn FnMut(Entry<'_>),
    ) -> Result<Self, StorageError> {
        let Layout { store, worker, flaws, .. } = layout;
        let scanner = Scanner { disk: disk.as_ref(), store, worker, flaws, until: u64::MAX, noted };
        let scanned = scanner.scan(&files.segments, visit)?;
        let pending: VecDeque<_> = scanned
            .tail
            .into_iter()
            .map(|frame| Pending { sequence: frame.sequence, payload: frame.payload, reported: true })
            .collect();
        Ok(Self {
            disk,
            layout,
            notes: None,
            active: None,
            spares: files.spares,
            abandoned: scanned.unbegun,
            number: files.segments.keys().next_back().copied().unwrap_or(0),
            next: pending.back().map_or(scanned.synced, |last| last.sequence).saturating_add(1),
            synced: scanned.synced,
            // What was read may be in the system's memory only. It is written again before anyone acts on it.
            doubtful: !scanned.segments.is_empty(),
            sealed: scanned.segments.into(),
            pending,
            names_owed: false,
        })
    }

    /// After recovery: begins a new segment if there is anything to continue.
    pub(super) fn resume(&mut self, shards: &dyn Shards, notes: Arc<Notes<D>>) -> Result<(), StorageError> {
        self.notes = Some(notes);
        if self.doubtful { self.begin_segment(shards, 0) } else { Ok(()) }
    }

    /// What belongs to this log. A segment whose frames all stand in the next one again is not named: its header may
    /// never have been flushed.
    fn held(&self) -> Held {
        let active = self.active.iter().map(|active| &active.segment);
        let all = self.sealed.iter().chain(active).filter(|segment| !segment.released);
        let all: Vec<&Segment> = all.collect();
        let is_in_force =
            |at: usize| all.get(at + 1).is_none_or(|next: &&Segment| all[at].first < next.first);
        let segments = (0..all.len()).filter(|at| is_in_force(*at)).map(|at| {
            let Segment { number, first, bytes, .. } = *all[at];
            Piece { number, first, bytes }
        });
        Held { synced: self.synced, segments: segments.collect() }
    }

    fn note(&self) {
        if let Some(notes) = &self.notes {
            notes.set(self.layout.worker, self.held());
        }
    }

    /// Whether nothing waits to be flushed.
    pub(super) fn is_clean(&self) -> bool {
        self.pending.is_empty() && !self.doubtful
    }

    /// Whether the file in use has taken everything so far.
    pub(super) fn is_trusted(&self) -> bool {
        !self.doubtful
    }

    /// The last frame that is durable.
    pub(super) fn synced(&self) -> u64 {
        self.synced
    }

    /// Bytes of the frames that are not flushed yet.
    pub(super) fn pending_bytes(&self) -> usize {
        self.pending.iter().map(|frame| frame.payload.len()).sum()
    }

    fn file_error(&self, doing: &str, name: &str, error: std::io::Error) -> StorageError {
        StorageError::io(format!("{doing} {}", self.disk.describe(name)), error)
    }

    /// Makes room for a payload. An error means that nothing of it is stored, or will be.
    pub(super) fn make_room(&mut self, shards: &dyn Shards, payload: usize) -> Result<(), StorageError> {
        let bytes = frame::frame_bytes(payload) as u64;
        if self.doubtful {
            return self.begin_segment(shards, bytes);
        }
        match &self.active {
            Some(active) if active.end + bytes <= active.reserved => Ok(()),
            Some(active) if active.end + bytes <= self.layout.segment_bytes => self.extend(bytes),
            Some(_) => {
                // Flushed first: the next segment's header says that everything before it is durable.
                self.sync(shards)?;
                self.begin_segment(shards, bytes)
            }
            None => self.begin_segment(shards, bytes),
        }
    }

    /// Reserves more of the file in use. An error means that it is as long as it was, or in doubt.
    fn extend(&mut self, bytes: u64) -> Result<(), StorageError> {
        let active = self.active.as_mut().expect("there is a file in use");
        let extended = match active.file.reserve(self.layout.reserve(active.end + bytes)) {
            // What is behind the frames does not count, whatever became of it: the file is as good as before.
            Err(error) => Err(error),
            Ok(reserved) => {
                let flushed = active.file.sync();
                // This flush was one of frames too.
                self.doubtful |= flushed.is_err();
                flushed.map(|()| active.reserved = reserved)
            }
        };
        let name = active.segment.name.clone();
        extended.map_err(|error| self.file_error("reserving space in", &name, error))
    }

    /// Writes a frame for which there is room. It is not durable before [`Wal::sync`]; an error in writing shows
    /// there. Returns its number.
    pub(super) fn write(&mut self, payload: Vec<u8>) -> u64 {
        let sequence = self.next;
        self.next += 1;
        let active = self.active.as_mut().expect("room was made");
        let mut bytes = Vec::with_capacity(frame::frame_bytes(payload.len()));
        let (id, checksum) = (id_of(self.layout, active.segment.number), self.layout.flaws.checksum);
        frame::encode_frame(&mut bytes, id, sequence, self.synced, &payload, checksum);
        note_newest(&mut active.segment.newest, &payload);
        // A failed write leaves the file in doubt, like a failed flush.
        self.doubtful |= active.file.write_at(active.end, &bytes).is_err();
        active.end += bytes.len() as u64;
        if let Some(notes) = &self.notes {
            notes.wrote(self.layout.worker, sequence);
        }
        self.pending.push_back(Pending { sequence, payload, reported: false });
        sequence
    }

    /// Makes all frames durable, in another segment if this one's file cannot be trusted. After an error frames
    /// that were not reported may or may not be stored.
    pub(super) fn sync(&mut self, shards: &dyn Shards) -> Result<(), StorageError> {
        if let (Some(active), false) = (&mut self.active, self.doubtful) {
            if self.pending.is_empty() {
                return Ok(());
            }
            if active.file.sync().is_ok() {
                self.synced = self.next - 1;
                active.segment.bytes = active.end;
                if let Some(notes) = &self.notes {
                    notes.advance(self.layout.worker, self.synced, active.end);
                }
                self.pending.clear();
                return Ok(());
            }
            // Flushing again would prove nothing: the system may have dropped the pages and forgotten the error.
            self.doubtful = true;
        }
        if self.doubtful { self.begin_segment(shards, 0) } else { Ok(()) }
    }

    /// The frames written so far are reported although they are not flushed: from now on they are not dropped.
    pub(super) fn report_all(&mut self) {
        for frame in &mut self.pending {
            frame.reported = true;
        }
    }

    /// Whether a frame that was reported waits to be flushed.
    pub(super) fn owes_reported(&self) -> bool {
        self.pending.iter().any(|frame| frame.reported)
    }

    /// Begins the next segment at the first frame that is not known to be durable, with room for `extra` bytes
    /// after the frames in doubt.
    fn begin_segment(&mut self, shards: &dyn Shards, extra: u64) -> Result<(), StorageError> {
        let sound = !self.doubtful;
        self.drop_superseded(shards);
        let snapshot = shards.snapshot();
        let mut needed = HEADER_BYTES + frame::frame_bytes(snapshot.len());
        needed += self.pending.iter().map(|frame| frame::frame_bytes(frame.payload.len())).sum::<usize>();
        let bytes = self.layout.reserve(needed as u64 + extra);
        self.number += 1;
        let number = self.number;
        let name = segment_name(self.layout.worker, number);
        let (mut file, reserved) = self.new_file(&name, bytes)?;
        self.abandoned.push(name.clone());
        let header = Header { id: id_of(self.layout, number), first: self.synced.saturating_add(1) };
        let mut newest = BTreeMap::new();
        let mut frames = Vec::with_capacity(needed);
        let all = self.pending.iter().map(|frame| (frame.sequence, &frame.payload));
        let snapshot_at = self.next;
        for (sequence, payload) in all.chain([(snapshot_at, &snapshot)]) {
            frame::encode_frame(
                &mut frames,
                header.id,
                sequence,
                self.synced,
                payload,
                self.layout.flaws.checksum,
            );
            note_newest(&mut newest, payload);
        }
        // Frames first, then the header: it takes the same frames in earlier segments out of force, and some of
        // those (found by recovery) were reported long ago.
        let (frames_at, header_at) = (HEADER_BYTES as u64, 0);
        let mut parts = [(frames_at, &frames[..]), (header_at, &header.encode()[..])];
        if self.layout.flaws.begin != Begin::FramesFirst {
            parts.reverse();
        }
        for (at, bytes) in parts {
            // Until the header is written the file in use is as good as before. Then it must not get another frame.
            self.doubtful |= at == header_at;
            let flushed = file.write_at(at, bytes).and_then(|()| file.sync());
            flushed.map_err(|error| self.file_error("beginning", &name, error))?;
        }

        for frame in self.pending.drain(..).filter(|frame| !frame.reported) {
            let entries = frame::decode_entries(&frame.payload).into_iter().flatten();
            for entry in entries.filter(|entry| entry.kind == Kind::Batch) {
                shards.stored(entry.shard, entry.position);
            }
        }
        let end = (HEADER_BYTES + frames.len()) as u64;
        let segment = Segment {
            name,
            number,
            first: header.first,
            bytes: end,
            newest,
            reusable: true,
            released: false,
        };
        let active = Active { segment, file, end, reserved };
        if let Some(before) = self.active.replace(active) {
            self.sealed.push_back(Segment { reusable: sound, ..before.segment });
        }
        self.synced = snapshot_at;
        self.next = snapshot_at + 1;
        self.doubtful = false;
        self.abandoned.pop();
        self.remove_abandoned();
        self.note();
        Ok(())
    }

    /// Takes batches that somebody else's fence has overtaken out of the frames in doubt.
    fn drop_superseded(&mut self, shards: &dyn Shards) {
        for frame in self.pending.iter_mut().filter(|frame| !frame.reported) {
            let mut kept = Vec::with_capacity(frame.payload.len());
            for entry in frame::decode_entries(&frame.payload).into_iter().flatten() {
                if shards.is_current(entry.shard, entry.epoch) {
                    frame::encode_entry(&mut kept, entry);
                }
            }
            frame.payload = kept;
        }
    }

    /// A file with so many bytes reserved or more, and how many.
    fn new_file(&mut self, name: &str, bytes: u64) -> Result<(D::File, u64), StorageError> {
        let made = match self.spares.pop() {
            Some(spare) => self.disk.rename(&spare, name).and_then(|()| self.disk.open(name)),
            None => self.disk.create(name),
        };
        let reserved = made.and_then(|mut file| {
            let reserved = file.reserve(bytes)?;
            file.sync()?;
            self.disk.sync_names()?;
            Ok((file, reserved))
        });
        reserved.map_err(|error| {
            self.abandoned.push(name.to_owned());
            self.remove_abandoned();
            self.file_error("reserving space for", name, error)
        })
    }

    /// They hold nothing that counts; one that cannot be removed now is removed later, or found empty.
    fn remove_abandoned(&mut self) {
        let disk = &self.disk;
        self.abandoned.retain(|name| disk.remove(name).is_err());
    }

    /// Lets go of the oldest segments that no shard needs any more: `passed` says whether a shard's checkpoint has
    /// reached a position. The newest segment goes too if `idle`, a worker that is no longer used.
    pub(super) fn reclaim(
        &mut self,
        passed: &dyn Fn(ShardId, Position) -> bool,
        idle: bool,
    ) -> Result<(), StorageError> {
        if idle && self.is_clean() {
            self.sealed.extend(self.active.take().map(|active| active.segment));
        }
        // A file that could not be removed would stand between segments that no longer follow each other.
        self.remove_abandoned();
        if !self.abandoned.is_empty() {
            return Ok(());
        }
        let is_free = |segment: &&Segment| {
            let mut shards = segment.newest.iter();
            match self.layout.flaws.reclaim {
                Reclaim::AllPassed => shards.all(|(&shard, &newest)| passed(shard, newest)),
                #[cfg(feature = "testing")]
                Reclaim::AnyPassed => shards.any(|(&shard, &newest)| passed(shard, newest)),
            }
        };
        let free = self.sealed.iter().take_while(is_free).count();
        if free > 0 && self.layout.flaws.letting == Letting::NotedFirst {
            self.release(free)?;
        }
        for _ in 0..free {
            let Some(segment) = self.sealed.front() else { break };
            let spare = (segment.reusable && !idle).then(|| spare_name(self.layout.worker, segment.number));
            let name = segment.name.clone();
            self.retire(&name, spare).map_err(|error| self.file_error("reclaiming", &name, error))?;
        }
        self.note();
        Ok(())
    }

    /// Notes durably that the oldest segments do not belong to the log any more: then their files may go.
    fn release(&mut self, oldest: usize) -> Result<(), StorageError> {
        self.sealed.iter_mut().take(oldest).for_each(|segment| segment.released = true);
        self.note();
        self.notes.as_ref().map_or(Ok(()), |notes| notes.write_both())
    }

    /// Lets go of the oldest segment's file; it becomes a spare if it may and more are wanted.
    fn retire(&mut self, name: &str, spare: Option<String>) -> std::io::Result<()> {
        // One after the other: a later segment must not go for good before an earlier one.
        if self.names_owed {
            self.disk.sync_names()?;
        }
        self.names_owed = true;
        match spare.filter(|_| self.spares.len() < SPARES_MAX) {
            Some(spare) => {
                self.disk.rename(name, &spare)?;
                self.spares.push(spare);
            }
            None => self.disk.remove(name)?,
        }
        self.sealed.pop_front();
        self.disk.sync_names()?;
        self.names_owed = false;
        Ok(())
    }

    /// How many segments hold records.
    pub(super) fn segments(&self) -> usize {
        self.sealed.len() + usize::from(self.active.is_some())
    }

    /// Shows the entries of all frames that are durable or reported, read from the files.
    pub(super) fn read(&self, visit: &mut dyn FnMut(Entry<'_>)) -> Result<(), StorageError> {
        let Layout { store, worker, flaws, .. } = self.layout;
        let until = self.synced + 1;
        let scanner = Scanner { disk: self.disk.as_ref(), store, worker, flaws, until, noted: 0 };
        let segments = self.sealed.iter().chain(self.active.iter().map(|active| &active.segment));
        scanner.scan(&segments.map(|segment| (segment.number, segment.name.clone())).collect(), visit)?;
        for frame in self.pending.iter().filter(|frame| frame.reported) {
            frame::decode_entries(&frame.payload).into_iter().flatten().for_each(&mut *visit);
        }
        Ok(())
    }
}

fn id_of(layout: Layout, number: u64) -> SegmentId {
    SegmentId { store: layout.store, worker: layout.worker, number }
}

fn note_newest(newest: &mut BTreeMap<ShardId, Position>, payload: &[u8]) {
    for entry in frame::decode_entries(payload).into_iter().flatten() {
        if entry.kind == Kind::Batch {
            let position = newest.entry(entry.shard).or_insert(entry.position);
            *position = entry.position.max(*position);
        }
    }
}
