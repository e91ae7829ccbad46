//! What goes over the wire between an edge or a relay and a server: one request, one answer.
//!
//! The bytes are one byte that names the format, then CBOR: arrays of numbered fields, so that fields which a newer
//! version appends are skipped by an older one.

use minicbor::{Decode, Encode};

use super::{Adoption, Answer, Cluster, ClusterId, Estate, Server, Visit};
use crate::Refusal;

/// The format of both.
const FORMAT: u8 = 1;

/// Longer requests and answers are refused before they are read.
pub const EXCHANGE_MESSAGE_BYTES_MAX: usize = 4 * 1024 * 1024;

/// The longest estate of a shard.
pub const ESTATE_BYTES_MAX: usize = 8 * 1024 * 1024;

/// What an edge or a relay says to a server. The first time it does not know the server: it says nothing, and is told.
#[derive(Debug, Clone, PartialEq, Eq, Default, Encode, Decode)]
pub struct Exchange {
    /// The cluster that it belongs to, once it has heard of one.
    #[n(0)]
    pub cluster: Option<String>,
    /// What it says to each shard.
    #[n(1)]
    pub visits: Vec<(u16, Visit)>,
    /// The id of that cluster, once it has heard it.
    #[n(2)]
    pub cluster_id: Option<ClusterId>,
}

impl Exchange {
    /// Says this to a server.
    pub fn new(cluster: Option<Cluster>, visits: Vec<(u16, Visit)>) -> Self {
        let (cluster, cluster_id) = cluster.map_or((None, None), |it| (Some(it.name), it.id));
        Self { cluster, visits, cluster_id }
    }

    /// The cluster that it belongs to, once it has heard of one.
    pub fn home(&self) -> Option<Cluster> {
        Some(Cluster { name: self.cluster.clone()?, id: self.cluster_id })
    }
}

/// What a server answers.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Exchanged {
    /// The cluster of the server.
    #[n(0)]
    pub cluster: String,
    /// Who it is.
    #[n(1)]
    pub server: Server,
    /// What each shard has answered to its visit.
    #[n(2)]
    pub answers: Vec<(u16, ShardAnswer)>,
    /// The id of the cluster, if the server knows it.
    #[n(3)]
    pub cluster_id: Option<ClusterId>,
}

impl Exchanged {
    /// The answer of a server of this cluster.
    pub fn new(cluster: Cluster, server: Server, answers: Vec<(u16, ShardAnswer)>) -> Self {
        Self { cluster: cluster.name, server, answers, cluster_id: cluster.id }
    }

    /// The cluster of the server.
    pub fn home(&self) -> Cluster {
        Cluster { name: self.cluster.clone(), id: self.cluster_id }
    }
}

/// What a shard has answered.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum ShardAnswer {
    /// It has taken in what was said.
    #[n(0)]
    Visited(#[n(0)] Box<Answer>),
    /// It has not, and says why. Nothing has changed there.
    #[n(1)]
    Refused(#[n(0)] String),
    /// It has not: two use the state of whoever asks. Nothing has changed there.
    #[n(2)]
    Copy,
}

impl From<Refusal> for ShardAnswer {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Copy { .. } => Self::Copy,
            other => Self::Refused(other.to_string()),
        }
    }
}

/// What a relay that retires leaves of one shard.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Left {
    /// The shard.
    #[n(0)]
    pub shard: u16,
    /// What it leaves, and for whom.
    #[n(1)]
    pub estate: Estate,
}

impl Left {
    /// Are all counters that it speaks of of this kind?
    pub fn speaks_only_of(&self, of: impl Fn(&[u8]) -> bool) -> bool {
        self.estate.tokens().flat_map(|token| token.value.keys()).all(|key| of(key.bytes()))
    }
}

/// What became of that.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum Taken {
    /// The shard has answered.
    #[n(0)]
    Answered(#[n(0)] Adoption),
    /// It cannot now, and says why. Nothing has changed there.
    #[n(1)]
    Refused(#[n(0)] String),
}

/// Bytes that are not what was expected.
#[derive(Debug, thiserror::Error)]
pub enum BadExchange {
    /// Too many.
    #[error("{bytes} bytes, and at most {max} are read")]
    TooLong {
        /// How many.
        bytes: usize,
        /// How many may be.
        max: usize,
    },
    /// Of another version.
    #[error("the format {found:?}; this version reads {FORMAT}")]
    Format {
        /// The first byte.
        found: Option<u8>,
    },
    /// Something else.
    #[error("bytes that are no exchange: {0}")]
    Unreadable(#[from] minicbor::decode::Error),
}

/// The bytes of an [`Exchange`] or [`Exchanged`].
pub fn encode<T: Encode<()>>(message: &T) -> Vec<u8> {
    let mut bytes = vec![FORMAT];
    minicbor::encode(message, &mut bytes).expect("writing to memory does not fail");
    bytes
}

/// What [`encode`] has written.
pub fn decode<T: for<'b> Decode<'b, ()>>(bytes: &[u8]) -> Result<T, BadExchange> {
    decode_within(EXCHANGE_MESSAGE_BYTES_MAX, bytes)
}

/// What a relay leaves, from what [`encode`] has written.
pub fn decode_left(bytes: &[u8]) -> Result<Left, BadExchange> {
    decode_within(ESTATE_BYTES_MAX, bytes)
}

/// What [`encode`] has written, if it is no longer than this.
pub fn decode_within<T: for<'b> Decode<'b, ()>>(max: usize, bytes: &[u8]) -> Result<T, BadExchange> {
    if bytes.len() > max {
        return Err(BadExchange::TooLong { bytes: bytes.len(), max });
    }
    let Some((&FORMAT, body)) = bytes.split_first() else {
        return Err(BadExchange::Format { found: bytes.first().copied() });
    };
    let mut decoder = minicbor::Decoder::new(body);
    let message = decoder.decode()?;
    if decoder.position() != body.len() {
        return Err(minicbor::decode::Error::message("bytes follow it").into());
    }
    Ok(message)
}
