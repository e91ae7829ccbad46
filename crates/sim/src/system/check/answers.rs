//! What is said about an operation: one site never counts it twice, nor forgets it within the window; and what was once
//! told as settled is told by everybody for the rest of the window, and by the site that told it as settled through any
//! number of restarts.

use super::{Acked, Check, Fate, Seen, at};
use crate::core::Millis;
use crate::system::calls::Act;
use crate::system::plan::Plan;
use quipu_engine::{Added, Outcome, Reply};
use std::collections::BTreeMap;

/// What sites have said of an operation.
#[derive(Debug, Clone, Default)]
struct Said {
    /// The sites that counted it, as bits.
    counted_at: u32,
    /// Where it was counted, and how, as somebody has told it to be settled.
    settled: Option<Added>,
    /// The sites that have told so, and when they first did.
    settled_at: BTreeMap<usize, Millis>,
}

/// The accounts.
#[derive(Debug)]
pub(in crate::system) struct Answers {
    window_ms: Millis,
    operations: Vec<Said>,
}

impl Answers {
    pub(in crate::system) fn new(plan: &Plan) -> Self {
        Self { window_ms: plan.window_ms, operations: Vec::new() }
    }
}

/// Was nothing asked for?
fn is_zero(seen: Seen<'_>) -> bool {
    matches!(seen.call.act, Act::Add { amount: 0, .. })
}

impl Check for Answers {
    fn released(&mut self, seen: Seen<'_>, reply: &Reply) -> Result<(), String> {
        let Some(id) = &seen.call.id else { return Ok(()) };
        let said = at(&mut self.operations, id.number);
        let here = 1u32 << seen.site;
        match reply {
            Reply::Added(added) if !added.repeated && (added.applied != 0 || is_zero(seen)) => {
                if said.counted_at & here != 0 {
                    let site = seen.site + 1;
                    return Err(format!(
                        "site {site} counts operation {} of {} again",
                        id.number,
                        seen.name()
                    ));
                }
                said.counted_at |= here;
            }
            Reply::Outcome(Outcome::Counted(added)) if seen.now - seen.call.since_ms < self.window_ms => {
                said.settled_at.entry(seen.site).or_insert(seen.now);
                let first = *said.settled.get_or_insert(*added);
                if first != *added {
                    return Err(format!(
                        "site {} tells of operation {} of {}: {added:?}, and it was settled as {first:?}",
                        seen.site + 1,
                        id.number,
                        seen.name()
                    ));
                }
            }
            Reply::Outcome(outcome)
                if said.settled_at.contains_key(&seen.site)
                    && seen.now - seen.call.since_ms < self.window_ms =>
            {
                return Err(format!(
                    "site {} tells of operation {} of {}: {outcome:?}, and has told that it is settled",
                    seen.site + 1,
                    id.number,
                    seen.name()
                ));
            }
            Reply::Outcome(Outcome::Unknown)
                if said.counted_at & here != 0 && seen.now - seen.call.since_ms < self.window_ms =>
            {
                let site = seen.site + 1;
                return Err(format!("site {site} has forgotten operation {} of {}", id.number, seen.name()));
            }
            _ => {}
        }
        Ok(())
    }

    fn forgotten(&mut self, seen: Seen<'_>, _: Acked, _: Fate) {
        if let Some(id) = &seen.call.id {
            let said = at(&mut self.operations, id.number);
            said.counted_at &= !(1 << seen.site);
            said.settled = None;
            said.settled_at.clear();
        }
    }

    fn set_back(&mut self, site: usize, renamed: bool, state_of: Millis) {
        for said in &mut self.operations {
            if said.settled_at.get(&site).is_some_and(|told_ms| *told_ms >= state_of) {
                said.settled_at.remove(&site);
            }
        }
        if renamed {
            self.operations.iter_mut().for_each(|said| said.counted_at &= !(1 << site));
        }
    }
}
