//! What is said about an operation: one site never counts it twice, nor forgets it within the window.

use super::{Acked, Check, Fate, Seen, at};
use crate::core::Millis;
use crate::system::plan::Plan;
use quipu_engine::{Outcome, Reply};

/// What sites have said of an operation.
#[derive(Debug, Clone, Copy, Default)]
struct Said {
    /// The sites that counted it, as bits.
    counted_at: u32,
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

impl Check for Answers {
    fn released(&mut self, seen: Seen<'_>, reply: &Reply) -> Result<(), String> {
        let Some(id) = &seen.call.id else { return Ok(()) };
        let said = at(&mut self.operations, id.number);
        let here = 1u32 << seen.site;
        match reply {
            Reply::Added(added) if !added.repeated => {
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
            at(&mut self.operations, id.number).counted_at &= !(1 << seen.site);
        }
    }

    fn set_back(&mut self, site: usize, renamed: bool) {
        if renamed {
            self.operations.iter_mut().for_each(|said| said.counted_at &= !(1 << site));
        }
    }
}
