//! The Borrow-Counter: the paper's example, its rules, and long traces under the adversary.

mod codec;
mod counter;
mod examples;
mod literal;
mod paired;
mod trace;
mod twins;

use counter::{Counter, Name};
use literal::Literal;
use paired::Paired;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use quipu_crdt::Borrow;
use quipu_crdt::testing::laws;
use std::collections::BTreeSet;
use trace::{Trace, Violation, run, traces};

proptest! {
    #[test]
    fn every_replica_shows_the_sum_of_what_it_has_heard_of(trace in traces()) {
        prop_assert_eq!(run::<Borrow<Name, u64>>(&trace).err(), None);
    }

    #[test]
    fn states_are_those_of_the_formulas(trace in traces()) {
        prop_assert_eq!(run::<Paired>(&trace).err(), None);
    }

    #[test]
    fn reachable_states_are_a_semilattice(trace in traces(), picks in any::<[prop::sample::Index; 3]>()) {
        let states = run::<Borrow<Name, u64>>(&trace).expect("passes").states;
        prop_assume!(!states.is_empty());
        let [x, y, z] = picks.map(|pick| pick.get(&states));
        prop_assert_eq!(laws::check_merge(x, y, z), Ok(()));
    }
}

/// Many traces, always the same.
fn fixed_traces() -> impl Iterator<Item = Trace> {
    const TRACES: usize = 300;
    let mut runner = TestRunner::deterministic();
    let strategy = traces();
    (0..TRACES).map(move |_| strategy.new_tree(&mut runner).expect("nothing is filtered").current())
}

/// What the checker finds wrong with this counter.
fn violations<C: Counter>() -> Vec<Violation> {
    fixed_traces().filter_map(|trace| run::<C>(&trace).err()).collect()
}

#[test]
fn wrong_variants_are_caught() {
    assert_eq!(violations::<Borrow<Name, u64>>(), []);
    assert_eq!(violations::<Literal<{ literal::RIGHT }>>(), []);

    assert!(violations::<Literal<{ literal::TAKES_ANOTHERS_DOT }>>().contains(&Violation::OverCount));
    assert!(violations::<Literal<{ literal::KEEPS_REMOVED_DOTS }>>().contains(&Violation::OverCount));
    assert!(violations::<Literal<{ literal::SUMS_IN_JOIN }>>().contains(&Violation::OverCount));
    assert!(violations::<Literal<{ literal::FORGETS_FREEZE }>>().contains(&Violation::Leftover));
    assert!(violations::<Literal<{ literal::TRANSFER_REMOVES_NOTHING }>>().contains(&Violation::OverCount));
    assert!(violations::<Literal<{ literal::FORGETS_REMOVAL }>>().contains(&Violation::OverCount));
    assert!(violations::<Literal<{ literal::REUSES_DOTS }>>().contains(&Violation::Inexact));
    assert!(violations::<Literal<{ literal::ADDS_TO_FROZEN }>>().contains(&Violation::Inexact));
    assert!(violations::<Literal<{ literal::TAKES_ACTIVE_DOTS }>>().contains(&Violation::Decrease));
}

/// The laws that some reachable states break.
fn broken_laws<const VARIANT: u8>() -> BTreeSet<&'static str> {
    let mut literal = Literal::<VARIANT>::new(0);
    let mut states = vec![literal.state()];
    for step in 0..4 {
        match step {
            0 => _ = literal.create(0),
            1 => _ = literal.add(5),
            2 => literal.retire(),
            _ => _ = literal.create(0) && literal.transfer(0),
        }
        states.push(literal.state());
    }
    let triples = states.iter().flat_map(|x| states.iter().map(move |y| (x, y)));
    let triples = triples.flat_map(|(x, y)| states.iter().map(move |z| (x, y, z)));
    triples.filter_map(|(x, y, z)| laws::check_merge(x, y, z).err()).map(|broken| broken.law).collect()
}

#[test]
fn summing_in_the_join_breaks_the_laws() {
    assert!(broken_laws::<{ literal::SUMS_IN_JOIN }>().contains("merge is idempotent"));
    assert!(broken_laws::<{ literal::RIGHT }>().is_empty());
}
