//! What clients ask of one key, and what they are told.

use minicbor::{Decode, Encode};
use quipu_crdt::{Pn, bounded::Right};

use crate::{
    SiteId,
    handoff::{Adoption, Answer, Estate, Name, Visit},
    operations::{OperationHash, made_ms},
};

/// A command on one key. Keys have 1 to [`KEY_BYTES_MAX`](crate::KEY_BYTES_MAX) bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Command<'a> {
    /// The counter.
    pub key: &'a [u8],
    /// What to do with it.
    pub action: Action<'a>,
}

/// What to do with a counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action<'a> {
    /// Count.
    Add {
        /// How much, and within what.
        add: Add,
        /// By which a retry is recognised.
        operation: Option<OperationId<'a>>,
    },
    /// Read.
    Get,
    /// Set aside what has been counted so far, and go on from `to`; from nothing, the counter is absent.
    Reset {
        /// The new value.
        to: Option<i64>,
    },
    /// Define a bounded counter.
    Create {
        /// Its bounds and first value.
        limits: Limits,
        /// Who holds the rights in the beginning.
        spread: Spread<'a>,
        /// How long to wait, in milliseconds, until all sites have it. It takes effect then, whoever waits.
        wait_ms: u64,
    },
    /// Read with everything that is known about the counter.
    Inspect,
    /// Ask what became of an operation.
    Outcome(OperationId<'a>),
    /// Let one site pass rights of a bounded counter on to another.
    Move(Move),
}

/// Who holds the rights of a new bounded counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Spread<'a> {
    /// The site that creates it.
    #[default]
    Creator,
    /// All sites of the cluster, the same.
    Even,
    /// These sites, in proportion to their shares.
    Shares(&'a [(SiteId, u64)]),
}

/// Rights that are to go from one site to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Move {
    /// How many; fewer go if the giver has fewer.
    pub amount: u64,
    /// Of which kind; it need not be said of a counter with one bound.
    pub right: Option<Right>,
    /// Who passes them on.
    pub from: SiteId,
    /// Who gets them.
    pub to: SiteId,
    /// How long to wait, in milliseconds, for the giver, if that is another site.
    pub wait_ms: u64,
}

/// A change of a counter by an amount.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Add {
    /// Added; subtracted if negative.
    pub amount: i64,
    /// The value must not end below, as far as this site knows.
    pub lower: Option<i64>,
    /// The value must not end above, as far as this site knows.
    pub upper: Option<i64>,
    /// What to do if it would.
    pub beyond: Beyond,
    /// How long to wait, in milliseconds, for rights of other sites if this one has too few.
    pub remote_ms: u64,
}

impl Add {
    /// Adds `amount` or is refused.
    pub fn of(amount: i64) -> Self {
        Self { amount, lower: None, upper: None, beyond: Beyond::Refuse, remote_ms: 0 }
    }
}

/// What to do with an amount that would cross a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub enum Beyond {
    /// Refuse the command.
    #[n(0)]
    Refuse,
    /// Count nothing, and say so.
    #[n(1)]
    Skip,
    /// Count as much as fits.
    #[n(2)]
    Saturate,
}

/// What a client sends with a command so that a retry is recognised. It belongs to the command's key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OperationId<'a> {
    /// Who made the operation.
    pub producer: &'a [u8],
    /// Its name, unique at the producer.
    pub id: &'a [u8],
}

/// The length of [`OperationId::stored_since`].
pub const STORED_SINCE_BYTES: usize = 16 + 36;

impl<'a> OperationId<'a> {
    /// An operation of which only what is stored of its id is known. No client has an empty name.
    pub fn stored(id: &'a [u8; 16]) -> Self {
        Self { producer: b"", id }
    }

    /// The same, with a time: what is stored of the id, and after it a UUID of version 7 in its usual form. It is remembered and
    /// refused as an id is that tells that time.
    pub fn stored_since(id: &'a [u8; STORED_SINCE_BYTES]) -> Self {
        Self { producer: b"", id }
    }

    /// When it was made, in milliseconds since 1970, if the id is a UUID of version 7 in its usual form.
    pub fn made_ms(self) -> Option<u64> {
        made_ms(self)
    }

    /// What is stored of this id under a key.
    pub fn to_stored(self, key: &[u8]) -> [u8; 16] {
        OperationHash::of(key, self).to_bytes()
    }
}

/// A command that has left the buffer it was parsed from.
#[derive(Debug)]
pub struct OwnedCommand {
    key: Box<[u8]>,
    operation: Option<OwnedOperation>,
    shares: Box<[(SiteId, u64)]>,
    /// Its operation is in `operation`, its shares are in `shares`.
    action: Action<'static>,
}

#[derive(Debug)]
struct OwnedOperation {
    producer: Box<[u8]>,
    id: Box<[u8]>,
}

/// Stands in an owned action for the operation beside it.
const ELSEWHERE: OperationId<'static> = OperationId { producer: b"", id: b"" };

impl OwnedCommand {
    /// Copies what the command borrows.
    pub fn new(command: Command<'_>) -> Self {
        let mut shares: Box<[_]> = Box::default();
        let (action, operation) = match command.action {
            Action::Add { add, operation: None } => (Action::Add { add, operation: None }, None),
            Action::Add { add, operation } => (Action::Add { add, operation: Some(ELSEWHERE) }, operation),
            Action::Outcome(operation) => (Action::Outcome(ELSEWHERE), Some(operation)),
            Action::Get => (Action::Get, None),
            Action::Reset { to } => (Action::Reset { to }, None),
            Action::Create { limits, spread, wait_ms } => {
                let spread = match spread {
                    Spread::Creator => Spread::Creator,
                    Spread::Even => Spread::Even,
                    Spread::Shares(given) => {
                        shares = given.into();
                        Spread::Shares(&[])
                    }
                };
                (Action::Create { limits, spread, wait_ms }, None)
            }
            Action::Inspect => (Action::Inspect, None),
            Action::Move(it) => (Action::Move(it), None),
        };
        let operation = operation
            .map(|OperationId { producer, id }| OwnedOperation { producer: producer.into(), id: id.into() });
        Self { key: command.key.into(), operation, shares, action }
    }

    /// The command.
    pub fn get(&self) -> Command<'_> {
        let elsewhere = || match &self.operation {
            Some(OwnedOperation { producer, id }) => OperationId { producer, id },
            None => ELSEWHERE,
        };
        let action = match self.action {
            Action::Add { add, operation } => Action::Add { add, operation: operation.map(|_| elsewhere()) },
            Action::Outcome(_) => Action::Outcome(elsewhere()),
            Action::Create { limits, spread: Spread::Shares(_), wait_ms } => {
                Action::Create { limits, spread: Spread::Shares(&self.shares), wait_ms }
            }
            other => other,
        };
        Command { key: &self.key, action }
    }
}

/// The bounds of a counter, and what it begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The value is never less.
    pub minimum: Option<i64>,
    /// The value is never greater.
    pub maximum: Option<i64>,
    /// The value to begin with.
    pub initial: i64,
}

/// The answer to a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// To [`Action::Add`].
    Added(Added),
    /// To [`Action::Get`]; `None`: there is no such counter.
    Value(Option<i64>),
    /// To [`Action::Reset`].
    Reset {
        /// What was set aside: the value as this site knew it. `None`: there was no counter.
        aside: Option<i64>,
    },
    /// To [`Action::Create`].
    Created,
    /// To [`Action::Inspect`]; `None`: there is no such counter.
    Inspected(Option<Box<Inspection>>),
    /// To [`Action::Outcome`].
    Outcome(Outcome),
    /// To [`Action::Move`]: so many rights have moved.
    Moved(u64),
    /// To a visit of an edge or a relay.
    Visited(Box<Answer>),
    /// What a relay has to say to a parent, by the shards of the cluster.
    Visits(Vec<(u16, Visit)>),
    /// What a relay that retires leaves, for its heir.
    Estate(Box<Estate>),
    /// What became of that at the heir.
    Adopted(Box<Adoption>),
    /// To any: it was not done, for this reason.
    Refused(Refusal),
}

/// What an add has done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct Added {
    /// The value after it, as this site knows it.
    #[n(0)]
    pub value: i64,
    /// How much was counted; less than asked for only beyond a limit.
    #[n(1)]
    pub applied: i64,
    /// Is this the answer that the operation was given before?
    #[n(2)]
    pub repeated: bool,
    /// Where it was counted.
    #[n(3)]
    pub site: SiteId,
}

/// What became of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub enum Outcome {
    /// It was counted, once, and this was the answer.
    #[n(0)]
    Counted(#[n(0)] Added),
    /// It was counted, and this was the answer. Another site may have counted it too, which has not been heard from since;
    /// if so, one of the two will be taken back.
    #[n(1)]
    Provisional(#[n(0)] Added),
    /// It was counted here too, and that was taken back.
    #[n(2)]
    Cancelled {
        /// Where it is counted.
        #[n(0)]
        counted_at: SiteId,
    },
    /// Nothing is known of it: not counted within the window.
    #[n(3)]
    Unknown,
    /// It is older than what is remembered.
    #[n(4)]
    TooOld,
}

/// Everything that is known about a counter.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Inspection {
    /// The value.
    #[n(0)]
    pub value: i64,
    /// Its bounds and the rights of each site, if it is a bounded counter.
    #[n(1)]
    pub bounded: Option<BoundedView>,
    /// What each site contributes.
    #[n(2)]
    pub sites: Vec<SiteView>,
    /// The number of its last change in its shard.
    #[n(3)]
    pub version: u64,
}

/// A bounded counter's definition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct BoundedView {
    /// The value is never less.
    #[n(0)]
    pub minimum: Option<i64>,
    /// The value is never greater.
    #[n(1)]
    pub maximum: Option<i64>,
    /// The value it began with.
    #[n(2)]
    pub initial: i64,
    /// The site that created it.
    #[n(3)]
    pub creator: SiteId,
    /// What was handed over by edges and waits for rights, at all sites.
    #[n(4)]
    pub parked: Pn,
}

/// One site's part in a counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct SiteView {
    /// The site.
    #[n(0)]
    pub site: SiteId,
    /// What it has added since the last reset.
    #[n(1)]
    pub added: u64,
    /// What it has subtracted since the last reset.
    #[n(2)]
    pub subtracted: u64,
    /// How much it may add; `None` where no bound limits it.
    #[cbor(n(3), with = "crate::call::wide::optional")]
    pub rights_to_add: Option<u128>,
    /// How much it may subtract; `None` where no bound limits it.
    #[cbor(n(4), with = "crate::call::wide::optional")]
    pub rights_to_subtract: Option<u128>,
    /// What operations have counted there that are not settled: a retry of them may have been counted elsewhere, and be
    /// taken back. Rights that they have made are among the above and cannot be used yet.
    #[n(5)]
    pub provisional: Pn,
}

/// Why a command was not done. Nothing was counted, except where the text says otherwise.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Encode, Decode)]
pub enum Refusal {
    /// The value, or what one site has added or subtracted in all, would leave its range.
    #[error("increment or decrement would overflow")]
    #[n(0)]
    Overflow,
    /// The limits of the command, or too few rights for those of the counter.
    #[error(
        "{}; nothing was counted",
        describe_bounds(&OutOfBounds { amount: *amount, limit: *limit, value: *value, available: *available, elsewhere, in_all: *in_all })
    )]
    #[n(1)]
    OutOfBounds {
        /// What was asked for.
        #[n(0)]
        amount: i64,
        /// The limit.
        #[n(1)]
        limit: i64,
        /// The value as this site knows it.
        #[n(2)]
        value: i64,
        /// How much could have been counted.
        #[n(3)]
        available: u64,
        /// Which other sites have rights, as far as this one knows, and how many.
        #[cbor(n(4), with = "crate::call::wide::of_sites")]
        elsewhere: Vec<(SiteId, u128)>,
        /// How many rights there are at all sites, if there are enough for more, but not at this one.
        #[n(5)]
        in_all: Option<u64>,
    },
    /// Not all sites have heard of the definition.
    #[error(
        "the counter takes effect when all sites have its definition, and {} {} not answered yet; it will by itself then",
        describe_sites(missing), if missing.len() == 1 { "has" } else { "have" }
    )]
    #[n(2)]
    Creating {
        /// Who has not agreed yet.
        #[n(0)]
        missing: Vec<SiteId>,
    },
    /// A bounded counter of this name is being made.
    #[error("site {by} is making a bounded counter of this name; nothing was done. Try again")]
    #[n(3)]
    Reserved {
        /// Who makes it.
        #[n(0)]
        by: SiteId,
    },
    /// Too many operations wait for a site that cannot be reached.
    #[error(
        "{max} operations of this shard wait for {}; nothing was counted. Without an id it can be counted, or when these \
         sites are back or removed (`quipu site remove`)",
        describe_sites(waiting_for)
    )]
    #[n(4)]
    Unsettled {
        /// How many may wait.
        #[n(0)]
        max: usize,
        /// Whom they wait for.
        #[n(1)]
        waiting_for: Vec<SiteId>,
    },
    /// This site does not know yet which operations others have counted.
    #[error(
        "this site has joined lately, and for another {wait_ms} ms it cannot know all operations that others have counted; \
         nothing was counted. Ask another site, or count without an id"
    )]
    #[n(5)]
    JoinedLately {
        /// For how long.
        #[n(0)]
        wait_ms: u64,
    },
    /// This site does not take writes yet.
    #[error(
        "this site is joining the cluster and takes writes when it has what the others have; nothing was done"
    )]
    #[n(6)]
    Joining,
    /// What only sites do.
    #[error(
        "an edge or a relay adds and subtracts, without ids and limits, and reads; nothing was done. Ask a site"
    )]
    #[n(7)]
    OnlyAtSites,
    /// Too much has not been handed over.
    #[error(
        "{max} counters wait to be handed over, and no more can; nothing was counted. Counters that wait take more counts: \
         try again when a server was reached"
    )]
    #[n(8)]
    TooManyPending {
        /// So many may wait.
        #[n(0)]
        max: usize,
    },
    /// It retires.
    #[error("this replica retires and counts no more; nothing was counted. Use another server")]
    #[n(9)]
    Leaving,
    /// A relay passes this on to a site, and reaches none.
    #[error(
        "this relay passes it on to a site, and none can be reached ({0}); nothing was counted. Try again, or count without an \
         id"
    )]
    #[n(10)]
    NoSite(#[n(0)] String),
    /// A relay cannot retire so.
    #[error("{0}; nothing was done")]
    #[n(11)]
    CannotRetire(#[n(0)] String),
    /// A visit that nobody makes who follows the protocol.
    #[error("this is not what an edge or a relay says: {0}; nothing was done")]
    #[n(12)]
    BadVisit(#[n(0)] String),
    /// A visit that was meant for another server, or for what this one was before it was restored.
    #[error(
        "this was meant for {asked}, and here is {here}; nothing was done, and what was to be handed over stays where it is"
    )]
    #[n(13)]
    OtherServer {
        /// For whom it was.
        #[n(0)]
        asked: Name,
        /// Who is here.
        #[n(1)]
        here: Name,
    },
    /// Two use one state.
    #[error(
        "two use the state of the edge {of}, or it went back to an older copy of it; nothing was done. Stop one of them: \
         which counts only the older one has cannot be known here"
    )]
    #[n(14)]
    Copy {
        /// Whose state it is.
        #[n(0)]
        of: Name,
    },
    /// The operation was counted with another amount.
    #[error(
        "this operation was counted with the amount {first}, and now comes with {now}; nothing was counted"
    )]
    #[n(15)]
    OtherAmount {
        /// The amount that was counted.
        #[n(0)]
        first: i64,
        /// The amount of this command.
        #[n(1)]
        now: i64,
    },
    /// The id tells that it is older than the window.
    #[error(
        "the id was made {age_ms} ms ago, and ids are remembered for {window_ms} ms: whether it was counted is not known \
         any more; nothing was counted"
    )]
    #[n(16)]
    TooOld {
        /// How old it says that it is.
        #[n(0)]
        age_ms: u64,
        /// For how long ids are remembered.
        #[n(1)]
        window_ms: u64,
    },
    /// The id tells a time that has not come yet, by more than clocks may differ.
    #[error(
        "the id was made {ahead_ms} ms in the future, by this server's clock; at most {ahead_ms_max} ms are taken for a \
         difference of clocks. Nothing was counted; set the clocks right"
    )]
    #[n(17)]
    FromTheFuture {
        /// How far ahead it is.
        #[n(0)]
        ahead_ms: u64,
        /// How far it may be.
        #[n(1)]
        ahead_ms_max: u64,
    },
    /// A counter of this name exists.
    #[error("the counter exists already; it was left as it is")]
    #[n(18)]
    Exists,
    /// It was counted on before, without bounds.
    #[error(
        "this key was a counter without bounds before, and other sites may still count on it; nothing was done. Choose \
         another key"
    )]
    #[n(19)]
    UsedBefore,
    /// Bounded counters are not reset.
    #[error("a bounded counter cannot be reset or deleted; it was left as it is. Add or subtract instead")]
    #[n(20)]
    BoundedReset,
    /// The definition contradicts itself.
    #[error("{0}")]
    #[n(21)]
    BadDefinition(#[n(0)] String),
    /// The key is too long or empty.
    #[error("a key has 1 to {max} bytes, not {bytes}; nothing was done", max = crate::KEY_BYTES_MAX)]
    #[n(22)]
    BadKey {
        /// How long it is.
        #[n(0)]
        bytes: usize,
    },
    /// The store failed, and has not kept the command.
    #[error("{0}")]
    #[n(23)]
    NotStored(#[n(0)] String),
    /// It is not known whether the command was stored.
    #[error("it is not known whether this was counted ({0}); ask again with the operation's id")]
    #[n(24)]
    InDoubt(#[n(0)] String),
    /// Another node of the site has this counter, or is about to.
    #[error("this counter is moving to another node of the site; nothing was counted. Try again")]
    #[n(25)]
    NotHere,
    /// The site was removed from the cluster: what it counted would reach nobody.
    #[error("{0}; nothing was counted. Use another site")]
    #[n(26)]
    Removed(#[n(0)] String),
    /// The site runs from an old copy of its folder: what it counted would be lost.
    #[error("{0}; nothing was counted. Use another site")]
    #[n(27)]
    OldCopy(#[n(0)] String),
    /// The site is about to leave the cluster in order.
    #[error(
        "this site is about to leave the cluster (`quipu site stay` takes that back); nothing was counted. Use another site"
    )]
    #[n(28)]
    SiteLeaves,
    /// No site holds rights of this counter.
    #[error("this is no counter with bounds, so that no site holds rights of it; nothing was moved")]
    #[n(32)]
    NotBounded,
    /// Rights cannot be passed on so.
    #[error("{0}; nothing was moved")]
    #[n(33)]
    CannotMove(#[n(0)] String),
    /// The site that holds the rights has not answered.
    #[error(
        "site {site} was asked to pass the rights on and has not answered within {wait_ms} ms{}; nothing has moved as far as \
         is known here, and it may still. COUNTER.RIGHTS shows it",
        if *connected { "" } else { ", because there is no link to it" }
    )]
    #[n(34)]
    NotMovedYet {
        /// Who was asked.
        #[n(0)]
        site: SiteId,
        /// For how long.
        #[n(1)]
        wait_ms: u64,
        /// Is there a link to it?
        #[n(2)]
        connected: bool,
    },
    /// What a relay leaves is taken over, and other sites do not know it yet.
    #[error(
        "what the relay leaves is here, and {} {} not heard of it yet; until then the relay is needed. Ask again",
        describe_sites(missing), if missing.len() == 1 { "has" } else { "have" }
    )]
    #[n(35)]
    NotTold {
        /// Who has not heard of it.
        #[n(0)]
        missing: Vec<SiteId>,
    },
}

fn describe_sites(sites: &[SiteId]) -> String {
    let names: Vec<_> = sites.iter().map(SiteId::to_string).collect();
    format!("site{} {}", if names.len() == 1 { "" } else { "s" }, names.join(", "))
}

/// What [`Refusal::OutOfBounds`] says, for [`describe_bounds`].
struct OutOfBounds<'a> {
    amount: i64,
    limit: i64,
    value: i64,
    available: u64,
    elsewhere: &'a [(SiteId, u128)],
    in_all: Option<u64>,
}

/// A site that lacks rights says who has them; the counter itself may be far from its bound.
fn describe_bounds(it: &OutOfBounds<'_>) -> String {
    let OutOfBounds { amount, limit, value, available, elsewhere, in_all } = *it;
    let (bound, verb) = if amount < 0 { ("minimum", "subtracted") } else { ("maximum", "added") };
    match in_all {
        Some(in_all) => format!(
            "{amount} cannot be counted here: the counter is at {value}, its {bound} is {limit}, and this site holds \
             {available} of the {in_all} units that can be {verb}; {others}",
            others = describe_rights(elsewhere, available, in_all)
        ),
        None => format!(
            "{amount} would take the counter beyond its {bound} {limit}: it is at {value}, and at most {available} can be \
             {verb}"
        ),
    }
}

/// Where the rights are that are not `here`, of those that there are `in_all`.
pub(crate) fn describe_rights(elsewhere: &[(SiteId, u128)], here: u64, in_all: u64) -> String {
    let missing = u128::from(in_all.saturating_sub(here));
    let told: u128 = elsewhere.iter().map(|(_, rights)| rights).sum();
    if let [(site, _)] = elsewhere
        && here == 0
        && told == missing
    {
        return format!("site {site} holds {}", if missing == 1 { "it" } else { "them" });
    }
    let mut parts: Vec<_> =
        elsewhere.iter().map(|(site, rights)| format!("site {site} holds {rights}")).collect();
    if told < missing {
        parts.push(format!("{} wait until operations are settled or sites are heard from", missing - told));
    }
    parts.join(", ")
}
