//! What travels over a link, as bytes. `docs/protocol.md` shows it with examples.
//!
//! ```text
//!  0        4          8      9
//!  ┌────────┬──────────┬──────┬──────┐
//!  │ length │ checksum │ kind │ body │     numbers have their low byte first
//!  └────────┴──────────┴──────┴──────┘
//!    │        └ the low 32 bits of xxh3-64 over kind and body
//!    └ of kind and body
//! ```
//!
//! [`Frame`] says what the kinds mean and who sends them when; [`Inbox`] finds frames in what arrives.

use minicbor::{Decode, Encode};
use quipu_engine::{
    MESSAGE_BYTES_MAX, Message, SiteId,
    council::SITES_MAX,
    handoff::exchange::{ESTATE_BYTES_MAX, EXCHANGE_MESSAGE_BYTES_MAX},
};
use quipu_storage::ShardId;
use xxhash_rust::xxh3::xxh3_64;

use super::hello::Hello;

/// Length and checksum.
const HEAD_BYTES: usize = 8;
/// The kind of messages for shards.
const SHARD_KIND: u8 = 4;
/// The number of a shard, in front of its message.
const SHARD_BYTES: usize = 2;
/// A `Hello` has a name, a few numbers and the members.
pub const HELLO_BYTES_MAX: usize = 16 * 1024;
/// The longest frame after the handshake: kind, shard and message.
pub const FRAME_BYTES_MAX: usize = 1 + SHARD_BYTES + MESSAGE_BYTES_MAX;
/// The longest frame between a relay and a site.
pub const RELAY_FRAME_BYTES_MAX: usize = 1 + max(EXCHANGE_MESSAGE_BYTES_MAX, ESTATE_BYTES_MAX);

const fn max(one: usize, other: usize) -> usize {
    if one > other { one } else { other }
}

/// A node's key, which other nodes of its site show.
pub const NODE_KEY_BYTES: usize = 16;

/// What is said of a refusal is cut here.
pub const REFUSED_TEXT_BYTES_MAX: usize = 1024;

/// One thing said over a link.
///
/// 1. Who has dialled says `Hello`; the other one answers with `Hello` and `Positions`, and then the first sends its
///    `Positions`. Whoever finds something wrong says `Refused` instead and closes.
/// 2. From then on both send `Shard` and `Council` whenever there is something to tell, `Leave` when a person wants it,
///    `Draining` while they leave, and a `Beat` every second. A link over which nothing has come for five seconds is closed.
/// 3. To a site that was removed, and whose `Hello` says that it does not know, `Council` and `Refused` are sent when the
///    handshake is complete, from whichever side the connection was made, and nothing else.
/// 4. Who has dialled and says `Exchange` first is a relay. It goes on with `Exchange`, `Estate` and `Call`, and gets
///    `Exchanged`, `Adopted` and `Called`; both send beats. What is wrong is answered with `Refused`.
/// 5. Who has dialled and says `Node` first is another node of the same site. It is answered with `Exchanged`, goes on with
///    `Ask`, and gets `Told`; both send beats.
///
/// Anything else, or in another order, closes the connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Frame<'a> {
    /// Who is speaking. Kind 1; the body is CBOR.
    Hello(Hello),
    /// How long the sender's own stream is in each shard, in the order of the shards. Kind 2; the body is CBOR. They are
    /// read after the other side has noted how much it has of them, so that it may rely on having no more.
    Positions(Vec<u64>),
    /// Why the link does not come about. Kind 3; the body is CBOR.
    Refused(Refused),
    /// For one shard: its number in two bytes, then the message ([`quipu_engine::Message`]). Kind 4.
    Shard {
        /// The shard, the same at both sites.
        shard: ShardId,
        /// The bytes of the message.
        message: &'a [u8],
    },
    /// The sender is there. Kind 5; no body.
    Beat,
    /// For the council that decides who belongs to the cluster. Kind 6; the body is its own.
    Council(&'a [u8]),
    /// Somebody wants the receiver to leave the cluster in order, or to stay after all. Kind 7; the body is a byte, 1 or 0.
    Leave {
        /// Is it to leave?
        leaves: bool,
    },
    /// How far the sender, which leaves, has got. Kind 8; the body is CBOR.
    Draining(Draining),
    /// A relay hands over: what edges say with `POST /v1/exchange`. Kind 9; the body is that of such a request. The first
    /// one has no visits, and stands in the place of a `Hello`.
    Exchange(&'a [u8]),
    /// The answer to that. Kind 10; the body is that of such an answer.
    Exchanged(&'a [u8]),
    /// What a relay that retires leaves of one shard. Kind 11; the body has the same format.
    Estate(&'a [u8]),
    /// What became of it. Kind 12; the body has the same format.
    Adopted(&'a [u8]),
    /// A command that the receiver is to do for the sender. Kind 13: a number in eight bytes, then the command
    /// ([`quipu_engine::call`]).
    Call {
        /// Stands in the answer.
        number: u64,
        /// The bytes of the command.
        command: &'a [u8],
    },
    /// The answer to a call. Kind 14: its number in eight bytes, then the reply.
    Called {
        /// Of the call.
        number: u64,
        /// The bytes of the reply.
        reply: &'a [u8],
    },
    /// A question of another node of the same site. Kind 15: a number in eight bytes, then the question.
    Ask {
        /// Stands in the answer.
        number: u64,
        /// The bytes of the question.
        question: &'a [u8],
    },
    /// The answer to it. Kind 16: its number in eight bytes, then the answer.
    Told {
        /// Of the question.
        number: u64,
        /// The bytes of the answer.
        answer: &'a [u8],
    },
    /// The sender is a node of the receiver's site. Kind 17; the body is the key.
    Node {
        /// Drawn by the receiver at its start, and found where only nodes of its site can look: in their database.
        key: [u8; NODE_KEY_BYTES],
    },
}

/// How far a site that leaves has got: what must come to its end before it says in the council that it leaves.
#[derive(Debug, Clone, PartialEq, Eq, Default, Encode, Decode)]
pub struct Draining {
    /// Does it leave? Otherwise it stays, after all.
    #[n(0)]
    pub leaves: bool,
    /// Commands that wait for other sites, and may still count.
    #[n(1)]
    pub commands: u64,
    /// Its operations that are not settled.
    #[n(2)]
    pub operations: u64,
    /// Who lacks some of its changes.
    #[n(3)]
    pub behind: Vec<Behind>,
    /// Tokens and last words of edges and relays that have not arrived where they are meant to.
    #[n(4)]
    #[cbor(default)]
    pub kept: u64,
    /// Always 0: it does not wait for those who have slots. (Earlier versions told how many.)
    #[n(5)]
    #[cbor(default)]
    pub slots: u64,
}

/// A site that lacks some of another one's changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct Behind {
    /// Who.
    #[n(0)]
    pub site: SiteId,
    /// How many.
    #[n(1)]
    pub changes: u64,
}

/// Why a link does not come about.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Refused {
    /// For programs.
    #[n(0)]
    pub reason: Reason,
    /// For people: what is wrong, and what repairs it.
    #[n(1)]
    pub text: String,
}

/// The kinds of refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// Any that the receiver need not tell from others, and those of later versions.
    Other,
    /// The receiver runs from an old copy of its folder: what it counts now would be lost. It stops counting.
    OldCopy,
}

impl<C> Encode<C> for Reason {
    fn encode<W: minicbor::encode::Write>(
        &self,
        encoder: &mut minicbor::Encoder<W>,
        _: &mut C,
    ) -> Result<(), minicbor::encode::Error<W::Error>> {
        encoder.u8(match self {
            Self::Other => 0,
            Self::OldCopy => 1,
        })?;
        Ok(())
    }
}

impl<'b, C> Decode<'b, C> for Reason {
    fn decode(decoder: &mut minicbor::Decoder<'b>, _: &mut C) -> Result<Self, minicbor::decode::Error> {
        Ok(match decoder.u8()? {
            1 => Self::OldCopy,
            _ => Self::Other,
        })
    }
}

/// Bytes that are no frame. Nothing of them was taken; the connection is of no use any more.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadFrame {
    /// Longer than is allowed at this moment.
    #[error("a frame of {bytes} bytes; at most {max} are allowed here")]
    TooLong {
        /// How long it says that it is.
        bytes: usize,
        /// How long it may be.
        max: usize,
    },
    /// Not even a kind.
    #[error("a frame without a kind")]
    Empty,
    /// Bytes have changed on their way.
    #[error("a frame whose checksum is {told:08x}, and its bytes give {found:08x}")]
    Checksum {
        /// As it came.
        told: u32,
        /// As its bytes say.
        found: u32,
    },
    /// None that we know.
    #[error("a frame of the unknown kind {0}")]
    Kind(u8),
    /// A body that is not what its kind says.
    #[error("{what} that cannot be read: {why}")]
    Body {
        /// The kind.
        what: &'static str,
        /// What is wrong.
        why: String,
    },
}

/// Appends a frame of this kind with the body that `write` appends.
fn framed(kind: u8, into: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    let start = into.len();
    into.extend_from_slice(&[0; HEAD_BYTES]);
    into.push(kind);
    write(into);
    let (head, content) = into[start..].split_at_mut(HEAD_BYTES);
    let length = u32::try_from(content.len()).expect("frames are far shorter than 4 GiB");
    head[..4].copy_from_slice(&length.to_le_bytes());
    head[4..].copy_from_slice(&checksum(content).to_le_bytes());
}

fn encode_body(frame: &impl Encode<()>, into: &mut Vec<u8>) {
    minicbor::encode(frame, into).expect("writing to memory does not fail");
}

fn decode_body<'b, T: Decode<'b, ()>>(what: &'static str, body: &'b [u8]) -> Result<T, BadFrame> {
    let bad = |why: String| BadFrame::Body { what, why };
    let mut decoder = minicbor::Decoder::new(body);
    let value = decoder.decode().map_err(|error| bad(error.to_string()))?;
    if decoder.position() != body.len() {
        return Err(bad("bytes follow it".to_owned()));
    }
    Ok(value)
}

/// A number, and what follows it.
fn numbered<'b>(what: &'static str, body: &'b [u8]) -> Result<(u64, &'b [u8]), BadFrame> {
    let why = || "it has no number".to_owned();
    let (number, rest) = body.split_first_chunk().ok_or_else(|| BadFrame::Body { what, why: why() })?;
    Ok((u64::from_le_bytes(*number), rest))
}

impl<'a> Frame<'a> {
    /// Appends the frame.
    pub fn encode(&self, into: &mut Vec<u8>) {
        framed(self.kind(), into, |into| self.encode_body(into));
    }

    /// Appends the [`Frame::Shard`] of a message.
    pub(crate) fn encode_message(shard: ShardId, message: &Message, into: &mut Vec<u8>) {
        framed(SHARD_KIND, into, |into| {
            into.extend_from_slice(&shard.0.to_le_bytes());
            message.encode_into(into);
        });
    }

    fn encode_body(&self, into: &mut Vec<u8>) {
        match self {
            Self::Hello(hello) => encode_body(hello, into),
            Self::Positions(positions) => encode_body(positions, into),
            Self::Refused(refused) => encode_body(refused, into),
            Self::Shard { shard, message } => {
                into.extend_from_slice(&shard.0.to_le_bytes());
                into.extend_from_slice(message);
            }
            Self::Beat => {}
            Self::Council(bytes)
            | Self::Exchange(bytes)
            | Self::Exchanged(bytes)
            | Self::Estate(bytes)
            | Self::Adopted(bytes) => into.extend_from_slice(bytes),
            Self::Call { number, command: bytes }
            | Self::Called { number, reply: bytes }
            | Self::Ask { number, question: bytes }
            | Self::Told { number, answer: bytes } => {
                into.extend_from_slice(&number.to_le_bytes());
                into.extend_from_slice(bytes);
            }
            Self::Leave { leaves } => into.push(u8::from(*leaves)),
            Self::Node { key } => into.extend_from_slice(key),
            Self::Draining(draining) => encode_body(draining, into),
        }
    }

    /// The frame as bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.encode(&mut bytes);
        bytes
    }

    fn kind(&self) -> u8 {
        match self {
            Self::Hello(_) => 1,
            Self::Positions(_) => 2,
            Self::Refused(_) => 3,
            Self::Shard { .. } => SHARD_KIND,
            Self::Beat => 5,
            Self::Council(_) => 6,
            Self::Leave { .. } => 7,
            Self::Draining(_) => 8,
            Self::Exchange(_) => 9,
            Self::Exchanged(_) => 10,
            Self::Estate(_) => 11,
            Self::Adopted(_) => 12,
            Self::Call { .. } => 13,
            Self::Called { .. } => 14,
            Self::Ask { .. } => 15,
            Self::Told { .. } => 16,
            Self::Node { .. } => 17,
        }
    }

    /// What it is called when it comes at the wrong time.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Hello(_) => "a second Hello",
            Self::Positions(_) => "Positions",
            Self::Refused(_) => "a refusal",
            Self::Shard { .. } => "a message for a shard",
            Self::Beat => "a beat",
            Self::Council(_) => "a message for the council",
            Self::Leave { .. } => "a Leave",
            Self::Draining(_) => "a Draining",
            Self::Exchange(_) => "an Exchange",
            Self::Exchanged(_) => "an Exchanged",
            Self::Estate(_) => "an Estate",
            Self::Adopted(_) => "an Adopted",
            Self::Call { .. } => "a Call",
            Self::Called { .. } => "a Called",
            Self::Ask { .. } => "an Ask",
            Self::Told { .. } => "a Told",
            Self::Node { .. } => "a Node",
        }
    }

    /// Reads kind and body: what stands behind length and checksum.
    pub fn decode(content: &'a [u8]) -> Result<Self, BadFrame> {
        let (kind, body) = content.split_first().ok_or(BadFrame::Empty)?;
        Ok(match kind {
            1 => Self::Hello(decode_body("a Hello", body)?),
            2 => Self::Positions(decode_body("Positions", body)?),
            3 => Self::Refused(decode_body::<Refused>("a refusal", body)?.cleaned()),
            &SHARD_KIND => {
                let why = || "it has no shard".to_owned();
                let (shard, message) = body
                    .split_first_chunk::<SHARD_BYTES>()
                    .ok_or_else(|| BadFrame::Body { what: "a message for a shard", why: why() })?;
                Self::Shard { shard: ShardId(u16::from_le_bytes(*shard)), message }
            }
            5 if body.is_empty() => Self::Beat,
            5 => return Err(BadFrame::Body { what: "a beat", why: "bytes follow it".to_owned() }),
            6 => Self::Council(body),
            7 => match body {
                [0] => Self::Leave { leaves: false },
                [1] => Self::Leave { leaves: true },
                _ => {
                    let why = "its body is neither 0 nor 1".to_owned();
                    return Err(BadFrame::Body { what: "a Leave", why });
                }
            },
            8 => {
                let mut draining: Draining = decode_body("a Draining", body)?;
                draining.behind.truncate(SITES_MAX);
                Self::Draining(draining)
            }
            9 => Self::Exchange(body),
            10 => Self::Exchanged(body),
            11 => Self::Estate(body),
            12 => Self::Adopted(body),
            13 => {
                let (number, command) = numbered("a Call", body)?;
                Self::Call { number, command }
            }
            14 => {
                let (number, reply) = numbered("a Called", body)?;
                Self::Called { number, reply }
            }
            15 => {
                let (number, question) = numbered("an Ask", body)?;
                Self::Ask { number, question }
            }
            16 => {
                let (number, answer) = numbered("a Told", body)?;
                Self::Told { number, answer }
            }
            17 => {
                let why = || format!("its key has {} bytes", body.len());
                let key = body.try_into().map_err(|_| BadFrame::Body { what: "a Node", why: why() })?;
                Self::Node { key }
            }
            kind => return Err(BadFrame::Kind(*kind)),
        })
    }
}

impl Refused {
    /// Text of a stranger, made fit for a line of a log: not long, and nothing that moves a cursor.
    fn cleaned(mut self) -> Self {
        let mut end = self.text.len().min(REFUSED_TEXT_BYTES_MAX);
        while !self.text.is_char_boundary(end) {
            end -= 1;
        }
        self.text.truncate(end);
        if self.text.contains(char::is_control) {
            self.text = self.text.replace(char::is_control, " ");
        }
        self
    }
}

fn checksum(content: &[u8]) -> u32 {
    let hash = xxh3_64(content);
    u32::try_from(hash & u64::from(u32::MAX)).expect("the low half")
}

/// Bytes that have arrived, in which frames are found. It grows with what has really come, never with what a length
/// promises.
#[derive(Debug, Default)]
pub struct Inbox {
    bytes: Vec<u8>,
    /// Frames before this have been taken.
    taken: usize,
}

impl Inbox {
    /// Adds what has arrived.
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.drain(..self.taken);
        self.taken = 0;
        self.bytes.extend_from_slice(bytes);
    }

    /// The next frame, if it has come whole. One whose kind and body are longer than `bytes_max` is an error as soon as
    /// its length is known.
    pub fn next(&mut self, bytes_max: usize) -> Result<Option<Frame<'_>>, BadFrame> {
        let rest = &self.bytes[self.taken..];
        let Some((length, rest)) = rest.split_first_chunk::<4>() else { return Ok(None) };
        let length = usize::try_from(u32::from_le_bytes(*length)).unwrap_or(usize::MAX);
        if length > bytes_max {
            return Err(BadFrame::TooLong { bytes: length, max: bytes_max });
        }
        let Some((told, rest)) = rest.split_first_chunk::<4>() else { return Ok(None) };
        let Some(content) = rest.get(..length) else { return Ok(None) };
        let (told, found) = (u32::from_le_bytes(*told), checksum(content));
        if told != found {
            return Err(BadFrame::Checksum { told, found });
        }
        self.taken += HEAD_BYTES + length;
        Frame::decode(content).map(Some)
    }

    /// Has a frame begun that is not whole?
    pub fn is_within_a_frame(&self) -> bool {
        self.taken < self.bytes.len()
    }
}

#[cfg(test)]
mod tests;
