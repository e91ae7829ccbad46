//! Bounded counters: against the paper's figure, under the adversary, and wrong ones that must be caught.

#[allow(dead_code, reason = "shared with the model checker")]
mod candidate;
mod codec;
mod examples;
mod figure;
mod trace;
mod variants;

use candidate::Candidate;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use quipu_crdt::bounded::{Definition, Right, Rights};
use quipu_crdt::testing::laws;
use quipu_crdt::{Bounded, CompactBounded};
use std::collections::BTreeSet;
use trace::*;
use variants::*;

/// How many random traces a wrong variant has to survive, and does not.
const TRACES: usize = 300;

proptest! {
    /// At every step: the bounds hold, globally and in every view; rights are conserved; every decision, every
    /// value and every number of rights is that of the figure, its mirror image, or both combined.
    #[test]
    fn the_full_form_is_the_figure_and_keeps_its_bounds(trace in traces()) {
        prop_assert_eq!(broken::<Bounded<u8>>(&trace), BTreeSet::new());
    }

    #[test]
    fn the_compact_form_is_the_figure_and_keeps_its_bounds(trace in traces()) {
        prop_assert_eq!(broken::<CompactBounded<u8>>(&trace), BTreeSet::new());
    }

    #[test]
    fn once_all_is_delivered_the_compact_form_has_one_row_for_each_replica(trace in traces()) {
        let (_, replicas) = run::<CompactBounded<u8>>(&trace);
        for replica in &replicas {
            prop_assert!(replica.ledger().in_flight().is_empty());
            prop_assert!(replica.ledger().rows().len() <= replicas.len());
            prop_assert!(replica.agrees(&replicas[0]));
        }
    }

    #[test]
    fn pairs_of_rights_are_tallies(numbers in any::<[[u64; 2]; 3]>()) {
        let [x, y, z] = numbers.map(|[to_subtract, to_add]| Rights { to_subtract, to_add });
        prop_assert_eq!(laws::check_tally(&x, &y, &z), Ok(()));
    }

    /// The laws, on any three states of one history.
    #[test]
    fn what_replicas_know_is_a_semilattice(trace in traces(), picks in any::<[prop::sample::Index; 3]>()) {
        let states = history::<Bounded<u8>>(&trace);
        let [x, y, z] = picks.map(|pick| pick.get(&states).rows());
        prop_assert_eq!(laws::check_merge(x, y, z), Ok(()));
        let states = history::<CompactBounded<u8>>(&trace);
        let [x, y, z] = picks.map(|pick| pick.get(&states).ledger());
        prop_assert_eq!(laws::check_merge(x, y, z), Ok(()));
    }
}

/// Everything that this variant breaks in a fixed set of random traces.
fn broken_in_traces<C: Candidate>() -> BTreeSet<&'static str> {
    let mut runner = TestRunner::deterministic();
    let strategy = traces();
    let mut trace = || strategy.new_tree(&mut runner).expect("nothing is rejected").current();
    (0..TRACES).flat_map(|_| broken::<C>(&trace())).collect()
}

#[test]
fn the_checks_pass_the_right_ones() {
    assert_eq!(broken_in_traces::<Full<RIGHT>>(), BTreeSet::new());
    assert_eq!(broken_in_traces::<Compact<RIGHT>>(), BTreeSet::new());
    assert_eq!(broken_in_traces::<Bounded<u8>>(), BTreeSet::new());
    assert_eq!(broken_in_traces::<CompactBounded<u8>>(), BTreeSet::new());
}

/// Each by what must hold of every bounded counter, without the figure's help.
#[test]
fn the_checks_catch_every_wrong_one() {
    assert!(
        broken_in_traces::<Full<SUM_INSTEAD_OF_MAX>>()
            .is_superset(&[WRONG_VALUE, NOT_CONSERVED, CROSSED].into())
    );
    assert!(broken_in_traces::<Full<PASSES_UNCHECKED>>().contains(CROSSED));
    assert!(broken_in_traces::<Full<SUBTRACTS_UNCHECKED>>().contains(CROSSED));
    assert!(
        broken_in_traces::<Full<GIVER_KEEPS_WHAT_IT_PASSES>>().is_superset(&[NOT_CONSERVED, CROSSED].into())
    );
    assert!(broken_in_traces::<Full<EVERYBODY_CREATES>>().is_superset(&[NOT_CONSERVED, CROSSED].into()));
    assert!(broken_in_traces::<Full<ONE_NUMBER_FOR_BOTH_RIGHTS>>().contains(CROSSED));
    assert!(
        broken_in_traces::<Compact<COUNTS_REPEATED_TRANSFERS>>()
            .is_superset(&[NOT_CONSERVED, CROSSED].into())
    );
    assert!(broken_in_traces::<Compact<FORGETS_WHEN_SENT>>().contains(NOT_CONSERVED));
    assert!(broken_in_traces::<Compact<LISTS_RECEIVED_TRANSFERS>>().contains(OTHER_VIEW));
}

/// A adds and passes the rights to B; B uses them; C hears of B alone.
fn a_replica_between_giver_and_spender<C: Candidate>() -> i128 {
    let definition = Definition::at_least(0, 0, 0).expect("possible");
    let [mut a, mut b, mut c] = [0, 1, 2].map(|id| C::create(id, &definition));
    assert!(a.add(5) && a.pass(Right::ToSubtract, 5, 1));
    b.receive(&a.message());
    assert!(b.subtract(5));
    c.receive(&b.message());
    c.value()
}

/// With rows that travel one by one nobody exceeds its rights and the value is right in the end; but on the
/// way a replica can see a subtraction without the addition that allowed it.
#[test]
fn a_row_without_the_rows_it_rests_on_crosses_the_bound_in_a_view() {
    assert_eq!(a_replica_between_giver_and_spender::<Full<SENDS_ITS_OWN_ROW_ALONE>>(), -5);
    assert_eq!(a_replica_between_giver_and_spender::<Bounded<u8>>(), 0);
    assert_eq!(a_replica_between_giver_and_spender::<CompactBounded<u8>>(), 0);

    let broken = broken_in_traces::<Full<SENDS_ITS_OWN_ROW_ALONE>>();
    assert!(broken.contains(CROSSED_IN_A_VIEW));
    assert!(!broken.contains(CROSSED) && !broken.contains(NOT_CONSERVED) && !broken.contains(WRONG_VALUE));
}
