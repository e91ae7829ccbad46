//! Every state that two lenders and a client of both can get into, within bounds.
//!
//! The network is a set of messages that never shrinks: any of them may be delivered to anyone, at any time,
//! again and again, or never, so messages are lost, repeated and reordered in every possible way. A node's
//! state becomes a message after each step of its own. (After a merge it need not: a merged state is the
//! join of messages that are there already, and delivering those one by one has the same effect.)
//!
//! Bounded is how often each lender lends and how often each node adds ([`Bounds`]); retiring and
//! transferring are bounded by what there is to retire and to transfer. Every addition has an
//! amount of its own, a power of two, so that one that is lost cannot make up for another counted twice.
//!
//! Larger bounds, in a minute or two: `QUIPU_MODEL=large cargo test -p quipu-crdt --test model_borrow -- --nocapture`

#[path = "borrow/counter.rs"]
mod counter;
#[path = "borrow/literal.rs"]
mod literal;

use counter::{Counter, Held, Name};
use quipu_crdt::Borrow;
use stateright::{Checker, HasDiscoveries, Model, Property};
use std::fmt::Debug;
use std::marker::PhantomData;
use std::sync::Arc;

const LENDERS: [usize; 2] = [0, 1];
const CLIENT: usize = 2;
const NODES: [usize; 3] = [0, 1, 2];
/// Amounts of node i are powers of two from 2^(8 i) on.
const ADDS_MAX: u32 = 8;

#[derive(Debug, Clone, Copy)]
struct Bounds {
    /// How often each lender lends.
    lends: [u32; 2],
    /// How often each node adds, the client last.
    adds: [u32; 3],
}

struct Lending<C> {
    bounds: Bounds,
    counter: PhantomData<C>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct World<C: Counter> {
    nodes: [Node<C>; 3],
    issued: u64,
    /// A step after which a node showed less than before, or took an honest peer for its twin.
    mishap: Option<&'static str>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Node<C: Counter> {
    /// Shared between states of the world, which differ in one node at a time.
    counter: Arc<C>,
    lends: u32,
    adds: u32,
    /// The messages that this node has sent, oldest first. All are still in the network.
    sent: Vec<Arc<C::State>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Action {
    Lend { lender: usize },
    Add { node: usize },
    Retire,
    Transfer { lender: usize },
    Deliver { from: usize, message: usize, to: usize },
}

#[expect(clippy::cast_possible_truncation, reason = "there are three nodes")]
fn name(node: usize) -> Name {
    node as Name
}

impl<C: Counter> World<C> {
    /// The lenders are permanent and have met; the client has heard of nothing.
    fn new() -> Self {
        let mut counters = NODES.map(|node| C::new(name(node)));
        for lender in LENDERS {
            counters[lender].create(name(lender));
        }
        for (from, to) in [(0, 1), (1, 0)] {
            let state = counters[from].state();
            counters[to].merge(&state);
        }
        let node = |counter| Node { counter: Arc::new(counter), lends: 0, adds: 0, sent: Vec::new() };
        World { nodes: counters.map(node), issued: 0, mishap: None }
    }

    /// A step of the node's own; false if it was refused or changed nothing.
    fn own_step(&mut self, node: usize, step: impl FnOnce(&mut C) -> bool) -> bool {
        let node = &mut self.nodes[node];
        let before = node.counter.clone();
        let done = step(Arc::make_mut(&mut node.counter)) && node.counter != before;
        if done {
            node.sent.push(Arc::new(node.counter.state()));
        }
        done
    }

    fn act(&mut self, action: Action) -> bool {
        match action {
            Action::Lend { lender } => {
                self.nodes[lender].lends += 1;
                self.own_step(lender, |counter| counter.create(name(CLIENT)))
            }
            Action::Add { node } => {
                let place = u32::from(name(node)) * ADDS_MAX + self.nodes[node].adds;
                self.nodes[node].adds += 1;
                self.issued += 1 << place;
                self.own_step(node, |counter| counter.add(1 << place))
            }
            Action::Retire => self.own_step(CLIENT, |counter| {
                counter.retire();
                true
            }),
            Action::Transfer { lender } => self.own_step(lender, |counter| counter.transfer(name(CLIENT))),
            Action::Deliver { from, message, to } => {
                let message = self.nodes[from].sent[message].clone();
                let before = self.nodes[to].counter.clone();
                let counter = Arc::make_mut(&mut self.nodes[to].counter);
                if !counter.merge(&message) {
                    self.mishap = Some("false twin");
                } else if counter.value() < before.value() {
                    self.mishap = Some("decrease");
                }
                self.mishap.is_some() || self.nodes[to].counter != before
            }
        }
    }

    /// Everybody hears everything: from all to the first, and back.
    fn exchange_all(&mut self) {
        for (from, to) in [(1, 0), (2, 0), (0, 1), (0, 2)] {
            let state = self.nodes[from].counter.state();
            Arc::make_mut(&mut self.nodes[to].counter).merge(&state);
        }
    }

    fn all_show_what_was_issued(&self) -> bool {
        self.nodes.iter().all(|node| node.counter.value() == self.issued)
    }

    fn only_permanent_dots_are_left(&self) -> bool {
        let permanent = LENDERS.map(|lender| Held { owner: name(lender), creator: name(lender) });
        self.nodes.iter().all(|node| node.counter.dots() == permanent)
    }

    /// Does it end well, if from here on the client retires and all messages get through?
    fn ends_well(&self) -> bool {
        let mut end = self.clone();
        end.exchange_all();
        Arc::make_mut(&mut end.nodes[CLIENT].counter).retire();
        end.exchange_all();
        for lender in LENDERS {
            Arc::make_mut(&mut end.nodes[lender].counter).transfer(name(CLIENT));
        }
        end.exchange_all();
        end.all_show_what_was_issued() && end.only_permanent_dots_are_left()
    }
}

impl<C> Lending<C> {
    fn is_used_up<S: Counter>(&self, world: &World<S>) -> bool {
        LENDERS.iter().all(|&lender| world.nodes[lender].lends == self.bounds.lends[lender])
            && NODES.iter().all(|&node| world.nodes[node].adds == self.bounds.adds[node])
    }
}

impl<C: Counter> Model for Lending<C> {
    type State = World<C>;
    type Action = Action;

    fn init_states(&self) -> Vec<World<C>> {
        vec![World::new()]
    }

    fn actions(&self, world: &World<C>, actions: &mut Vec<Action>) {
        if world.mishap.is_some() {
            return;
        }
        for lender in LENDERS {
            if world.nodes[lender].lends < self.bounds.lends[lender] {
                actions.push(Action::Lend { lender });
            }
            actions.push(Action::Transfer { lender });
        }
        actions.push(Action::Retire);
        for from in NODES {
            if world.nodes[from].adds < self.bounds.adds[from] {
                actions.push(Action::Add { node: from });
            }
            for message in 0..world.nodes[from].sent.len() {
                let others = NODES.into_iter().filter(|to| *to != from);
                actions.extend(others.map(|to| Action::Deliver { from, message, to }));
            }
        }
    }

    fn next_state(&self, world: &World<C>, action: Action) -> Option<World<C>> {
        let mut next = world.clone();
        next.act(action).then_some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("no over-count", |_, world: &World<C>| {
                world.nodes.iter().all(|node| node.counter.value() <= world.issued)
            }),
            Property::always("conservation", |_, world: &World<C>| {
                let mut all = world.clone();
                all.exchange_all();
                all.all_show_what_was_issued()
            }),
            Property::always("no decrease and no false twin", |_, world: &World<C>| world.mishap.is_none()),
            Property::always("can still end well", |_, world: &World<C>| world.ends_well()),
            Property::sometimes("full accounting", |model: &Lending<C>, world: &World<C>| {
                model.is_used_up(world)
                    && world.all_show_what_was_issued()
                    && world.only_permanent_dots_are_left()
            }),
        ]
    }
}

fn model<C>(bounds: Bounds) -> Lending<C> {
    assert!(bounds.adds.iter().all(|adds| *adds <= ADDS_MAX));
    Lending { bounds, counter: PhantomData }
}

#[expect(clippy::disallowed_methods, reason = "a test is configured from outside")]
fn bounds() -> Vec<Bounds> {
    match std::env::var("QUIPU_MODEL").as_deref() {
        Ok("large") => {
            vec![Bounds { lends: [1, 1], adds: [1, 0, 2] }, Bounds { lends: [2, 1], adds: [0, 0, 1] }]
        }
        _ => vec![
            Bounds { lends: [1, 1], adds: [1, 0, 1] },
            // The client retires, and is lent another dot.
            Bounds { lends: [2, 0], adds: [1, 0, 2] },
        ],
    }
}

#[test]
fn every_state_within_bounds_is_right() {
    for bounds in bounds() {
        let checker = model::<Borrow<Name, u64>>(bounds).checker().spawn_bfs().join();
        println!("{bounds:?}: {} distinct states", checker.unique_state_count());
        checker.assert_properties();
    }
}

/// The paper's transfer, which takes every frozen dot of the client, counts twice what the client counted
/// under dots from two lenders.
#[test]
fn the_checker_finds_the_double_transfer() {
    let small = Bounds { lends: [1, 1], adds: [0, 0, 1] };
    let right = model::<literal::Literal<{ literal::RIGHT }>>(small).checker().spawn_bfs().join();
    right.assert_properties();

    let wrong = model::<literal::Literal<{ literal::TAKES_ANOTHERS_DOT }>>(small).checker();
    let wrong = wrong.finish_when(HasDiscoveries::AnyFailures).spawn_bfs().join();
    let trace = wrong.discovery("conservation").expect("the joined value exceeds what was issued");
    let transfers = trace.into_actions();
    assert!(LENDERS.iter().all(|lender| transfers.contains(&Action::Transfer { lender: *lender })));
}
