//! A piece of a stream on its way out. Its bytes are written straight from the counters, and once for all peers: under
//! load this is most of what replication costs a site.

use std::sync::{Arc, OnceLock};

use minicbor::{Decode, Encode, Encoder};
use quipu_crdt::Pn;

use super::message::{AheadRow, Part, WireRow};
use crate::{SiteId, entry::Entry};

/// What stands before and after the rows, at most, if there are no entries.
const FRAME_BYTES_MAX: usize = 64;
/// So many bytes are set aside for a row.
const ROW_BYTES_USUAL: usize = 48;

/// Kinds of values in CBOR, as they stand in the high bits of the first byte.
const NUMBER: u8 = 0 << 5;
const BYTES: u8 = 2 << 5;
const ARRAY: u8 = 4 << 5;

/// A piece of a stream in a message: one that was read, or one that was written here and may go to several peers.
#[derive(Debug, Clone)]
pub(crate) enum SharedPart {
    Read(Box<Part>),
    Written(Arc<WrittenPart>),
}

/// A piece of a stream as bytes.
#[derive(Debug)]
pub(crate) struct WrittenPart {
    origin: SiteId,
    after: u64,
    to: u64,
    bytes: Vec<u8>,
    /// For whoever takes it in without a link between.
    read: OnceLock<Part>,
}

impl SharedPart {
    pub(crate) fn origin(&self) -> SiteId {
        match self {
            Self::Read(part) => part.origin,
            Self::Written(part) => part.origin,
        }
    }

    /// The position that it begins after.
    pub(crate) fn after(&self) -> u64 {
        match self {
            Self::Read(part) => part.from,
            Self::Written(part) => part.after,
        }
    }

    /// The position that it goes to.
    pub(crate) fn to(&self) -> u64 {
        match self {
            Self::Read(part) => part.to,
            Self::Written(part) => part.to,
        }
    }

    pub(crate) fn part(&self) -> &Part {
        match self {
            Self::Read(part) => part,
            Self::Written(part) => part.read.get_or_init(|| part.read()),
        }
    }

    /// What was written is read, as at the other end of a link.
    pub(crate) fn arrive(&mut self) -> Result<(), minicbor::decode::Error> {
        if let Self::Written(part) = self {
            *self = Self::Read(Box::new(minicbor::decode(&part.bytes)?));
        }
        Ok(())
    }

    pub(crate) fn into_part(self) -> Part {
        match self {
            Self::Read(part) => *part,
            Self::Written(part) => part.read.get().cloned().unwrap_or_else(|| part.read()),
        }
    }
}

impl WrittenPart {
    fn read(&self) -> Part {
        minicbor::decode(&self.bytes).expect("what was written here can be read")
    }
}

impl PartialEq for SharedPart {
    fn eq(&self, other: &Self) -> bool {
        self.part() == other.part()
    }
}

impl Eq for SharedPart {}

impl<C> Encode<C> for SharedPart {
    fn encode<W: minicbor::encode::Write>(
        &self,
        encoder: &mut Encoder<W>,
        context: &mut C,
    ) -> Result<(), minicbor::encode::Error<W::Error>> {
        match self {
            Self::Read(part) => part.encode(encoder, context),
            Self::Written(part) => {
                encoder.writer_mut().write_all(&part.bytes).map_err(minicbor::encode::Error::write)
            }
        }
    }
}

impl<'b, C> Decode<'b, C> for SharedPart {
    fn decode(decoder: &mut minicbor::Decoder<'b>, context: &mut C) -> Result<Self, minicbor::decode::Error> {
        Ok(Self::Read(Box::new(Part::decode(decoder, context)?)))
    }
}

/// The rows of a piece that is being written, as [`Part::rows`] is encoded.
#[derive(Debug)]
pub(crate) struct Rows {
    count: u64,
    bytes: Vec<u8>,
}

/// What a piece says besides its rows, as in [`Part`].
#[derive(Debug)]
pub(crate) struct PartAround<'a> {
    pub(crate) origin: SiteId,
    pub(crate) from: u64,
    pub(crate) to: u64,
    pub(crate) entries: &'a [&'a Entry],
    pub(crate) rows_after: Option<u64>,
}

impl Rows {
    /// None yet; memory is set aside for so many.
    pub(crate) fn with_capacity(rows: usize) -> Self {
        Self { count: 0, bytes: Vec::with_capacity(ROW_BYTES_USUAL * rows) }
    }

    /// Appends the row of a key, and rows of removed sites.
    pub(crate) fn push(&mut self, key: &[u8], row: &WireRow, ahead: &[AheadRow]) {
        self.count += 1;
        head(&mut self.bytes, ARRAY, if ahead.is_empty() { 2 } else { 3 });
        head(&mut self.bytes, BYTES, key.len() as u64);
        self.bytes.extend_from_slice(key);
        match row {
            WireRow::Counted { version, counted: Pn { added, subtracted } } => {
                // Nearly all are such, and these numbers one by one through an encoder are what takes the time.
                head(&mut self.bytes, ARRAY, 3);
                head(&mut self.bytes, NUMBER, 0);
                head(&mut self.bytes, NUMBER, *version);
                head(&mut self.bytes, ARRAY, 2);
                head(&mut self.bytes, NUMBER, *added);
                head(&mut self.bytes, NUMBER, *subtracted);
            }
            other => minicbor::encode(other, &mut self.bytes).expect("writing to memory does not fail"),
        }
        if !ahead.is_empty() {
            minicbor::encode(ahead, &mut self.bytes).expect("writing to memory does not fail");
        }
    }

    /// That was the last one.
    pub(crate) fn finish(self, around: &PartAround<'_>) -> SharedPart {
        let PartAround { origin, from, to, entries, rows_after } = around;
        let mut bytes = Vec::with_capacity(FRAME_BYTES_MAX + self.bytes.len());
        head(&mut bytes, ARRAY, if rows_after.is_some() { 6 } else { 5 });
        let mut encoder = Encoder::new(&mut bytes);
        encoder.encode(origin).expect("writing to memory does not fail");
        head(&mut bytes, NUMBER, *from);
        head(&mut bytes, NUMBER, *to);
        head(&mut bytes, ARRAY, self.count);
        bytes.extend_from_slice(&self.bytes);
        let mut encoder = Encoder::new(&mut bytes);
        encoder.encode(entries).expect("writing to memory does not fail");
        if let Some(position) = rows_after {
            head(&mut bytes, NUMBER, *position);
        }
        SharedPart::Written(Arc::new(WrittenPart {
            origin: *origin,
            after: *from,
            to: *to,
            bytes,
            read: OnceLock::new(),
        }))
    }
}

/// The beginning of a value: its kind and a number, in as few bytes as that takes.
fn head(bytes: &mut Vec<u8>, kind: u8, number: u64) {
    let [.., b4, b5, b6, b7] = number.to_be_bytes();
    match number {
        0..24 => bytes.push(kind | b7),
        24..0x100 => bytes.extend_from_slice(&[kind | 24, b7]),
        0x100..0x1_0000 => bytes.extend_from_slice(&[kind | 25, b6, b7]),
        0x1_0000..0x1_0000_0000 => bytes.extend_from_slice(&[kind | 26, b4, b5, b6, b7]),
        _ => {
            bytes.push(kind | 27);
            bytes.extend_from_slice(&number.to_be_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        OperationId,
        counter::Row,
        entry::{Count, What},
        links::KeyRow,
        operations::OperationHash,
    };

    const NUMBERS: [u64; 11] =
        [0, 1, 23, 24, 0xff, 0x100, 0xffff, 0x1_0000, 0xffff_ffff, 0x1_0000_0000, u64::MAX];

    fn rows() -> Vec<KeyRow> {
        let counted = |number: u64| Pn { added: number, subtracted: NUMBERS[3] };
        let rows = NUMBERS.into_iter().enumerate().map(|(at, number)| {
            let row = match at % 3 {
                0 => WireRow::Full(Box::new(Row::counted(number, counted(number)))),
                _ => WireRow::Counted { version: number, counted: counted(NUMBERS[10 - at]) },
            };
            let site = SiteId { number: 2, incarnation: 1 };
            let ahead = AheadRow { site, row: Row::counted(number, counted(number)) };
            let ahead = (at % 4 == 0).then(|| vec![ahead]);
            KeyRow { key: vec![b'k'; 1 + 25 * at].into(), row, ahead }
        });
        rows.collect()
    }

    fn entry(number: u64) -> Entry {
        let count = Count { amount: -1, applied: -1, value: 7, made_ms: None, end: number };
        let hash = OperationHash::of(b"key", OperationId { producer: b"p", id: b"i" });
        Entry { number, hash, key: b"key".as_slice().into(), what: What::Counted(count) }
    }

    fn check(part: &Part) {
        let Part { origin, from, to, rows, entries, rows_after } = part.clone();
        let mut written = Rows::with_capacity(0);
        rows.iter()
            .for_each(|row| written.push(&row.key, &row.row, row.ahead.as_deref().unwrap_or_default()));
        let entries: Vec<&Entry> = entries.iter().collect();
        let written = written.finish(&PartAround { origin, from, to, entries: &entries, rows_after });
        assert_eq!(minicbor::to_vec(&written).unwrap(), minicbor::to_vec(part).unwrap());
        assert_eq!((written.origin(), written.to()), (origin, to));
        assert_eq!(written.part(), part);
        assert_eq!(written.clone().into_part(), *part);
        let read = SharedPart::Read(Box::new(part.clone()));
        assert_eq!(minicbor::to_vec(&read).unwrap(), minicbor::to_vec(part).unwrap());
        assert_eq!(read, written);
    }

    #[test]
    fn rows_are_written_as_they_are_encoded() {
        let origin = SiteId { number: 300, incarnation: 2 };
        let (from, to) = (NUMBERS[4], NUMBERS[8]);
        let mut part = Part { origin, from, to, rows: rows(), entries: Vec::new(), rows_after: None };
        check(&part);
        part.rows_after = Some(NUMBERS[6]);
        part.entries = vec![entry(0x100), entry(0x200)];
        check(&part);
        part.rows.clear();
        check(&part);
    }
}
