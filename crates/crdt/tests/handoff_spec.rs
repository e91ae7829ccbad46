//! Handoff over each tally against a one-line specification, the sum of what was added, under the adversary.

use proptest::collection::vec;
use proptest::prelude::*;
use quipu_crdt::handoff::Handoff;
use quipu_crdt::testing::{Adversary, Partition};
use quipu_crdt::{Pn, Tally};
use std::collections::BTreeMap;

/// Two sites, two relays, three edges.
const TIERS: [u8; 7] = [0, 0, 1, 1, 2, 2, 2];
/// Enough undisturbed rounds for everything to come down and be heard of everywhere.
const FLUSH_ROUNDS: usize = 8;

struct Net<T: Tally> {
    nodes: Vec<Handoff<usize, T>>,
    issued: T,
}

impl<T: Tally> Net<T> {
    fn new() -> Self {
        let nodes = TIERS.iter().enumerate().map(|(id, &tier)| Handoff::new(id, tier)).collect();
        Net { nodes, issued: T::default() }
    }

    fn links() -> impl Iterator<Item = (usize, usize)> {
        let pairs = (0..TIERS.len()).flat_map(|a| (0..TIERS.len()).map(move |b| (a, b)));
        pairs.filter(|&(a, b)| {
            a != b && (TIERS[a].abs_diff(TIERS[b]) == 1 || TIERS[a] == TIERS[b] && TIERS[a] < 2)
        })
    }

    fn check_bound(&self, node: usize) {
        let mut joined = self.issued.clone();
        joined.merge(self.nodes[node].fetch());
        assert_eq!(joined, self.issued, "node {node} reports more than was issued");
    }

    /// The workload, with the network at its worst: partitioned in its middle third.
    fn run(&mut self, workload: &[(usize, T)], seed: u64) {
        let mut network = Adversary::new(seed).drop(0.3).duplicate(0.4).replay(0.2, 200);
        let third = workload.len() / 3;
        for (step, (node, amount)) in workload.iter().enumerate() {
            if step == third {
                network.split(Partition::of(TIERS.len(), &[&[0, 2, 4, 5], &[1, 3, 6]]));
            } else if step == 2 * third {
                network.split(Partition::none());
            }
            self.nodes[*node].add(amount).expect("small numbers");
            self.issued.try_add(amount).expect("small numbers");
            for (from, to) in Self::links() {
                let view = self.nodes[from].view_for(&to, TIERS[to]);
                network.send(from, to, view);
            }
            for _ in 0..30 {
                let Some((from, to, view)) = network.deliver() else { break };
                self.nodes[to].merge(&view).expect("no twin");
                self.check_bound(to);
                network.send(to, from, self.nodes[to].reply_to(&view));
            }
        }
    }

    fn flush(&mut self) {
        for _ in 0..FLUSH_ROUNDS {
            for (from, to) in Self::links() {
                let view = self.nodes[from].view_for(&to, TIERS[to]);
                self.nodes[to].merge(&view).expect("no twin");
                let reply = self.nodes[to].reply_to(&view);
                self.nodes[from].merge(&reply).expect("no twin");
            }
        }
    }
}

/// The specification: every node reports the sum of what was added, and nothing is left in flight.
fn check_spec<T: Tally>(workload: &[(usize, T)], seed: u64) {
    let mut net = Net::new();
    net.run(workload, seed);
    net.flush();
    for node in &net.nodes {
        assert_eq!(*node.fetch(), net.issued, "node {}", node.id());
        assert!(node.is_idle(), "node {} is not idle", node.id());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_counter(workload in vec((0..TIERS.len(), 0u64..100), 0..40), seed in any::<u64>()) {
        check_spec(&workload, seed);
    }

    #[test]
    fn a_counter_that_goes_down(workload in vec((0..TIERS.len(), (0u64..100, 0u64..100)), 0..40), seed in any::<u64>()) {
        let workload: Vec<_> = workload
            .into_iter()
            .map(|(node, (added, subtracted))| (node, Pn { added, subtracted }))
            .collect();
        check_spec(&workload, seed);
    }

    #[test]
    fn a_map_of_counters(workload in vec((0..TIERS.len(), (0u8..5, 1u64..100)), 0..40), seed in any::<u64>()) {
        let workload: Vec<_> =
            workload.into_iter().map(|(node, (key, amount))| (node, BTreeMap::from([(key, amount)]))).collect();
        check_spec(&workload, seed);
    }
}
