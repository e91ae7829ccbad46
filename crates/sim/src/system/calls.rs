//! What clients ask for: counters, calls, and attempts to make them.

use crate::core::Millis;
use quipu_engine::{Action, Add, Beyond, Limits, Move, OperationId, Shards, SiteId, Spread};
use quipu_storage::ShardId;

/// Where wall clocks begin: some day in 2025.
const UNIX_MS: u64 = 1_750_000_000_000;

/// The right time, by which clients make ids.
pub(crate) fn unix_ms(now: Millis) -> u64 {
    UNIX_MS + now
}

/// What a counter is used for. Checks differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// Only plain adds of positive amounts.
    Plain,
    /// Adds and subtractions with ids, and plain ones.
    Ids,
    /// With bounds.
    Bounded,
    /// Set and deleted: each call has a digit of its own in the value.
    Resets,
}

/// A counter.
#[derive(Debug, Clone)]
pub(crate) struct Key {
    pub(crate) name: Vec<u8>,
    pub(crate) shard: ShardId,
    pub(crate) kind: Kind,
    /// Of a bounded counter.
    pub(crate) limits: Limits,
    /// The next digit, of a counter that is reset.
    digit: u32,
}

/// So many calls share a counter that is reset. Digits have base 4, so that a call that counted twice shows.
const DIGITS_MAX: u32 = 28;

impl Key {
    pub(crate) fn new(kind: Kind, number: usize, shards: u16, room: i64) -> Self {
        let letter = match kind {
            Kind::Plain => 'p',
            Kind::Ids => 'i',
            Kind::Bounded => 'b',
            Kind::Resets => 'r',
        };
        let name = format!("{letter}{number}").into_bytes();
        let shards = Shards::new(shards).expect("a power of two");
        // Bounds on both sides, below alone, and above alone.
        let (minimum, maximum) = match number % 3 {
            0 => (Some(0), Some(room)),
            1 => (Some(-room), None),
            _ => (None, Some(room)),
        };
        let initial = if number.is_multiple_of(2) { room / 2 } else { 0 };
        Self { shard: shards.of(&name), name, kind, limits: Limits { minimum, maximum, initial }, digit: 0 }
    }

    /// The amount of the next call on a counter that is reset, if it has room for one.
    pub(crate) fn next_amount(&mut self) -> Option<i64> {
        let digit = self.digit;
        if digit == DIGITS_MAX {
            return None;
        }
        self.digit += 1;
        Some(1 << (2 * digit))
    }
}

/// An operation's id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Id {
    /// Of all operations of the run.
    pub(crate) number: usize,
    pub(crate) bytes: Box<[u8]>,
    /// Does it tell its age?
    pub(crate) aged: bool,
}

/// What is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Act {
    /// The limit is the call's own: the value does not go beyond it in the direction of the amount.
    Add {
        amount: i64,
        limit: Option<i64>,
        beyond: Beyond,
        remote_ms: Millis,
    },
    Get,
    Reset {
        to: Option<i64>,
    },
    Create {
        wait_ms: Millis,
        spread: SpreadWay,
    },
    Inspect,
    Outcome,
    Move(Move),
    Mistake(Mistake),
}

/// A call that is refused, whatever else happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mistake {
    /// Reads a counter without a name.
    NoName,
    /// Deletes a counter with bounds.
    ResetOfBounded,
    /// Adds more than a value can be.
    TooMuch,
    /// Gives bounds to a counter that has counted without.
    LateBounds,
    /// Makes an operation again with another amount.
    OtherAmount(i64),
}

impl Mistake {
    fn action(self, operation: Option<OperationId<'_>>) -> Action<'_> {
        match self {
            Self::NoName => Action::Get,
            Self::ResetOfBounded => Action::Reset { to: None },
            Self::TooMuch => Action::Add { add: Add::of(i64::MAX), operation: None },
            Self::LateBounds => {
                let limits = Limits { minimum: Some(0), maximum: None, initial: 0 };
                Action::Create { limits, spread: Spread::Creator, wait_ms: 0 }
            }
            Self::OtherAmount(amount) => Action::Add { add: Add::of(amount), operation },
        }
    }
}

/// Who holds the rights of a new counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SpreadWay {
    Creator,
    Even,
    /// The second site has three times as many as the first.
    Quarters,
}

impl SpreadWay {
    pub(crate) fn get(self) -> Spread<'static> {
        const QUARTERS: [(SiteId, u64); 2] = [(SiteId::FIRST, 1), (SiteId { number: 2, ..SiteId::FIRST }, 3)];
        match self {
            Self::Creator => Spread::Creator,
            Self::Even => Spread::Even,
            Self::Quarters => Spread::Shares(&QUARTERS),
        }
    }
}

/// Something that a client wants done once.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) key: usize,
    pub(crate) act: Act,
    pub(crate) id: Option<Id>,
    pub(crate) producer: u32,
    pub(crate) since_ms: Millis,
}

impl Call {
    /// May it wait for other sites before it changes something?
    pub(crate) fn may_wait(&self) -> bool {
        matches!(self.act, Act::Create { .. } | Act::Move(_) | Act::Add { remote_ms: 1.., .. })
    }

    /// As the engine knows it.
    pub(crate) fn action<'a>(&self, key: &Key, operation: Option<OperationId<'a>>) -> Action<'a> {
        match (self.act, operation) {
            (Act::Add { amount, limit, beyond, remote_ms }, operation) => {
                let (lower, upper) = (limit.filter(|_| amount < 0), limit.filter(|_| amount > 0));
                Action::Add { add: Add { amount, lower, upper, beyond, remote_ms }, operation }
            }
            (Act::Get, _) => Action::Get,
            (Act::Reset { to }, _) => Action::Reset { to },
            (Act::Create { wait_ms, spread }, _) => {
                Action::Create { limits: key.limits, spread: spread.get(), wait_ms }
            }
            (Act::Move(it), _) => Action::Move(it),
            (Act::Outcome, Some(operation)) => Action::Outcome(operation),
            (Act::Inspect | Act::Outcome, _) => Action::Inspect,
            (Act::Mistake(mistake), operation) => mistake.action(operation),
        }
    }
}

/// How far an attempt has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// On its way to the site.
    Sent,
    /// Taken by the engine, not yet part of a commit.
    Taken,
    /// A commit was begun that may hold it.
    Offered,
    /// Answered, or lost.
    Done,
}

/// A call that is made at a site. Its number is the engine's ticket.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Attempt {
    pub(crate) call: usize,
    /// Nobody waits for the answer of a probe.
    pub(crate) client: Option<usize>,
    pub(crate) site: usize,
    pub(crate) stage: Stage,
    /// What it changed has numbers after this one in the site's stream,
    pub(crate) after: u64,
    /// up to this one, unless it had to wait for other sites.
    pub(crate) upto: u64,
}

impl Attempt {
    pub(crate) fn new(call: usize, client: Option<usize>, site: usize) -> Self {
        Self { call, client, site, stage: Stage::Sent, after: 0, upto: 0 }
    }
}

impl std::fmt::Display for Call {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.act {
            Act::Add { amount, limit, beyond, remote_ms } => {
                write!(f, "add {amount}")?;
                if let Some(limit) = limit {
                    write!(f, " up to {limit}")?;
                }
                if beyond != Beyond::Refuse {
                    write!(f, " {beyond:?}")?;
                }
                if remote_ms > 0 {
                    write!(f, " remote {remote_ms} ms")?;
                }
            }
            Act::Get => write!(f, "get")?,
            Act::Reset { to: Some(to) } => write!(f, "set {to}")?,
            Act::Reset { to: None } => write!(f, "delete")?,
            Act::Create { wait_ms, spread } => write!(f, "create, {spread:?}, waiting {wait_ms} ms")?,
            Act::Move(Move { amount, from, to, wait_ms, .. }) => {
                write!(f, "move {amount} from {from} to {to}, waiting {wait_ms} ms")?;
            }
            Act::Inspect => write!(f, "inspect")?,
            Act::Outcome => write!(f, "outcome")?,
            Act::Mistake(mistake) => write!(f, "mistake {mistake:?}")?,
        }
        match &self.id {
            Some(id) => write!(f, " id {}/{}", self.producer, String::from_utf8_lossy(&id.bytes)),
            None => Ok(()),
        }
    }
}
