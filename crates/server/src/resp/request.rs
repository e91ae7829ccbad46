//! What a client asks of the counters, once its command has been understood.

use quipu_engine::{Move, OperationId, SiteId};

use super::{Arguments, KEY_BYTES_MAX, OPERATION_ID_BYTES_MAX, PATTERN_BYTES_MAX, RequestError};

/// A command on counters. Every key in it has 1 to [`KEY_BYTES_MAX`] bytes, every pattern at most
/// [`PATTERN_BYTES_MAX`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Request<'a> {
    /// `INCR`, `DECR`, `INCRBY`, `DECRBY`. Reply: the new value.
    Add {
        /// The counter.
        key: &'a [u8],
        /// Added; subtracted if negative.
        amount: i64,
        /// How long to wait for rights of other sites, in milliseconds.
        remote_ms: u64,
        /// By which a retry is recognised.
        operation: Option<OperationId<'a>>,
    },
    /// `INCREX`. Reply: the new value, and how much was counted.
    AddWithin {
        /// The counter.
        key: &'a [u8],
        /// Added; subtracted if negative.
        amount: i64,
        /// The value must not end below.
        lower: Option<i64>,
        /// The value must not end above; not less than `lower`.
        upper: Option<i64>,
        /// What to do if it would.
        excess: Excess,
        /// How long to wait for rights of other sites, in milliseconds.
        remote_ms: u64,
        /// By which a retry is recognised.
        operation: Option<OperationId<'a>>,
    },
    /// `GET`. Reply: the value as text, or null.
    Get {
        /// The counter.
        key: &'a [u8],
    },
    /// `MGET`. Reply: the values in order.
    GetAll {
        /// The counters.
        keys: Keys<'a>,
    },
    /// `SET`. Reply: OK.
    Set {
        /// The counter.
        key: &'a [u8],
        /// What it goes on from.
        value: i64,
    },
    /// `EXISTS`. Reply: how many there are, one that is named twice counted twice.
    Exists {
        /// The counters.
        keys: Keys<'a>,
    },
    /// `DEL` and `UNLINK`. Reply: how many there were.
    Delete {
        /// The counters.
        keys: Keys<'a>,
    },
    /// `TYPE`. Reply: the name of the type, or `none`.
    Type {
        /// The counter.
        key: &'a [u8],
    },
    /// `SCAN`. Reply: the next cursor, and keys.
    Scan {
        /// Where to go on; 0 is the start.
        cursor: u64,
        /// Only keys like this ([`glob`](super::glob)).
        pattern: Option<&'a [u8]>,
        /// How many keys to look at, at least 1 and at most [`SCAN_COUNT_MAX`](super::SCAN_COUNT_MAX).
        count: u32,
        /// Only keys of this type, as `TYPE` names it.
        type_name: Option<&'a [u8]>,
    },
    /// `KEYS`. Reply: all keys like this.
    Keys {
        /// What they are like ([`glob`](super::glob)).
        pattern: &'a [u8],
    },
    /// `DBSIZE`. Reply: how many counters there are.
    Count,
    /// `FLUSHDB` and `FLUSHALL`. Reply: OK.
    Flush,
    /// `COUNTER.CREATE`. Reply: OK.
    Create {
        /// The counter.
        key: &'a [u8],
        /// Its value is never less.
        minimum: Option<i64>,
        /// Its value is never greater; not less than `minimum`.
        maximum: Option<i64>,
        /// The value to begin with, within both.
        value: i64,
        /// Who holds the rights in the beginning.
        spread: SpreadWord<'a>,
        /// How long to wait until all sites have it, in milliseconds, if that was said.
        wait_ms: Option<u64>,
    },
    /// `COUNTER.MOVE`. Reply: how many rights have moved.
    Move {
        /// The counter.
        key: &'a [u8],
        /// Which rights. How long to wait is 0 if that was not said.
        rights: Move,
        /// Was it said how long to wait?
        wait_said: bool,
    },
    /// `COUNTER.INFO`. Reply: all that is known about it.
    Inspect {
        /// The counter.
        key: &'a [u8],
    },
    /// `COUNTER.RIGHTS`. Reply: how much each site may still add and subtract.
    Rights {
        /// The counter.
        key: &'a [u8],
    },
    /// `COUNTER.OUTCOME`. Reply: what became of an operation.
    Outcome {
        /// The counter.
        key: &'a [u8],
        /// The operation.
        operation: OperationId<'a>,
    },
    /// `WAIT`. Reply: how many other sites have what the connection has written.
    Wait {
        /// So many are enough.
        sites: u64,
        /// How long to wait for them, in milliseconds; 0: for ever.
        timeout_ms: u64,
    },
}

impl Request<'_> {
    /// The option by which it was told to wait for other sites, if it was.
    pub(crate) fn waits_by(&self) -> Option<&'static str> {
        match *self {
            Self::Add { remote_ms, .. } | Self::AddWithin { remote_ms, .. } if remote_ms > 0 => {
                Some("REMOTE")
            }
            Self::Create { wait_ms: Some(wait_ms), .. } if wait_ms > 0 => Some("WAIT"),
            Self::Move { rights: Move { wait_ms, .. }, .. } if wait_ms > 0 => Some("WAIT"),
            _ => None,
        }
    }
}

/// What was said after `SPREAD`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpreadWord<'a> {
    /// `CREATOR`, or nothing.
    Creator,
    /// `EVEN`.
    Even,
    /// `site=n,…`, which can be [read](read_shares).
    Shares(&'a [u8]),
}

/// `site=n,…`; the error is what cannot be read.
pub fn read_shares(text: &[u8]) -> Result<Vec<(SiteId, u64)>, String> {
    let text = std::str::from_utf8(text).map_err(|_| "this is no text".to_owned())?;
    let mut shares: Vec<(SiteId, u64)> = Vec::new();
    for pair in text.split(',') {
        let bad = || format!("`{pair}` is no share; write a site and a number, such as 2=300");
        let (site, share) = pair.split_once('=').ok_or_else(bad)?;
        let site: SiteId = site.parse().map_err(|error: quipu_engine::BadSiteId| error.to_string())?;
        if shares.iter().any(|(other, _)| *other == site) {
            return Err(format!("site {site} has two shares"));
        }
        let is_plain = share.bytes().all(|byte| byte.is_ascii_digit());
        shares.push((site, share.parse().ok().filter(|_| is_plain).ok_or_else(bad)?));
    }
    Ok(shares)
}

/// What to do with an amount that would cross a bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Excess {
    /// Count nothing, and say so.
    Skip,
    /// Count as much as fits.
    Saturate,
}

/// Both halves must have a length that may be stored.
pub(crate) fn operation_id<'a>(producer: &'a [u8], id: &'a [u8]) -> Result<OperationId<'a>, RequestError> {
    for half in [producer, id] {
        if half.is_empty() || half.len() > OPERATION_ID_BYTES_MAX {
            return Err(RequestError::OperationIdLength { bytes: half.len() });
        }
    }
    Ok(OperationId { producer, id })
}

/// One key or more, each of a length that may be stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Keys<'a>(Arguments<'a>);

impl<'a> Keys<'a> {
    /// All `arguments` are keys.
    pub(crate) fn new(arguments: Arguments<'a>) -> Result<Self, RequestError> {
        for argument in arguments.iter() {
            check_key(argument)?;
        }
        Ok(Self(arguments))
    }

    /// How many there are; the same one may be among them twice.
    pub fn len(self) -> usize {
        self.0.len()
    }

    /// Never: a command with keys has at least one.
    pub fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    /// The keys in the order in which they were named.
    pub fn iter(self) -> impl ExactSizeIterator<Item = &'a [u8]> + Clone {
        self.0.iter()
    }
}

/// The pattern itself, if it is not too long.
pub(crate) fn check_pattern(pattern: &[u8]) -> Result<&[u8], RequestError> {
    if pattern.len() > PATTERN_BYTES_MAX {
        return Err(RequestError::PatternLength { bytes: pattern.len() });
    }
    Ok(pattern)
}

/// The key itself, if it has a length that may be stored.
#[inline]
pub(crate) fn check_key(key: &[u8]) -> Result<&[u8], RequestError> {
    if key.is_empty() || key.len() > KEY_BYTES_MAX {
        return Err(RequestError::KeyLength { bytes: key.len() });
    }
    Ok(key)
}
