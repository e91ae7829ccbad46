//! The binary forms: they come back as they were, and no bytes do harm.

use crate::harness::{Cluster, Replica, Trace, traces};
use minicbor::{Decode, Encode};
use proptest::prelude::*;
use quipu_crdt::classic::{DeltaMessage, OUTBOX_OPERATIONS_MAX, OpMessage, Pass, Slots, Transfer};
use quipu_crdt::codec::DecodeError;
use quipu_crdt::testing::Random;
use quipu_crdt::{DeltaPnCounter, Escrow, GCounter, OpCounter, Pn, PnCounter, codec};
use std::collections::BTreeMap;
use std::fmt::Debug;

/// Bytes come back as the value; cut off anywhere they are refused; damaged, they are refused or make a
/// value that is safe to `work` with.
fn survives<T>(value: &T, damage: &mut Random, work: impl Fn(T)) -> Result<(), TestCaseError>
where
    T: Encode<()> + for<'b> Decode<'b, ()> + PartialEq + Debug,
{
    let bytes = codec::encode(value);
    prop_assert_eq!(&codec::decode::<T>(&bytes).expect("own bytes"), value);
    for end in 0..bytes.len() {
        prop_assert!(codec::decode::<T>(&bytes[..end]).is_err());
    }
    for _ in 0..64 {
        let mut damaged = bytes.clone();
        for _ in 0..=damage.below(3) {
            let place = damage.below(damaged.len());
            damaged[place] = damage.bits().to_le_bytes()[0];
        }
        codec::decode(&damaged).into_iter().for_each(&work);
    }
    Ok(())
}

fn work_with_grow_only(mut counter: GCounter<u8>) {
    let _ = counter.inc(u64::MAX);
    counter.value();
}

fn work_with_pn(mut counter: PnCounter<u8>) {
    let _ = (counter.inc(1), counter.dec(u64::MAX));
    counter.value();
}

fn work_with_delta(mut counter: DeltaPnCounter<u8>) {
    counter.value();
    let messages: Vec<_> = (0..=255).filter_map(|peer| counter.delta_for(&peer).ok().flatten()).collect();
    messages.iter().for_each(|message| drop(counter.receive(message)));
    let _ = (counter.inc(u64::MAX), counter.dec(1));
}

fn work_with_ops(mut counter: OpCounter<u8>) {
    for peer in 0..=255 {
        for message in counter.unacknowledged(&peer).unwrap_or_default() {
            let _ = counter.receive(&message);
        }
        let _ = counter.receive(&OpMessage::Operation { source: peer, sequence: u64::MAX, amount: i64::MIN });
        let _ = counter.receive(&OpMessage::Operation { source: peer, sequence: 2, amount: i64::MAX });
    }
    let _ = (counter.add(1), counter.add(i64::MIN));
    counter.value();
}

fn work_with_escrow(mut escrow: Escrow<u8>) {
    let quota = escrow.quota();
    escrow.prepare_spend(quota / 2).expect("half of it").apply();
    for peer in 0..=255 {
        let _ = escrow.receive(&Transfer { from: peer, to: *escrow.id(), total: u64::MAX });
        let half = escrow.quota() / 2;
        let _ = escrow.prepare_transfer(&peer, half).map(Pass::apply);
    }
    let quota = escrow.quota();
    escrow.prepare_spend(quota).expect("all of it").apply();
}

/// The messages that these replicas would send to each other, and the answers to them.
fn messages<R: Replica + Clone>(trace: &Trace) -> Vec<R::Message> {
    let mut replicas = Cluster::<R>::after(trace).replicas;
    let sent = replicas[0].messages_for(1);
    let answers: Vec<_> = sent.iter().filter_map(|message| replicas[1].receive(0, message)).collect();
    sent.into_iter().chain(answers).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn states_survive(trace in traces(0..=100)) {
        let damage = &mut Random::new(trace.seed);
        for replica in Cluster::<GCounter<u8>>::after(&trace).replicas {
            survives(&replica, damage, work_with_grow_only)?;
        }
        for replica in Cluster::<PnCounter<u8>>::after(&trace).replicas {
            survives(&replica, damage, work_with_pn)?;
        }
        for replica in Cluster::<DeltaPnCounter<u8>>::after(&trace).replicas {
            survives(&replica, damage, work_with_delta)?;
        }
        for replica in Cluster::<OpCounter<u8>>::after(&trace).replicas {
            survives(&replica, damage, work_with_ops)?;
        }
    }

    #[test]
    fn messages_survive(trace in traces(-100..=100)) {
        let damage = &mut Random::new(trace.seed);
        for message in messages::<PnCounter<u8>>(&trace) {
            survives(&message, damage, drop)?;
        }
        let delta = <DeltaPnCounter<u8> as Replica>::new(1);
        for message in messages::<DeltaPnCounter<u8>>(&trace) {
            survives(&message, damage, |damaged| drop(delta.clone().receive(&damaged)))?;
        }
        let ops = <OpCounter<u8> as Replica>::new(1);
        for message in messages::<OpCounter<u8>>(&trace) {
            survives(&message, damage, |damaged| drop(ops.clone().receive(&damaged)))?;
        }
    }

    #[test]
    fn escrows_survive(seed: u64, limit: u64, sold: u64, passed: u64) {
        let damage = &mut Random::new(seed);
        let [mut a, mut b] = Escrow::split(limit, &[0u8, 1]).unwrap();
        let (sold, passed) = (sold % (a.quota() / 2 + 1), passed % (a.quota() / 2 + 1));
        a.prepare_spend(sold).unwrap().apply();
        let transfer = a.prepare_transfer(&1, passed).unwrap().apply();
        b.receive(&transfer).unwrap();
        survives(&a, damage, work_with_escrow)?;
        survives(&b, damage, work_with_escrow)?;
        survives(&transfer, damage, |damaged| {
            let _ = b.clone().receive(&damaged);
        })?;
    }
}

#[test]
fn too_many_bytes_are_refused_unread() {
    let bytes = vec![0; codec::INPUT_BYTES_MAX + 2];
    for length in [bytes.len(), bytes.len() - 1] {
        let refused = codec::decode::<u64>(&bytes[..length]);
        assert!(matches!(refused, Err(DecodeError::TooLong { bytes }) if bytes == length));
    }
    let longest = codec::decode::<u64>(&bytes[..codec::INPUT_BYTES_MAX]);
    assert!(matches!(longest, Err(DecodeError::UnknownFormat { found: 0 })));
}

/// The bytes of `written` are refused as a `T`.
fn is_refused<T: for<'b> Decode<'b, ()>>(written: &impl Encode<()>) -> bool {
    codec::decode::<T>(&codec::encode(written)).is_err()
}

// In the bytes a struct is the array of its fields, so tuples can say what no state may say.

#[test]
fn slots_that_are_zero_or_double_are_refused() {
    assert!(is_refused::<Slots<u8, u64>>(&BTreeMap::from([(1u8, 0u64)])));
    let double = [codec::FORMAT, 0xa2, 1, 5, 1, 6];
    assert!(codec::decode::<Slots<u8, u64>>(&double).is_err());
    let endless = [codec::FORMAT, 0xbf, 1, 5, 2, 6, 0xff];
    assert_eq!(codec::decode::<Slots<u8, u64>>(&endless).unwrap().value(), 11);
    let huge = [codec::FORMAT, 0xbb, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 5];
    assert!(codec::decode::<Slots<u8, u64>>(&huge).is_err());
}

#[test]
fn a_delta_counter_that_is_known_better_by_others_is_refused() {
    let state = |ours, theirs, peer: u8| {
        let slots = |count| Slots::from_iter([(1u8, Pn::added(count))]);
        ((1u8, slots(ours)), BTreeMap::from([(peer, slots(theirs))]))
    };
    assert!(!is_refused::<DeltaPnCounter<u8>>(&state(5, 5, 2)));
    assert!(is_refused::<DeltaPnCounter<u8>>(&state(5, 6, 2)));
    assert!(is_refused::<DeltaPnCounter<u8>>(&state(5, 5, 1)));
}

#[test]
fn an_operation_counter_that_does_not_add_up_is_refused() {
    let state = |folded: u64, pending: Vec<i64>, sum: Pn, acknowledged: (u8, u64), early: u64| {
        let outbox = (folded, Pn::added(folded), pending, sum);
        let heard = (3u64, Pn::added(7), BTreeMap::from([(early, 1i64)]));
        (1u8, outbox, BTreeMap::from([acknowledged]), BTreeMap::from([(2u8, heard)]))
    };
    let sum = Pn { added: 9, subtracted: 2 };
    assert!(!is_refused::<OpCounter<u8>>(&state(4, vec![5, -2], sum, (2, 6), 5)));
    assert!(is_refused::<OpCounter<u8>>(&state(4, vec![5, -1], sum, (2, 5), 5)), "another sum");
    assert!(is_refused::<OpCounter<u8>>(&state(4, vec![5, 0, -2], sum, (2, 5), 5)), "an empty operation");
    assert!(is_refused::<OpCounter<u8>>(&state(4, vec![5, -2], sum, (2, 7), 5)), "acknowledged too much");
    assert!(is_refused::<OpCounter<u8>>(&state(4, vec![5, -2], sum, (1, 6), 5)), "its own peer");
    assert!(is_refused::<OpCounter<u8>>(&state(4, vec![5, -2], sum, (2, 6), 3)), "early and not early");
    assert!(is_refused::<OpCounter<u8>>(&state(4, vec![5, -2], sum, (2, 6), 4)), "no gap before it");
    assert!(is_refused::<OpCounter<u8>>(&state(4, vec![5, -2], sum, (2, 6), 5000)), "too far ahead");
    let full = Pn::added(u64::MAX);
    assert!(is_refused::<OpCounter<u8>>(&state(u64::MAX, vec![1], full, (2, 6), 5)), "too many");
    let many = vec![1; OUTBOX_OPERATIONS_MAX + 1];
    assert!(is_refused::<OpCounter<u8>>(&state(0, many, Pn::added(1025), (2, 6), 5)), "too many at once");
}

#[test]
fn an_escrow_that_has_spent_more_than_it_had_is_refused() {
    let state = |granted: u64, sold: u64, peer: u8, passed: u64, received: u64| {
        (1u8, granted, sold, BTreeMap::from([(peer, (passed, received))]))
    };
    assert!(!is_refused::<Escrow<u8>>(&state(10, 5, 2, 7, 2)));
    assert!(is_refused::<Escrow<u8>>(&state(10, 5, 2, 8, 2)), "passed on what was sold");
    assert!(is_refused::<Escrow<u8>>(&state(10, 0, 2, 0, u64::MAX)), "more than there can be");
    assert!(is_refused::<Escrow<u8>>(&state(10, 5, 1, 0, 0)), "its own peer");
}

#[test]
fn the_bytes_of_messages_stay_as_they_are() {
    let delta = DeltaMessage::Delta { from: 1u8, slots: Slots::from_iter([(1u8, Pn::added(37))]) };
    assert_eq!(codec::encode(&delta), [1, 0x82, 0, 0x82, 1, 0xa1, 1, 0x82, 0x18, 37, 0]);
    let operation = OpMessage::Operation { source: 1u8, sequence: 2, amount: -1 };
    assert_eq!(codec::encode(&operation), [1, 0x82, 0, 0x83, 1, 2, 0x20]);
    let transfer = Transfer { from: 1u8, to: 2, total: 30 };
    assert_eq!(codec::encode(&transfer), [1, 0x83, 1, 2, 0x18, 30]);
}
