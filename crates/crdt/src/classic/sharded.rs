//! One hot counter, spread over the cores of one machine.

use crate::Overflow;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// A lane on cache lines of its own, so that writers of different lanes do not slow each other down. Two
/// lines of 64 bytes, because processors fetch them in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Lane {
    count: AtomicU64,
}

/// A counter in the memory of one process that many writers count in at once.
///
/// It is split into lanes, and each [`Writer`] has one. The value is the sum of the lanes: exact once the
/// writers are at rest; while they write, a read is some value between the one at its start and the one at
/// its end. More lanes than writers gain nothing and make reads slower.
///
/// ```
/// use quipu_crdt::classic::ShardedCounter;
/// let counter = ShardedCounter::new(16);
/// let (one, other) = (counter.writer(), counter.writer());
/// one.add(3)?;
/// other.add(4)?;
/// assert_eq!(counter.value(), 7);
/// # Ok::<(), quipu_crdt::Overflow>(())
/// ```
#[derive(Debug)]
pub struct ShardedCounter {
    lanes: Box<[Lane]>,
    writers: AtomicUsize,
}

impl ShardedCounter {
    /// A counter with this many lanes; it has at least one.
    pub fn new(lanes: u16) -> Self {
        let lanes = (0..lanes.max(1)).map(|_| Lane::default()).collect();
        ShardedCounter { lanes, writers: AtomicUsize::new(0) }
    }

    /// A handle to count with. Lanes are given out in turn, so writers share one only when there are more
    /// writers than lanes; that is slower and just as exact.
    pub fn writer(&self) -> Writer<'_> {
        let turn = self.writers.fetch_add(1, Ordering::Relaxed);
        Writer { lane: &self.lanes[turn % self.lanes.len()] }
    }

    /// The sum of all lanes. Wide enough for any number of them.
    pub fn value(&self) -> u128 {
        self.lanes.iter().map(|lane| u128::from(lane.count.load(Ordering::Relaxed))).sum()
    }
}

/// Counts in one lane of a [`ShardedCounter`].
#[derive(Debug, Clone, Copy)]
pub struct Writer<'a> {
    lane: &'a Lane,
}

impl Writer<'_> {
    /// Counts `amount`, or refuses if the lane cannot hold it.
    pub fn add(&self, amount: u64) -> Result<(), Overflow> {
        // Not `fetch_add`: it would wrap, and others could see that before it is taken back.
        let added = |count: u64| count.checked_add(amount);
        let before = self.lane.count.try_update(Ordering::Relaxed, Ordering::Relaxed, added);
        before.map(drop).map_err(|_| Overflow)
    }
}
