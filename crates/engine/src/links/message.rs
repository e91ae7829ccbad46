//! What one shard tells the same shard at another site.
//!
//! # The protocol
//!
//! Each site numbers the changes of its own rows and its log of operations, in one numbering per shard: its *stream*. A
//! [`Message`] carries pieces of streams ([`Part`]) and says how far the sender has got with everybody's
//! ([`Message::received`]), which is the acknowledgement. Nothing is ever taken back, so that any message may be lost,
//! repeated, delayed or overtaken:
//!
//! 1. The sender sends what comes after the position that the receiver told. A part says after which position it begins;
//!    a receiver that is not there yet ignores it, and tells where it is.
//! 2. A part goes up to a position: whoever applies it has every row as it was then, or newer, and all entries. Rows and
//!    the entries that speak of them therefore arrive together, and are acknowledged together.
//! 3. A receiver that is further behind than the sender's memory of changes is sent all rows, in the order of their keys
//!    ([`Sweep`]), and after that the entries: in the same message, if the rows fit into one. A receiver takes in the sender's
//!    own stream first, and the sweep before the parts.
//!    A row may be newer than the piece that it comes with: it is sent as it is now, while a piece that is too large for one
//!    message ends before the newest entries, a sweep has none, and of a bounded counter the rows of all sites travel
//!    together. With such rows come the entries that they include ([`Message::carried`]). So nobody has a row without its
//!    entries, should everybody be lost who has them. What was carried with one part is not carried with the next, which then
//!    says so ([`Message::leaning`]): a receiver that got the piece before it from another site ignores it. When a site is
//!    removed, nobody can tell any more up to which position such rows of it go. So whoever has some tells them in its own
//!    stream ([`KeyRow::ahead`]) before it says anything under the membership without that site ([`Message::epoch`]).
//! 4. Streams of a third site are passed on to whoever has no direct link to it ([`Message::direct`]).
//! 5. With the acknowledgement comes how long the sender's own stream was at that moment ([`Message::position`]). An
//!    operation is *settled* when every site has acknowledged it and everything that such a site had written until then has
//!    arrived: after that nobody can come with a count of its own. If several sites have counted it, everybody must have what
//!    takes the other counts back, too. [`Message::settled`] tells how far that is.
//! 6. Copies of tokens go to the site that has their slot, over others if need be, again and again until that one says
//!    that the slot is closed ([`Message::passed_on`]). So do the last words of edges.
//! 7. Rights are asked for ([`Ask`]) and given by writing them into a row, which travels like any other. One who is to
//!    pass rights on to a third is told a total ([`MoveAsk`]): to be told twice is to be told once.
//!
//! The bytes are CBOR, arrays of numbered fields: fields that a newer version appends are skipped by an older one.

use minicbor::{Decode, Encode};
use quipu_crdt::{
    Bounded, Pn,
    bounded::{Right, Row as BoundedRow},
};

use super::{Runs, SharedPart};
use crate::{
    SiteId,
    counter::Row,
    entry::{Entry, What},
    handoff::{DeskTable, PassedOn},
    operations::OperationHash,
};

/// A message aims at this size, and is not much longer.
pub const EXCHANGE_BYTES_MAX: usize = 64 * 1024;

/// Longer ones are refused before they are read.
pub const MESSAGE_BYTES_MAX: usize = 4 * 1024 * 1024;

/// What one shard tells the same shard at another site. All of it is durable at the sender.
#[derive(Debug, Clone, PartialEq, Eq, Default, Encode, Decode)]
pub struct Message {
    /// How long the sender's own stream is.
    #[n(0)]
    pub(crate) position: u64,
    /// Operations in the sender's stream up to here are settled.
    #[n(1)]
    pub(crate) settled: u64,
    /// How far the sender has got with the streams of others, the receiver's among them. Nothing, if the receiver does not
    /// wait to hear it: then [`Self::direct`] says nothing either.
    #[n(2)]
    pub(crate) received: Vec<Received>,
    /// What others, whom the receiver does not hear, were heard to say.
    #[n(3)]
    pub(crate) hearsay: Vec<Hearsay>,
    /// Whom the sender has a link to: what these write need not be passed on to it.
    #[n(4)]
    pub(crate) direct: Vec<SiteId>,
    /// The membership that the sender acts under. Its stream up to [`Self::position`] has all rows of removed sites that are
    /// ahead of their streams here.
    #[n(5)]
    pub(crate) epoch: u64,
    /// Pieces of streams.
    #[n(6)]
    pub(crate) parts: Vec<SharedPart>,
    /// Rights that the sender needs.
    #[n(7)]
    pub(crate) asks: Vec<Ask>,
    /// All rows of a stream, piece by piece.
    #[n(8)]
    pub(crate) sweep: Option<Sweep>,
    /// The sender wants to hear how far the receiver has got.
    #[n(9)]
    pub(crate) answer: Option<bool>,
    /// What the sender keeps for those who hand over, and the receiver may deliver.
    #[n(10)]
    pub(crate) passed_on: Option<Box<PassedOn>>,
    /// Entries that rows in this message include, and that the receiver does not have by it.
    #[n(11)]
    pub(crate) carried: Option<Vec<Carried>>,
    /// Which runs of their sites have written the streams that it has pieces of.
    #[n(12)]
    pub(crate) runs: Option<Vec<StreamRuns>>,
    /// Which slots are closed at the desks of a site, with the piece of its stream that this is a change of.
    #[n(16)]
    pub(crate) tables: Option<Vec<DeskTable>>,
    /// Rights that the receiver is to pass on.
    #[n(15)]
    pub(crate) moves: Option<Vec<MoveAsk>>,
    /// Parts that rely on earlier ones.
    #[n(17)]
    pub(crate) leaning: Option<Vec<Leaning>>,
}

/// A part that is only to be taken in by who has taken in the sender's parts of that stream before it, from a position on: its
/// rows include entries that these carried. Another site may have given the receiver the same piece without them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub(crate) struct Leaning {
    #[n(0)]
    pub(crate) stream: SiteId,
    #[n(1)]
    pub(crate) since: u64,
}

/// Which runs of a site have written its stream.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub(crate) struct StreamRuns {
    #[n(0)]
    pub(crate) site: SiteId,
    #[n(1)]
    pub(crate) runs: Runs,
}

/// Entries that come with the row of their counter, ahead of their streams.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub(crate) struct Carried {
    #[n(0)]
    #[cbor(with = "crate::entry::key")]
    pub(crate) key: Box<[u8]>,
    #[n(1)]
    pub(crate) entries: Vec<CarriedEntry>,
}

/// An [`Entry`] without its key.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub(crate) struct CarriedEntry {
    #[n(0)]
    pub(crate) site: SiteId,
    #[n(1)]
    pub(crate) number: u64,
    #[n(2)]
    pub(crate) hash: OperationHash,
    #[n(3)]
    pub(crate) what: What,
}

/// How far a site has got with another one's stream.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub(crate) struct Received {
    #[n(0)]
    pub(crate) site: SiteId,
    #[n(1)]
    pub(crate) position: u64,
    /// Up to where it knows that one's operations to be settled.
    #[n(2)]
    pub(crate) settled: u64,
    /// How far it has got with all rows of that stream, if it is being sent these.
    #[n(3)]
    pub(crate) swept: Option<Swept>,
    /// Which run of that one has written the change at that position.
    #[n(4)]
    pub(crate) writer: Option<u64>,
}

/// How far a site has got with all rows of a stream.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub(crate) struct Swept {
    /// The rows are as they were at this position, or newer.
    #[n(0)]
    pub(crate) until: u64,
    /// The last key; `None`: that was all.
    #[n(1)]
    #[cbor(with = "minicbor::bytes")]
    pub(crate) after: Option<Vec<u8>>,
}

/// What a third site was heard to say of itself, for whoever does not hear it.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub(crate) struct Hearsay {
    #[n(0)]
    pub(crate) site: SiteId,
    /// Its own stream was so long
    #[n(1)]
    pub(crate) position: u64,
    /// when it had got so far with those of others.
    #[n(2)]
    pub(crate) received: Vec<Received>,
    /// Its operations up to here are settled.
    #[n(3)]
    pub(crate) settled: u64,
    /// The membership that it acts under.
    #[n(4)]
    pub(crate) epoch: u64,
}

/// A piece of a site's stream.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub(crate) struct Part {
    #[n(0)]
    pub(crate) origin: SiteId,
    /// For whoever has got this far,
    #[n(1)]
    pub(crate) from: u64,
    /// and gets this far by it.
    #[n(2)]
    pub(crate) to: u64,
    #[n(3)]
    pub(crate) rows: Vec<KeyRow>,
    #[n(4)]
    pub(crate) entries: Vec<Entry>,
    /// Rows that changed up to here are left out: the receiver was swept.
    #[n(5)]
    pub(crate) rows_after: Option<u64>,
}

/// All rows of a site's stream that the receiver may lack, piece by piece in the order of their keys.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub(crate) struct Sweep {
    #[n(0)]
    pub(crate) origin: SiteId,
    /// The position of the stream when the sweep began.
    #[n(1)]
    pub(crate) until: u64,
    /// The piece begins after this key.
    #[n(2)]
    #[cbor(with = "minicbor::bytes")]
    pub(crate) after: Option<Vec<u8>>,
    /// It goes up to this one; `None`: to the end.
    #[n(3)]
    #[cbor(with = "minicbor::bytes")]
    pub(crate) next: Option<Vec<u8>>,
    #[n(4)]
    pub(crate) rows: Vec<KeyRow>,
}

impl Sweep {
    /// Are these all rows? Then what follows them comes in the same message.
    pub(crate) fn is_whole(&self) -> bool {
        self.after.is_none() && self.next.is_none()
    }
}

/// The row of a key.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub(crate) struct KeyRow {
    #[n(0)]
    #[cbor(with = "crate::entry::key")]
    pub(crate) key: Box<[u8]>,
    #[n(1)]
    pub(crate) row: WireRow,
    /// Rows of sites that were removed, and are newer than what the sender has of their streams. (Those of a bounded counter
    /// travel together anyway.)
    #[n(2)]
    pub(crate) ahead: Option<Vec<AheadRow>>,
}

/// A row that is ahead of the stream of its site.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub(crate) struct AheadRow {
    #[n(0)]
    pub(crate) site: SiteId,
    #[n(1)]
    pub(crate) row: Row,
}

impl AheadRow {
    /// How long it is, roughly.
    pub(crate) fn bytes(&self) -> usize {
        40 + 32 * self.row.set_aside.len()
    }
}

/// What is sent of a counter.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(flat)]
pub(crate) enum WireRow {
    /// The row of the stream's site, which has only counted.
    #[n(0)]
    Counted {
        #[n(0)]
        version: u64,
        #[n(1)]
        counted: Pn,
    },
    /// The row of the stream's site.
    #[n(1)]
    Full(#[n(0)] Box<Row>),
    /// All that the sender knows of a bounded counter. A part of it could show what was spent without the rights that
    /// allowed it.
    #[n(2)]
    Bounded(#[n(0)] Box<Bounded<SiteId>>),
}

impl WireRow {
    /// How long it is, roughly.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Counted { .. } => 16,
            Self::Full(row) => 32 + 32 * row.set_aside.len(),
            Self::Bounded(bounded) => {
                let rows = bounded.rows().values();
                let witnesses = |row: &BoundedRow<SiteId>| row.witnesses.as_ref().map_or(0, Vec::len);
                64 + rows.map(|row| 24 + 16 * (row.passed_on.len() + witnesses(row))).sum::<usize>()
            }
        }
    }
}

/// Rights that the sender needs of the receiver.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub(crate) struct Ask {
    #[n(0)]
    #[cbor(with = "crate::entry::key")]
    pub(crate) key: Box<[u8]>,
    #[n(1)]
    pub(crate) right: Right,
    /// So many.
    #[n(2)]
    pub(crate) amount: u64,
    /// The receiver has passed on so many in all, as far as the sender knows. If it is more by now, they are on their way.
    #[n(3)]
    pub(crate) passed_on: u64,
}

/// Rights that the receiver is to pass on, because a client of the sender wants it.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub(crate) struct MoveAsk {
    #[n(0)]
    #[cbor(with = "crate::entry::key")]
    pub(crate) key: Box<[u8]>,
    #[n(1)]
    pub(crate) right: Right,
    /// To this site,
    #[n(2)]
    pub(crate) to: SiteId,
    /// until it has passed on so many to it in all.
    #[n(3)]
    pub(crate) total: u64,
}

/// Bytes that are no message.
#[derive(Debug, thiserror::Error)]
pub enum BadMessage {
    /// Longer than any message.
    #[error("a message of {bytes} bytes; the longest has {max}", max = MESSAGE_BYTES_MAX)]
    TooLong {
        /// How long it is.
        bytes: usize,
    },
    /// Not what a site writes.
    #[error("bytes that are no message: {0}")]
    Unreadable(#[from] minicbor::decode::Error),
    /// It says what cannot be true.
    #[error("{0}")]
    Impossible(&'static str),
    /// A stream has branched off: two copies of its site have run.
    #[error(
        "site {of} runs from an old copy of its folder: in shard {shard}, site {peer} has change {position} of it as another \
         run of it has written that. Stop it and run `quipu restore` in its folder"
    )]
    Branched {
        /// Who has said so.
        peer: SiteId,
        /// Whose stream.
        of: SiteId,
        /// The shard.
        shard: u16,
        /// Where they differ.
        position: u64,
    },
    /// The sender knows more of this site's stream than this site itself.
    #[error(
        "site {peer} has changes of this site's shard {shard} up to number {theirs}, and here there are {ours}: this site \
         runs from an old copy of its folder. Stop it and run `quipu restore`"
    )]
    OldCopy {
        /// Who has noticed.
        peer: SiteId,
        /// The shard.
        shard: u16,
        /// What the peer has.
        theirs: u64,
        /// What is here.
        ours: u64,
    },
}

impl Message {
    /// The bytes of the message.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.encode_into(&mut bytes);
        bytes
    }

    /// Does it tell how much of a site's stream its sender has? Over one link that is said again only when it has changed.
    pub fn tells_of(&self, site: SiteId) -> bool {
        self.received.iter().any(|received| received.site == site)
    }

    /// Appends the bytes of the message.
    pub fn encode_into(&self, bytes: &mut Vec<u8>) {
        minicbor::encode(self, bytes).expect("writing to memory does not fail");
    }

    /// The message as it arrives, for networks without bytes: what no receiver could read is refused here as it is there.
    pub fn arrived(mut self) -> Result<Self, BadMessage> {
        for part in &mut self.parts {
            part.arrive()?;
        }
        Ok(self)
    }

    /// Reads a message. What is in it is checked by the shard that it is for.
    pub fn decode(bytes: &[u8]) -> Result<Self, BadMessage> {
        if bytes.len() > MESSAGE_BYTES_MAX {
            return Err(BadMessage::TooLong { bytes: bytes.len() });
        }
        let mut decoder = minicbor::Decoder::new(bytes);
        let message = decoder.decode()?;
        if decoder.position() != bytes.len() {
            return Err(BadMessage::Impossible("bytes follow the message"));
        }
        Ok(message)
    }
}
