//! `OpCounter`: operations are sent until they are acknowledged, and counted once.

use crate::harness::{Replica, converges_always, is_caught, peers_of};
use quipu_crdt::algebra::Twin;
use quipu_crdt::classic::{
    OUT_OF_ORDER_OPERATIONS_MAX, OUTBOX_OPERATIONS_MAX, OpMessage, Refused, UnknownPeer,
};
use quipu_crdt::{OpCounter, Overflow, Pn, codec};
use std::collections::{BTreeMap, BTreeSet};

impl Replica for OpCounter<u8> {
    type Message = OpMessage<u8>;

    fn new(id: u8) -> Self {
        let mut counter = OpCounter::new(id);
        peers_of(id).for_each(|peer| counter.add_peer(peer).expect("another name"));
        counter
    }
    fn add(&mut self, amount: i64) {
        self.add(amount).expect("small amounts");
    }
    fn value(&self) -> i128 {
        self.value()
    }
    fn messages_for(&mut self, peer: u8) -> Vec<Self::Message> {
        self.unacknowledged(&peer).expect("a peer")
    }
    fn receive(&mut self, _: u8, message: &Self::Message) -> Option<Self::Message> {
        self.receive(message).expect("from a peer")
    }
    fn restart(&mut self) {
        *self = codec::decode(&codec::encode(self)).expect("own bytes");
    }
    fn is_at_rest(&self) -> bool {
        self.pending() == 0 && self.out_of_order() == 0
    }
}

/// An operation counter whose receiving side is given: so that wrong ones can be tried.
struct WithReceiver<const VARIANT: u8> {
    value: i128,
    operations: Vec<i64>,
    acknowledged: BTreeMap<u8, usize>,
    seen: BTreeMap<u8, BTreeSet<usize>>,
}

const NO_DEDUPLICATION: u8 = 0;
const HIGH_WATER_MARK_ONLY: u8 = 1;
const ACKNOWLEDGES_PAST_A_GAP: u8 = 2;
const RIGHT: u8 = u8::MAX;

#[derive(Debug, Clone)]
enum Sent {
    Operation { number: usize, amount: i64 },
    Acknowledgement { until: usize },
}

impl<const VARIANT: u8> WithReceiver<VARIANT> {
    fn counts(&mut self, from: u8, number: usize) -> bool {
        let seen = self.seen.entry(from).or_default();
        let is_first = match VARIANT {
            NO_DEDUPLICATION => true,
            HIGH_WATER_MARK_ONLY => seen.last().is_none_or(|&last| number > last),
            _ => !seen.contains(&number),
        };
        seen.insert(number);
        is_first
    }

    fn acknowledges(&self, from: u8) -> usize {
        let seen = &self.seen[&from];
        match VARIANT {
            ACKNOWLEDGES_PAST_A_GAP => seen.last().copied().unwrap_or(0),
            _ => (1..).take_while(|number| seen.contains(number)).last().unwrap_or(0),
        }
    }
}

impl<const VARIANT: u8> Replica for WithReceiver<VARIANT> {
    type Message = Sent;

    fn new(_: u8) -> Self {
        WithReceiver {
            value: 0,
            operations: Vec::new(),
            acknowledged: BTreeMap::new(),
            seen: BTreeMap::new(),
        }
    }
    fn add(&mut self, amount: i64) {
        self.value += i128::from(amount);
        self.operations.push(amount);
    }
    fn value(&self) -> i128 {
        self.value
    }
    fn messages_for(&mut self, peer: u8) -> Vec<Self::Message> {
        let until = self.acknowledged.get(&peer).copied().unwrap_or(0);
        let numbered = (1..).zip(self.operations.iter().copied()).skip(until);
        numbered.map(|(number, amount)| Sent::Operation { number, amount }).collect()
    }
    fn receive(&mut self, from: u8, message: &Self::Message) -> Option<Self::Message> {
        match *message {
            Sent::Operation { number, amount } => {
                if self.counts(from, number) {
                    self.value += i128::from(amount);
                }
                Some(Sent::Acknowledgement { until: self.acknowledges(from) })
            }
            Sent::Acknowledgement { until } => {
                let acknowledged = self.acknowledged.entry(from).or_default();
                *acknowledged = until.max(*acknowledged);
                None
            }
        }
    }
}

#[test]
fn operations_bring_every_replica_the_sum_of_all_amounts() {
    assert_eq!(converges_always::<OpCounter<u8>>(), Ok(()));
}

#[test]
fn wrong_receivers_are_caught() {
    assert!(is_caught::<WithReceiver<NO_DEDUPLICATION>>());
    assert!(is_caught::<WithReceiver<HIGH_WATER_MARK_ONLY>>());
    assert!(is_caught::<WithReceiver<ACKNOWLEDGES_PAST_A_GAP>>());
    assert!(!is_caught::<WithReceiver<RIGHT>>(), "the right one passes");
}

/// A and B that know each other.
fn pair() -> (OpCounter<&'static str>, OpCounter<&'static str>) {
    let (mut a, mut b) = (OpCounter::new("A"), OpCounter::new("B"));
    a.add_peer("B").unwrap();
    b.add_peer("A").unwrap();
    (a, b)
}

/// Everything that `to` has not acknowledged gets through once.
fn exchange(from: &mut OpCounter<&'static str>, to: &mut OpCounter<&'static str>) {
    for message in from.unacknowledged(to.id()).unwrap() {
        let answer = to.receive(&message).unwrap().unwrap();
        from.receive(&answer).unwrap();
    }
}

fn acknowledged_until(answer: Option<OpMessage<&'static str>>) -> u64 {
    match answer {
        Some(OpMessage::Acknowledgement { until, .. }) => until,
        other => panic!("not an acknowledgement: {other:?}"),
    }
}

#[test]
fn an_operation_beyond_a_gap_counts_and_is_not_acknowledged_until_the_gap_fills() {
    let (mut a, mut b) = pair();
    let sent: Vec<_> = [1, 10, 100].map(|amount| a.add(amount).unwrap().unwrap()).into();
    assert_eq!(acknowledged_until(b.receive(&sent[2]).unwrap()), 0);
    assert_eq!((b.value(), b.out_of_order()), (100, 1));
    assert_eq!(acknowledged_until(b.receive(&sent[0]).unwrap()), 1);
    assert_eq!(acknowledged_until(b.receive(&sent[1]).unwrap()), 3);
    assert_eq!((b.value(), b.out_of_order()), (111, 0), "the memory of the gap is gone");
    assert_eq!(acknowledged_until(b.receive(&sent[2]).unwrap()), 3);
    assert_eq!(b.value(), 111);
}

#[test]
fn what_everybody_acknowledged_is_not_kept() {
    let (mut a, mut b) = pair();
    a.add_peer("C").unwrap();
    a.add(3).unwrap();
    exchange(&mut a, &mut b);
    assert_eq!(a.pending(), 1, "C still lacks it");
    assert_eq!(a.unacknowledged(&"B"), Ok(vec![]), "B does not");
    a.remove_peer(&"C").unwrap();
    assert_eq!(a.pending(), 0);
    assert_eq!(a.unacknowledged(&"B"), Ok(vec![]), "nor does it need the sum");
    a.remove_peer(&"B").unwrap();
    a.add(4).unwrap();
    assert_eq!((a.pending(), a.value()), (0, 7), "nobody is there to lack it");
}

#[test]
fn an_absent_peer_costs_bounded_memory_and_catches_up() {
    let (mut a, mut b) = pair();
    let mut sent = Vec::new();
    let total: i64 = (1..=3000).map(|amount| if amount % 3 == 0 { -amount } else { amount }).sum();
    for amount in (1..=3000).map(|amount| if amount % 3 == 0 { -amount } else { amount }) {
        sent.push(a.add(amount).unwrap().unwrap());
    }
    assert_eq!(a.pending(), OUTBOX_OPERATIONS_MAX);
    // Of the operations that a summary covers, one was counted by itself, and one beyond a gap.
    b.receive(&sent[0]).unwrap();
    b.receive(&sent[5]).unwrap();
    exchange(&mut a, &mut b);
    assert_eq!((a.value(), b.value()), (total.into(), total.into()));
    assert_eq!((a.pending(), b.out_of_order()), (0, 0));
    for late in &sent {
        b.receive(late).unwrap();
    }
    assert_eq!(b.value(), total.into(), "counted by the summary");
}

#[test]
fn an_old_summary_changes_nothing() {
    let (mut a, mut b) = pair();
    a.remove_peer(&"B").unwrap();
    a.add(5).unwrap();
    a.add_peer("B").unwrap();
    let summary = a.unacknowledged(&"B").unwrap();
    assert!(matches!(summary[..], [OpMessage::Summary { until: 1, .. }]));
    exchange(&mut a, &mut b);
    a.add(6).unwrap();
    exchange(&mut a, &mut b);
    b.receive(&summary[0]).unwrap();
    assert_eq!(b.value(), 11);
}

#[test]
fn a_summary_takes_the_place_of_what_it_covers_and_of_nothing_else() {
    let (_, mut b) = pair();
    for (sequence, amount) in [(3, 100), (5, 10_000)] {
        b.receive(&OpMessage::Operation { source: "A", sequence, amount }).unwrap();
    }
    let summary = |added| OpMessage::Summary { source: "A", until: 3, sum: Pn::added(added) };
    assert_eq!(acknowledged_until(b.receive(&summary(111)).unwrap()), 3);
    assert_eq!((b.value(), b.out_of_order()), (10_111, 1));
    b.receive(&summary(222)).unwrap();
    assert_eq!(b.value(), 10_111, "what was counted stays as it was first told");
}

#[test]
fn what_is_too_far_ahead_comes_again() {
    let (_, mut b) = pair();
    let operation = |sequence| OpMessage::Operation { source: "A", sequence, amount: 1 };
    for sequence in (2..2 * OUT_OF_ORDER_OPERATIONS_MAX).rev() {
        b.receive(&operation(sequence)).unwrap();
    }
    let early = usize::try_from(OUT_OF_ORDER_OPERATIONS_MAX).unwrap() - 1;
    assert_eq!((b.out_of_order(), b.value()), (early, early as i128));
    let answer = b.receive(&operation(1)).unwrap();
    assert_eq!(acknowledged_until(answer), OUT_OF_ORDER_OPERATIONS_MAX);
    for sequence in 1..2 * OUT_OF_ORDER_OPERATIONS_MAX {
        b.receive(&operation(sequence)).unwrap();
    }
    assert_eq!(b.value(), i128::from(2 * OUT_OF_ORDER_OPERATIONS_MAX - 1));
    assert_eq!(b.out_of_order(), 0);
}

#[test]
fn numbers_at_the_end_of_their_range_do_not_wrap() {
    let (_, mut b) = pair();
    let all = Pn { added: u64::MAX, subtracted: u64::MAX };
    for until in [u64::MAX - 1, u64::MAX] {
        b.receive(&OpMessage::Summary { source: "A", until, sum: all }).unwrap();
        for sequence in [0, 1, u64::MAX - 1, u64::MAX] {
            b.receive(&OpMessage::Operation { source: "A", sequence, amount: i64::MIN }).unwrap();
        }
        assert_eq!(b.value(), 0, "a sum that is full stays full");
    }
}

#[test]
fn an_overflow_is_refused_and_changes_nothing() {
    let (mut a, _) = pair();
    a.add(i64::MAX).unwrap();
    a.add(i64::MAX).unwrap();
    a.add(1).unwrap();
    let before = a.clone();
    assert_eq!(a.add(1), Err(Overflow));
    assert_eq!(a, before);
    a.add(i64::MIN).expect("the other direction has room");
    assert_eq!(a.add(0), Ok(None));
}

#[test]
fn strangers_and_twins_are_refused() {
    let (mut a, mut b) = pair();
    let message = a.add(3).unwrap().unwrap();
    let before = (a.clone(), b.clone());
    assert_eq!(a.receive(&message), Err(Refused::NotForUs), "our own, astray");
    let second = OpMessage::Operation { source: "A", sequence: 2, amount: 3 };
    assert_eq!(a.receive(&second), Err(Refused::Twin(Twin)), "an operation in our name");
    assert_eq!(a.add_peer("A"), Err(Twin));
    assert_eq!(a.unacknowledged(&"C"), Err(UnknownPeer));
    assert_eq!(a.remove_peer(&"C"), Err(UnknownPeer));

    let acknowledgement = |from, source, until| OpMessage::Acknowledgement { from, source, until };
    assert_eq!(a.receive(&acknowledgement("B", "C", 1)), Err(Refused::NotForUs));
    assert_eq!(a.receive(&acknowledgement("C", "A", 1)), Err(UnknownPeer.into()));
    assert_eq!(a.receive(&acknowledgement("B", "A", 2)), Err(Twin.into()), "there was no second one");

    let stranger = OpMessage::Operation { source: "C", sequence: 1, amount: 1 };
    assert_eq!(b.receive(&stranger), Err(UnknownPeer.into()));
    assert_eq!((a, b), before);
}
