//! What stands in the frames of a state file (the frames themselves are those of the embedded log).
//!
//! ```text
//!  0      1      2        4        8         16
//!  ┌──────┬──────┬────────┬────────┬─────────┬────────────────┐
//!  │ kind │ zero │ shard  │ length │ number  │ `length` bytes │
//!  └──────┴──────┴────────┴────────┴─────────┴────────────────┘
//!    1: a record of the log; `number` is its position
//!    2: a checkpoint, at the position `number`
//!    3: a row of the version `number`: │ slice, 4 │ length of the key, 2 │ key │ row; empty: deleted │
//!    4: slices of the shard below `number` are dropped
//! ```

use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::{Position, Row, ShardId, Slice, embedded::frame::SegmentId};

/// The format that this version writes: each frame is followed by a [mark](MARK_BYTES).
pub(super) const FORMAT: u32 = 2;
/// The format of earlier versions, without marks.
const FORMAT_UNMARKED: u32 = 1;
/// Bytes of what follows a frame: it shows, with the zeros that the frame was written over, how much of it was written.
pub(super) const MARK_BYTES: usize = 8;
const MARK_MAGIC: [u8; 4] = *b"QEND";
/// Bytes of the file's header.
pub(super) const HEADER_BYTES: usize = 64;

const MAGIC: [u8; 8] = *b"QUIPUONE";
const ENTRY_BYTES: usize = 16;
const ROW_HEAD_BYTES: usize = 6;

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

/// What follows a frame with so large a payload.
pub(super) fn mark(payload: usize) -> [u8; MARK_BYTES] {
    let length = u32::try_from(payload).expect("a payload is smaller than a file");
    let mut mark = [0; MARK_BYTES];
    mark[..4].copy_from_slice(&MARK_MAGIC);
    mark[4..].copy_from_slice(&length.to_le_bytes());
    mark
}

/// How large the payload is before this mark, if it is one.
pub(super) fn marked(bytes: &[u8]) -> Option<usize> {
    let (magic, _) = bytes.split_at_checked(4)?;
    if magic == MARK_MAGIC { usize::try_from(u32_at(bytes, 4)?).ok() } else { None }
}

/// What stands at the beginning of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    /// Drawn when the state was made. With the number it is the seed of all checksums.
    pub(super) state: u64,
    /// How often the file was written anew.
    pub(super) number: u64,
    /// So many frames were on the device before the file got its name.
    pub(super) first_frames: u64,
    /// Are frames followed by marks?
    pub(super) has_marks: bool,
}

/// Why bytes are no header.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NoHeader {
    Damaged,
    OtherFile,
    Format(u32),
}

impl Header {
    /// The name under which frames are sealed.
    pub(super) fn id(self) -> SegmentId {
        SegmentId { store: self.state, worker: 0, number: self.number }
    }

    pub(super) fn encode(self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        let format = if self.has_marks { FORMAT } else { FORMAT_UNMARKED };
        bytes[8..12].copy_from_slice(&format.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.state.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.number.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.first_frames.to_le_bytes());
        let sum = xxh3_64_with_seed(&bytes[..56], 0);
        bytes[56..].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self, NoHeader> {
        if bytes.get(..8) != Some(&MAGIC) {
            return Err(NoHeader::OtherFile);
        }
        let head = bytes.get(..56).ok_or(NoHeader::Damaged)?;
        let parts = || Some((u64_at(bytes, 56)?, u32_at(bytes, 8)?));
        let (sum, format) = parts().ok_or(NoHeader::Damaged)?;
        if xxh3_64_with_seed(head, 0) != sum {
            return Err(NoHeader::Damaged);
        }
        if ![FORMAT_UNMARKED, FORMAT].contains(&format) {
            return Err(NoHeader::Format(format));
        }
        let fields = || {
            Some(Self {
                state: u64_at(bytes, 16)?,
                number: u64_at(bytes, 24)?,
                first_frames: u64_at(bytes, 32)?,
                has_marks: format == FORMAT,
            })
        };
        fields().ok_or(NoHeader::Damaged)
    }
}

/// One thing in a frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Entry<'a> {
    Record { shard: ShardId, position: Position, bytes: &'a [u8] },
    Checkpoint { shard: ShardId, position: Position },
    Row { shard: ShardId, slice: Slice, key: &'a [u8], version: u64, bytes: &'a [u8] },
    Floor { shard: ShardId, slice: Slice },
}

impl<'a> Entry<'a> {
    /// A row of the table.
    pub(super) fn row(shard: ShardId, slice: Slice, key: &'a [u8], row: &'a Row) -> Self {
        Self::Row { shard, slice, key, version: row.version, bytes: &row.bytes }
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        match *self {
            Self::Record { shard, position, bytes } => {
                head(out, 1, shard, bytes.len(), position.0);
                out.extend_from_slice(bytes);
            }
            Self::Checkpoint { shard, position } => head(out, 2, shard, 0, position.0),
            Self::Row { shard, slice, key, version, bytes } => {
                head(out, 3, shard, ROW_HEAD_BYTES + key.len() + bytes.len(), version);
                let key_bytes = u16::try_from(key.len()).expect("keys are checked to be shorter");
                out.extend_from_slice(&slice.0.to_le_bytes());
                out.extend_from_slice(&key_bytes.to_le_bytes());
                out.extend_from_slice(key);
                out.extend_from_slice(bytes);
            }
            Self::Floor { shard, slice } => head(out, 4, shard, 0, u64::from(slice.0)),
        }
    }

    fn decode(kind: u8, shard: ShardId, number: u64, bytes: &'a [u8]) -> Option<Self> {
        match (kind, bytes) {
            (1, _) => Some(Self::Record { shard, position: Position(number), bytes }),
            (2, []) => Some(Self::Checkpoint { shard, position: Position(number) }),
            (3, _) => {
                let slice = Slice(u32_at(bytes, 0)?);
                let (key, bytes) =
                    bytes.get(ROW_HEAD_BYTES..)?.split_at_checked(usize::from(u16_at(bytes, 4)?))?;
                Some(Self::Row { shard, slice, key, version: number, bytes })
            }
            (4, []) => Some(Self::Floor { shard, slice: Slice(u32::try_from(number).ok()?) }),
            _ => None,
        }
    }
}

fn head(out: &mut Vec<u8>, kind: u8, shard: ShardId, length: usize, number: u64) {
    let length = u32::try_from(length).expect("records and rows are checked to be smaller");
    out.extend_from_slice(&[kind, 0]);
    out.extend_from_slice(&shard.0.to_le_bytes());
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(&number.to_le_bytes());
}

/// The entries of a payload; `None` if it does not consist of entries.
pub(super) fn decode_entries(mut payload: &[u8]) -> Option<Vec<Entry<'_>>> {
    let mut entries = Vec::new();
    while !payload.is_empty() {
        let [kind, 0] = *payload.get(..2)? else { return None };
        let shard = ShardId(u16_at(payload, 2)?);
        let length = usize::try_from(u32_at(payload, 4)?).ok()?;
        let bytes = payload.get(ENTRY_BYTES..)?.get(..length)?;
        entries.push(Entry::decode(kind, shard, u64_at(payload, 8)?, bytes)?);
        payload = &payload[ENTRY_BYTES + length..];
    }
    Some(entries)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_come_back_and_others_do_not() {
        let row = Row { version: 9, bytes: b"row".to_vec() };
        let entries = [
            Entry::Record { shard: ShardId(1), position: Position(2), bytes: b"" },
            Entry::Checkpoint { shard: ShardId(300), position: Position(7) },
            Entry::row(ShardId(3), Slice(4), b"key", &row),
            Entry::Row { shard: ShardId(3), slice: Slice(0), key: b"", version: 1, bytes: b"" },
            Entry::Floor { shard: ShardId(5), slice: Slice(6) },
        ];
        let mut payload = Vec::new();
        entries.iter().for_each(|entry| entry.encode(&mut payload));
        assert_eq!(decode_entries(&payload).as_deref(), Some(&entries[..]));
        for cut in 1..ENTRY_BYTES {
            assert_eq!(decode_entries(&payload[..payload.len() - cut]), None);
        }
        for kind in [0, 5, 255] {
            payload[0] = kind;
            assert_eq!(decode_entries(&payload), None);
        }
    }

    #[test]
    fn a_header_tells_another_file_from_damage_and_from_another_format() {
        let header = Header { state: 1, number: 2, first_frames: 3, has_marks: true };
        let unmarked = Header { has_marks: false, ..header };
        assert_eq!(Header::decode(&unmarked.encode()), Ok(unmarked));
        let bytes = header.encode();
        assert_eq!(Header::decode(&bytes), Ok(header));
        assert_eq!(
            Header::decode(b"#!/bin/sh and more than a header has, and more than a header has"),
            Err(NoHeader::OtherFile)
        );
        assert_eq!(Header::decode(&bytes[..60]), Err(NoHeader::Damaged));
        let mut other = bytes;
        other[20] ^= 1;
        assert_eq!(Header::decode(&other), Err(NoHeader::Damaged));
        let mut newer = bytes;
        newer[8] = 3;
        let sum = xxh3_64_with_seed(&newer[..56], 0);
        newer[56..].copy_from_slice(&sum.to_le_bytes());
        assert_eq!(Header::decode(&newer), Err(NoHeader::Format(3)));
    }
}
