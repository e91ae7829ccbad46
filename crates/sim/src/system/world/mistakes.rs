//! Clients that ask for what is always refused.

use super::World;
use crate::system::calls::{Act, Attempt, Call, Kind, Mistake};
use quipu_engine::Reply;

/// So many of the last counted operations are kept.
const COUNTED_MAX: usize = 32;

impl World {
    /// What a client asks for, and of which site, if it makes a mistake now.
    pub(super) fn mistake(&mut self, client: usize) -> Option<(Call, usize)> {
        let now = self.now();
        let asking = &mut self.clients[client];
        if self.plan.work.mistakes == 0.0 || !asking.whims.chance(self.plan.work.mistakes) {
            return None;
        }
        let (site, pool) = (asking.home, &self.pool);
        let key = match asking.whims.below(5) {
            0 => {
                let call = asking.call(0, Act::Mistake(Mistake::NoName), None, now);
                return Some((call, site));
            }
            1 => *pool.bounded.get(asking.whims.below(pool.bounded.len().max(1)))?,
            2 => *pool.plain.get(asking.whims.below(pool.plain.len().max(1)))?,
            // A site that is left alone may give bounds to what was deleted.
            3 if self.membership.members.len() > 2 => {
                *pool.resets.get(asking.whims.below(pool.resets.len().max(1)))?
            }
            3 => return None,
            _ => {
                let (operation, site) = *pool.counted.get(asking.whims.below(COUNTED_MAX))?;
                let call = &self.calls[operation];
                let Act::Add { amount, .. } = call.act else { return None };
                if now - call.since_ms >= self.plan.patience_ms() {
                    return None;
                }
                let act = Act::Mistake(Mistake::OtherAmount(amount + 1));
                return Some((Call { act, ..call.clone() }, site));
            }
        };
        if !pool.used.contains(&(key, site)) {
            return None;
        }
        let mistake = match pool.keys[key].kind {
            Kind::Plain => *asking.whims.pick(&[Mistake::TooMuch, Mistake::LateBounds]),
            Kind::Bounded => Mistake::ResetOfBounded,
            Kind::Ids | Kind::Resets => Mistake::LateBounds,
        };
        Some((asking.call(key, Act::Mistake(mistake), None, now), site))
    }

    /// What an answer tells that mistakes are made of later. A site that may lose what it has said tells nothing.
    pub(super) fn note_for_mistakes(&mut self, attempt: usize, reply: &Reply) {
        let Attempt { call: number, site, .. } = self.attempts[attempt];
        if self.plan.work.mistakes == 0.0 || self.forgets {
            return;
        }
        let call = &self.calls[number];
        let shown = match reply {
            Reply::Added(added) => added.value,
            Reply::Value(value) => value.unwrap_or(0),
            _ => 0,
        };
        let is_used = match self.pool.keys[call.key].kind {
            Kind::Plain => shown > 0,
            Kind::Resets => matches!(reply, Reply::Added(_) | Reply::Reset { .. }),
            Kind::Bounded => match reply {
                // All sites take it.
                Reply::Created => {
                    let sites = self.members();
                    self.pool.used.extend(sites.into_iter().map(|site| (call.key, site)));
                    true
                }
                Reply::Inspected(Some(found)) => found.bounded.is_some(),
                _ => false,
            },
            Kind::Ids => false,
        };
        if is_used {
            self.pool.used.insert((call.key, site));
        }
        let is_counted = matches!(reply, Reply::Added(added) if !added.repeated && added.applied != 0);
        if is_counted && call.id.is_some() {
            self.pool.counted.push_front((number, site));
            self.pool.counted.truncate(COUNTED_MAX);
        }
    }
}
