//! A smaller plan that fails too: easier to understand.

use super::finale::{Violation, run};
use super::plan::{Mix, Plan};

/// The most plans that are tried.
const TRIES_MAX: usize = 300;

/// Leaves out of a plan what is not needed for it to fail. `watch` is told how many plans were tried, and says whether to
/// go on. Returns the violation of the smallest plan found.
pub fn shrink(found: Violation, watch: &mut dyn FnMut(usize) -> bool) -> Violation {
    let mut best = found;
    let mut tries = 0;
    loop {
        let mut smaller = None;
        for plan in candidates(&best.plan) {
            tries += 1;
            if tries > TRIES_MAX || !watch(tries) {
                return best;
            }
            if let Err(violation) = run(&plan) {
                smaller = Some(violation);
                break;
            }
        }
        match smaller {
            Some(violation) => best = violation,
            None => return best,
        }
    }
}

/// Plans that are a little smaller than this one.
fn candidates(plan: &Plan) -> Vec<Plan> {
    let mut plans = Vec::new();
    let mut with = |change: &dyn Fn(&mut Plan)| {
        let mut smaller = plan.clone();
        change(&mut smaller);
        if smaller != *plan {
            plans.push(smaller);
        }
    };
    with(&|plan| plan.troubles.clear());
    let half = plan.troubles.len() / 2;
    with(&|plan| plan.troubles.truncate(half));
    with(&|plan| drop(plan.troubles.drain(..half)));
    with(&|plan| plan.active_ms = (plan.active_ms / 2).max(1_000));
    with(&|plan| plan.active_ms = (plan.active_ms * 3 / 4).max(1_000));
    for clients in [1, 2, plan.clients / 2, plan.clients.saturating_sub(1)] {
        with(&|plan| plan.clients = clients.clamp(1, plan.clients));
    }
    for number in 0..plan.troubles.len() {
        with(&|plan| {
            plan.troubles.remove(number);
        });
    }
    let off: [&dyn Fn(&mut Mix); 4] =
        [&|mix| mix.plain = 0, &|mix| mix.ids = 0, &|mix| mix.bounded = 0, &|mix| mix.resets = 0];
    for off in off {
        with(&|plan| {
            let mut mix = plan.work.mix;
            off(&mut mix);
            if mix.plain + mix.ids + mix.bounded + mix.resets > 0 {
                plan.work.mix = mix;
            }
        });
    }
    with(&|plan| plan.work.keys = 1);
    with(&|plan| plan.shards = 1);
    with(&|plan| plan.faults = crate::core::Faults::NONE);
    with(&|plan| plan.faults.loss = 0.0);
    with(&|plan| plan.faults.duplication = 0.0);
    with(&|plan| plan.faults.reordering = 0.0);
    with(&|plan| plan.work.loss = 0.0);
    with(&|plan| plan.work.late = 0.0);
    with(&|plan| plan.work.stale = 0.0);
    with(&|plan| plan.work.hasty = false);
    with(&|plan| plan.encoded = false);
    with(&|plan| plan.memory_bytes = 16 << 20);
    with(&|plan| plan.skews_ms = vec![0; plan.sites]);
    with(&|plan| plan.work.think_ms = 100);
    plans
}
