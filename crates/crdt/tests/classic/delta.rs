//! `DeltaPnCounter`: each peer is sent what it has not acknowledged.

use crate::harness::{Replica, converges_always, is_caught, peers_of};
use quipu_crdt::algebra::Twin;
use quipu_crdt::classic::{DeltaMessage, Refused, Slots, UnknownPeer};
use quipu_crdt::{DeltaPnCounter, Pn, codec};
use std::collections::BTreeMap;

impl Replica for DeltaPnCounter<u8> {
    type Message = DeltaMessage<u8>;

    fn new(id: u8) -> Self {
        let mut counter = DeltaPnCounter::new(id);
        peers_of(id).for_each(|peer| counter.add_peer(peer).expect("another name"));
        counter
    }
    fn add(&mut self, amount: i64) {
        let counted =
            if amount < 0 { self.dec(amount.unsigned_abs()) } else { self.inc(amount.unsigned_abs()) };
        counted.expect("small amounts");
    }
    fn value(&self) -> i128 {
        self.value()
    }
    fn messages_for(&mut self, peer: u8) -> Vec<Self::Message> {
        self.delta_for(&peer).expect("a peer").into_iter().collect()
    }
    fn receive(&mut self, _: u8, message: &Self::Message) -> Option<Self::Message> {
        self.receive(message).expect("from a peer")
    }
    fn restart(&mut self) {
        *self = codec::decode(&codec::encode(self)).expect("own bytes");
    }
    fn is_at_rest(&self) -> bool {
        peers_of(*self.id()).all(|peer| self.delta_for(&peer) == Ok(None))
    }
}

/// Takes a delta for acknowledged when it was sent, as if nothing were ever lost.
struct MarkedWhenSent(DeltaPnCounter<u8>);

impl Replica for MarkedWhenSent {
    type Message = DeltaMessage<u8>;

    fn new(id: u8) -> Self {
        MarkedWhenSent(Replica::new(id))
    }
    fn add(&mut self, amount: i64) {
        Replica::add(&mut self.0, amount);
    }
    fn value(&self) -> i128 {
        self.0.value()
    }
    fn messages_for(&mut self, peer: u8) -> Vec<Self::Message> {
        let messages = self.0.messages_for(peer);
        for message in &messages {
            let DeltaMessage::Delta { slots, .. } = message else { unreachable!("only deltas are sent") };
            let marked = DeltaMessage::Acknowledgement { from: peer, slots: slots.clone() };
            self.0.receive(&marked).expect("from a peer");
        }
        messages
    }
    fn receive(&mut self, from: u8, message: &Self::Message) -> Option<Self::Message> {
        Replica::receive(&mut self.0, from, message)
    }
}

/// Sends differences ("+1") instead of lower bounds ("at least 37"), and drops them when they were sent or,
/// otherwise, when the peer has acknowledged them.
struct Differences<const DROPPED_WHEN_SENT: bool> {
    value: i128,
    unsent: BTreeMap<u8, i128>,
}

#[derive(Debug, Clone)]
enum Difference {
    Add(i128),
    Added(i128),
}

impl<const DROPPED_WHEN_SENT: bool> Replica for Differences<DROPPED_WHEN_SENT> {
    type Message = Difference;

    fn new(id: u8) -> Self {
        Differences { value: 0, unsent: peers_of(id).map(|peer| (peer, 0)).collect() }
    }
    fn add(&mut self, amount: i64) {
        self.value += i128::from(amount);
        self.unsent.values_mut().for_each(|unsent| *unsent += i128::from(amount));
    }
    fn value(&self) -> i128 {
        self.value
    }
    fn messages_for(&mut self, peer: u8) -> Vec<Self::Message> {
        let unsent = self.unsent.get_mut(&peer).expect("a peer");
        let difference = *unsent;
        if DROPPED_WHEN_SENT {
            *unsent = 0;
        }
        if difference == 0 { vec![] } else { vec![Difference::Add(difference)] }
    }
    fn receive(&mut self, from: u8, message: &Self::Message) -> Option<Self::Message> {
        match *message {
            Difference::Add(difference) => {
                self.value += difference;
                (!DROPPED_WHEN_SENT).then_some(Difference::Added(difference))
            }
            Difference::Added(difference) => {
                *self.unsent.get_mut(&from).expect("a peer") -= difference;
                None
            }
        }
    }
}

#[test]
fn deltas_bring_every_replica_the_sum_of_all_amounts() {
    assert_eq!(converges_always::<DeltaPnCounter<u8>>(), Ok(()));
}

#[test]
fn wrong_deltas_are_caught() {
    assert!(is_caught::<MarkedWhenSent>());
    assert!(is_caught::<Differences<true>>());
    assert!(is_caught::<Differences<false>>());
}

/// A and B that know each other, where A has counted 37.
fn pair() -> (DeltaPnCounter<&'static str>, DeltaPnCounter<&'static str>) {
    let (mut a, mut b) = (DeltaPnCounter::new("A"), DeltaPnCounter::new("B"));
    a.add_peer("B").unwrap();
    b.add_peer("A").unwrap();
    a.inc(37).unwrap();
    (a, b)
}

#[test]
fn a_delta_is_kept_until_it_is_acknowledged() {
    let (mut a, mut b) = pair();
    let first = a.delta_for(&"B").unwrap().unwrap();
    a.inc(1).unwrap();
    let second = a.delta_for(&"B").unwrap().unwrap();
    let answer_to_first = b.receive(&first).unwrap().unwrap();
    a.receive(&answer_to_first).unwrap();
    assert_eq!(a.delta_for(&"B").unwrap(), Some(second.clone()), "38 is not acknowledged by 37");

    let answer_to_second = b.receive(&second).unwrap().unwrap();
    a.receive(&answer_to_second).unwrap();
    a.receive(&answer_to_first).unwrap(); // An old answer takes nothing back.
    assert_eq!(a.delta_for(&"B").unwrap(), None);
    assert_eq!(b.value(), 38);
}

#[test]
fn what_a_peer_told_is_not_told_back() {
    let (a, mut b) = pair();
    b.receive(&a.delta_for(&"B").unwrap().unwrap()).unwrap();
    assert_eq!(b.delta_for(&"A").unwrap(), None);
}

#[test]
fn strangers_are_refused() {
    let (mut a, mut b) = pair();
    let delta = a.delta_for(&"B").unwrap().unwrap();
    assert_eq!(a.delta_for(&"C"), Err(UnknownPeer));
    assert_eq!(a.remove_peer(&"C"), Err(UnknownPeer));
    assert_eq!(a.add_peer("A"), Err(Twin), "a peer with our own name");

    b.remove_peer(&"A").unwrap();
    let before = b.clone();
    assert_eq!(b.receive(&delta), Err(Refused::UnknownPeer(UnknownPeer)));
    assert_eq!(b, before);
}

#[test]
fn a_peer_that_comes_back_is_sent_everything() {
    let (mut a, mut b) = pair();
    let answer = b.receive(&a.delta_for(&"B").unwrap().unwrap()).unwrap().unwrap();
    a.receive(&answer).unwrap();
    a.remove_peer(&"B").unwrap();
    a.add_peer("B").unwrap();
    let everything = DeltaMessage::Delta { from: "A", slots: a.slots().clone() };
    assert_eq!(a.delta_for(&"B").unwrap(), Some(everything));
}

#[test]
fn a_twin_is_reported_and_not_merged() {
    let (mut a, _) = pair();
    let before = a.clone();
    let slots = Slots::from_iter([("A", Pn::added(38)), ("B", Pn::added(5))]);
    for message in [
        DeltaMessage::Delta { from: "B", slots: slots.clone() },
        DeltaMessage::Acknowledgement { from: "B", slots },
    ] {
        assert_eq!(a.receive(&message), Err(Refused::Twin(Twin)));
        assert_eq!(a, before);
    }
}
