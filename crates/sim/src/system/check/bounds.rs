//! No bound is crossed: not in what any site shows, and not in the sum of all that was acknowledged anywhere.

use super::{Check, Final, Seen, at};
use crate::system::calls::{Act, Kind};
use quipu_engine::{Limits, Refusal, Reply};
use std::collections::BTreeSet;

/// What is known of a counter.
#[derive(Debug, Default)]
struct Account {
    /// Is it known to have bounds?
    created: bool,
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

    fn doubt(&mut self, seen: Seen<'_>) {
        if let Act::Add { amount, .. } = seen.call.act {
            let amount = i128::from(amount);
            self.doubt_up += amount.max(0);
            self.doubt_down += amount.min(0);
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
            Reply::Created => account.created = true,
            Reply::Added(added) => {
                let is_new = seen.call.id.as_ref().is_none_or(|id| account.counted.insert(id.number));
                account.sum += if is_new { i128::from(added.applied) } else { 0 };
                shown = Some(added.value);
            }
            Reply::Value(value) => shown = *value,
            Reply::Inspected(Some(inspection)) => {
                account.created |= inspection.bounded.is_some();
                shown = Some(inspection.value);
            }
            Reply::Refused(Refusal::InDoubt(_)) => account.doubt(seen),
            _ => {}
        }
        if !account.created {
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

    fn lost(&mut self, seen: Seen<'_>, doubt: bool) {
        if doubt && seen.key.kind == Kind::Bounded {
            at(&mut self.accounts, seen.call.key).doubt(seen);
        }
    }

    fn finished(&mut self, last: &Final<'_>) -> Result<(), String> {
        for (number, key) in last.keys.iter().enumerate().filter(|(_, key)| key.kind == Kind::Bounded) {
            let created = at(&mut self.accounts, number).created;
            if created && !last.bounded[number] {
                return Err(format!("{} was created, and is gone", String::from_utf8_lossy(&key.name)));
            }
        }
        Ok(())
    }
}
