//! Every behaviour of three replicas of a bounded counter over a network that loses, repeats and reorders.
//!
//! The network is a set of messages that never shrinks: whatever was once sent may be delivered to anybody at
//! any time, any number of times, or never. Deliveries are not limited; operations ("add 1", "subtract 1",
//! "pass on 1 right", at any replica) are, in all:
//!
//! | operations       | default | large |
//! |------------------|---------|-------|
//! | full, minimum    | 4       | 5     |
//! | full, both       | 5       | 6     |
//! | compact, minimum | 3       | 4     |
//! | compact, both    | 4       | 5     |
//!
//! "Minimum" is a counter from 2 down to 0, "both" one that may not exceed 2 either. Wrong variants must give a
//! counterexample. The default takes seconds, the large size some minutes and gigabytes:
//!
//! ```text
//! QUIPU_MODEL=large cargo test -p quipu-crdt --test model_bounded -- --nocapture --test-threads 1
//! ```

#[path = "bounded/candidate.rs"]
#[allow(dead_code, reason = "shared with the random traces")]
mod candidate;
#[path = "bounded/figure.rs"]
#[allow(dead_code, reason = "shared with the random traces")]
mod figure;
#[path = "bounded/variants.rs"]
#[allow(dead_code, reason = "shared with the random traces")]
mod variants;

use candidate::Candidate;
use quipu_crdt::bounded::{Definition, Right};
use quipu_crdt::{Bounded, CompactBounded};
use stateright::{Checker, HasDiscoveries, Model, Property};
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use variants::*;

const REPLICAS: u8 = 3;

const BOUND_HOLDS: &str = "the bound holds";
const BOUND_HOLDS_IN_EVERY_VIEW: &str = "the bound holds in every view";
const RIGHTS_ARE_CONSERVED: &str = "rights are conserved";
const AGREEMENT_IS_EXACT: &str = "replicas that agree know everything";
const ALL_RIGHTS_USED: &str = "all rights to subtract are used, by two replicas";
const ALL_AGREE: &str = "after the last operation all agree";

/// Replicas that start from one definition and make at most so many operations in all.
struct Replicas<C> {
    definition: Definition<u8>,
    operations_max: u8,
    form: std::marker::PhantomData<C>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct World<C: Candidate> {
    replicas: Vec<Arc<C>>,
    /// By their hash: an order that is always the same.
    network: BTreeMap<u64, Arc<C>>,
    operations: u8,
    /// What each replica has subtracted, less what it has added.
    subtracted: [i8; REPLICAS as usize],
}

impl<C: Candidate> Hash for World<C> {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.replicas.hash(hasher);
        self.network.keys().for_each(|message| message.hash(hasher));
        (self.operations, self.subtracted).hash(hasher);
    }
}

#[derive(Debug, Clone, PartialEq)]
enum Act<C> {
    Add { at: u8 },
    Subtract { at: u8 },
    Pass { at: u8, to: u8, right: Right },
    Deliver { to: u8, message: Arc<C> },
}

impl<C: Candidate> World<C> {
    /// The specification.
    fn value(&self, definition: &Definition<u8>) -> i128 {
        i128::from(definition.initial())
            - self.subtracted.iter().map(|&amount| i128::from(amount)).sum::<i128>()
    }

    fn agree(&self) -> bool {
        self.replicas.iter().all(|replica| replica.agrees(&self.replicas[0]))
    }

    fn replica(&mut self, at: u8) -> &mut C {
        Arc::make_mut(&mut self.replicas[usize::from(at)])
    }

    /// Everything that `at` is from now on may arrive anywhere.
    fn send(&mut self, at: u8) {
        let message = self.replica(at).message();
        let mut hasher = DefaultHasher::new();
        message.hash(&mut hasher);
        self.network.entry(hasher.finish()).or_insert_with(|| Arc::new(message));
    }
}

fn within(definition: &Definition<u8>, value: i128) -> bool {
    let distances = Right::BOTH.map(|right| definition.rights_in_all(right, value));
    distances.into_iter().flatten().all(|distance| distance >= 0)
}

fn conserved<C: Candidate>(model: &Replicas<C>, world: &World<C>) -> bool {
    let value = world.value(&model.definition);
    let replicas: Vec<&C> = world.replicas.iter().map(|replica| &**replica).collect();
    Right::BOTH.into_iter().all(|right| {
        let held: Option<i128> = (0..).zip(&replicas).map(|(id, replica)| replica.rights(right, id)).sum();
        held.map(|held| held + C::under_way(&replicas, right)) == model.definition.rights_in_all(right, value)
    })
}

impl<C: Candidate> Model for Replicas<C> {
    type State = World<C>;
    type Action = Act<C>;

    fn init_states(&self) -> Vec<World<C>> {
        let replicas = (0..REPLICAS).map(|id| Arc::new(C::create(id, &self.definition))).collect();
        vec![World { replicas, network: BTreeMap::new(), operations: 0, subtracted: [0; 3] }]
    }

    fn actions(&self, world: &World<C>, actions: &mut Vec<Act<C>>) {
        for at in 0..REPLICAS {
            actions.extend(
                world.network.values().map(|message| Act::Deliver { to: at, message: message.clone() }),
            );
            if world.operations == self.operations_max {
                continue;
            }
            actions.extend([Act::Add { at }, Act::Subtract { at }]);
            for right in Right::BOTH.into_iter().filter(|&right| self.definition.limits(right)) {
                let others = (0..REPLICAS).filter(|to| *to != at);
                actions.extend(others.map(|to| Act::Pass { at, to, right }));
            }
        }
    }

    fn next_state(&self, world: &World<C>, act: Act<C>) -> Option<World<C>> {
        let mut next = world.clone();
        let (at, accepted) = match act {
            Act::Deliver { to, message } => {
                let replica = next.replica(to);
                replica.receive(&message);
                if *replica == *world.replicas[usize::from(to)] {
                    return None;
                }
                // What it only passes along are states that are in the network already: whoever merges them
                // one by one ends where it would with their join.
                if replica.has_written_since(&world.replicas[usize::from(to)]) {
                    next.send(to);
                }
                return Some(next);
            }
            Act::Add { at } => {
                next.subtracted[usize::from(at)] -= 1;
                (at, next.replica(at).add(1))
            }
            Act::Subtract { at } => {
                next.subtracted[usize::from(at)] += 1;
                (at, next.replica(at).subtract(1))
            }
            Act::Pass { at, to, right } => (at, next.replica(at).pass(right, 1, to)),
        };
        next.operations += 1;
        next.send(at);
        accepted.then_some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(BOUND_HOLDS, |model: &Self, world: &World<C>| {
                within(&model.definition, world.value(&model.definition))
            }),
            Property::always(BOUND_HOLDS_IN_EVERY_VIEW, |model: &Self, world: &World<C>| {
                world.replicas.iter().all(|replica| within(&model.definition, replica.value()))
            }),
            Property::always(RIGHTS_ARE_CONSERVED, conserved),
            Property::always(AGREEMENT_IS_EXACT, |model: &Self, world: &World<C>| {
                !world.agree() || world.replicas[0].value() == world.value(&model.definition)
            }),
            Property::sometimes(ALL_RIGHTS_USED, |model: &Self, world: &World<C>| {
                let spenders = world.subtracted.iter().filter(|&&subtracted| subtracted > 0).count();
                Some(world.value(&model.definition)) == model.definition.minimum().map(i128::from)
                    && spenders > 1
            }),
            Property::sometimes(ALL_AGREE, |model: &Self, world: &World<C>| {
                world.operations == model.operations_max && world.agree()
            }),
        ]
    }
}

fn replicas<C: Candidate>(definition: Definition<u8>, operations_max: u8) -> Replicas<C> {
    Replicas { definition, operations_max, form: std::marker::PhantomData }
}

/// `operations` in the default size, one more in the large one.
#[allow(clippy::disallowed_methods, reason = "the size of a test is not configuration of the data types")]
fn check<C: Candidate>(name: &str, definition: &Definition<u8>, operations: u8) {
    let large = std::env::var("QUIPU_MODEL").is_ok_and(|size| size == "large");
    let operations_max = operations + u8::from(large);
    let checker = replicas::<C>(definition.clone(), operations_max).checker().spawn_bfs().join();
    println!("{name}, {operations_max} operations: {} distinct states", checker.unique_state_count());
    assert!(checker.is_done(), "the search is exhaustive");
    checker.assert_properties();
}

/// Minimum 0, initial value 2.
fn minimum() -> Definition<u8> {
    Definition::at_least(0, 2, 0).expect("possible")
}

/// Minimum 0, initial value 0: all rights are made on the way.
fn nothing() -> Definition<u8> {
    Definition::at_least(0, 0, 0).expect("possible")
}

/// From 0 to 2, initial value 2, so that the creator has rights of one kind only and makes the other.
fn both() -> Definition<u8> {
    Definition::between(0, 2, 2, 0).expect("possible")
}

#[test]
fn the_full_form() {
    check::<Bounded<u8>>("full form, minimum", &minimum(), 4);
    check::<Bounded<u8>>("full form, minimum and maximum", &both(), 5);
}

#[test]
fn the_compact_form() {
    check::<CompactBounded<u8>>("compact form, minimum", &minimum(), 3);
    check::<CompactBounded<u8>>("compact form, minimum and maximum", &both(), 4);
}

/// How many steps a way to break this property has.
fn steps_to_break<C: Candidate>(definition: &Definition<u8>, property: &'static str) -> usize {
    let only = HasDiscoveries::AnyOf([property].into_iter().collect());
    let checker = replicas::<C>(definition.clone(), 4).checker().finish_when(only).spawn_bfs().join();
    let path = checker.discovery(property).expect("a wrong variant has a counterexample");
    path.into_actions().len()
}

#[test]
fn wrong_ones_have_a_counterexample() {
    let steps = [
        steps_to_break::<Full<PASSES_UNCHECKED>>(&minimum(), BOUND_HOLDS),
        steps_to_break::<Full<EVERYBODY_CREATES>>(&minimum(), BOUND_HOLDS),
        steps_to_break::<Full<ONE_NUMBER_FOR_BOTH_RIGHTS>>(&both(), BOUND_HOLDS),
        steps_to_break::<Full<SENDS_ITS_OWN_ROW_ALONE>>(&nothing(), BOUND_HOLDS_IN_EVERY_VIEW),
        steps_to_break::<Compact<COUNTS_REPEATED_TRANSFERS>>(&minimum(), BOUND_HOLDS),
        steps_to_break::<Compact<FORGETS_WHEN_SENT>>(&minimum(), RIGHTS_ARE_CONSERVED),
    ];
    println!("steps to a counterexample: {steps:?}");
}
