//! Random traces under the adversary, checked at every step against the one-line specification:
//! the value of a replica is the sum of the additions that it has heard of.
//!
//! What it has heard of only grows, and contains nothing that was not issued. So a correct counter never
//! shows more than was issued, and with additions alone its value never decreases, not even at the moment
//! when a replica removes a dot: the state that removes it brings the account into which it was moved.

use crate::counter::{Counter, Held, Name};
use proptest::collection::vec;
use proptest::prelude::*;
use quipu_crdt::testing::{Adversary, Partition};
use std::collections::BTreeSet;

/// Nodes 0, 1 and 2 are permanent, the other four transient.
pub(crate) const PERMANENT: usize = 3;
pub(crate) const NODES: usize = 7;
const STEPS_MAX: usize = 300;

#[derive(Debug, Clone)]
pub(crate) enum Step {
    Create {
        node: usize,
        owner: usize,
    },
    Add {
        node: usize,
        amount: u64,
    },
    Retire {
        node: usize,
    },
    Transfer {
        node: usize,
        from: usize,
    },
    /// To everybody else.
    Send {
        from: usize,
    },
    Deliver {
        count: usize,
    },
    /// Bit i says on which side node i stands.
    Split {
        sides: u8,
    },
    Heal,
}

#[derive(Debug, Clone)]
pub(crate) struct Trace {
    pub(crate) seed: u64,
    pub(crate) steps: Vec<Step>,
}

pub(crate) fn traces() -> impl Strategy<Value = Trace> {
    (any::<u64>(), vec(steps(), 0..STEPS_MAX)).prop_map(|(seed, steps)| Trace { seed, steps })
}

fn steps() -> impl Strategy<Value = Step> {
    let (permanent, transient, any_node) = (0..PERMANENT, PERMANENT..NODES, 0..NODES);
    prop_oneof![
        4 => (permanent.clone(), transient.clone()).prop_map(|(node, owner)| Step::Create { node, owner }),
        1 => (permanent.clone(), permanent.clone()).prop_map(|(node, owner)| Step::Create { node, owner }),
        2 => permanent.clone().prop_map(|node| Step::Create { node, owner: node }),
        8 => (any_node.clone(), 0..100u64).prop_map(|(node, amount)| Step::Add { node, amount }),
        3 => transient.prop_map(|node| Step::Retire { node }),
        1 => permanent.clone().prop_map(|node| Step::Retire { node }),
        8 => (permanent, any_node.clone()).prop_map(|(node, from)| Step::Transfer { node, from }),
        6 => any_node.prop_map(|from| Step::Send { from }),
        8 => (1..8usize).prop_map(|count| Step::Deliver { count }),
        1 => any::<u8>().prop_map(|sides| Step::Split { sides }),
        1 => Just(Step::Heal),
    ]
}

/// What a wrong counter did.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Violation {
    OverCount,
    Decrease,
    /// Not the sum of what the node has heard of.
    Inexact,
    /// A node took an honest peer for its twin.
    FalseTwin,
    /// Everything was exchanged, and the nodes still differ.
    Divergence,
    /// All have retired, and more is left than one dot for each permanent node.
    Leftover,
}

struct Node<C> {
    counter: C,
    heard_of: BTreeSet<usize>,
    shown: u64,
}

#[derive(Clone)]
struct Message<C: Counter> {
    state: C::State,
    heard_of: BTreeSet<usize>,
}

pub(crate) struct World<C: Counter> {
    nodes: Vec<Node<C>>,
    network: Adversary<Message<C>>,
    /// The amounts of all additions, in the order in which they were issued.
    issued: Vec<u64>,
    /// Some of the states that were there.
    pub(crate) states: Vec<C::State>,
}

/// Runs the trace; then heals the network, lets everybody retire, and expects that nothing is left but the
/// right value.
pub(crate) fn run<C: Counter>(trace: &Trace) -> Result<World<C>, Violation> {
    let mut world = World::new(trace.seed);
    for step in &trace.steps {
        world.step(step)?;
    }
    world.retire_everybody()?;
    Ok(world)
}

#[expect(clippy::cast_possible_truncation, reason = "there are seven nodes")]
fn name(node: usize) -> Name {
    node as Name
}

impl<C: Counter> World<C> {
    fn new(seed: u64) -> Self {
        let new = |node| Node { counter: C::new(name(node)), heard_of: BTreeSet::new(), shown: 0 };
        let mut nodes: Vec<Node<C>> = (0..NODES).map(new).collect();
        for (id, node) in nodes.iter_mut().enumerate().take(PERMANENT) {
            node.counter.create(name(id));
        }
        let network = Adversary::new(seed).drop(0.3).duplicate(0.4).replay(0.2, 64);
        World { nodes, network, issued: Vec::new(), states: Vec::new() }
    }

    fn step(&mut self, step: &Step) -> Result<(), Violation> {
        match *step {
            Step::Create { node, owner } => _ = self.nodes[node].counter.create(name(owner)),
            Step::Add { node, amount } => self.add(node, amount),
            Step::Retire { node } => self.nodes[node].counter.retire(),
            Step::Transfer { node, from } => _ = self.nodes[node].counter.transfer(name(from)),
            Step::Send { from } => self.send(from),
            Step::Deliver { count } => (0..count).try_for_each(|_| self.deliver().map(drop))?,
            Step::Split { sides } => {
                let (left, right): (Vec<_>, Vec<_>) = (0..NODES).partition(|node| sides >> node & 1 == 1);
                self.network.split(Partition::of(NODES, &[&left, &right]));
            }
            Step::Heal => self.network.split(Partition::none()),
        }
        (0..NODES).try_for_each(|node| self.check(node))
    }

    fn add(&mut self, node: usize, amount: u64) {
        let node = &mut self.nodes[node];
        if node.counter.add(amount) {
            node.heard_of.insert(self.issued.len());
            self.issued.push(amount);
        }
    }

    fn message(&self, node: usize) -> Message<C> {
        let node = &self.nodes[node];
        Message { state: node.counter.state(), heard_of: node.heard_of.clone() }
    }

    fn send(&mut self, from: usize) {
        let message = self.message(from);
        self.states.push(message.state.clone());
        for to in (0..NODES).filter(|to| *to != from) {
            self.network.send(from, to, message.clone());
        }
    }

    /// False if nothing was under way.
    fn deliver(&mut self) -> Result<bool, Violation> {
        let Some((_, to, message)) = self.network.deliver() else { return Ok(false) };
        self.receive(to, &message)?;
        self.check(to)?;
        Ok(true)
    }

    fn receive(&mut self, to: usize, message: &Message<C>) -> Result<(), Violation> {
        let node = &mut self.nodes[to];
        if !node.counter.merge(&message.state) {
            return Err(Violation::FalseTwin);
        }
        node.heard_of.extend(&message.heard_of);
        Ok(())
    }

    fn check(&mut self, node: usize) -> Result<(), Violation> {
        let node = &mut self.nodes[node];
        let value = node.counter.value();
        let specified = node.heard_of.iter().map(|&addition| self.issued[addition]).sum::<u64>();
        if value > self.issued.iter().sum() {
            Err(Violation::OverCount)
        } else if value < node.shown {
            Err(Violation::Decrease)
        } else if value != specified {
            Err(Violation::Inexact)
        } else {
            node.shown = value;
            Ok(())
        }
    }

    fn retire_everybody(&mut self) -> Result<(), Violation> {
        self.network.split(Partition::none());
        while self.deliver()? {}
        self.exchange_all()?;
        self.nodes.iter_mut().for_each(|node| node.counter.retire());
        self.exchange_all()?;
        for id in 0..PERMANENT {
            let counter = &mut self.nodes[id].counter;
            counter.create(name(id));
            (0..NODES).for_each(|from| _ = counter.transfer(name(from)));
            self.check(id)?;
        }
        self.exchange_all()?;

        let only_permanent = (0..PERMANENT).map(|id| Held { owner: name(id), creator: name(id) });
        let only_permanent: Vec<Held> = only_permanent.collect();
        for node in &self.nodes {
            if node.counter.value() != self.issued.iter().sum::<u64>() {
                return Err(Violation::Inexact);
            }
            if node.counter.state() != self.nodes[0].counter.state() {
                return Err(Violation::Divergence);
            }
            if node.counter.dots() != only_permanent {
                return Err(Violation::Leftover);
            }
        }
        Ok(())
    }

    /// Everybody hears everything: from all to the first, and back.
    fn exchange_all(&mut self) -> Result<(), Violation> {
        let to_first = (1..NODES).map(|node| (node, 0));
        let from_first = (1..NODES).map(|node| (0, node));
        for (from, to) in to_first.chain(from_first) {
            let message = self.message(from);
            self.receive(to, &message)?;
            self.check(to)?;
        }
        Ok(())
    }
}
