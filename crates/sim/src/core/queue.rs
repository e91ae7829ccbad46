//! The events to come, in the order in which they happen.

use super::Millis;
use std::collections::{BTreeMap, VecDeque};

/// So many milliseconds ahead each millisecond has a bucket of its own. Covers all but a few latencies.
const HORIZON_MS: Millis = 1_024;

/// Events that are stored, and handed out, together.
const BATCH_EVENTS: usize = 64;

/// A priority queue over virtual milliseconds. Events of the same millisecond come in the order in which they
/// were put in.
///
/// It is a ring of buckets, one for each of the next 1,024 milliseconds, and a tree for what is
/// later. Putting in and taking out cost the same however many events wait. Buckets are lists of short
/// vectors, and the vector that was emptied last is filled next: memory stays warm, and nothing is allocated
/// once the queue has reached its size.
#[derive(Debug)]
pub struct Queue<E> {
    now: Millis,
    len: usize,
    /// Bucket `t % HORIZON_MS` holds the events of millisecond `t`, for `now <= t < now + HORIZON_MS`.
    near: Vec<VecDeque<Vec<E>>>,
    near_len: usize,
    /// The events from `now + HORIZON_MS` on.
    far: BTreeMap<Millis, Vec<E>>,
    spare: Vec<Vec<E>>,
}

impl<E> Default for Queue<E> {
    fn default() -> Self {
        Self::new()
    }
}

impl<E> Queue<E> {
    /// An empty queue at time zero.
    pub fn new() -> Self {
        Queue {
            now: 0,
            len: 0,
            near: (0..HORIZON_MS).map(|_| VecDeque::new()).collect(),
            near_len: 0,
            far: BTreeMap::new(),
            spare: Vec::new(),
        }
    }

    /// The time of the batch that was handed out last, or up to which there was none.
    pub fn now(&self) -> Millis {
        self.now
    }

    /// How many events wait. Those of a batch that was handed out do not.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Does nothing wait?
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Puts in an event that happens `delay` from now; without delay, after all that is due now.
    #[inline(always)]
    pub fn push(&mut self, delay: Millis, event: E) {
        self.len += 1;
        if delay >= HORIZON_MS {
            self.far.entry(self.now + delay).or_insert_with(|| Vec::with_capacity(1)).push(event);
            return;
        }
        self.push_near(self.now + delay, event);
    }

    #[inline(always)]
    fn push_near(&mut self, at: Millis, event: E) {
        self.near_len += 1;
        let bucket = &mut self.near[index(at)];
        match bucket.back_mut() {
            Some(last) if last.len() < BATCH_EVENTS => last.push(event),
            _ => {
                let mut batch = self.spare.pop().unwrap_or_else(|| Vec::with_capacity(BATCH_EVENTS));
                batch.push(event);
                bucket.push_back(batch);
            }
        }
    }

    /// The next events, some or all of those of the next millisecond in which something happens, and sets the
    /// clock to it. `None`, with the clock at `until`, if nothing happens up to and including `until`.
    ///
    /// Give the vector back with [`recycle`](Self::recycle) when its events have been dealt with.
    pub fn next_batch(&mut self, until: Millis) -> Option<Vec<E>> {
        loop {
            if self.now > until {
                return None;
            }
            if let Some(batch) = self.near[index(self.now)].pop_front() {
                self.near_len -= batch.len();
                self.len -= batch.len();
                return Some(batch);
            }
            let next = if self.near_len > 0 {
                self.now + 1
            } else {
                // Nothing in the ring: jump to what comes first beyond it.
                self.far.first_key_value().map_or(Millis::MAX, |(&first, _)| first)
            };
            if next > until {
                self.advance(until.max(self.now));
                return None;
            }
            self.advance(next);
        }
    }

    /// Takes the vector of a batch back, with what may be left in it dropped.
    pub fn recycle(&mut self, batch: &mut Vec<E>) {
        let mut batch = std::mem::take(batch);
        batch.clear();
        self.spare.push(batch);
    }

    /// Moves the clock. What comes within the horizon enters its bucket before anything can be pushed there,
    /// so that the order within a millisecond stays that of insertion.
    fn advance(&mut self, to: Millis) {
        self.now = to;
        while let Some(first) = self.far.first_entry()
            && *first.key() < to + HORIZON_MS
        {
            let (at, events) = first.remove_entry();
            events.into_iter().for_each(|event| self.push_near(at, event));
        }
    }
}

fn index(at: Millis) -> usize {
    usize::try_from(at % HORIZON_MS).expect("less than the horizon")
}

#[cfg(test)]
mod tests {
    use super::*;
    use quipu_crdt::testing::Random;

    /// Everything up to `until`, one event at a time, with its time.
    fn drain<E>(queue: &mut Queue<E>, until: Millis) -> Vec<(Millis, E)> {
        let mut all = Vec::new();
        while let Some(mut batch) = queue.next_batch(until) {
            all.extend(batch.drain(..).map(|event| (queue.now(), event)));
            queue.recycle(&mut batch);
        }
        all
    }

    #[test]
    fn events_come_by_time_and_at_the_same_time_in_the_order_of_insertion() {
        let mut random = Random::new(1);
        let mut queue = Queue::new();
        let mut expected = Vec::new();
        let mut got = Vec::new();
        let mut number = 0u32;
        for round in 1..=200u64 {
            for _ in 0..random.below(300) {
                let delay = match random.below(3) {
                    0 => random.below(5),
                    1 => random.below(1_100),
                    _ => random.below(5_000),
                } as Millis;
                queue.push(delay, number);
                expected.push((queue.now() + delay, number));
                number += 1;
            }
            got.extend(drain(&mut queue, round * 37));
            assert_eq!(queue.now(), round * 37);
        }
        got.extend(drain(&mut queue, 100_000));
        expected.sort_unstable(); // By time, then by number, which is the order of insertion.
        assert!(got == expected, "the order is wrong");
        assert!(queue.is_empty());
        assert_eq!(queue.len(), 0);
    }

    #[test]
    fn what_is_due_at_once_comes_after_what_was_due_before() {
        let mut queue = Queue::new();
        queue.push(3, "first");
        queue.push(3, "second");
        let mut batch = queue.next_batch(3).expect("two are due");
        queue.push(0, "third");
        assert_eq!(batch, ["first", "second"]);
        queue.recycle(&mut batch);
        assert_eq!(queue.next_batch(3), Some(vec!["third"]));
    }

    #[test]
    fn an_event_from_beyond_the_horizon_comes_before_a_later_one_of_the_same_time() {
        let mut queue = Queue::new();
        queue.push(5_000, "early");
        assert_eq!(queue.next_batch(4_990), None);
        queue.push(10, "late");
        assert_eq!(drain(&mut queue, 6_000), [(5_000, "early"), (5_000, "late")]);
    }

    #[test]
    fn timers_from_far_away_do_not_pile_up_memory() {
        let mut queue = Queue::new();
        queue.push(2_000, ());
        for _ in 0..10_000 {
            let mut batch = queue.next_batch(1 << 40).expect("a timer");
            queue.push(2_000, ());
            queue.recycle(&mut batch);
        }
        assert!(queue.spare.len() <= 2, "{} vectors wait for use", queue.spare.len());
    }

    #[test]
    fn the_clock_jumps_over_empty_time_and_never_goes_back() {
        let mut queue = Queue::new();
        queue.push(1 << 40, ());
        assert_eq!(queue.next_batch(10), None);
        assert_eq!(queue.now(), 10);
        assert_eq!(queue.next_batch(5), None);
        assert_eq!(queue.now(), 10);
        assert!(queue.next_batch(1 << 41).is_some());
        assert_eq!(queue.now(), 1 << 40);
    }
}
