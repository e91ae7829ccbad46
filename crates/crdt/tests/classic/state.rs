//! `GCounter` and `PnCounter`: whole states are exchanged.

use crate::harness::{Cluster, Replica, Trace, converges_always, is_caught, traces};
use proptest::prelude::*;
use quipu_crdt::algebra::Twin;
use quipu_crdt::classic::Slots;
use quipu_crdt::testing::laws;
use quipu_crdt::{GCounter, Overflow, Pn, PnCounter, Tally, codec};
use std::collections::BTreeMap;
use std::ops::RangeInclusive;

impl Replica for GCounter<u8> {
    type Message = Slots<u8, u64>;
    const AMOUNTS: RangeInclusive<i64> = 0..=100;

    fn new(id: u8) -> Self {
        GCounter::new(id)
    }
    fn add(&mut self, amount: i64) {
        self.inc(amount.unsigned_abs()).expect("small amounts");
    }
    fn value(&self) -> i128 {
        i128::try_from(self.value()).expect("small amounts")
    }
    fn messages_for(&mut self, _: u8) -> Vec<Self::Message> {
        vec![self.slots().clone()]
    }
    fn receive(&mut self, _: u8, message: &Self::Message) -> Option<Self::Message> {
        self.try_merge(message).expect("no twins");
        None
    }
    fn restart(&mut self) {
        *self = codec::decode(&codec::encode(self)).expect("own bytes");
    }
}

impl Replica for PnCounter<u8> {
    type Message = Slots<u8, Pn>;

    fn new(id: u8) -> Self {
        PnCounter::new(id)
    }
    fn add(&mut self, amount: i64) {
        let counted =
            if amount < 0 { self.dec(amount.unsigned_abs()) } else { self.inc(amount.unsigned_abs()) };
        counted.expect("small amounts");
    }
    fn value(&self) -> i128 {
        self.value()
    }
    fn messages_for(&mut self, _: u8) -> Vec<Self::Message> {
        vec![self.slots().clone()]
    }
    fn receive(&mut self, _: u8, message: &Self::Message) -> Option<Self::Message> {
        self.try_merge(message).expect("no twins");
        None
    }
    fn restart(&mut self) {
        *self = codec::decode(&codec::encode(self)).expect("own bytes");
    }
}

/// A PN-Counter whose merge is given: so that wrong ones can be tried.
pub(crate) struct WithMerge<const VARIANT: u8> {
    id: u8,
    slots: BTreeMap<u8, Pn>,
}

pub(crate) const SUM_INSTEAD_OF_MAX: u8 = 0;
pub(crate) const KEEPS_ITS_OWN: u8 = 1;
pub(crate) const TAKES_THEIRS: u8 = 2;
pub(crate) const RIGHT: u8 = u8::MAX;

fn join<const VARIANT: u8>(ours: Pn, theirs: Pn) -> Pn {
    match VARIANT {
        SUM_INSTEAD_OF_MAX => {
            let mut sum = ours;
            sum.saturating_add(&theirs);
            sum
        }
        KEEPS_ITS_OWN => ours,
        TAKES_THEIRS => theirs,
        _ => Pn { added: ours.added.max(theirs.added), subtracted: ours.subtracted.max(theirs.subtracted) },
    }
}

impl<const VARIANT: u8> Replica for WithMerge<VARIANT> {
    type Message = BTreeMap<u8, Pn>;

    fn new(id: u8) -> Self {
        WithMerge { id, slots: BTreeMap::new() }
    }
    fn add(&mut self, amount: i64) {
        let slot = self.slots.entry(self.id).or_default();
        if amount < 0 {
            slot.subtracted += amount.unsigned_abs();
        } else {
            slot.added += amount.unsigned_abs();
        }
    }
    fn value(&self) -> i128 {
        self.slots.values().map(Pn::value).sum()
    }
    fn messages_for(&mut self, _: u8) -> Vec<Self::Message> {
        vec![self.slots.clone()]
    }
    fn receive(&mut self, _: u8, message: &Self::Message) -> Option<Self::Message> {
        for (&id, &theirs) in message {
            self.slots.entry(id).and_modify(|ours| *ours = join::<VARIANT>(*ours, theirs)).or_insert(theirs);
        }
        None
    }
}

#[test]
fn a_counter_that_only_grows_is_the_sum_of_its_increments() {
    assert_eq!(converges_always::<GCounter<u8>>(), Ok(()));
}

#[test]
fn a_counter_that_goes_both_ways_is_the_sum_of_its_amounts() {
    assert_eq!(converges_always::<PnCounter<u8>>(), Ok(()));
}

#[test]
fn wrong_merges_are_caught() {
    assert!(is_caught::<WithMerge<SUM_INSTEAD_OF_MAX>>());
    assert!(is_caught::<WithMerge<KEEPS_ITS_OWN>>());
    assert!(is_caught::<WithMerge<TAKES_THEIRS>>());
    assert!(!is_caught::<WithMerge<RIGHT>>(), "the right one passes");
}

fn slots_after<R: Replica>(trace: &Trace) -> Vec<R> {
    Cluster::<R>::after(trace).replicas
}

proptest! {
    #[test]
    fn reachable_states_obey_the_laws(trace in traces(0..=100)) {
        let [a, b, c] = &slots_after::<GCounter<u8>>(&trace)[..] else { unreachable!("three nodes") };
        prop_assert_eq!(laws::check_merge(a.slots(), b.slots(), c.slots()), Ok(()));
        let [a, b, c] = &slots_after::<PnCounter<u8>>(&trace)[..] else { unreachable!("three nodes") };
        prop_assert_eq!(laws::check_merge(a.slots(), b.slots(), c.slots()), Ok(()));
    }

    #[test]
    fn what_lies_beyond_is_what_a_merge_adds(trace in traces(-100..=100)) {
        let [a, b, _] = &slots_after::<PnCounter<u8>>(&trace)[..] else { unreachable!("three nodes") };
        let (mut by_delta, mut by_state) = (b.clone(), b.clone());
        by_delta.merge(&a.slots().beyond(b.slots()));
        by_state.merge(a.slots());
        prop_assert_eq!(&by_delta, &by_state);
        prop_assert!(a.slots().beyond(by_state.slots()).is_empty());
    }
}

#[test]
fn an_overflow_is_refused_and_changes_nothing() {
    let mut grow_only = GCounter::new("A");
    grow_only.inc(u64::MAX).unwrap();
    let before = grow_only.clone();
    assert_eq!(grow_only.inc(1), Err(Overflow));
    assert_eq!(grow_only, before);

    let mut both_ways = PnCounter::new("A");
    both_ways.dec(u64::MAX).unwrap();
    let before = both_ways.clone();
    assert_eq!(both_ways.dec(1), Err(Overflow));
    assert_eq!(both_ways, before);
    assert_eq!(both_ways.value(), -i128::from(u64::MAX));
}

#[test]
fn full_slots_of_many_replicas_add_up() {
    let (mut grow_only, mut both_ways) = (GCounter::new(0), PnCounter::new(0));
    for id in 0..100u8 {
        grow_only.merge(&Slots::from_iter([(id, u64::MAX)]));
        both_ways.merge(&Slots::from_iter([(id, Pn::subtracted(u64::MAX))]));
    }
    assert_eq!(grow_only.value(), 100 * u128::from(u64::MAX));
    assert_eq!(both_ways.value(), -100 * i128::from(u64::MAX));
}

#[test]
fn nothing_counted_leaves_no_slot() {
    let mut counter = PnCounter::new("A");
    counter.inc(0).unwrap();
    counter.dec(0).unwrap();
    assert!(counter.slots().is_empty());
}

#[test]
fn a_twin_is_reported_and_not_merged() {
    let (mut original, mut copy) = (PnCounter::new("A"), PnCounter::new("A"));
    original.inc(3).unwrap();
    copy.inc(2).unwrap();
    copy.dec(1).unwrap();
    let before = original.clone();
    assert_eq!(original.try_merge(copy.slots()), Err(Twin), "it has subtracted in our name");
    assert_eq!(original, before);

    let (mut original, mut copy) = (GCounter::new("A"), GCounter::new("A"));
    copy.inc(2).unwrap();
    assert_eq!(original.try_merge(copy.slots()), Err(Twin));
    assert_eq!(original.value(), 0);
    copy.try_merge(original.slots()).expect("less than we know of ourselves is merely old");
    // A plain merge is the join, which has no way to refuse.
    original.merge(copy.slots());
    assert_eq!(original.value(), 2);
}
