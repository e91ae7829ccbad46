//! What is written is read again as it was.

use quipu_crdt::Pn;

use super::*;
use crate::{BoundedView, SiteId, SiteView, handoff::Name};

const SITE: SiteId = SiteId { number: 3, incarnation: 1 };

#[test]
fn commands_arrive_as_they_were_sent() {
    let operation = OperationId { producer: b"web-1", id: b"17" };
    let add =
        Add { amount: -7, lower: Some(i64::MIN), upper: None, beyond: Beyond::Saturate, remote_ms: 250 };
    let limits = Limits { minimum: Some(0), maximum: None, initial: 9 };
    for action in [
        Action::Add { add, operation: Some(operation) },
        Action::Add { add: Add { beyond: Beyond::Skip, ..Add::of(i64::MAX) }, operation: None },
        Action::Get,
        Action::Reset { to: None },
        Action::Reset { to: Some(-1) },
        Action::Create { limits, spread: Spread::Creator, wait_ms: 2_000 },
        Action::Create { limits, spread: Spread::Even, wait_ms: 0 },
        Action::Create { limits, spread: Spread::Shares(&[(SITE, 7), (SiteId::FIRST, 2)]), wait_ms: 1 },
        Action::Move(Move {
            amount: 5,
            right: Some(Right::ToAdd),
            from: SITE,
            to: SiteId::FIRST,
            wait_ms: 9,
        }),
        Action::Move(Move { amount: 1, right: None, from: SiteId::FIRST, to: SITE, wait_ms: 0 }),
        Action::Inspect,
        Action::Outcome(operation),
    ] {
        let command = Command { key: b"hits", action };
        let read = decode_command(&encode_command(command)).expect("its own bytes");
        assert_eq!(read.get(), command);
    }
}

#[test]
fn what_is_no_command_is_refused() {
    let long = vec![7; OPERATION_ID_BYTES_MAX + 1];
    let get = |key| encode_command(Command { key, action: Action::Get });
    let outcome = Action::Outcome(OperationId { producer: b"p", id: &long });
    for bytes in [
        Vec::new(),
        vec![1],
        get(b""),
        get(&vec![7; KEY_BYTES_MAX + 1]),
        [get(b"hits"), vec![0]].concat(),
        encode_command(Command { key: b"hits", action: outcome }),
        vec![1; CALL_BYTES_MAX + 1],
    ] {
        assert!(decode_command(&bytes).is_err(), "{bytes:?}");
    }
}

#[test]
fn replies_arrive_as_they_were_sent() {
    let added = Added { value: -5, applied: 3, repeated: true, site: SITE };
    let inspection = Inspection {
        value: 1,
        bounded: Some(BoundedView {
            minimum: None,
            maximum: Some(7),
            initial: -2,
            creator: SITE,
            parked: Pn::subtracted(3),
        }),
        sites: vec![SiteView {
            site: SITE,
            added: 1,
            subtracted: 2,
            rights_to_add: Some(u128::MAX - 1),
            rights_to_subtract: None,
            provisional: Pn::added(4),
        }],
        version: 12,
    };
    let replies = [
        Reply::Added(added),
        Reply::Value(None),
        Reply::Value(Some(i64::MIN)),
        Reply::Reset { aside: None },
        Reply::Reset { aside: Some(i64::MIN) },
        Reply::Created,
        Reply::Inspected(None),
        Reply::Inspected(Some(Box::new(inspection))),
        Reply::Outcome(Outcome::Counted(added)),
        Reply::Outcome(Outcome::Provisional(added)),
        Reply::Outcome(Outcome::Cancelled { counted_at: SITE }),
        Reply::Outcome(Outcome::Unknown),
        Reply::Outcome(Outcome::TooOld),
        Reply::Moved(u64::MAX),
    ];
    for reply in replies.into_iter().chain(refusals().into_iter().map(Reply::Refused)) {
        assert_eq!(decode_reply(&encode_reply(reply.clone())).expect("its own bytes"), reply);
    }
}

fn refusals() -> Vec<Refusal> {
    let name = Name::drawn([9; 16]);
    vec![
        Refusal::Overflow,
        Refusal::OutOfBounds {
            amount: -1,
            limit: 2,
            value: 3,
            available: 4,
            elsewhere: vec![(SITE, 1 << 100), (SiteId::FIRST, 0)],
            in_all: Some(u64::MAX),
        },
        Refusal::Creating { missing: vec![SITE] },
        Refusal::Reserved { by: SITE },
        Refusal::Unsettled { max: 7, waiting_for: vec![SITE] },
        Refusal::JoinedLately { wait_ms: 5 },
        Refusal::Joining,
        Refusal::OnlyAtSites,
        Refusal::TooManyPending { max: 9 },
        Refusal::Leaving,
        Refusal::NoSite("x".to_owned()),
        Refusal::CannotRetire("y".to_owned()),
        Refusal::BadVisit("z".to_owned()),
        Refusal::OtherServer { asked: name, here: Name::of_site(SITE) },
        Refusal::Copy { of: name },
        Refusal::OtherAmount { first: 1, now: -1 },
        Refusal::TooOld { age_ms: 1, window_ms: 2 },
        Refusal::FromTheFuture { ahead_ms: 1, ahead_ms_max: 2 },
        Refusal::Exists,
        Refusal::UsedBefore,
        Refusal::BoundedReset,
        Refusal::BadDefinition("a".to_owned()),
        Refusal::BadKey { bytes: 600 },
        Refusal::NotStored("b".to_owned()),
        Refusal::InDoubt("c".to_owned()),
        Refusal::NotHere,
        Refusal::Removed("d".to_owned()),
        Refusal::OldCopy("e".to_owned()),
        Refusal::SiteLeaves,
        Refusal::NotBounded,
        Refusal::CannotMove("d".to_owned()),
        Refusal::NotMovedYet { site: SITE, wait_ms: 3, connected: true },
        Refusal::NotTold { missing: vec![SITE] },
    ]
}
