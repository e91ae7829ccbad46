//! No bound is crossed: not in what any site shows, and not in the sum of all that was acknowledged anywhere.

use super::{Acked, Check, Fate, Final, Seen, at};
use crate::core::Millis;
use crate::system::calls::{Act, Id, Key, Kind};
use quipu_engine::{Beyond, Limits, Refusal, Reply};
use std::collections::BTreeSet;

/// What is known of a counter.
#[derive(Debug, Default)]
struct Account {
    /// The sites that know it to have bounds, as bits.
    created_at: u32,
    /// Acknowledged, each operation once.
    sum: i128,
    /// What may have been stored beside, at most and at least.
    doubt_up: i128,
    doubt_down: i128,
    /// Operations with ids that are in the sum.
    counted: BTreeSet<usize>,
}

/// The accounts.
#[derive(Debug, Default)]
pub(in crate::system) struct Bounds {
    accounts: Vec<Account>,
    /// Attempts that were acknowledged and are not in the sums any more.
    unsure: BTreeSet<usize>,
}

fn contains(limits: &Limits, value: i128) -> bool {
    limits.minimum.is_none_or(|minimum| i128::from(minimum) <= value)
        && limits.maximum.is_none_or(|maximum| value <= i128::from(maximum))
}

impl Account {
    /// Is the sum within the bounds, for some fate of what is in doubt?
    fn holds(&self, limits: &Limits) -> bool {
        let sum = i128::from(limits.initial) + self.sum;
        limits.minimum.is_none_or(|minimum| i128::from(minimum) <= sum + self.doubt_up)
            && limits.maximum.is_none_or(|maximum| sum + self.doubt_down <= i128::from(maximum))
    }

    /// What was acknowledged is not known any more.
    fn take_out(&mut self, seen: Seen<'_>, acked: Acked, fate: Fate) {
        match acked {
            Acked::Created | Acked::Reset => {}
            Acked::Added { applied } => {
                let is_in = seen.call.id.as_ref().is_none_or(|id| self.counted.remove(&id.number));
                self.sum -= if is_in { i128::from(applied) } else { 0 };
                if fate == Fate::Doubt {
                    self.doubt(seen);
                }
            }
        }
    }

    fn doubt(&mut self, seen: Seen<'_>) {
        match seen.call.act {
            // Any part of it may be stored, in place of any other part that was acknowledged.
            Act::Add { amount, beyond: Beyond::Saturate, .. } if seen.call.id.is_some() => {
                self.doubt_up += i128::from(amount.abs());
                self.doubt_down -= i128::from(amount.abs());
            }
            Act::Add { amount, .. } => {
                self.doubt_up += i128::from(amount.max(0));
                self.doubt_down += i128::from(amount.min(0));
            }
            _ => {}
        }
    }
}

impl Check for Bounds {
    fn released(&mut self, seen: Seen<'_>, reply: &Reply) -> Result<(), String> {
        if seen.key.kind != Kind::Bounded {
            return Ok(());
        }
        let account = at(&mut self.accounts, seen.call.key);
        let mut shown = None;
        match reply {
            Reply::Created => account.created_at |= 1 << seen.site,
            Reply::Added(added) => {
                let counts = |id: &Id| added.applied != 0 && account.counted.insert(id.number);
                let is_new = seen.call.id.as_ref().is_none_or(counts);
                account.sum += if is_new { i128::from(added.applied) } else { 0 };
                let saturates = matches!(seen.call.act, Act::Add { beyond: Beyond::Saturate, .. });
                if saturates && !is_new && !added.repeated && added.applied != 0 {
                    account.doubt(seen);
                }
                shown = Some(added.value);
            }
            Reply::Value(value) => shown = *value,
            Reply::Inspected(Some(inspection)) => {
                account.created_at |= u32::from(inspection.bounded.is_some()) << seen.site;
                shown = Some(inspection.value);
            }
            Reply::Refused(Refusal::InDoubt(_)) => account.doubt(seen),
            _ => {}
        }
        if account.created_at == 0 {
            return Ok(());
        }
        let limits = &seen.key.limits;
        if let Some(value) = shown.filter(|value| !contains(limits, i128::from(*value))) {
            return Err(format!("site {} shows {value} for {}: {limits:?}", seen.site + 1, seen.name()));
        }
        if !account.holds(limits) {
            let sum = i128::from(limits.initial) + account.sum;
            return Err(format!(
                "all sites together have acknowledged {sum} for {}: {limits:?}",
                seen.name()
            ));
        }
        Ok(())
    }

    /// What comes by handoff counts when there are rights for it.
    fn issued(&mut self, number: usize, key: &Key, amount: i64) {
        if key.kind == Kind::Bounded {
            let account = at(&mut self.accounts, number);
            account.doubt_up += i128::from(amount.max(0));
            account.doubt_down += i128::from(amount.min(0));
        }
    }

    fn lost(&mut self, seen: Seen<'_>, doubt: bool) {
        if doubt && seen.key.kind == Kind::Bounded {
            at(&mut self.accounts, seen.call.key).doubt(seen);
        }
    }

    fn unsure(&mut self, seen: Seen<'_>, acked: Acked) {
        if seen.key.kind == Kind::Bounded && self.unsure.insert(seen.attempt) {
            at(&mut self.accounts, seen.call.key).take_out(seen, acked, Fate::Doubt);
        }
    }

    fn forgotten(&mut self, seen: Seen<'_>, acked: Acked, fate: Fate) {
        let is_in = seen.key.kind == Kind::Bounded && fate != Fate::Elsewhere;
        if is_in && self.unsure.insert(seen.attempt) {
            at(&mut self.accounts, seen.call.key).take_out(seen, acked, fate);
        }
    }

    fn set_back(&mut self, site: usize, _: bool, _: Millis) {
        self.accounts.iter_mut().for_each(|account| account.created_at &= !(1 << site));
    }

    fn finished(&mut self, last: &Final<'_>) -> Result<(), String> {
        for (number, key) in last.keys.iter().enumerate().filter(|(_, key)| key.kind == Kind::Bounded) {
            let created = at(&mut self.accounts, number).created_at != 0;
            if created && !last.bounded[number] {
                return Err(format!("{} was created, and is gone", String::from_utf8_lossy(&key.name)));
            }
        }
        Ok(())
    }
}
