//! What the nodes of a site ask each other, as bytes: a byte that names the format, then CBOR.

use minicbor::{Decode, Encode, bytes::ByteVec};
use quipu_engine::{
    Refusal, ShardAudit, SiteId,
    handoff::{Answer, Visit, exchange},
};

use super::crossing::{Crossing, LinkFacts};
use crate::links::RELAY_FRAME_BYTES_MAX;

/// Something asked of another node.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub(super) enum Question {
    /// Do these commands, in one batch.
    #[n(0)]
    Commands {
        #[n(0)]
        shard: u16,
        /// As [`quipu_engine::call`] writes them.
        #[n(1)]
        commands: Vec<ByteVec>,
    },
    /// A page of counters, or delete them.
    #[n(1)]
    Page {
        #[n(0)]
        shard: u16,
        #[n(1)]
        prefix: ByteVec,
        #[n(2)]
        after: Option<ByteVec>,
        #[n(3)]
        limit: u64,
        #[n(4)]
        clear: bool,
    },
    /// How many counters are in the shards of that node.
    #[n(2)]
    Count,
    /// The books of the shards of that node.
    #[n(3)]
    Audit,
    /// What an edge or a relay says to a shard.
    #[n(4)]
    Visit {
        #[n(0)]
        shard: u16,
        #[n(1)]
        leaf: bool,
        #[n(2)]
        visit: Box<Visit>,
    },
    /// What a relay leaves to a shard, as it came.
    #[n(5)]
    Adopt {
        #[n(0)]
        shard: u16,
        #[n(1)]
        estate: ByteVec,
    },
    /// Somebody has released shards: look.
    #[n(6)]
    Look,
    /// Which links the node has that speaks for the site.
    #[n(7)]
    Links {
        /// Of its run, which the next one that speaks has a higher one of.
        #[n(0)]
        run: u64,
        #[n(1)]
        links: Vec<LinkFacts>,
    },
    /// What another site says to a shard of that node.
    #[n(8)]
    Inward {
        #[n(0)]
        from: SiteId,
        /// Of the membership that its sender was let in under.
        #[n(1)]
        epoch: u64,
        #[n(2)]
        message: Crossing,
    },
    /// What shards say to another site, for the node that speaks.
    #[n(9)]
    Outward {
        #[n(0)]
        to: SiteId,
        #[n(1)]
        messages: Vec<Crossing>,
    },
    /// Another site has said something wrong, for the node that speaks.
    #[n(10)]
    Fault {
        #[n(0)]
        from: SiteId,
        #[n(1)]
        why: String,
        /// This site runs from an old copy.
        #[n(2)]
        is_old_copy: bool,
    },
    /// How much of a site's stream is in the shards of that node.
    #[n(11)]
    Positions {
        #[n(0)]
        of: SiteId,
    },
    /// Which other sites have what was written in a shard, up to a position, or up to now.
    #[n(12)]
    Acks {
        #[n(0)]
        shard: u16,
        #[n(1)]
        position: Option<u64>,
    },
}

/// The answer.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub(super) enum Told {
    /// The shard is not here. Nothing was done.
    #[n(0)]
    NotHere,
    /// The answers to commands, in their order.
    #[n(1)]
    Replies(#[n(0)] Vec<ByteVec>),
    /// A page of counters.
    #[n(2)]
    Listing {
        #[n(0)]
        counters: Vec<(ByteVec, i64)>,
        #[n(1)]
        next: Option<ByteVec>,
    },
    /// A page of counters is gone.
    #[n(3)]
    Cleared {
        #[n(0)]
        next: Option<ByteVec>,
        #[n(1)]
        kept: u64,
    },
    /// So many in each shard that is there.
    #[n(4)]
    Count(#[n(0)] Vec<(u16, u64)>),
    /// The books.
    #[n(5)]
    Audit(#[n(0)] Vec<ShardAudit>),
    /// To an edge or a relay.
    #[n(6)]
    Visited(#[n(0)] Box<Answer>),
    /// To a relay that retires, as it is to be passed on.
    #[n(7)]
    Adopted(#[n(0)] ByteVec),
    /// It was not done, or not known to be.
    #[n(8)]
    Refused(#[n(0)] Refusal),
    /// It is done, or begun.
    #[n(9)]
    Done,
    /// What another site has said is wrong, and this is why.
    #[n(10)]
    Bad(#[n(0)] String),
    /// Of each shard that is there.
    #[n(11)]
    Positions(#[n(0)] Vec<(u16, u64)>),
    /// These sites have what was written up to this position.
    #[n(12)]
    Acks {
        #[n(0)]
        position: u64,
        #[n(1)]
        sites: Vec<SiteId>,
    },
}

pub(super) fn encode<T: Encode<()>>(message: &T) -> Vec<u8> {
    exchange::encode(message)
}

pub(super) fn decode<T: for<'b> Decode<'b, ()>>(bytes: &[u8]) -> Result<T, String> {
    exchange::decode_within(RELAY_FRAME_BYTES_MAX, bytes).map_err(|bad| format!("{bad}; nothing was done"))
}
