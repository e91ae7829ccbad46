//! The compact, versioned binary form of states and messages.
//!
//! An encoded value is one byte that names the format, then the value in CBOR with numbered fields, so that
//! a newer reader takes older bytes and an older reader skips fields that it does not know. Decoding is
//! bounded: the input has a size limit, nothing is allocated on the word of a length field, no type nests
//! without end, and a value that breaks its own rules is refused.

use minicbor::{Decode, Encode};

/// The format that this version writes, and the only one so far.
pub const FORMAT: u8 = 1;

/// The largest input that is decoded. A replica that outgrows it belongs into a database, in rows.
pub const INPUT_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Bytes that are not a value of the expected type. Nothing was changed by trying.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    /// There are no bytes at all.
    #[error("the input is empty; expected a format byte and a value")]
    Empty,
    /// More than [`INPUT_BYTES_MAX`].
    #[error("the input has {bytes} bytes; at most {INPUT_BYTES_MAX} are decoded")]
    TooLong {
        /// How many there are.
        bytes: usize,
    },
    /// Written by a version that this one does not know.
    #[error("the input has format {found}; this version reads format {FORMAT}")]
    UnknownFormat {
        /// The format byte found.
        found: u8,
    },
    /// Not the expected value: cut off, of another type, or against the type's own rules.
    #[error("the input is not a valid value: {0}")]
    Invalid(#[from] minicbor::decode::Error),
    /// A whole value, and then more.
    #[error("{bytes} bytes follow the value")]
    Trailing {
        /// How many follow.
        bytes: usize,
    },
}

/// The binary form of `value`.
pub fn encode<T: Encode<()>>(value: &T) -> Vec<u8> {
    let mut bytes = vec![FORMAT];
    minicbor::encode(value, &mut bytes).expect("writing to memory does not fail");
    bytes
}

/// The value that [`encode`] made these bytes of.
pub fn decode<'b, T: Decode<'b, ()>>(bytes: &'b [u8]) -> Result<T, DecodeError> {
    if bytes.len() > INPUT_BYTES_MAX {
        return Err(DecodeError::TooLong { bytes: bytes.len() });
    }
    let (&format, body) = bytes.split_first().ok_or(DecodeError::Empty)?;
    if format != FORMAT {
        return Err(DecodeError::UnknownFormat { found: format });
    }
    let mut decoder = minicbor::Decoder::new(body);
    let value = decoder.decode()?;
    match body.len() - decoder.position() {
        0 => Ok(value),
        bytes => Err(DecodeError::Trailing { bytes }),
    }
}
