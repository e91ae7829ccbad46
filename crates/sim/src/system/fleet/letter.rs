//! What goes between edges, relays and sites: requests and answers, as they are or as their bytes.

use minicbor::{Decode, Encode};
use quipu_engine::handoff::exchange::{self, Exchange, Exchanged, Left, Taken};
use std::rc::Rc;

/// Something on its way.
#[derive(Debug, Clone)]
pub(in crate::system) enum Content<T> {
    /// As it is, which is faster.
    Whole(Box<T>),
    /// As its bytes.
    Bytes(Rc<[u8]>),
}

impl<T: Encode<()> + for<'b> Decode<'b, ()>> Content<T> {
    pub(in crate::system) fn pack(content: T, encoded: bool) -> Self {
        if encoded { Self::Bytes(exchange::encode(&content).into()) } else { Self::Whole(Box::new(content)) }
    }

    pub(in crate::system) fn unpack(self) -> Result<T, String> {
        match self {
            Self::Whole(content) => Ok(*content),
            Self::Bytes(bytes) => exchange::decode(&bytes).map_err(|bad| format!("a message: {bad}")),
        }
    }
}

/// What an edge or a relay says to a server.
#[derive(Debug, Clone)]
pub(in crate::system) enum Said {
    /// Visits to its shards; without any it only asks who it is.
    Exchange(Content<Exchange>),
    /// What a relay leaves.
    Estate(Content<Left>),
}

/// A request.
#[derive(Debug, Clone)]
pub(in crate::system) struct Letter {
    /// Of all requests of the run. One that comes twice has the same.
    pub(in crate::system) number: u64,
    /// Who has sent it,
    pub(in crate::system) from: usize,
    /// in which of its processes.
    pub(in crate::system) run: u32,
    pub(in crate::system) said: Said,
}

/// An answer.
#[derive(Debug, Clone)]
pub(in crate::system) enum Answered {
    Exchange(Content<Exchanged>),
    Estate { shard: u16, taken: Content<Taken> },
}
