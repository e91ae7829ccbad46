//! What can go wrong, and what became of the counts.

use std::fmt;

use quipu_engine::{Refusal, handoff::BadAnswer};
use quipu_storage::StorageError;

use crate::{Address, BadAddress};

/// Why an edge could not be opened. Nothing was changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The state is in use, damaged, or cannot be written.
    #[error("{error}{advice}", error = .0, advice = advice(.0))]
    Storage(#[from] StorageError),
    /// What stands in the state is not what was written.
    #[error(transparent)]
    State(quipu_engine::OpenError),
    /// The state says who the edge is in a way that cannot be read.
    #[error("the state does not say who this edge is: {0}. Nothing was changed")]
    Identity(String),
    /// An address that is none.
    #[error(transparent)]
    Address(#[from] BadAddress),
    /// An option that cannot be.
    #[error("{0}; nothing was opened")]
    Option(&'static str),
    /// A thread could not be started.
    #[error("a thread cannot be started: {0}; nothing was opened")]
    Thread(std::io::Error),
}

/// What to do about a file that is damaged. An old copy is no help.
fn advice(error: &StorageError) -> &'static str {
    match error.is_damage() {
        true => {
            ". `quipu repair --state FILE` says what can still be read. Do not put an old copy in its place: it would hand over \
             again what was handed over since"
        }
        false => "",
    }
}

impl From<quipu_engine::OpenError> for OpenError {
    fn from(error: quipu_engine::OpenError) -> Self {
        match error {
            quipu_engine::OpenError::Storage(error) => Self::Storage(error),
            other => Self::State(other),
        }
    }
}

/// Why something was not counted or read.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum CountError {
    /// Too many counters wait, the key is none, the edge retires: the text says it.
    #[error(transparent)]
    Refused(Refusal),
    /// The state could not be written: the disk is full, or fails.
    #[error("nothing was counted: {0}")]
    NotStored(String),
    /// The disk has failed half-way.
    #[error(
        "it is not known whether this was counted, because {0}. What the state says when it is opened again is what is \
         handed over"
    )]
    InDoubt(String),
    /// The edge was closed.
    #[error("the edge is closed; nothing was counted")]
    Closed,
}

impl From<Refusal> for CountError {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::NotStored(why) => Self::NotStored(why),
            Refusal::InDoubt(why) => Self::InDoubt(why),
            other => Self::Refused(other),
        }
    }
}

/// Why an exchange with a server came to nothing. All counts are kept, and are handed over when one succeeds.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum SyncError {
    /// There are no servers.
    #[error("no server was named; all counts are kept here")]
    NoServers,
    /// No connection, or no answer in time. (If the server has taken something, the next exchange finds out.)
    #[error("{server} cannot be reached: {why}; all counts are kept here")]
    Unreachable {
        /// The server.
        server: Address,
        /// What happened.
        why: String,
    },
    /// It has refused.
    #[error("{server} has refused: {why}")]
    Refused {
        /// The server.
        server: Address,
        /// In its own words.
        why: String,
    },
    /// It belongs to another cluster than the one that this edge counts for.
    #[error(
        "{server} belongs to the cluster {found:?}, and this edge counts for {ours:?}; nothing was handed over, and all \
         counts are kept here. Use a server of {ours:?}, or another state"
    )]
    OtherCluster {
        /// The server.
        server: Address,
        /// Its cluster.
        found: String,
        /// The edge's.
        ours: String,
    },
    /// Its answer makes no sense.
    #[error("{server} has answered nonsense: {why}; nothing was taken from it, and all counts are kept here")]
    Nonsense {
        /// The server.
        server: Address,
        /// What is wrong with it.
        why: String,
    },
    /// The state is a copy of another one that is in use, or an old one.
    #[error(
        "{server} has noticed that this state is used twice: {why} Nothing more is handed over by this process, and what \
         it has counted stays in its state"
    )]
    Copy {
        /// Who has noticed.
        server: Address,
        /// In its own words.
        why: String,
    },
    /// The state was found to be a copy before, or was repaired.
    #[error(
        "nothing is handed over from this state: {why} What it has counted stays in it. If it is the original, and no copy is \
         in use, open it as such (`--original`)"
    )]
    KnownCopy {
        /// What was found.
        why: String,
    },
    /// The state could not be written, so nothing may be sent.
    #[error("nothing was sent: {0}")]
    NotStored(String),
    /// The edge was closed.
    #[error("the edge is closed; all counts are kept in its state")]
    Closed,
}

impl SyncError {
    /// Would another server be of no help either?
    pub(crate) fn is_final(&self) -> bool {
        matches!(
            self,
            Self::NoServers | Self::Copy { .. } | Self::KnownCopy { .. } | Self::NotStored(_) | Self::Closed
        )
    }

    pub(crate) fn bad_answer(server: &Address, bad: BadAnswer) -> Self {
        let (server, why) = (server.clone(), bad.to_string());
        match bad {
            BadAnswer::Copy => Self::Copy { server, why: format!("{why}.") },
            BadAnswer::OtherServer => Self::Nonsense { server, why },
        }
    }
}

/// A handoff that was begun and of which it is not known that it has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InFlight {
    /// The name of the server that it is meant for.
    pub server: String,
    /// Where that server was last seen.
    pub address: Option<String>,
    /// How many counters it carries.
    pub counters: usize,
    /// What it carries of each.
    pub amounts: Vec<(Vec<u8>, i128)>,
    /// It is meant for a relay: should that one have lost its disk, nobody can tell whether it was counted.
    pub is_for_relay: bool,
}

/// So many counters are named.
const NAMED_MAX: usize = 20;

impl InFlight {
    /// The counters and amounts, for people.
    pub fn list(&self) -> String {
        let named = self.amounts.iter().take(NAMED_MAX);
        let mut names: Vec<_> =
            named.map(|(key, amount)| format!("{} {amount:+}", String::from_utf8_lossy(key))).collect();
        if self.amounts.len() > NAMED_MAX {
            names.push(format!("and {} more", self.amounts.len() - NAMED_MAX));
        }
        names.join(", ")
    }
}

/// What is still open.
#[derive(Debug, Clone, Default)]
pub struct NotHandedOver {
    /// Counters with counts that wait to be handed over.
    pub waiting: usize,
    /// Handoffs in doubt: their counts are kept here and, in most cases, with another server, which passes them on.
    pub in_flight: Vec<InFlight>,
    /// Shards whose servers have not heard yet that this edge retires.
    pub last_words: usize,
    /// What went wrong last.
    pub why: Option<SyncError>,
}

impl fmt::Display for NotHandedOver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        if self.waiting > 0 {
            parts.push(format!("{} to be handed over", wait(self.waiting)));
        }
        for it in &self.in_flight {
            let InFlight { server, address, counters, is_for_relay, .. } = it;
            let address = address.as_deref().map(|address| format!(" ({address})")).unwrap_or_default();
            let kind = if *is_for_relay { "the relay " } else { "" };
            let amounts = if *is_for_relay { format!(": {}", it.list()) } else { String::new() };
            parts.push(format!(
                "{} for {kind}{server}{address} to say that it has them{amounts}",
                wait(*counters)
            ));
        }
        if parts.is_empty() && self.last_words > 0 {
            parts.push(
                "all is handed over, and no second site has said yet that it knows of it: should the first one be lost \
                 before, this state would be needed. Retire again when sites reach each other"
                    .to_owned(),
            );
        }
        if parts.is_empty() {
            parts.push("not all is known to be handed over".to_owned());
        }
        write!(f, "{}; all counts are kept here, and nothing is lost", parts.join(", "))?;
        match &self.why {
            Some(why) => write!(f, ". {why}"),
            None => Ok(()),
        }
    }
}

fn wait(counters: usize) -> String {
    match counters {
        1 => "1 counter waits".to_owned(),
        _ => format!("{counters} counters wait"),
    }
}

impl std::error::Error for NotHandedOver {}

/// Why an edge has not retired.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RetireError {
    /// Not in time. Call it again.
    #[error("{0}")]
    NotHandedOver(NotHandedOver),
    /// It has retired, and everything is handed over, but its file is still there.
    #[error(
        "everything is handed over, and no server waits for this edge; but its state is still there: {0}"
    )]
    NotRemoved(StorageError),
}
