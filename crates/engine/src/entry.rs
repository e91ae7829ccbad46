//! The log of operations that sites send each other: what was counted under an id, and what was taken back.

use minicbor::{Decode, Encode};

use quipu_crdt::Pn;

use crate::{SiteId, handoff::Name, operations::OperationHash};

/// One entry of a site's log. Its number is that of the change which it belongs to, in the numbering of its site, so
/// that whoever has a site's changes up to a number has the entries and the rows that they speak of.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub(crate) struct Entry {
    #[n(0)]
    pub(crate) number: u64,
    #[n(1)]
    pub(crate) hash: OperationHash,
    #[n(2)]
    #[cbor(with = "crate::entry::key")]
    pub(crate) key: Box<[u8]>,
    #[n(3)]
    pub(crate) what: What,
}

/// What an entry says of its operation.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub(crate) enum What {
    /// The site has counted it.
    #[n(0)]
    Counted(#[n(0)] Count),
    /// A count of it was taken back, because a lower site counted it too.
    #[n(1)]
    Cancelled(#[n(0)] Cancellation),
    /// The site has taken a token, which carried counts of this counter.
    #[n(2)]
    Taken(#[n(0)] Taken),
}

/// How a site has counted an operation, and what it answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub(crate) struct Count {
    #[n(0)]
    pub(crate) amount: i64,
    #[n(1)]
    pub(crate) applied: i64,
    #[n(2)]
    pub(crate) value: i64,
    /// When the id was made, if it tells.
    #[n(3)]
    pub(crate) made_ms: Option<u64>,
    /// What the site had added (or subtracted, if `applied` is negative) in all when this was counted.
    #[n(4)]
    pub(crate) end: u64,
}

/// A token that was counted. It has an entry for each of its counters, so that each comes with its row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub(crate) struct Taken {
    /// The desk that it was for: the site's own, or one that it answers for.
    #[n(0)]
    pub(crate) desk: Name,
    /// The target clock of its slot.
    #[n(1)]
    pub(crate) clock: u64,
    /// How many counters it speaks of.
    #[n(2)]
    pub(crate) counters: u64,
    /// All that was handed over to the site under this counter, after that.
    #[n(3)]
    pub(crate) end: Pn,
}

/// All that was counted and taken back under one id at one site. What of it lies above the marks of resets sums to
/// zero, or more is added until it does.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub(crate) struct Cancellation {
    /// Whose count is taken back: the writer's own, or that of a removed site whose heir the writer is.
    #[n(0)]
    pub(crate) of: SiteId,
    /// The count first.
    #[n(1)]
    pub(crate) parts: Vec<Part>,
    /// The lower site that had counted it too, when this was taken back. (That may have been taken back since, for a still
    /// lower one.)
    #[n(2)]
    pub(crate) kept_by: SiteId,
}

/// A piece of a site's row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub(crate) struct Part {
    #[n(0)]
    pub(crate) site: SiteId,
    #[n(1)]
    pub(crate) amount: i64,
    /// What the site had added (or subtracted, if `amount` is negative) in all after it.
    #[n(2)]
    pub(crate) end: u64,
}

impl What {
    /// The lowest site keeps a count: what was taken back for a higher one, or for itself, nobody has written.
    pub(crate) fn contradicts_itself(&self) -> bool {
        matches!(self, Self::Cancelled(cancellation) if cancellation.kept_by >= cancellation.of)
    }
}

impl Entry {
    pub(crate) fn count(&self) -> Option<&Count> {
        match &self.what {
            What::Counted(count) => Some(count),
            What::Cancelled(_) | What::Taken(_) => None,
        }
    }

    /// Bytes in memory and on the wire, roughly.
    pub(crate) fn bytes(&self) -> usize {
        64 + self.key.len()
    }
}

/// A key as bytes, checked when it is read.
pub(crate) mod key {
    use minicbor::{Decoder, Encoder, decode::Error, encode::Write};

    use crate::KEY_BYTES_MAX;

    pub(crate) fn encode<C, W: Write>(
        key: &[u8],
        encoder: &mut Encoder<W>,
        _: &mut C,
    ) -> Result<(), minicbor::encode::Error<W::Error>> {
        encoder.bytes(key)?.ok()
    }

    pub(crate) fn decode<'b, C>(decoder: &mut Decoder<'b>, _: &mut C) -> Result<Box<[u8]>, Error> {
        let bytes = decoder.bytes()?;
        match bytes.len() {
            1..=KEY_BYTES_MAX => Ok(bytes.into()),
            _ => Err(Error::message("a key is empty or too long")),
        }
    }
}
