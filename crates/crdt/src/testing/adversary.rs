//! The network at its worst: it drops, repeats, reorders, replays old messages and splits.

use super::Random;

/// Who can reach whom: nodes by index, each on one side.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Partition {
    side: Vec<usize>,
}

impl Partition {
    /// Everybody reaches everybody.
    pub fn none() -> Self {
        Partition::default()
    }

    /// Nodes reach each other when they stand in the same group; a node in no group reaches nobody.
    pub fn of(nodes: usize, groups: &[&[usize]]) -> Self {
        let mut side: Vec<usize> = (0..nodes).map(|node| groups.len() + node).collect();
        for (group, members) in groups.iter().enumerate() {
            for &node in *members {
                side[node] = group;
            }
        }
        Partition { side }
    }

    /// Does a message from one to the other get through?
    pub fn connects(&self, from: usize, to: usize) -> bool {
        self.side.is_empty() || from == to || self.side[from] == self.side[to]
    }
}

/// A message on its way.
#[derive(Debug, Clone)]
struct InFlight<M> {
    from: usize,
    to: usize,
    message: M,
}

/// A network between numbered nodes that does everything a network may do to messages but change them.
///
/// ```
/// use quipu_crdt::testing::Adversary;
/// let mut network = Adversary::new(7).drop(0.3).duplicate(0.4);
/// network.send(0, 1, "hello");
/// while let Some((from, to, message)) = network.deliver() {
///     assert_eq!((from, to, message), (0, 1, "hello"));
/// }
/// ```
#[derive(Debug, Clone)]
pub struct Adversary<M> {
    random: Random,
    drop: f64,
    duplicate: f64,
    replay: f64,
    history_max: usize,
    partition: Partition,
    in_flight: Vec<InFlight<M>>,
    history: Vec<InFlight<M>>,
}

impl<M: Clone> Adversary<M> {
    /// A network that only reorders, determined by this seed.
    pub fn new(seed: u64) -> Self {
        Adversary {
            random: Random::new(seed),
            drop: 0.0,
            duplicate: 0.0,
            replay: 0.0,
            history_max: 0,
            partition: Partition::none(),
            in_flight: Vec::new(),
            history: Vec::new(),
        }
    }

    /// Loses messages with this probability.
    #[must_use]
    pub fn drop(mut self, probability: f64) -> Self {
        self.drop = probability;
        self
    }

    /// Delivers a message again with this probability, and then perhaps again.
    #[must_use]
    pub fn duplicate(mut self, probability: f64) -> Self {
        assert!(probability < 1.0, "a message that is always delivered again never ends");
        self.duplicate = probability;
        self
    }

    /// With this probability delivers, instead of what is due, a random one of up to `history_max` messages
    /// that were delivered before, however long ago.
    #[must_use]
    pub fn replay(mut self, probability: f64, history_max: usize) -> Self {
        self.replay = probability;
        self.history_max = history_max;
        self
    }

    /// From now on messages across the split are lost; [`Partition::none`] heals it.
    pub fn split(&mut self, partition: Partition) {
        self.partition = partition;
    }

    /// Hands a message to the network.
    pub fn send(&mut self, from: usize, to: usize, message: M) {
        if self.random.chance(self.drop) {
            return;
        }
        self.in_flight.push(InFlight { from, to, message });
    }

    /// Sender, receiver and message of the next delivery; `None` when nothing is under way.
    pub fn deliver(&mut self) -> Option<(usize, usize, M)> {
        while !self.in_flight.is_empty() {
            if !self.history.is_empty() && self.random.chance(self.replay) {
                let old = self.random.pick(&self.history).clone();
                if self.partition.connects(old.from, old.to) {
                    return Some((old.from, old.to, old.message));
                }
            }
            let next = self.take_any();
            if self.partition.connects(next.from, next.to) {
                return Some((next.from, next.to, next.message));
            }
        }
        None
    }

    fn take_any(&mut self) -> InFlight<M> {
        let index = self.random.below(self.in_flight.len());
        if self.random.chance(self.duplicate) {
            return self.in_flight[index].clone();
        }
        let taken = self.in_flight.swap_remove(index);
        self.remember(taken.clone());
        taken
    }

    fn remember(&mut self, delivered: InFlight<M>) {
        if self.history.len() < self.history_max {
            self.history.push(delivered);
        } else if self.history_max > 0 {
            let forgotten = self.random.below(self.history_max);
            self.history[forgotten] = delivered;
        }
    }
}
