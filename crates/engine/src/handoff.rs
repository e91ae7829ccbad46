//! Counts that come by handoff: from edges, which come and go, and from relays between them and the sites.
//!
//! The eight steps are those of [`quipu_crdt::handoff`]; here is what they move ([`Deltas`]), between whom ([`Name`]),
//! and the two halves of an exchange ([`Visit`], [`Answer`]). A site holds one slot for each active edge and shard, not
//! for each key: a token carries the deltas of all keys of the shard that were counted on since the last one.

mod clocks;
mod closed;
mod cluster;
mod desk;
pub mod exchange;
mod name;

use std::collections::{BTreeMap, BTreeSet};

use minicbor::{Decode, Encode};
use quipu_crdt::{
    Pn,
    handoff::{
        Adoption as AdoptionOf, Estate as EstateOf, MergeError, Notice as NoticeOf,
        NoticeDone as NoticeDoneOf, Token as TokenOf, TokenName as TokenNameOf, ViewOf,
    },
};

pub(crate) use self::clocks::Clocks;
pub(crate) use self::closed::{ClosedChange, ClosedSlots, DeskTable, StoredClosed};
pub use self::cluster::{Cluster, ClusterId};
pub use self::desk::HandoffStats;
pub(crate) use self::desk::{Desk, Guest, Handed, StoredDesk};
pub use self::name::{BadName, Name};
pub use quipu_crdt::handoff::RetireError;

/// The name of a counter, where bytes from outside are checked.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
#[cbor(transparent)]
pub struct Key(#[cbor(with = "crate::entry::key")] Box<[u8]>);

impl std::borrow::Borrow<[u8]> for Key {
    fn borrow(&self) -> &[u8] {
        &self.0
    }
}

impl Key {
    /// A key, unless it is empty or too long.
    pub fn new(key: &[u8]) -> Option<Self> {
        (1..=crate::KEY_BYTES_MAX).contains(&key.len()).then(|| Self(key.into()))
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

/// What a token carries.
pub type Deltas = BTreeMap<Key, Pn>;

/// What a view tells of values: of the keys that its addressee has asked for.
pub type Readings = Vec<(Key, Reading)>;

/// What one replica sends to another of one shard.
pub type View = ViewOf<Name, Deltas, Readings>;

pub(crate) type Token = TokenOf<Name, Deltas>;
pub(crate) type TokenName = TokenNameOf<Name>;
pub(crate) type NoticeDone = NoticeDoneOf<Name>;

/// The tier of relays. Sites have tier 0, edges a higher one.
pub const RELAY_TIER: u8 = 1;

/// What a relay that retires leaves of one shard.
pub type Estate = EstateOf<Name, Deltas>;

/// The answer to an [`Estate`].
pub type Adoption = AdoptionOf<Name>;

/// The last words of an edge about one shard.
pub type Notice = NoticeOf<Name, Deltas>;

/// What is known of a counter. Its parts only grow, so that of two readings, by whomever, each part's larger one holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Encode, Decode)]
pub struct Reading {
    /// All that was counted, what a bounded counter began with included.
    #[n(0)]
    pub counted: Pn,
    /// What was set aside of it by resets.
    #[n(1)]
    pub set_aside: Pn,
}

/// Which opening of an edge's state speaks: a copy that is used beside the original counts its openings, too, and two
/// with the same number are told apart by what they have drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Encode, Decode)]
pub struct Opening {
    /// How often the state was opened.
    #[n(0)]
    pub count: u64,
    /// Drawn at this opening.
    #[n(1)]
    pub drawn: u64,
}

impl Opening {
    /// Does this one follow `before`, or is it the same? Otherwise one of the two is a copy.
    pub(crate) fn follows(self, before: Self) -> bool {
        self.count > before.count || self == before
    }
}

/// What sites pass on to each other of what they keep for those who hand over.
#[derive(Debug, Clone, PartialEq, Eq, Default, Encode, Decode)]
pub(crate) struct PassedOn {
    /// Copies of tokens, for whoever has their slots, or for whoever may reach that one.
    #[n(0)]
    pub(crate) tokens: Vec<Token>,
    /// Tokens whose slots are closed.
    #[n(1)]
    pub(crate) closed: Vec<TokenName>,
    /// Last words of edges.
    #[n(2)]
    pub(crate) notices: Vec<Notice>,
    /// Who has acted on whose last words.
    #[n(3)]
    pub(crate) done: Vec<NoticeDone>,
    /// Edges whose last words were passed on, and are kept by the site that tells so, durably.
    #[n(4)]
    pub(crate) kept: Option<Vec<Name>>,
}

impl PassedOn {
    pub(crate) fn is_empty(&self) -> bool {
        let Self { tokens, closed, notices, done, kept } = self;
        tokens.is_empty() && closed.is_empty() && notices.is_empty() && done.is_empty() && kept.is_none()
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = &[u8]> {
        let last = self.notices.iter().flat_map(Notice::tokens);
        self.tokens.iter().chain(last).flat_map(|token| token.value.keys()).map(Key::bytes)
    }
}

/// A replica that hands over what it counts, and may then disappear.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transient {
    /// Its name, which nobody else ever had.
    pub name: Name,
    /// 1 for relays, 2 for edges.
    pub tier: u8,
    /// Which opening of its state this is.
    pub opening: Opening,
    /// So many counters may wait to be handed over.
    pub pending_max: usize,
}

/// A server that a transient replica speaks to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct Server {
    /// Its name.
    #[n(0)]
    pub name: Name,
    /// 0 for sites, 1 for relays.
    #[n(1)]
    pub tier: u8,
    /// Into how many shards its counters are divided.
    #[n(2)]
    pub shards: u16,
}

/// An answer of a server that was not taken in. Nothing has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadAnswer {
    /// It is not from whom it should be.
    #[error("the answer is not from the server that was asked; nothing was changed")]
    OtherServer,
    /// Two use one state.
    #[error(
        "a server knows more of this state than is in it: it is an old copy, or another process uses one; nothing was \
         changed. Use the newest state only: which counts only another one has cannot be known here"
    )]
    Copy,
}

impl From<MergeError> for BadAnswer {
    fn from(error: MergeError) -> Self {
        match error {
            MergeError::Twin(_) => Self::Copy,
            MergeError::NotForUs => Self::OtherServer,
        }
    }
}

/// What a relay says to one of its parents this time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Round {
    /// It is handed what was counted. Others are told what they must know to close their slots.
    pub chosen: bool,
    /// Also shards speak that have nothing to say: a parent may keep something for them.
    pub all: bool,
}

/// How it stands with a relay's retirement, in one shard.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Retirement {
    /// It takes nothing any more.
    pub is_stopped: bool,
    /// The heir that was named and has not answered.
    pub named: Option<Name>,
    /// Who has taken over what it kept for others.
    pub heir: Option<Name>,
    /// Everything is elsewhere.
    pub may_leave: bool,
}

/// What has not been handed over.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Open {
    /// Counters with counts that no token carries yet.
    pub pending: usize,
    /// For whom there are tokens of which it is not known that they were taken, and how many counters they speak of.
    pub tokens: BTreeMap<Name, usize>,
    /// Servers that may keep a slot for this replica.
    pub servers: BTreeSet<Name>,
    /// Shards to which its last words have to be said.
    pub last_words: usize,
}

impl Open {
    /// Is everything handed over?
    pub fn is_empty(&self) -> bool {
        self.pending == 0 && self.tokens.is_empty()
    }
}

/// What an edge or a relay says to one shard of a server.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Visit {
    /// Its state, as far as it concerns the server.
    #[n(0)]
    pub view: View,
    /// Which opening of its state speaks.
    #[n(1)]
    pub opening: Opening,
    /// The counters that it wants to know the values of.
    #[n(2)]
    pub asks: Vec<Key>,
    /// Its last words.
    #[n(3)]
    pub notice: Option<Notice>,
    /// What a relay passes on of what it keeps for others. From others it is not heard.
    #[n(4)]
    pub(crate) passed_on: Option<Box<PassedOn>>,
}

impl Visit {
    /// Leaves only what one can truly say who has no clients.
    pub(crate) fn restrict_to_a_leaf(&mut self) {
        self.view.restrict_to_a_leaf();
        self.passed_on = None;
    }

    /// Is it a relay's that wants no slot? It ends what it has begun, or comes for what is kept for it: a site that is to
    /// leave waits for that. Others go to other sites.
    pub fn ends_something(&self, leaf: bool) -> bool {
        !leaf && !self.view.wants_slot()
    }

    /// The counters that it speaks of: they must be in memory before it is taken in.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &[u8]> {
        let last = self.notice.iter().flat_map(Notice::tokens);
        let tokens = self.view.tokens().iter().chain(last);
        let keys = tokens.flat_map(|token| token.value.keys()).chain(&self.asks).map(Key::bytes);
        keys.chain(self.passed_on.iter().flat_map(|passed_on| passed_on.keys()))
    }

    /// Are all counters that it speaks of of this kind?
    pub fn speaks_only_of(&self, of: impl Fn(&[u8]) -> bool) -> bool {
        self.keys().all(of)
    }
}

/// The answer to a [`Visit`].
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Answer {
    /// The server's state, as far as it concerns the visitor, with what was asked for.
    #[n(0)]
    pub view: View,
    /// The visitor's last words are kept here, or done, and would be if one site were lost: the visitor may disappear.
    #[n(1)]
    pub keeps_notice: bool,
    /// Something that the visitor brought could not be counted yet: it stays where it is.
    #[n(2)]
    pub refused: bool,
    /// What a relay is to know, and may have passed on to it.
    #[n(3)]
    pub(crate) passed_on: Option<Box<PassedOn>>,
}

impl Answer {
    /// Are all counters that it speaks of of this kind?
    pub fn speaks_only_of(&self, of: impl Fn(&[u8]) -> bool) -> bool {
        let tokens = self.view.tokens().iter().flat_map(|token| token.value.keys());
        let told = self.view.report().iter().map(|(key, _)| key);
        let passed_on = self.passed_on.iter().flat_map(|passed_on| passed_on.keys());
        tokens.chain(told).map(Key::bytes).chain(passed_on).all(of)
    }
}
