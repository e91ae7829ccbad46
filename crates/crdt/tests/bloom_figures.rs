//! The partitioned counter of the paper's Figures 6 and 7, without and with a forgetful filter, and the
//! baseline of its section VI-E.

use quipu_crdt::bloom::{
    ElementHash, Forgetful, RecyclableBloom, RecyclableError, Settings, SizeError, model,
};
use quipu_crdt::testing::Random;

/// A fragment of a counter.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Shard {
    /// The node that made it.
    counter_id: char,
    /// How many operations it holds.
    clock: u64,
    value: u64,
}

/// One replica of a counter as Cassandra 2.0 kept it: increments of its own in local shards, the total of
/// another node in remote ones.
#[derive(Debug)]
struct Node {
    id: char,
    memtable: Option<Shard>,
    flushed: Vec<Shard>,
    remote: Vec<Shard>,
    seen: Option<Forgetful>,
}

impl Node {
    fn new(id: char, seen: Option<Forgetful>) -> Self {
        Node { id, memtable: None, flushed: Vec::new(), remote: Vec::new(), seen }
    }

    /// Is this operation to be dismissed? Remembers it if not.
    fn is_retry(&mut self, operation: &str, now_ms: u64) -> bool {
        let element = ElementHash::of(operation.as_bytes());
        self.seen.as_mut().is_some_and(|seen| !seen.insert(element, now_ms))
    }

    /// Adds to the local shard, and tells what to send to the other node.
    fn increment(&mut self, value: u64, operation: &str, now_ms: u64) -> Option<Shard> {
        if self.is_retry(operation, now_ms) {
            return None;
        }
        let clock = self.local().map(|shard| shard.clock).max().unwrap_or(0) + 1;
        let pending = self.memtable.as_ref().map_or(0, |shard| shard.value);
        self.memtable = Some(Shard { counter_id: self.id, clock, value: pending + value });
        let value = self.local().map(|shard| shard.value).sum();
        Some(Shard { counter_id: self.id, clock, value })
    }

    fn receive(&mut self, total: Shard, operation: &str, now_ms: u64) {
        if !self.is_retry(operation, now_ms) {
            self.remote.push(total);
        }
    }

    fn flush(&mut self) {
        self.flushed.extend(self.memtable.take());
    }

    fn local(&self) -> impl Iterator<Item = &Shard> {
        self.flushed.iter().chain(&self.memtable)
    }

    /// All local shards and the newest remote one.
    fn value(&self) -> u64 {
        let newest = self.remote.iter().max_by_key(|shard| shard.clock);
        self.local().chain(newest).map(|shard| shard.value).sum()
    }
}

/// An increment at `at`, sent on to `other`.
fn update(at: &mut Node, other: &mut Node, value: u64, operation: &str, now_ms: u64) {
    if let Some(total) = at.increment(value, operation, now_ms) {
        other.receive(total, operation, now_ms);
    }
}

/// Steps 1 to 4 of both figures, and the retransmission whose acknowledgement was lost.
fn figure(seen: Option<Forgetful>) -> (Node, Node) {
    let (mut a, mut b) = (Node::new('A', seen.clone()), Node::new('B', seen));
    update(&mut a, &mut b, 1, "cl1_ts1", 0);
    assert_eq!((a.value(), b.value()), (1, 1));
    update(&mut b, &mut a, 2, "cl1_ts2", 1_000);
    assert_eq!((a.value(), b.value()), (3, 3));
    a.flush();
    b.flush();
    assert_eq!((a.value(), b.value()), (3, 3));
    update(&mut a, &mut b, 3, "cl1_ts3", 2_000);
    assert_eq!((a.value(), b.value()), (6, 6));
    update(&mut a, &mut b, 3, "cl1_ts3", 4_000);
    (a, b)
}

fn filter() -> Forgetful {
    let settings = Settings { bits: 6_250, hashes: 5, past: 1, period_ms: 5_000, window_ms: 10_000 };
    Forgetful::new(settings, 0).expect("valid settings")
}

#[test]
fn figure_6_a_retransmission_is_counted_twice() {
    let (a, b) = figure(None);
    assert_eq!((a.value(), b.value()), (9, 9));
    assert_eq!(a.flushed, [Shard { counter_id: 'A', clock: 1, value: 1 }]);
    assert_eq!(a.memtable, Some(Shard { counter_id: 'A', clock: 3, value: 6 }));
    assert_eq!(b.remote.last(), Some(&Shard { counter_id: 'A', clock: 3, value: 7 }));
}

#[test]
fn figure_7_with_the_filter_it_is_dismissed() {
    let (mut a, mut b) = figure(Some(filter()));
    assert_eq!((a.value(), b.value()), (6, 6));
    update(&mut b, &mut a, 3, "cl1_ts3", 4_500);
    assert_eq!((a.value(), b.value()), (6, 6), "also when it is sent to the other replica");
}

#[test]
fn a_recyclable_filter_is_cleared_when_it_errs_too_often() {
    let mut filter = RecyclableBloom::new(1_500, 3, 0.01).expect("valid settings");
    let mut clearings = 0;
    for operation in 0u32..2_000 {
        let before = filter.estimate();
        if filter.insert(ElementHash::of(&operation.to_le_bytes())) {
            assert!(filter.contains(ElementHash::of(&operation.to_le_bytes())), "the newest is kept");
            clearings += u32::from(filter.estimate() < before);
            assert!(before <= 0.01 || filter.estimate() < before, "cleared when above the target");
        }
    }
    assert!((15..20).contains(&clearings), "{clearings} clearings at some 120 elements each");
}

#[test]
fn a_recyclable_filter_is_not_cleared_at_its_target() {
    let target = model::single(10, 1_500, 3);
    let mut filter = RecyclableBloom::new(1_500, 3, target).expect("valid settings");
    for operation in 0u32..11 {
        assert!(filter.insert(ElementHash::of(&operation.to_le_bytes())));
    }
    assert_eq!(filter.estimate(), model::single(11, 1_500, 3));
    assert!(filter.insert(ElementHash::of(b"one more")));
    assert_eq!(filter.estimate(), model::single(1, 1_500, 3), "above its target it is");
}

#[test]
fn a_recyclable_filter_must_be_possible() {
    assert_eq!(RecyclableBloom::new(0, 3, 0.1), Err(SizeError::Bits { bits: 0 }.into()));
    assert_eq!(RecyclableBloom::new(9, 3, 0.0), Err(RecyclableError::Target { target: 0.0 }));
    assert_eq!(RecyclableBloom::new(9, 3, 1.0), Err(RecyclableError::Target { target: 1.0 }));
    assert!(RecyclableBloom::new(9, 3, f64::NAN).is_err());
}

/// Figure 16: with the same memory, the recyclable filter lets retries of what it has just cleared count
/// twice. The forgetful one lets none within its window.
#[test]
fn with_the_same_memory_only_forgetful_dismisses_every_retry() {
    let settings = Settings { bits: 5_000, hashes: 3, past: 1, period_ms: 100, window_ms: 200 };
    let mut forgetful = Forgetful::new(settings, 0).expect("valid settings");
    let mut recyclable = RecyclableBloom::new(15_000, 3, 0.01).expect("valid settings");
    let operations = 20_000u16;
    let (twice_by_forgetful, once_by_forgetful) =
        with_retries(operations, |element, now_ms| forgetful.insert(element, now_ms));
    let (twice_by_recyclable, _) = with_retries(operations, |element, _| recyclable.insert(element));
    assert_eq!(twice_by_forgetful, 0);
    assert!(once_by_forgetful > 19_700, "{once_by_forgetful} of {operations} counted");
    assert!(twice_by_recyclable > 500, "{twice_by_recyclable} of {operations} counted twice");
}

/// An operation every millisecond, and a retry of one of the last 200. How many were counted more than once,
/// and how many once?
fn with_retries(operations: u16, mut insert: impl FnMut(ElementHash, u64) -> bool) -> (usize, usize) {
    let mut random = Random::new(16);
    let mut counted = vec![0; usize::from(operations)];
    for now in 0..usize::from(operations) {
        for operation in [now, now.saturating_sub(random.below(200))] {
            counted[operation] += u32::from(insert(ElementHash::of(&operation.to_le_bytes()), now as u64));
        }
    }
    let times = |wanted: fn(u32) -> bool| counted.iter().filter(|times| wanted(**times)).count();
    (times(|times| times > 1), times(|times| times == 1))
}
