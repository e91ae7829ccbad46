//! Reading a state file: what it says, and whether its end is one that a crash leaves.
//!
//! A frame is written over zeros, in one go, when the one before it is on the device. A disk writes sectors whole or not at
//! all, so a write that a crash has torn leaves zeros in at least one sector that the frame covers. A frame that is not sound
//! although it was written in all its sectors was damaged later. How far it goes is said twice, at its beginning and in the
//! mark behind it. What this does not find is said in `docs/format.md`.

use std::ops::Range;

use super::{
    entry::{self, FORMAT, HEADER_BYTES, Header, MARK_BYTES, NoHeader},
    image::Image,
};
use crate::{
    StorageError,
    embedded::frame::{self, Checksum},
};

/// A disk writes so many bytes whole or not at all, at least.
const SECTOR_BYTES: usize = 512;
/// So much is reserved at a time, in bytes: what is written within has its place on the disk.
pub(super) const RESERVE_BYTES: u64 = 16 * 1024;
/// Frames begin at multiples of this.
const ALIGN: usize = 8;

/// What is made of a last frame that is not sound. One way is right; the other is a flaw that tests must catch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Ending {
    /// It is judged whether a crash can have left it.
    #[default]
    Judged,
    /// Wrong: it is taken for what a crash has left, whatever it is.
    #[cfg(feature = "testing")]
    TakenForTorn,
}

/// A file that was read.
pub(super) struct Read {
    pub header: Header,
    pub image: Image,
    pub end: usize,
    pub first_bytes: usize,
    pub sequence: u64,
    /// Where frames begin that nothing tells to be on the device.
    pub unsure_from: usize,
    pub is_torn: bool,
}

/// Why a file cannot be read.
pub(super) enum Unreadable {
    Corrupt { offset: usize, why: String },
    Format(u32),
    Image(StorageError),
}

impl Unreadable {
    pub(super) fn of(self, file: &str) -> StorageError {
        let file = file.to_owned();
        match self {
            Self::Corrupt { offset, why } => StorageError::Corrupt { file, offset: offset as u64, why },
            Self::Format(found) => StorageError::UnknownFormat { file, found, known: FORMAT },
            Self::Image(error) => error,
        }
    }
}

fn corrupt(offset: usize, why: impl Into<String>) -> Unreadable {
    Unreadable::Corrupt { offset, why: why.into() }
}

/// Reads it all, or says why that cannot be.
pub(super) fn read(bytes: &[u8], ending: Ending) -> Result<Read, Unreadable> {
    let (mut read, stopped) = read_front(bytes)?;
    if let Some(why) = stopped {
        return Err(why);
    }
    let Read { header, end, sequence, .. } = read;
    if sequence == 0 {
        return Err(corrupt(end, "it has a header and nothing else, and had more when it was made"));
    }
    if sequence < header.first_frames {
        return Err(corrupt(end, format!("frame {} was stored and is not sound", sequence + 1)));
    }
    let later = sequence + 1..=sequence.saturating_add(bytes.len() as u64);
    let told = frame::find_frames(bytes, end, later, header.id(), Checksum::Whole);
    if told.map(|(_, frame)| frame.synced).max().is_some_and(|told| told > sequence) {
        let why = format!("frame {} is not sound, but a later one tells that it was stored", sequence + 1);
        return Err(corrupt(end, why));
    }
    read.is_torn = bytes[end.min(bytes.len())..].iter().any(|byte| *byte != 0);
    let is_judged = ending == Ending::Judged;
    // Before a frame is written, space is reserved up to such a multiple, and flushed.
    if is_judged && (bytes.len() as u64) < (end as u64).next_multiple_of(RESERVE_BYTES) {
        return Err(corrupt(bytes.len(), "it ends here, and was longer"));
    }
    if is_judged && (end > bytes.len() || (read.is_torn && was_written(bytes, end, header.has_marks))) {
        return Err(corrupt(end, format!("frame {} was written and is not sound", sequence + 1)));
    }
    Ok(read)
}

/// Reads as far as frames are sound and follow each other, and says why it went no further, if that is not plain damage.
pub(super) fn read_front(bytes: &[u8]) -> Result<(Read, Option<Unreadable>), Unreadable> {
    let header = Header::decode(bytes).map_err(|why| match why {
        NoHeader::Format(found) => Unreadable::Format(found),
        NoHeader::Damaged => corrupt(0, "its header is not sound"),
        NoHeader::OtherFile => corrupt(0, "it is no state file: it begins with something else"),
    })?;
    let mark_bytes = if header.has_marks { MARK_BYTES } else { 0 };
    let (image, end) = (Image::default(), HEADER_BYTES);
    let mut read =
        Read { header, image, end, first_bytes: end, sequence: 0, unsure_from: end, is_torn: false };
    while let Some(frame) = frame::decode_frame(bytes, read.end, header.id(), Checksum::Whole) {
        if frame.sequence != read.sequence + 1 {
            break;
        }
        let Some(entries) = entry::decode_entries(frame.payload) else {
            let why = corrupt(read.end, "a sound frame holds something that is not an entry");
            return Ok((read, Some(why)));
        };
        if let Err(error) = entries.iter().try_for_each(|entry| read.image.apply(entry)) {
            return Ok((read, Some(Unreadable::Image(error))));
        }
        read.sequence = frame.sequence;
        // Only the last frame may not have been flushed, unless it is one of those that the file began with.
        let is_first = read.sequence <= header.first_frames;
        read.unsure_from = read.end;
        read.end += frame.bytes + mark_bytes;
        if is_first {
            (read.first_bytes, read.unsure_from) = (read.end, read.end);
        }
    }
    Ok((read, None))
}

/// Was the frame at `at`, which is not sound, written in all its sectors?
fn was_written(bytes: &[u8], at: usize, has_marks: bool) -> bool {
    let mark_bytes = if has_marks { MARK_BYTES } else { 0 };
    let extent = |payload: usize| at + frame::frame_bytes(payload) + mark_bytes;
    let by_mark = || {
        // The last thing that is not zero, if it stands where it says.
        let last = bytes.iter().rposition(|byte| *byte != 0)?;
        let mark_at = last - last % ALIGN;
        let end = extent(entry::marked(&bytes[mark_at..])?);
        (end == mark_at + MARK_BYTES).then_some(end)
    };
    let by_head = || frame::payload_said(bytes, at).map(extent).filter(|end| *end <= bytes.len());
    // Where neither says it, the first sector alone: a frame never begins with zeros.
    let end = has_marks.then(by_mark).flatten().or_else(by_head).unwrap_or(at + 1);
    pieces(at..end).all(|piece| bytes[piece].iter().any(|byte| *byte != 0))
}

/// Divides a part of a file as its sectors do.
fn pieces(part: Range<usize>) -> impl Iterator<Item = Range<usize>> {
    let first = part.start / SECTOR_BYTES;
    let sectors = part.end.div_ceil(SECTOR_BYTES).saturating_sub(first);
    (first..first + sectors).map(move |sector| {
        let (start, end) = (sector * SECTOR_BYTES, (sector + 1) * SECTOR_BYTES);
        start.max(part.start)..end.min(part.end)
    })
}
