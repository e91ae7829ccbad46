//! Every state that a few sites can get into, within bounds, by the real engine: retries that reach any site at any time,
//! messages that are lost, repeated, delayed and overtaken, sites that lose their memory, resets, and counters with bounds.
//!
//! [`plan::Plan`] says what may happen and how often. A message that is lost is one that stays under way; in every state
//! it is also tried how it would end if all that is under way were lost, and everything from then on delivered. After
//! that every site must show each operation once ([`check`]). The same check must catch each rule that is left out.
//!
//! A site's steps are worked out once and then known ([`locals`]), and each site has a clock of its own ([`site`]), so that
//! the many orders in which several sites do the same need the engine only once.
//!
//! More may go wrong, and it takes some minutes, with
//! `QUIPU_MODEL=large cargo test -p quipu-engine --test model_sites -- --nocapture --test-threads 1`

mod check;
mod locals;
mod plan;
mod plans;
mod search;
mod site;
mod state;

use plan::{Plan, Trouble};
use quipu_engine::{Rule, Rules, Settings};
use search::search;

/// A plan with more states is too large to be looked through.
const STATES_MAX: usize = 12_000_000;

const NONE: Trouble = Trouble { timers: 0, restarts: 0, repeats: 0, ages: 0 };
const TIMER: Trouble = Trouble { timers: 1, ..NONE };
const TIMERS: Trouble = Trouble { timers: 2, ..NONE };
const RESTART: Trouble = Trouble { restarts: 1, ..NONE };
const TIMER_AND_RESTART: Trouble = Trouble { timers: 1, restarts: 1, ..NONE };
const REPEAT: Trouble = Trouble { repeats: 1, ..NONE };
const EACH: Trouble = Trouble { timers: 1, restarts: 1, repeats: 1, ages: 0 };
const AGES: Trouble = Trouble { timers: 1, ages: 2, ..NONE };

/// A plan, what may go wrong in it in the ordinary tests, and what in the large ones.
type Size = (fn(Trouble) -> Plan, &'static [Trouble], &'static [Trouble]);

#[expect(clippy::disallowed_methods, reason = "a test is configured from outside")]
fn is_large() -> bool {
    std::env::var("QUIPU_MODEL").is_ok_and(|size| size == "large")
}

/// Nothing is wrong in any state.
fn look_through(sizes: &[Size]) {
    for (plan, small, large) in sizes {
        for trouble in if is_large() { *large } else { *small } {
            let plan = plan(*trouble);
            let found = search(&plan, STATES_MAX);
            let (states, locals) = (found.states, found.locals);
            println!("{}, {trouble:?}: {states} states of all sites, {locals} of single ones", plan.name);
            assert!(states > 1, "{}: nothing has happened", plan.name);
            if let Some(wrong) = found.wrong {
                panic!("{wrong}");
            }
        }
    }
}

#[test]
fn retries_at_two_sites_count_once() {
    look_through(&[(
        plans::retries_at_two,
        &[EACH, AGES],
        &[
            Trouble { timers: 2, ..EACH },
            Trouble { restarts: 2, ..TIMER },
            Trouble { restarts: 1, ..AGES },
            Trouble { repeats: 2, ..TIMERS },
        ],
    )]);
}

#[test]
fn retries_at_three_sites_count_once() {
    look_through(&[
        (plans::retry_at_three, &[REPEAT], &[TIMER, RESTART, Trouble { repeats: 2, ..NONE }]),
        (plans::retries_at_three, &[], &[NONE]),
        (plans::counted_at_three, &[NONE], &[TIMER]),
        (plans::retries_in_a_line, &[NONE], &[TIMER, RESTART]),
    ]);
}

#[test]
fn each_of_two_operations_counts_once() {
    look_through(&[
        (plans::two_operations, &[NONE], &[TIMER, RESTART]),
        (plans::one_id_two_keys, &[NONE], &[TIMER]),
        (plans::limit, &[TIMER], &[TIMERS, RESTART]),
        (plans::long_parts, &[NONE], &[TIMER]),
    ]);
}

#[test]
fn resets_take_what_they_have_seen_and_no_more() {
    look_through(&[
        (plans::resets_at_two, &[NONE], &[TIMER, RESTART]),
        (plans::reset_at_the_third, &[NONE], &[TIMER]),
        (plans::reset_at_the_third_in_reach, &[], &[NONE]),
        (plans::reset_of_two, &[], &[NONE]),
    ]);
}

#[test]
fn bounds_hold_and_no_rights_are_lost() {
    look_through(&[
        (plans::deliveries, &[TIMERS, RESTART], &[Trouble { repeats: 1, ..TIMERS }, TIMER_AND_RESTART]),
        (plans::deliveries_from_afar, &[TIMER], &[TIMERS, RESTART]),
        (plans::deliveries_at_three, &[NONE], &[REPEAT]),
        (plans::sales, &[NONE], &[TIMER, RESTART]),
    ]);
}

#[test]
fn of_several_definitions_one_takes_effect() {
    look_through(&[(plans::creations, &[TIMER], &[TIMER_AND_RESTART])]);
}

#[test]
fn rules_that_are_left_out_are_missed() {
    let table: [(Rule, Plan); 11] = [
        (Rule::IdsBelongToKeys, plans::one_id_two_keys(NONE)),
        (Rule::RowsBeforeEntries, plans::long_parts(NONE)),
        (Rule::ToldPositions, plans::retries_at_two(NONE)),
        (Rule::LowestKeeps, plans::retries_at_two(NONE)),
        (Rule::LowestKeeps, plans::retry_at_three(NONE)),
        (Rule::LearnedUntilSettled, plans::retries_at_two(AGES)),
        (Rule::UnsettledRightsWait, plans::deliveries(NONE)),
        (Rule::UnsettledRightsWait, plans::deliveries_at_three(NONE)),
        (Rule::UnsettledAreKept, plans::limit(NONE)),
        (Rule::AddBack, plans::reset_at_the_third(NONE)),
        (Rule::DefinitionsWait, plans::creations(NONE)),
    ];
    for (rule, plan) in table {
        let settings = Settings { rules: Rules::without(rule), ..plan.settings };
        let found = search(&Plan { settings, ..plan.clone() }, STATES_MAX);
        let wrong = found.wrong.unwrap_or_else(|| panic!("nobody misses {rule:?} in {}", plan.name));
        let what = wrong.lines().next().unwrap_or_default();
        println!("without {rule:?}, after {} states: {what}", found.states);
    }
}
