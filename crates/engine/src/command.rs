//! What clients ask of one key, and what they are told.

use quipu_crdt::Pn;

use crate::{
    SiteId,
    handoff::{Adoption, Answer, Estate, Name, Visit},
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
        /// Its definition.
        limits: Limits,
        /// How long to wait, in milliseconds, until all sites have it. It takes effect then, whoever waits.
        wait_ms: u64,
    },
    /// Read with everything that is known about the counter.
    Inspect,
    /// Ask what became of an operation.
    Outcome(OperationId<'a>),
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
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Beyond {
    /// Refuse the command.
    Refuse,
    /// Count nothing, and say so.
    Skip,
    /// Count as much as fits.
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

/// A command that has left the buffer it was parsed from.
#[derive(Debug)]
pub struct OwnedCommand {
    key: Box<[u8]>,
    operation: Option<OwnedOperation>,
    /// Its operation is in `operation`.
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
        let (action, operation) = match command.action {
            Action::Add { add, operation: None } => (Action::Add { add, operation: None }, None),
            Action::Add { add, operation } => (Action::Add { add, operation: Some(ELSEWHERE) }, operation),
            Action::Outcome(operation) => (Action::Outcome(ELSEWHERE), Some(operation)),
            Action::Get => (Action::Get, None),
            Action::Reset { to } => (Action::Reset { to }, None),
            Action::Create { limits, wait_ms } => (Action::Create { limits, wait_ms }, None),
            Action::Inspect => (Action::Inspect, None),
        };
        let operation = operation
            .map(|OperationId { producer, id }| OwnedOperation { producer: producer.into(), id: id.into() });
        Self { key: command.key.into(), operation, action }
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
            other => other,
        };
        Command { key: &self.key, action }
    }
}

/// The definition of a bounded counter.
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
        /// Was there a counter?
        existed: bool,
    },
    /// To [`Action::Create`].
    Created,
    /// To [`Action::Inspect`]; `None`: there is no such counter.
    Inspected(Option<Box<Inspection>>),
    /// To [`Action::Outcome`].
    Outcome(Outcome),
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
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Added {
    /// The value after it, as this site knows it.
    pub value: i64,
    /// How much was counted; less than asked for only beyond a limit.
    pub applied: i64,
    /// Is this the answer that the operation was given before?
    pub repeated: bool,
    /// Where it was counted.
    pub site: SiteId,
}

/// What became of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It was counted, once, and this was the answer.
    Counted(Added),
    /// It was counted, and this was the answer. Another site may have counted it too, which has not been heard from since;
    /// if so, one of the two will be taken back.
    Provisional(Added),
    /// It was counted here too, and that was taken back.
    Cancelled {
        /// Where it is counted.
        counted_at: SiteId,
    },
    /// Nothing is known of it: not counted within the window.
    Unknown,
    /// It is older than what is remembered.
    TooOld,
}

/// Everything that is known about a counter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inspection {
    /// The value.
    pub value: i64,
    /// Its bounds and the rights of each site, if it is a bounded counter.
    pub bounded: Option<BoundedView>,
    /// What each site contributes.
    pub sites: Vec<SiteView>,
    /// The number of its last change in its shard.
    pub version: u64,
}

/// A bounded counter's definition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BoundedView {
    /// The value is never less.
    pub minimum: Option<i64>,
    /// The value is never greater.
    pub maximum: Option<i64>,
    /// The value it began with.
    pub initial: i64,
    /// The site that created it.
    pub creator: SiteId,
    /// What was handed over by edges and waits for rights, at all sites.
    pub parked: Pn,
}

/// One site's part in a counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SiteView {
    /// The site.
    pub site: SiteId,
    /// What it has added since the last reset.
    pub added: u64,
    /// What it has subtracted since the last reset.
    pub subtracted: u64,
    /// How much it may add; `None` where no bound limits it.
    pub rights_to_add: Option<u128>,
    /// How much it may subtract; `None` where no bound limits it.
    pub rights_to_subtract: Option<u128>,
    /// What operations have counted there that are not settled: a retry of them may have been counted elsewhere, and be
    /// taken back. Rights that they have made are among the above and cannot be used yet.
    pub provisional: Pn,
}

/// Why a command was not done. Nothing was counted, except where the text says otherwise.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The value, or what one site has added or subtracted in all, would leave its range.
    #[error("increment or decrement would overflow")]
    Overflow,
    /// The limits of the command, or too few rights for those of the counter.
    #[error(
        "{amount} would take the counter beyond its {bound} {limit}: it is at {value}, and at most {available} can be \
         {verb} here{elsewhere}; nothing was counted",
        bound = if *amount < 0 { "minimum" } else { "maximum" },
        verb = if *amount < 0 { "subtracted" } else { "added" },
        elsewhere = describe_rights(elsewhere)
    )]
    OutOfBounds {
        /// What was asked for.
        amount: i64,
        /// The limit.
        limit: i64,
        /// The value as this site knows it.
        value: i64,
        /// How much could have been counted.
        available: u64,
        /// Which other sites have rights, as far as this one knows, and how many.
        elsewhere: Vec<(SiteId, u128)>,
    },
    /// Not all sites have heard of the definition.
    #[error(
        "the counter takes effect when all sites have its definition, and {} {} not answered yet; it will by itself then",
        describe_sites(missing), if missing.len() == 1 { "has" } else { "have" }
    )]
    Creating {
        /// Who has not agreed yet.
        missing: Vec<SiteId>,
    },
    /// A bounded counter of this name is being made.
    #[error("site {by} is making a bounded counter of this name; nothing was done. Try again")]
    Reserved {
        /// Who makes it.
        by: SiteId,
    },
    /// Too many operations wait for a site that cannot be reached.
    #[error(
        "{max} operations of this shard wait for {}; nothing was counted. Without an id it can be counted, or when these \
         sites are back or removed (`quipu site remove`)",
        describe_sites(waiting_for)
    )]
    Unsettled {
        /// How many may wait.
        max: usize,
        /// Whom they wait for.
        waiting_for: Vec<SiteId>,
    },
    /// This site does not know yet which operations others have counted.
    #[error(
        "this site has joined lately, and for another {wait_ms} ms it cannot know all operations that others have counted; \
         nothing was counted. Ask another site, or count without an id"
    )]
    JoinedLately {
        /// For how long.
        wait_ms: u64,
    },
    /// This site does not take writes yet.
    #[error(
        "this site is joining the cluster and takes writes when it has what the others have; nothing was done"
    )]
    Joining,
    /// What only sites do.
    #[error(
        "an edge or a relay adds and subtracts, without ids and limits, and reads; nothing was done. Ask a site"
    )]
    OnlyAtSites,
    /// Too much has not been handed over.
    #[error(
        "{max} counters wait to be handed over, and no more can; nothing was counted. Counters that wait take more counts: \
         try again when a server was reached"
    )]
    TooManyPending {
        /// So many may wait.
        max: usize,
    },
    /// It retires.
    #[error("this replica retires and counts no more; nothing was counted. Use another server")]
    Leaving,
    /// A relay cannot retire so.
    #[error("{0}; nothing was done")]
    CannotRetire(String),
    /// A visit that nobody makes who follows the protocol.
    #[error("this is not what an edge or a relay says: {0}; nothing was done")]
    BadVisit(&'static str),
    /// A visit that was meant for another server, or for what this one was before it was restored.
    #[error(
        "this was meant for {asked}, and here is {here}; nothing was done, and what was to be handed over stays where it is"
    )]
    OtherServer {
        /// For whom it was.
        asked: Name,
        /// Who is here.
        here: Name,
    },
    /// Two use one state.
    #[error(
        "two use the state of the edge {of}, or it went back to an older copy of it; nothing was done. Stop one of them: \
         which counts only the older one has cannot be known here"
    )]
    Copy {
        /// Whose state it is.
        of: Name,
    },
    /// The operation was counted with another amount.
    #[error(
        "this operation was counted with the amount {first}, and now comes with {now}; nothing was counted"
    )]
    OtherAmount {
        /// The amount that was counted.
        first: i64,
        /// The amount of this command.
        now: i64,
    },
    /// The id tells that it is older than the window.
    #[error(
        "the id was made {age_ms} ms ago, and ids are remembered for {window_ms} ms: whether it was counted is not known \
         any more; nothing was counted"
    )]
    TooOld {
        /// How old it says that it is.
        age_ms: u64,
        /// For how long ids are remembered.
        window_ms: u64,
    },
    /// The id tells a time that has not come yet, by more than clocks may differ.
    #[error(
        "the id was made {ahead_ms} ms in the future, by this server's clock; at most {ahead_ms_max} ms are taken for a \
         difference of clocks. Nothing was counted; set the clocks right"
    )]
    FromTheFuture {
        /// How far ahead it is.
        ahead_ms: u64,
        /// How far it may be.
        ahead_ms_max: u64,
    },
    /// A counter of this name exists.
    #[error("the counter exists already; it was left as it is")]
    Exists,
    /// It was counted on before, without bounds.
    #[error(
        "this key was a counter without bounds before, and other sites may still count on it; nothing was done. Choose \
         another key"
    )]
    UsedBefore,
    /// Bounded counters are not reset.
    #[error("a bounded counter cannot be reset or deleted; it was left as it is. Add or subtract instead")]
    BoundedReset,
    /// The definition contradicts itself.
    #[error("{0}")]
    BadDefinition(String),
    /// The key is too long or empty.
    #[error("a key has 1 to {max} bytes, not {bytes}; nothing was done", max = crate::KEY_BYTES_MAX)]
    BadKey {
        /// How long it is.
        bytes: usize,
    },
    /// The store failed, and has not kept the command.
    #[error("{0}")]
    NotStored(String),
    /// It is not known whether the command was stored.
    #[error("it is not known whether this was counted ({0}); ask again with the operation's id")]
    InDoubt(String),
}

fn describe_sites(sites: &[SiteId]) -> String {
    let names: Vec<_> = sites.iter().map(SiteId::to_string).collect();
    format!("site{} {}", if names.len() == 1 { "" } else { "s" }, names.join(", "))
}

fn describe_rights(elsewhere: &[(SiteId, u128)]) -> String {
    if elsewhere.is_empty() {
        return String::new();
    }
    let sites: Vec<_> = elsewhere.iter().map(|(site, rights)| format!("{rights} at site {site}")).collect();
    format!(" and, as far as is known here, {}", sites.join(", "))
}
