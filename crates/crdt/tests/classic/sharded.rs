//! `ShardedCounter` with real threads.
#![allow(clippy::disallowed_methods, reason = "the counter is for threads, and starts none itself")]

use quipu_crdt::classic::Writer;
use quipu_crdt::{Overflow, ShardedCounter};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::ScopedJoinHandle;

const PER_WRITER: u64 = 20_000;

fn count_with(lanes: u16, writers: u64) -> u128 {
    let counter = ShardedCounter::new(lanes);
    std::thread::scope(|scope| {
        for number in 1..=writers {
            let writer = counter.writer();
            scope.spawn(move || (0..PER_WRITER).for_each(|_| writer.add(number).unwrap()));
        }
    });
    counter.value()
}

#[test]
fn writers_that_share_lanes_lose_nothing() {
    for lanes in [0, 1, 3, 8, 100] {
        assert_eq!(count_with(lanes, 8), u128::from(36 * PER_WRITER), "{lanes} lanes");
    }
}

#[test]
fn reads_never_go_backwards_while_others_write() {
    let counter = ShardedCounter::new(4);
    let writers: Vec<_> = (0..4).map(|_| counter.writer()).collect();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut last = 0;
            while !done.load(Ordering::Acquire) {
                let now = counter.value();
                assert!(last <= now);
                last = now;
            }
        });
        let count = |writer: Writer<'_>| (0..PER_WRITER).try_for_each(|_| writer.add(1));
        let threads: Vec<_> = writers.into_iter().map(|writer| scope.spawn(move || count(writer))).collect();
        let counted: Vec<_> = threads.into_iter().map(ScopedJoinHandle::join).collect();
        done.store(true, Ordering::Release); // Also if one has failed: the reader waits for it.
        reader.join().unwrap();
        assert!(counted.iter().all(|counted| matches!(counted, Ok(Ok(())))), "{counted:?}");
    });
    assert_eq!(counter.value(), u128::from(4 * PER_WRITER));
}

#[test]
fn a_full_lane_refuses_and_the_sum_does_not_wrap() {
    let counter = ShardedCounter::new(2);
    let (one, other) = (counter.writer(), counter.writer());
    one.add(u64::MAX).unwrap();
    assert_eq!(one.add(1), Err(Overflow));
    one.add(0).unwrap();
    other.add(u64::MAX).expect("a lane of its own");
    assert_eq!(counter.value(), 2 * u128::from(u64::MAX));
    assert_eq!(counter.writer().add(1), Err(Overflow), "the third writer has the first lane");
}
