//! What becomes of a message between two nodes.

use super::{Latency, Millis, Node, Queue};
use quipu_crdt::testing::{Partition, Random};

/// What a network does to messages beside delaying them, each with a probability.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Faults {
    /// A message is lost.
    pub loss: f64,
    /// A message that arrives arrives once more, and then perhaps again, each copy with a latency of its own.
    pub duplication: f64,
    /// A copy is held back for up to `reordering_ms_max`, so that later ones overtake it. (Latencies that vary
    /// reorder messages as well.)
    pub reordering: f64,
    /// How long a message is held back at most.
    pub reordering_ms_max: Millis,
}

impl Faults {
    /// A network that only delays.
    pub const NONE: Faults = Faults { loss: 0.0, duplication: 0.0, reordering: 0.0, reordering_ms_max: 0 };
}

/// A network between numbered nodes.
///
/// Latency, loss, duplication and reordering each draw from a stream of their own.
#[derive(Debug)]
pub struct Network<L> {
    latency: L,
    faults: Faults,
    partition: Option<Partition>,
    latency_stream: Random,
    loss_stream: Random,
    duplication_stream: Random,
    reordering_stream: Random,
    sent: u64,
}

impl<L: Latency> Network<L> {
    /// A network without a split.
    ///
    /// # Panics
    /// If a probability is not one, or every copy is followed by another.
    pub fn new(latency: L, faults: Faults, seed: u64) -> Self {
        let Faults { loss, duplication, reordering, .. } = faults;
        assert!([loss, reordering].iter().all(|p| (0.0..=1.0).contains(p)), "probabilities are in 0..=1");
        assert!((0.0..1.0).contains(&duplication), "a message that always comes again never ends");
        Network {
            latency,
            faults,
            partition: None,
            latency_stream: Random::stream(seed, "network: latency"),
            loss_stream: Random::stream(seed, "network: loss"),
            duplication_stream: Random::stream(seed, "network: duplication"),
            reordering_stream: Random::stream(seed, "network: reordering"),
            sent: 0,
        }
    }

    /// From now on messages that are sent across the split are lost; `None` heals it. What is under way
    /// arrives.
    pub fn split(&mut self, partition: Option<Partition>) {
        self.partition = partition;
    }

    /// How many messages were sent, lost ones included and copies not.
    pub fn sent(&self) -> u64 {
        self.sent
    }

    /// Sends an event of `to` through the network.
    #[inline(always)]
    pub fn send<E: Clone>(&mut self, queue: &mut Queue<E>, from: Node, to: Node, event: E) {
        self.sent += 1;
        if self.faults == Faults::NONE && self.partition.is_none() {
            let latency = self.latency.draw(from, to, &mut self.latency_stream);
            queue.push(latency, event);
        } else {
            self.send_badly(queue, from, to, event);
        }
    }

    fn send_badly<E: Clone>(&mut self, queue: &mut Queue<E>, from: Node, to: Node, event: E) {
        let index = |node: Node| usize::try_from(node).expect("a node is an index");
        let split = self.partition.as_ref().is_some_and(|sides| !sides.connects(index(from), index(to)));
        let lost = self.loss_stream.chance(self.faults.loss);
        if split || lost {
            return;
        }
        while self.duplication_stream.chance(self.faults.duplication) {
            let delay = self.delay(from, to);
            queue.push(delay, event.clone());
        }
        let delay = self.delay(from, to);
        queue.push(delay, event);
    }

    fn delay(&mut self, from: Node, to: Node) -> Millis {
        let latency = self.latency.draw(from, to, &mut self.latency_stream);
        if !self.reordering_stream.chance(self.faults.reordering) {
            return latency;
        }
        let held_back = self.reordering_stream.bits() % (self.faults.reordering_ms_max + 1);
        latency + held_back
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Backbone, Constant};
    use super::*;

    /// Sends so many numbered messages, a millisecond apart. What arrived, with its time.
    fn arrivals<L: Latency>(mut network: Network<L>, messages: u32) -> Vec<(Millis, u32)> {
        let mut queue = Queue::new();
        let mut arrived = Vec::new();
        for number in 0..=messages {
            while let Some(mut batch) = queue.next_batch(u64::from(number)) {
                arrived.extend(batch.drain(..).map(|number| (queue.now(), number)));
                queue.recycle(&mut batch);
            }
            if number < messages {
                network.send(&mut queue, 0, 1, number);
            }
        }
        while let Some(batch) = queue.next_batch(1 << 40) {
            arrived.extend(batch.into_iter().map(|number| (queue.now(), number)));
        }
        arrived
    }

    fn network(faults: Faults) -> Network<Backbone> {
        Network::new(Backbone::of_the_paper(1), faults, 5)
    }

    #[test]
    fn a_seed_gives_the_same_network_again_and_another_seed_another() {
        let faults = Faults { loss: 0.2, duplication: 0.2, reordering: 0.2, reordering_ms_max: 100 };
        assert_eq!(arrivals(network(faults), 1_000), arrivals(network(faults), 1_000));
        let other = Network::new(Backbone::of_the_paper(1), faults, 6);
        assert_ne!(arrivals(network(faults), 1_000), arrivals(other, 1_000));
    }

    #[test]
    fn faults_come_as_often_as_asked_for() {
        let lossy = arrivals(network(Faults { loss: 0.3, ..Faults::NONE }), 100_000).len();
        assert!((69_000..71_000).contains(&lossy), "{lossy} of 100000 arrived with a loss of 0.3");
        // Each copy is followed by another with probability 0.2: 1 + 0.2 + 0.04 + ... = 1.25.
        let doubled = arrivals(network(Faults { duplication: 0.2, ..Faults::NONE }), 100_000).len();
        assert!((124_000..126_000).contains(&doubled), "{doubled} copies of 100000 with duplication 0.2");
    }

    #[test]
    fn constant_latency_keeps_the_order_until_messages_are_held_back() {
        let in_order = |arrived: &[(Millis, u32)]| arrived.is_sorted_by_key(|&(_, number)| number);
        let constant = |faults| Network::new(Constant { ms: 80 }, faults, 5);
        assert!(in_order(&arrivals(constant(Faults::NONE), 1_000)));
        let held_back = Faults { reordering: 0.1, reordering_ms_max: 50, ..Faults::NONE };
        let arrived = arrivals(constant(held_back), 1_000);
        assert!(!in_order(&arrived));
        assert_eq!(arrived.len(), 1_000);
        assert!(arrived.iter().all(|&(at, number)| (80..=130).contains(&(at - u64::from(number)))));
    }

    #[test]
    fn more_of_one_fault_does_not_shift_the_others() {
        let with_reordering = |reordering, reordering_ms_max| {
            let faults = Faults { loss: 0.3, reordering, reordering_ms_max, ..Faults::NONE };
            let mut arrived = arrivals(network(faults), 2_000);
            arrived.sort_unstable_by_key(|&(_, number)| number);
            arrived
        };
        let numbers = |arrived: &[(Millis, u32)]| -> Vec<u32> { arrived.iter().map(|one| one.1).collect() };
        let calm = with_reordering(0.0, 0);
        let held_back = with_reordering(0.9, 500);
        assert_eq!(numbers(&calm), numbers(&held_back), "the same messages are lost");
        assert!(
            calm.iter().zip(&held_back).all(|(calm, held)| calm.0 <= held.0),
            "the same latencies, or more"
        );
        assert_eq!(calm, with_reordering(0.9, 0), "the same latencies");
    }

    #[test]
    fn a_split_loses_what_is_sent_across_it_until_it_heals() {
        let mut network = Network::new(Constant { ms: 10 }, Faults::NONE, 1);
        let mut queue = Queue::new();
        network.send(&mut queue, 0, 2, "under way");
        network.split(Some(Partition::of(3, &[&[0, 1], &[2]])));
        network.send(&mut queue, 0, 2, "across");
        network.send(&mut queue, 0, 1, "same side");
        network.split(None);
        network.send(&mut queue, 0, 2, "healed");
        assert_eq!(queue.next_batch(100), Some(vec!["under way", "same side", "healed"]));
        assert_eq!(network.sent(), 4);
    }
}
