//! The bytes of the log: segments, frames and entries (pictures in `docs/format.md`).
//!
//! A segment is a file; it begins with a [`Header`]. A frame is one group commit: entries of several shards under
//! one checksum. Frames are numbered without gaps through all segments of a worker. The checksum's seed comes from
//! the segment's own name, so frames that a reused file still holds from its former life are not taken for its own.

use std::ops::RangeInclusive;

use xxhash_rust::xxh3::{Xxh3, xxh3_64_with_seed};

use crate::{Position, ShardId};

/// The format that this version writes, and the only one so far.
pub const FORMAT: u32 = 1;
/// Bytes of a segment's header.
pub const HEADER_BYTES: usize = 64;
/// Bytes of a frame before its payload.
pub const FRAME_BYTES: usize = 32;
/// Bytes of an entry before its record.
pub const ENTRY_BYTES: usize = 24;
/// Frames begin at multiples of this.
const ALIGN: usize = 8;

const SEGMENT_MAGIC: [u8; 8] = *b"QUIPULOG";
const FRAME_MAGIC: u32 = u32::from_le_bytes(*b"QFRM");

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

/// Which segment this is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SegmentId {
    /// The store that it belongs to: a random number made with the folder.
    pub store: u64,
    /// The worker whose log it is part of.
    pub worker: u16,
    /// Rises by one with every segment of the worker, reused files included.
    pub number: u64,
}

impl SegmentId {
    fn seed(self) -> u64 {
        xxh3_64_with_seed(&self.number.to_le_bytes(), self.store ^ (u64::from(self.worker) << 48))
    }
}

/// What stands at the beginning of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Which segment this is.
    pub id: SegmentId,
    /// The number of its first frame. Frames with this number or above in earlier segments were never reported
    /// and do not count.
    pub first: u64,
}

/// Why bytes are not the expected header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoHeader {
    /// Zeros, torn, of a former life of the file, or damaged.
    Invalid,
    /// A sound header of a format that this version does not know.
    Format(u32),
}

impl Header {
    /// Its bytes.
    pub fn encode(self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..8].copy_from_slice(&SEGMENT_MAGIC);
        bytes[8..12].copy_from_slice(&FORMAT.to_le_bytes());
        bytes[12..16].copy_from_slice(&u32::from(self.id.worker).to_le_bytes());
        bytes[16..24].copy_from_slice(&self.id.store.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.id.number.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.first.to_le_bytes());
        let sum = xxh3_64_with_seed(&bytes[..56], 0);
        bytes[56..].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// A field of a sound header, whichever segment's it is.
    fn field(bytes: &[u8], at: usize) -> Option<u64> {
        let is_sound = bytes.get(..8)? == SEGMENT_MAGIC
            && xxh3_64_with_seed(&bytes[..56.min(bytes.len())], 0) == u64_at(bytes, 56)?;
        if is_sound { u64_at(bytes, at) } else { None }
    }

    /// The store that a segment belongs to, if these bytes begin with a sound header.
    pub(super) fn store_of(bytes: &[u8]) -> Option<u64> {
        Self::field(bytes, 16)
    }

    /// The number of a segment, if these bytes begin with a sound header.
    pub(super) fn number_of(bytes: &[u8]) -> Option<u64> {
        Self::field(bytes, 24)
    }

    /// The header of the segment `id`, if that is what these bytes begin with.
    pub fn decode(bytes: &[u8], id: SegmentId) -> Result<Self, NoHeader> {
        let parse = || {
            let sum = u64_at(bytes, 56)?;
            let sound = bytes[..8] == SEGMENT_MAGIC && xxh3_64_with_seed(&bytes[..56], 0) == sum;
            sound.then_some((u32_at(bytes, 8)?, u64_at(bytes, 32)?))
        };
        let (format, first) = parse().ok_or(NoHeader::Invalid)?;
        if format != FORMAT {
            return Err(NoHeader::Format(format));
        }
        let header = Self { id, first };
        if header.encode() == bytes[..HEADER_BYTES] { Ok(header) } else { Err(NoHeader::Invalid) }
    }
}

/// A frame, as found in a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame<'a> {
    /// Its number.
    pub sequence: u64,
    /// Every frame up to this one was durable when this one was written.
    pub synced: u64,
    /// Entries.
    pub payload: &'a [u8],
    /// How many bytes it takes in the segment.
    pub bytes: usize,
}

/// How the checksum is made. One way is right; the other is a flaw that tests must catch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Checksum {
    /// Over the head and the padded payload.
    #[default]
    Whole,
    /// Wrong: leaves out the length.
    #[cfg(feature = "testing")]
    WithoutLength,
}

impl Checksum {
    fn of(self, seed: u64, head: &[u8], padded: &[u8]) -> u64 {
        let mut sum = Xxh3::with_seed(seed);
        match self {
            Self::Whole => sum.update(head),
            #[cfg(feature = "testing")]
            Self::WithoutLength => {
                sum.update(&head[..4]);
                sum.update(&head[8..]);
            }
        }
        sum.update(padded);
        sum.digest()
    }
}

/// Bytes of a frame with so large a payload.
pub fn frame_bytes(payload: usize) -> usize {
    FRAME_BYTES + payload.next_multiple_of(ALIGN)
}

/// Appends a frame to `out`.
pub fn encode_frame(
    out: &mut Vec<u8>,
    id: SegmentId,
    sequence: u64,
    synced: u64,
    payload: &[u8],
    checksum: Checksum,
) {
    let start = out.len();
    let length = u32::try_from(payload.len()).expect("a payload is smaller than a segment");
    out.extend_from_slice(&FRAME_MAGIC.to_le_bytes());
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(&sequence.to_le_bytes());
    out.extend_from_slice(&synced.to_le_bytes());
    out.extend_from_slice(&[0; 8]);
    out.extend_from_slice(payload);
    out.resize(start + frame_bytes(payload.len()), 0);
    let (head, rest) = out[start..].split_at_mut(24);
    let (sum, padded) = rest.split_at_mut(8);
    sum.copy_from_slice(&checksum.of(id.seed(), head, padded).to_le_bytes());
}

/// The frame that begins at `at`, if a whole and sound one of this segment does.
pub fn decode_frame(bytes: &[u8], at: usize, id: SegmentId, checksum: Checksum) -> Option<Frame<'_>> {
    let bytes = bytes.get(at..)?;
    if u32_at(bytes, 0)? != FRAME_MAGIC {
        return None;
    }
    let length = usize::try_from(u32_at(bytes, 4)?).ok()?;
    let whole = bytes.get(..frame_bytes(length))?;
    let (head, rest) = whole.split_at(24);
    let (sum, padded) = rest.split_at(8);
    if checksum.of(id.seed(), head, padded) != u64_at(sum, 0)? {
        return None;
    }
    Some(Frame {
        sequence: u64_at(head, 8)?,
        synced: u64_at(head, 16)?,
        payload: &padded[..length],
        bytes: whole.len(),
    })
}

/// How large the payload of a frame is that begins at `at`, as its first bytes say.
pub(crate) fn payload_said(bytes: &[u8], at: usize) -> Option<usize> {
    let head = bytes.get(at..)?;
    if u32_at(head, 0)? == FRAME_MAGIC { usize::try_from(u32_at(head, 4)?).ok() } else { None }
}

/// Looks through everything from `from` on for sound frames with one of these numbers, in the order of the file.
/// Frames with other numbers, such as those of the file's former lives, are skipped unread.
pub fn find_frames(
    bytes: &[u8],
    from: usize,
    numbers: RangeInclusive<u64>,
    id: SegmentId,
    checksum: Checksum,
) -> impl Iterator<Item = (usize, Frame<'_>)> {
    (from.next_multiple_of(ALIGN)..bytes.len())
        .step_by(ALIGN)
        .filter(|&at| u32_at(bytes, at) == Some(FRAME_MAGIC))
        .filter(move |&at| u64_at(bytes, at + 8).is_some_and(|sequence| numbers.contains(&sequence)))
        .filter_map(move |at| Some((at, decode_frame(bytes, at, id, checksum)?)))
}

/// What an entry says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A shard's batch, at its position.
    Batch,
    /// A shard's checkpoint: the position up to which the table has everything.
    Checkpoint,
}

/// One thing in a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry<'a> {
    /// What it says.
    pub kind: Kind,
    /// Of which shard.
    pub shard: ShardId,
    /// Under which fence it was written.
    pub epoch: u64,
    /// Where in the shard's log.
    pub position: Position,
    /// The record of a batch.
    pub record: &'a [u8],
}

/// Appends an entry to a payload.
pub fn encode_entry(out: &mut Vec<u8>, entry: Entry<'_>) {
    let kind: u8 = match entry.kind {
        Kind::Batch => 1,
        Kind::Checkpoint => 2,
    };
    out.extend_from_slice(&[kind, 0]);
    out.extend_from_slice(&entry.shard.0.to_le_bytes());
    let length = u32::try_from(entry.record.len()).expect("a record is smaller than a segment");
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(&entry.epoch.to_le_bytes());
    out.extend_from_slice(&entry.position.0.to_le_bytes());
    out.extend_from_slice(entry.record);
}

/// The entries of a payload; `None` if it does not consist of entries. (A sound frame always does, unless it was
/// written by something else.)
pub fn decode_entries(mut payload: &[u8]) -> Option<Vec<Entry<'_>>> {
    let mut entries = Vec::new();
    while !payload.is_empty() {
        let kind = match payload.get(..2)? {
            [1, 0] => Kind::Batch,
            [2, 0] => Kind::Checkpoint,
            _ => return None,
        };
        let shard = ShardId(u16::from_le_bytes(payload.get(2..4)?.try_into().ok()?));
        let length = usize::try_from(u32_at(payload, 4)?).ok()?;
        let epoch = u64_at(payload, 8)?;
        let position = Position(u64_at(payload, 16)?);
        let record = payload.get(ENTRY_BYTES..)?.get(..length)?;
        entries.push(Entry { kind, shard, epoch, position, record });
        payload = &payload[ENTRY_BYTES + length..];
    }
    Some(entries)
}
