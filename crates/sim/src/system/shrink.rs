//! A smaller plan that fails too: easier to understand.

use super::changes::{Changes, Feature};
use super::finale::{Violation, run};
use super::plan::Plan;

/// The most plans that are tried.
const TRIES_MAX: usize = 400;

/// Violations are of one sort if so many of their words are the same.
const SORT_WORDS: usize = 8;

/// The shortest time during which clients work that is tried.
const ACTIVE_MS_MIN: u64 = 200;

/// Leaves out of a plan what is not needed for it to fail. `watch` is told how many plans were tried, and says whether to
/// go on. Returns the violation of the smallest plan found.
pub fn shrink(found: Violation, watch: &mut dyn FnMut(usize) -> bool) -> Violation {
    let mut best = found;
    let mut tries = 0;
    loop {
        let mut smaller = None;
        for changes in candidates(&best.plan) {
            tries += 1;
            if tries > TRIES_MAX || !watch(tries) {
                return best;
            }
            let Ok(plan) = changes.plan(best.plan.seed) else { continue };
            match run(&Plan { wrong: best.plan.wrong, ..plan }) {
                Err(violation) if sort(&violation) == sort(&best) => {
                    smaller = Some(violation);
                    break;
                }
                _ => {}
            }
        }
        match smaller {
            Some(violation) => best = violation,
            None => return best,
        }
    }
}

/// The words of a violation that do not depend on numbers and names, or not much.
fn sort(violation: &Violation) -> Vec<&str> {
    let words = violation.what.split([' ', ':']);
    words.filter(|word| word.chars().all(char::is_alphabetic)).take(SORT_WORDS).collect()
}

/// Changes that make a plan a little smaller.
fn candidates(plan: &Plan) -> Vec<Changes> {
    let mut all = Vec::new();
    let now = &plan.changes;
    let mut with = |change: &dyn Fn(&mut Changes)| {
        let mut changes = now.clone();
        change(&mut changes);
        all.push(changes);
    };
    let numbers = now.troubles.clone().unwrap_or_else(|| (0..plan.troubles.len()).collect());
    let half = numbers.len() / 2;
    if !numbers.is_empty() {
        with(&|changes| changes.troubles = Some(Vec::new()));
    }
    if half > 0 {
        with(&|changes| changes.troubles = Some(numbers[..half].to_vec()));
        with(&|changes| changes.troubles = Some(numbers[half..].to_vec()));
    }
    for active_ms in [plan.active_ms / 2, plan.active_ms * 3 / 4, plan.active_ms * 9 / 10] {
        if active_ms >= ACTIVE_MS_MIN {
            with(&|changes| changes.active_ms = Some(active_ms));
        }
    }
    for clients in [1, 2, 3, plan.clients / 2, plan.clients - 1] {
        if (1..plan.clients).contains(&clients) {
            with(&|changes| changes.clients = Some(clients));
        }
    }
    for left_out in 0..numbers.len() {
        with(&|changes| {
            let mut kept = numbers.clone();
            kept.remove(left_out);
            changes.troubles = Some(kept);
        });
    }
    for edges in [1, 2, plan.fleet.edges / 2] {
        if (1..plan.fleet.edges).contains(&edges) {
            with(&|changes| changes.edges = Some(edges));
        }
    }
    if plan.work.keys > 1 {
        with(&|changes| changes.keys = Some(1));
    }
    for (feature, _) in Feature::ALL {
        if !now.without.contains(&feature) {
            with(&|changes| changes.without.push(feature));
        }
    }
    all
}
