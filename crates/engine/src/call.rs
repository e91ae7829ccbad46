//! Commands and their answers as bytes, for nodes that pass them on to others.
//!
//! A node that cannot do a command itself sends it, whole, to one that can, and gives that one's answer as its own. The
//! format is that of [exchanges](crate::handoff::exchange): a byte that names it, then CBOR.

use minicbor::{Decode, Encode};
use quipu_crdt::bounded::Right;

use crate::{
    Action, Add, Added, Beyond, Command, Inspection, KEY_BYTES_MAX, Limits, Move, OPERATION_ID_BYTES_MAX,
    OperationId, Outcome, OwnedCommand, Refusal, Reply, SiteId, Spread,
    handoff::exchange::{self, BadExchange},
};

/// The longest command or answer.
pub const CALL_BYTES_MAX: usize = 64 * 1024;

#[derive(Encode, Decode)]
struct WireCommand {
    #[cbor(n(0), with = "minicbor::bytes")]
    key: Vec<u8>,
    #[n(1)]
    action: WireAction,
    #[n(2)]
    operation: Option<WireOperation>,
}

#[derive(Encode, Decode)]
struct WireOperation {
    #[cbor(n(0), with = "minicbor::bytes")]
    producer: Vec<u8>,
    #[cbor(n(1), with = "minicbor::bytes")]
    id: Vec<u8>,
}

#[derive(Encode, Decode)]
enum WireAction {
    #[n(0)]
    Add {
        #[n(0)]
        amount: i64,
        #[n(1)]
        lower: Option<i64>,
        #[n(2)]
        upper: Option<i64>,
        #[n(3)]
        beyond: Beyond,
        #[n(4)]
        remote_ms: u64,
    },
    #[n(1)]
    Get,
    #[n(2)]
    Reset {
        #[n(0)]
        to: Option<i64>,
    },
    #[n(3)]
    Create {
        #[n(0)]
        minimum: Option<i64>,
        #[n(1)]
        maximum: Option<i64>,
        #[n(2)]
        initial: i64,
        #[n(3)]
        wait_ms: u64,
    },
    #[n(4)]
    Inspect,
    #[n(5)]
    Outcome,
    /// Apart from `Create`: a node that does not know of shares must not create without them.
    #[n(6)]
    CreateSpread {
        #[n(0)]
        minimum: Option<i64>,
        #[n(1)]
        maximum: Option<i64>,
        #[n(2)]
        initial: i64,
        #[n(3)]
        wait_ms: u64,
        /// None: all sites the same.
        #[n(4)]
        shares: Option<Vec<(SiteId, u64)>>,
    },
    #[n(7)]
    Move {
        #[n(0)]
        amount: u64,
        #[n(1)]
        right: Option<Right>,
        #[n(2)]
        from: SiteId,
        #[n(3)]
        to: SiteId,
        #[n(4)]
        wait_ms: u64,
    },
}

#[derive(Encode, Decode)]
enum WireReply {
    #[n(0)]
    Added(#[n(0)] Added),
    #[n(1)]
    Value(#[n(0)] Option<i64>),
    #[n(2)]
    Reset {
        #[n(0)]
        existed: bool,
        /// Not said by versions that only tell whether there was a counter.
        #[n(1)]
        aside: Option<i64>,
    },
    #[n(3)]
    Created,
    #[n(4)]
    Inspected(#[n(0)] Option<Box<Inspection>>),
    #[n(5)]
    Outcome(#[n(0)] Outcome),
    #[n(6)]
    Refused(#[n(0)] Refusal),
    #[n(7)]
    Moved(#[n(0)] u64),
}

/// The bytes of a command.
pub fn encode_command(command: Command<'_>) -> Vec<u8> {
    let wire = |OperationId { producer, id }: OperationId<'_>| WireOperation {
        producer: producer.to_vec(),
        id: id.to_vec(),
    };
    let (action, operation) = match command.action {
        Action::Add { add: Add { amount, lower, upper, beyond, remote_ms }, operation } => {
            (WireAction::Add { amount, lower, upper, beyond, remote_ms }, operation)
        }
        Action::Get => (WireAction::Get, None),
        Action::Reset { to } => (WireAction::Reset { to }, None),
        Action::Create { limits: Limits { minimum, maximum, initial }, spread, wait_ms } => {
            let spread = match spread {
                Spread::Creator => WireAction::Create { minimum, maximum, initial, wait_ms },
                Spread::Even => WireAction::CreateSpread { minimum, maximum, initial, wait_ms, shares: None },
                Spread::Shares(shares) => {
                    let shares = Some(shares.to_vec());
                    WireAction::CreateSpread { minimum, maximum, initial, wait_ms, shares }
                }
            };
            (spread, None)
        }
        Action::Move(Move { amount, right, from, to, wait_ms }) => {
            (WireAction::Move { amount, right, from, to, wait_ms }, None)
        }
        Action::Inspect => (WireAction::Inspect, None),
        Action::Outcome(operation) => (WireAction::Outcome, Some(operation)),
    };
    exchange::encode(&WireCommand { key: command.key.to_vec(), action, operation: operation.map(wire) })
}

/// What [`encode_command`] has written.
pub fn decode_command(bytes: &[u8]) -> Result<OwnedCommand, BadExchange> {
    let WireCommand { key, action, operation } = exchange::decode_within(CALL_BYTES_MAX, bytes)?;
    let bad = |why: &str| BadExchange::Unreadable(minicbor::decode::Error::message(why));
    if !(1..=KEY_BYTES_MAX).contains(&key.len()) {
        return Err(bad("a key is empty or too long"));
    }
    let is_long = |it: &WireOperation| it.producer.len().max(it.id.len()) > OPERATION_ID_BYTES_MAX;
    if operation.as_ref().is_some_and(is_long) {
        return Err(bad("an id is too long"));
    }
    let operation = operation.as_ref().map(|WireOperation { producer, id }| OperationId { producer, id });
    let action = match action {
        WireAction::Add { amount, lower, upper, beyond, remote_ms } => {
            Action::Add { add: Add { amount, lower, upper, beyond, remote_ms }, operation }
        }
        WireAction::Get => Action::Get,
        WireAction::Reset { to } => Action::Reset { to },
        WireAction::Create { minimum, maximum, initial, wait_ms } => {
            let limits = Limits { minimum, maximum, initial };
            Action::Create { limits, spread: Spread::Creator, wait_ms }
        }
        WireAction::CreateSpread { minimum, maximum, initial, wait_ms, ref shares } => {
            let limits = Limits { minimum, maximum, initial };
            let spread = shares.as_deref().map_or(Spread::Even, Spread::Shares);
            Action::Create { limits, spread, wait_ms }
        }
        WireAction::Move { amount, right, from, to, wait_ms } => {
            Action::Move(Move { amount, right, from, to, wait_ms })
        }
        WireAction::Inspect => Action::Inspect,
        WireAction::Outcome => Action::Outcome(operation.ok_or_else(|| bad("no id to ask for"))?),
    };
    Ok(OwnedCommand::new(Command { key: &key, action }))
}

/// The bytes of the answer to a command.
pub fn encode_reply(reply: Reply) -> Vec<u8> {
    let reply = match reply {
        Reply::Added(added) => WireReply::Added(added),
        Reply::Value(value) => WireReply::Value(value),
        Reply::Reset { aside } => WireReply::Reset { existed: aside.is_some(), aside },
        Reply::Created => WireReply::Created,
        Reply::Inspected(inspection) => WireReply::Inspected(inspection),
        Reply::Outcome(outcome) => WireReply::Outcome(outcome),
        Reply::Moved(amount) => WireReply::Moved(amount),
        Reply::Refused(refusal) => WireReply::Refused(refusal),
        Reply::Visited(_) | Reply::Visits(_) | Reply::Estate(_) | Reply::Adopted(_) => {
            WireReply::Refused(Refusal::BadVisit("no answer to a command".to_owned()))
        }
    };
    exchange::encode(&reply)
}

/// What [`encode_reply`] has written.
pub fn decode_reply(bytes: &[u8]) -> Result<Reply, BadExchange> {
    Ok(match exchange::decode_within(CALL_BYTES_MAX, bytes)? {
        WireReply::Added(added) => Reply::Added(added),
        WireReply::Value(value) => Reply::Value(value),
        WireReply::Reset { existed, aside } => Reply::Reset { aside: aside.or(existed.then_some(0)) },
        WireReply::Created => Reply::Created,
        WireReply::Inspected(inspection) => Reply::Inspected(inspection),
        WireReply::Outcome(outcome) => Reply::Outcome(outcome),
        WireReply::Moved(amount) => Reply::Moved(amount),
        WireReply::Refused(refusal) => Reply::Refused(refusal),
    })
}

/// Numbers of 128 bits, as two of 64, the high one first.
pub(crate) mod wide {
    type Halves = (u64, u64);

    fn split(number: u128) -> Halves {
        let half = |number: u128| u64::try_from(number & u128::from(u64::MAX)).unwrap_or(u64::MAX);
        (half(number >> 64), half(number))
    }

    fn join((high, low): Halves) -> u128 {
        u128::from(high) << 64 | u128::from(low)
    }

    /// One that may not be there.
    pub(crate) mod optional {
        use minicbor::{Decoder, Encoder, decode::Error, encode as encoding};

        use super::{Halves, join, split};

        #[expect(clippy::ref_option, reason = "the derive gives it so")]
        pub(crate) fn encode<C, W: encoding::Write>(
            number: &Option<u128>,
            e: &mut Encoder<W>,
            _: &mut C,
        ) -> Result<(), encoding::Error<W::Error>> {
            e.encode(number.map(split))?.ok()
        }

        pub(crate) fn decode<C>(d: &mut Decoder<'_>, _: &mut C) -> Result<Option<u128>, Error> {
            Ok(d.decode::<Option<Halves>>()?.map(join))
        }
    }

    /// One for each site.
    pub(crate) mod of_sites {
        use minicbor::{Decoder, Encoder, decode::Error, encode as encoding};

        use super::{Halves, join, split};
        use crate::SiteId;

        pub(crate) fn encode<C, W: encoding::Write>(
            numbers: &[(SiteId, u128)],
            e: &mut Encoder<W>,
            _: &mut C,
        ) -> Result<(), encoding::Error<W::Error>> {
            let halves = numbers.iter().map(|(site, number)| (*site, split(*number)));
            e.encode(halves.collect::<Vec<_>>())?.ok()
        }

        pub(crate) fn decode<C>(d: &mut Decoder<'_>, _: &mut C) -> Result<Vec<(SiteId, u128)>, Error> {
            let halves: Vec<(SiteId, Halves)> = d.decode()?;
            Ok(halves.into_iter().map(|(site, halves)| (site, join(halves))).collect())
        }
    }
}

#[cfg(test)]
mod tests;
