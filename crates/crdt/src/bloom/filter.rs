//! One ordinary Bloom filter, in a layout that is stored and sent.

use super::ElementHash;
use minicbor::bytes::ByteSlice;
use minicbor::decode::{Decoder, Error};
use minicbor::encode::{Encoder, Write};
use minicbor::{Decode, Encode};

/// The largest filter: 2²⁴ bits are 2 MiB, room for 580 thousand elements at one error in a million. A
/// [`Forgetful`](super::Forgetful) of the largest filters still fits into what the
/// [codec](crate::codec) takes.
pub const BITS_MAX: u64 = 1 << 24;

/// The most hash functions. 20 are the best for one error in a million.
pub const HASHES_MAX: u8 = 32;

/// A filter of this size cannot be. Nothing was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SizeError {
    /// It would have nowhere to put an element, or too much to be stored and sent.
    #[error("a filter has 1 to {BITS_MAX} bits, not {bits}; nothing was made")]
    Bits {
        /// How many were asked for.
        bits: u64,
    },
    /// Without a hash function everything is in it.
    #[error("a filter has 1 to {HASHES_MAX} hash functions, not {hashes}; nothing was made")]
    Hashes {
        /// How many were asked for.
        hashes: u8,
    },
}

/// A set that answers "certainly not" or "probably".
///
/// ```
/// use quipu_crdt::bloom::{Bloom, ElementHash};
/// let mut seen = Bloom::new(1_000, 5)?;
/// seen.insert(ElementHash::of(b"one"));
/// assert!(seen.contains(ElementHash::of(b"one")));
/// assert!(!seen.contains(ElementHash::of(b"two")));
/// # Ok::<(), quipu_crdt::bloom::SizeError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bloom {
    /// m in the paper.
    bits: u64,
    /// k in the paper.
    hashes: u8,
    /// Bit p is bit p % 64 of word p / 64. Those from `bits` on are zero.
    words: Vec<u64>,
}

impl Bloom {
    /// An empty filter.
    pub fn new(bits: u64, hashes: u8) -> Result<Self, SizeError> {
        check_size(bits, hashes)?;
        let words = usize::try_from(bits.div_ceil(64)).map_err(|_| SizeError::Bits { bits })?;
        Ok(Bloom { bits, hashes, words: vec![0; words] })
    }

    /// From now on the element is in it.
    pub fn insert(&mut self, element: ElementHash) {
        for position in element.positions(self.bits, self.hashes) {
            self.words[word(position)] |= mask(position);
        }
    }

    /// False: it was not inserted. True: it was, or the bits that others set happen to be all of its own.
    pub fn contains(&self, element: ElementHash) -> bool {
        element
            .positions(self.bits, self.hashes)
            .all(|position| self.words[word(position)] & mask(position) != 0)
    }

    /// Takes everything out.
    pub fn clear(&mut self) {
        self.words.fill(0);
    }

    /// How many bits it has; m in the paper.
    pub fn bits(&self) -> u64 {
        self.bits
    }

    /// How many hash functions it has; k in the paper.
    pub fn hashes(&self) -> u8 {
        self.hashes
    }

    /// How many bits are set.
    pub fn ones(&self) -> u64 {
        self.words.iter().map(|word| u64::from(word.count_ones())).sum()
    }
}

pub(super) fn check_size(bits: u64, hashes: u8) -> Result<(), SizeError> {
    if !(1..=BITS_MAX).contains(&bits) {
        return Err(SizeError::Bits { bits });
    }
    if !(1..=HASHES_MAX).contains(&hashes) {
        return Err(SizeError::Hashes { hashes });
    }
    Ok(())
}

fn word(position: u64) -> usize {
    usize::try_from(position / 64).expect("less than the number of words")
}

fn mask(position: u64) -> u64 {
    1 << (position % 64)
}

/// The stored form: bit p of the filter is bit p % 8 of byte p / 8. The last byte is filled up with zeros.
#[derive(Encode, Decode)]
struct Wire<'b> {
    #[n(0)]
    bits: u64,
    #[n(1)]
    hashes: u8,
    #[b(2)]
    bytes: &'b ByteSlice,
}

impl<C> Encode<C> for Bloom {
    fn encode<W: Write>(
        &self,
        encoder: &mut Encoder<W>,
        context: &mut C,
    ) -> Result<(), minicbor::encode::Error<W::Error>> {
        let mut bytes: Vec<u8> = self.words.iter().flat_map(|word| word.to_le_bytes()).collect();
        bytes.truncate(usize::try_from(self.bits.div_ceil(8)).expect("not more than there are"));
        let bytes = <&ByteSlice>::from(bytes.as_slice());
        Wire { bits: self.bits, hashes: self.hashes, bytes }.encode(encoder, context)
    }
}

impl<'b, C> Decode<'b, C> for Bloom {
    fn decode(decoder: &mut Decoder<'b>, context: &mut C) -> Result<Self, Error> {
        let Wire { bits, hashes, bytes } = Wire::decode(decoder, context)?;
        check_size(bits, hashes).map_err(Error::message)?;
        // The bytes are there: nothing is allocated on the word of `bits`.
        if u64::try_from(bytes.len()) != Ok(bits.div_ceil(8)) {
            return Err(Error::message("a Bloom filter with more or fewer bits than it says"));
        }
        let words: Vec<u64> = bytes.chunks(8).map(little_endian).collect();
        if bits % 64 != 0 && words.last().is_some_and(|last| last >> (bits % 64) != 0) {
            return Err(Error::message("a Bloom filter with bits set after its end"));
        }
        Ok(Bloom { bits, hashes, words })
    }
}

fn little_endian(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |word, &byte| (word << 8) | u64::from(byte))
}
