//! The practice tasks on distributed counters, each with its own numbers.

use crate::harness::{converges_always, is_caught};
use crate::state::{SUM_INSTEAD_OF_MAX, WithMerge};
use quipu_crdt::classic::{DeltaMessage, OpMessage, Slots, Spend};
use quipu_crdt::testing::{Adversary, laws};
use quipu_crdt::{
    DeltaPnCounter, Escrow, GCounter, Merge, OpCounter, Pn, PnCounter, ShardedCounter, Tally, codec,
};
use std::collections::BTreeMap;

/// The network of the tasks.
fn adversary<M: Clone>(seed: u64) -> Adversary<M> {
    Adversary::new(seed).drop(0.3).duplicate(0.4)
}

#[test]
fn two_replicas_that_exchange_once_agree() {
    let (mut a, mut b) = (GCounter::new("A"), GCounter::new("B"));
    a.inc(3).unwrap();
    b.inc(5).unwrap();
    a.inc(2).unwrap();
    a.merge(b.slots());
    b.merge(a.slots());
    assert_eq!((a.value(), b.value()), (10, 10));
}

#[test]
fn a_hostile_network_does_not_change_the_sum() {
    let increments = [(0, 4), (1, 1), (2, 7), (0, 2), (2, 3)];
    for seed in 0..100 {
        let mut replicas = ["A", "B", "C"].map(GCounter::new);
        let mut network = adversary(seed);
        for (node, amount) in increments {
            replicas[node].inc(amount).unwrap();
            for other in (0..3).filter(|&other| other != node) {
                network.send(node, other, replicas[node].slots().clone());
            }
        }
        while let Some((_, to, state)) = network.deliver() {
            replicas[to].merge(&state);
        }
        flush(&mut replicas);
        assert_eq!(replicas.map(|replica| replica.value()), [17, 17, 17]);
    }
}

fn flush(replicas: &mut [GCounter<&'static str>; 3]) {
    for _ in 0..2 {
        for (from, to) in (0..3).flat_map(|from| (0..3).map(move |to| (from, to))) {
            let state = replicas[from].slots().clone();
            replicas[to].merge(&state);
        }
    }
}

#[test]
fn decrements_converge() {
    let (mut a, mut b) = (PnCounter::new("A"), PnCounter::new("B"));
    a.inc(10).unwrap();
    a.dec(3).unwrap();
    b.dec(5).unwrap();
    a.merge(b.slots());
    b.merge(a.slots());
    assert_eq!((a.value(), b.value()), (2, 2));
}

/// All states of three slots with numbers 0 to 2 are tried: enough for every order of two and of three
/// numbers in a slot, and the join works slot by slot.
#[test]
fn the_maximum_by_slots_is_a_join() {
    let numbers = || 0..3u64;
    let states: Vec<Slots<u8, u64>> = numbers()
        .flat_map(|a| numbers().flat_map(move |b| numbers().map(move |c| [(0, a), (1, b), (2, c)])))
        .map(Slots::from_iter)
        .collect();
    for x in &states {
        for y in &states {
            for z in &states {
                assert_eq!(laws::check_merge(x, y, z), Ok(()));
            }
        }
    }
}

/// Slots that are merged by their sum.
#[derive(Debug, Clone, PartialEq)]
struct Summed(BTreeMap<&'static str, u64>);

impl Merge for Summed {
    fn merge(&mut self, other: &Self) {
        Tally::saturating_add(&mut self.0, &other.0);
    }
}

#[test]
fn summing_slots_double_counts() {
    let a = Summed([("A", 5)].into());
    let mut b = Summed([].into());
    b.merge(&a);
    b.merge(&a);
    assert_eq!(b.0.values().sum::<u64>(), 10, "the true value is 5");
    assert!(laws::merge_is_idempotent(&a).is_err(), "and the law says so");

    let right = Slots::from_iter([("A", 5)]);
    let mut b = GCounter::new("B");
    b.merge(&right);
    b.merge(&right);
    assert_eq!(b.value(), 5);
}

#[test]
fn a_redelivered_operation_overshoots_unless_it_is_recognised() {
    let operations = [("A", 1, 3), ("B", 1, -1)];
    let stream = [operations[0], operations[1], operations[0]];
    let naive: i64 = stream.iter().map(|&(_, _, amount)| amount).sum();
    assert_eq!(naive, 5, "the true total is 2");

    let mut counter = OpCounter::new("D");
    ["A", "B"].into_iter().for_each(|peer| counter.add_peer(peer).unwrap());
    for (source, sequence, amount) in stream {
        counter.receive(&OpMessage::Operation { source, sequence, amount }).unwrap();
    }
    assert_eq!(counter.value(), 2);
}

#[test]
fn operations_under_a_hostile_network_count_exactly_once() {
    for seed in 0..100 {
        let ids = ["A", "B", "C", "D"];
        let mut replicas = ids.map(OpCounter::new);
        for replica in &mut replicas {
            let id = *replica.id();
            ids.into_iter().filter(|&peer| peer != id).for_each(|peer| replica.add_peer(peer).unwrap());
        }
        for (node, amount) in [(0, 4), (0, -2), (1, 9), (2, -1)] {
            replicas[node].add(amount).unwrap();
        }
        // Sent again until acknowledged: no final exchange is needed.
        let mut network = adversary(seed);
        let mut rounds = 0;
        while replicas.iter().any(|replica| replica.pending() > 0) {
            rounds += 1;
            assert!(rounds <= 100, "not acknowledged after {rounds} rounds");
            for (from, to) in (0..4).flat_map(|from| (0..4).map(move |to| (from, to))) {
                let messages = replicas[from].unacknowledged(&ids[to]).unwrap_or_default();
                messages.into_iter().for_each(|message| network.send(from, to, message));
            }
            while let Some((from, to, message)) = network.deliver() {
                if let Some(answer) = replicas[to].receive(&message).unwrap() {
                    network.send(to, from, answer);
                }
            }
        }
        assert_eq!(replicas.map(|replica| replica.value()), [10, 10, 10, 10]);
    }
}

#[test]
fn a_partition_disagrees_and_heals() {
    let [mut a, mut b, mut c] = ["A", "B", "C"].map(PnCounter::new);
    a.inc(10).unwrap();
    a.dec(2).unwrap();
    b.inc(5).unwrap();
    c.dec(1).unwrap();
    b.merge(c.slots());
    c.merge(b.slots());
    assert_eq!((a.value(), b.value()), (8, 4), "each side answers with what it knows");

    for _ in 0..3 {
        b.merge(a.slots());
        c.merge(b.slots());
        a.merge(c.slots());
        a.merge(b.slots());
        b.merge(c.slots());
        c.merge(a.slots());
    }
    assert_eq!((a.value(), b.value(), c.value()), (12, 12, 12));
}

/// Bytes on the wire over fifty rounds in which A counts 1 and B is told, when `others` replicas have
/// counted before: whole states, and deltas with the acknowledgements that they need.
fn bytes_of_fifty_rounds(others: u8) -> (usize, usize) {
    let known = Slots::from_iter((0..others).map(|other| (format!("replica {other}"), Pn::added(1000))));
    let (mut full, mut other_full) = (PnCounter::new("A".to_owned()), PnCounter::new("B".to_owned()));
    let (mut delta, mut other_delta) =
        (DeltaPnCounter::new("A".to_owned()), DeltaPnCounter::new("B".to_owned()));
    full.merge(&known);
    delta.add_peer("B".to_owned()).unwrap();
    other_delta.add_peer("A".to_owned()).unwrap();
    delta.receive(&DeltaMessage::Delta { from: "B".to_owned(), slots: known }).unwrap();

    let (mut full_bytes, mut delta_bytes) = (0, 0);
    for _ in 0..50 {
        full.inc(1).unwrap();
        full_bytes += codec::encode(full.slots()).len();
        other_full.merge(full.slots());

        delta.inc(1).unwrap();
        let message = delta.delta_for(&"B".to_owned()).unwrap().unwrap();
        let answer = other_delta.receive(&message).unwrap().unwrap();
        delta_bytes += codec::encode(&message).len() + codec::encode(&answer).len();
        delta.receive(&answer).unwrap();
    }
    assert_eq!(full.value(), i128::from(others) * 1000 + 50);
    assert_eq!(other_full.slots().of(&"A".to_owned()), Pn::added(50));
    assert_eq!(other_delta.slots().of(&"A".to_owned()), Pn::added(50));
    (full_bytes, delta_bytes)
}

#[test]
fn deltas_are_smaller_than_states() {
    for others in [2, 10, 100] {
        let (full, delta) = bytes_of_fifty_rounds(others);
        println!("{others} other slots: states {full} bytes, deltas and acknowledgements {delta} bytes");
        assert!(delta < full);
    }
    // With no other slot there is nothing to leave out, and the acknowledgements come on top.
    let (full, delta) = bytes_of_fifty_rounds(0);
    assert!(delta > full);
}

#[test]
fn deltas_converge_under_a_hostile_network() {
    assert_eq!(converges_always::<DeltaPnCounter<u8>>(), Ok(()));
}

#[test]
#[allow(clippy::disallowed_methods, reason = "the task is about threads; the counter itself starts none")]
fn many_threads_lose_nothing() {
    let counter = ShardedCounter::new(16);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            let writer = counter.writer();
            scope.spawn(move || (0..10_000).for_each(|_| writer.add(1).unwrap()));
        }
    });
    assert_eq!(counter.value(), 80_000);
}

#[test]
fn the_property_holds_and_has_teeth() {
    assert_eq!(converges_always::<PnCounter<u8>>(), Ok(()));
    assert!(is_caught::<WithMerge<SUM_INSTEAD_OF_MAX>>(), "the very same property, with a sum for a merge");
}

#[test]
fn an_escrow_never_oversells() {
    let mut replicas = [Escrow::new("A", 50), Escrow::new("B", 50)];
    for replica in &mut replicas {
        let sales = (0..8).filter(|_| replica.prepare_spend(10).map(Spend::apply).is_ok());
        assert_eq!(sales.count(), 5);
    }
    assert_eq!(replicas[0].sold() + replicas[1].sold(), 100);
}

#[test]
fn a_plain_counter_oversells() {
    let (mut a, mut b) = (PnCounter::new("A"), PnCounter::new("B"));
    a.inc(100).unwrap();
    b.merge(a.slots());
    for _ in 0..8 {
        a.dec(10).unwrap();
        b.dec(10).unwrap();
    }
    a.merge(b.slots());
    assert_eq!(a.value(), -60);
}
