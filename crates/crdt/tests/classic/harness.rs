//! One property for every replicated counter: whatever the network did, after one guaranteed exchange each
//! replica reports the sum of all that was added. Wrong counters run through the very same property.

use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};
use quipu_crdt::testing::{Adversary, Partition};
use std::fmt::Debug;
use std::ops::RangeInclusive;

pub(crate) const NODES: usize = 3;
pub(crate) const IDS: [u8; NODES] = [0, 1, 2];
const CASES: u32 = 500;

/// A replicated counter, right or wrong, as the property drives it.
pub(crate) trait Replica: Sized {
    type Message: Clone + Debug;

    /// What may be added.
    const AMOUNTS: RangeInclusive<i64> = -100..=100;

    /// A replica whose peers are all other [`IDS`].
    fn new(id: u8) -> Self;
    fn add(&mut self, amount: i64);
    fn value(&self) -> i128;
    fn messages_for(&mut self, peer: u8) -> Vec<Self::Message>;
    /// Takes a message and returns the answer.
    fn receive(&mut self, from: u8, message: &Self::Message) -> Option<Self::Message>;

    /// Comes back from its stored bytes.
    fn restart(&mut self) {}
    /// Once everybody has everything: is nothing kept that is no longer needed?
    fn is_at_rest(&self) -> bool {
        true
    }
}

pub(crate) fn peers_of(id: u8) -> impl Iterator<Item = u8> {
    IDS.into_iter().filter(move |&peer| peer != id)
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Step {
    Add { node: usize, amount: i64 },
    Send { from: usize, to: usize },
    Deliver { messages: usize },
    Restart { node: usize },
    Isolate { node: usize },
    Heal,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Trace {
    pub(crate) seed: u64,
    pub(crate) steps: Vec<Step>,
}

pub(crate) fn traces(amounts: RangeInclusive<i64>) -> impl Strategy<Value = Trace> {
    let node = || 0..NODES;
    let step = prop_oneof![
        6 => (node(), amounts).prop_map(|(node, amount)| Step::Add { node, amount }),
        6 => (node(), node()).prop_map(|(from, to)| Step::Send { from, to }),
        4 => (1..6usize).prop_map(|messages| Step::Deliver { messages }),
        1 => node().prop_map(|node| Step::Restart { node }),
        1 => node().prop_map(|node| Step::Isolate { node }),
        1 => Just(Step::Heal),
    ];
    (any::<u64>(), prop::collection::vec(step, 0..80)).prop_map(|(seed, steps)| Trace { seed, steps })
}

/// The network of all tests: it loses, repeats, reorders and replays.
pub(crate) fn network<M: Clone>(seed: u64) -> Adversary<M> {
    Adversary::new(seed).drop(0.3).duplicate(0.4).replay(0.2, 64)
}

/// Node `node` alone on one side, the others on the other.
pub(crate) fn isolate(node: usize) -> Partition {
    let others: Vec<usize> = (0..NODES).filter(|&other| other != node).collect();
    Partition::of(NODES, &[&others])
}

pub(crate) struct Cluster<R: Replica> {
    pub(crate) replicas: Vec<R>,
    network: Adversary<R::Message>,
    /// The specification: the sum of all that was added.
    pub(crate) total: i128,
}

impl<R: Replica> Cluster<R> {
    /// A cluster after these steps.
    pub(crate) fn after(trace: &Trace) -> Self {
        let replicas = IDS.into_iter().map(R::new).collect();
        let mut cluster = Cluster { replicas, network: network(trace.seed), total: 0 };
        for step in &trace.steps {
            cluster.take(step);
        }
        cluster
    }

    fn take(&mut self, step: &Step) {
        match *step {
            Step::Add { node, amount } => {
                self.replicas[node].add(amount);
                self.total += i128::from(amount);
            }
            Step::Send { from, to } if from != to => {
                for message in self.replicas[from].messages_for(IDS[to]) {
                    self.network.send(from, to, message);
                }
            }
            Step::Send { .. } => {}
            Step::Deliver { messages } => drop((0..messages).map_while(|_| self.deliver()).count()),
            Step::Restart { node } => self.replicas[node].restart(),
            Step::Isolate { node } => self.network.split(isolate(node)),
            Step::Heal => self.network.split(Partition::none()),
        }
    }

    fn deliver(&mut self) -> Option<()> {
        let (from, to, message) = self.network.deliver()?;
        if let Some(answer) = self.replicas[to].receive(IDS[from], &message) {
            self.network.send(to, from, answer);
        }
        Some(())
    }

    /// Delivers what is under way, then lets everybody exchange once more, without a loss.
    pub(crate) fn flush(&mut self) {
        self.network.split(Partition::none());
        while self.deliver().is_some() {}
        for _ in 0..2 {
            for from in 0..NODES {
                for to in (0..NODES).filter(|&to| to != from) {
                    self.exchange(from, to);
                }
            }
        }
    }

    fn exchange(&mut self, from: usize, to: usize) {
        for message in self.replicas[from].messages_for(IDS[to]) {
            if let Some(answer) = self.replicas[to].receive(IDS[from], &message) {
                self.replicas[from].receive(IDS[to], &answer);
            }
        }
    }

    pub(crate) fn values(&self) -> Vec<i128> {
        self.replicas.iter().map(R::value).collect()
    }
}

fn converges<R: Replica>(trace: &Trace) -> Result<(), TestCaseError> {
    let mut cluster = Cluster::<R>::after(trace);
    cluster.flush();
    prop_assert_eq!(cluster.values(), vec![cluster.total; NODES]);
    prop_assert!(cluster.replicas.iter().all(R::is_at_rest));
    Ok(())
}

fn config() -> Config {
    Config { cases: CASES, failure_persistence: None, max_shrink_iters: 256, ..Config::default() }
}

/// Runs the property over random traces, other ones in each run.
pub(crate) fn converges_always<R: Replica>() -> Result<(), TestError<Trace>> {
    TestRunner::new(config()).run(&traces(R::AMOUNTS), |trace| converges::<R>(&trace))
}

/// Does the very same property find this wrong counter out? Over fixed traces.
pub(crate) fn is_caught<R: Replica>() -> bool {
    let random = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let mut runner = TestRunner::new_with_rng(config(), random);
    let outcome = runner.run(&traces(R::AMOUNTS), |trace| converges::<R>(&trace));
    found_out(&outcome)
}

/// Did the property fail by its own demand, and not because the wrong counter panicked?
pub(crate) fn found_out<T>(outcome: &Result<(), TestError<T>>) -> bool {
    matches!(outcome, Err(TestError::Fail(reason, _)) if reason.message().starts_with("assertion failed"))
}
