//! Every operation counts once: the sums of what was acknowledged, less what is lost with a disk, against what the sites
//! say in the end.

use super::{Acked, Check, Fate, Final, Seen, at};
use crate::system::calls::{Act, Kind};
use quipu_engine::{Beyond, Refusal, Reply};
use std::collections::BTreeSet;

/// Beyond so many operations in doubt only the range of their sum is checked: each doubles the sums that can be.
const DOUBTS_MAX: usize = 14;

/// What is known of a counter.
#[derive(Debug, Default)]
struct Account {
    /// Acknowledged.
    certain: i128,
    /// Amounts of plain adds that may have been stored.
    doubts: Vec<i64>,
}

/// What is known of an operation with an id.
#[derive(Debug, Clone, Copy, Default)]
struct Operation {
    key: usize,
    /// Acknowledged with this amount.
    counted: Option<i64>,
    /// May have been stored, with this amount.
    doubt: Option<i64>,
    /// Sites may have counted any part of this amount, each another one: the lowest site's counts.
    saturates: Option<i64>,
    /// Another site has acknowledged another part, or may have stored one.
    differs: bool,
}

/// The accounts.
#[derive(Debug, Default)]
pub(crate) struct Counting {
    accounts: Vec<Account>,
    operations: Vec<Operation>,
}

impl Counting {
    fn doubt(&mut self, seen: Seen<'_>) {
        let Act::Add { amount, beyond, .. } = seen.call.act else { return };
        match &seen.call.id {
            // Any part of it.
            None if beyond == Beyond::Saturate => {
                let units = (0..amount.abs()).map(|_| amount.signum());
                at(&mut self.accounts, seen.call.key).doubts.extend(units);
            }
            None => at(&mut self.accounts, seen.call.key).doubts.push(amount),
            Some(id) => {
                let operation = at(&mut self.operations, id.number);
                operation.key = seen.call.key;
                operation.doubt = Some(amount);
                if beyond == Beyond::Saturate {
                    (operation.saturates, operation.differs) = (Some(amount), true);
                }
            }
        }
    }
}

impl Check for Counting {
    fn released(&mut self, seen: Seen<'_>, reply: &Reply) -> Result<(), String> {
        match reply {
            Reply::Added(added) => {
                let account = at(&mut self.accounts, seen.call.key);
                let Some(id) = &seen.call.id else {
                    account.certain += i128::from(added.applied);
                    return Ok(());
                };
                if added.applied == 0 && !matches!(seen.call.act, Act::Add { amount: 0, .. }) {
                    // An attempt that counted nothing is no outcome.
                    return Ok(());
                }
                let operation = at(&mut self.operations, id.number);
                operation.key = seen.call.key;
                if let Act::Add { amount, beyond: Beyond::Saturate, .. } = seen.call.act {
                    operation.saturates = Some(amount);
                    operation.differs |= operation.counted.is_some_and(|counted| counted != added.applied);
                }
                match operation.counted {
                    None => {
                        operation.counted = Some(added.applied);
                        account.certain += i128::from(added.applied);
                        Ok(())
                    }
                    Some(applied) if applied == added.applied || operation.differs => Ok(()),
                    Some(applied) => Err(format!(
                        "{}: operation {} was answered with {applied}, and now with {}",
                        seen.name(),
                        id.number,
                        added.applied
                    )),
                }
            }
            Reply::Refused(Refusal::InDoubt(_)) => {
                self.doubt(seen);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn lost(&mut self, seen: Seen<'_>, doubt: bool) {
        if doubt {
            self.doubt(seen);
        }
    }

    fn forgotten(&mut self, seen: Seen<'_>, acked: Acked, fate: Fate) {
        let Acked::Added { applied } = acked else { return };
        let account = at(&mut self.accounts, seen.call.key);
        match (&seen.call.id, fate) {
            (_, Fate::Elsewhere) => {}
            (None, fate) => {
                account.certain -= i128::from(applied);
                account.doubts.extend((fate == Fate::Doubt).then_some(applied));
            }
            (Some(id), fate) => {
                let operation = at(&mut self.operations, id.number);
                account.certain -= i128::from(operation.counted.take().unwrap_or(0));
                operation.key = seen.call.key;
                operation.doubt = operation.doubt.or((fate == Fate::Doubt).then_some(applied));
            }
        }
    }

    fn finished(&mut self, last: &Final<'_>) -> Result<(), String> {
        for operation in &self.operations {
            let account = at(&mut self.accounts, operation.key);
            match (operation.counted, operation.doubt, operation.saturates) {
                (Some(counted), _, Some(amount)) if operation.differs => {
                    // At least one unit, and at most all.
                    account.certain += i128::from(amount.signum() - counted);
                    account.doubts.extend((1..amount.abs()).map(|_| amount.signum()));
                }
                (None, Some(_), Some(amount)) => {
                    account.doubts.extend((0..amount.abs()).map(|_| amount.signum()));
                }
                (None, Some(amount), None) => account.doubts.push(amount),
                _ => {}
            }
        }
        for (number, key) in last.keys.iter().enumerate().filter(|(_, key)| key.kind != Kind::Resets) {
            let account = at(&mut self.accounts, number);
            if let Some(brought) = last.brought.get(&number) {
                account.certain += brought.certain;
                account.doubts.extend(&brought.doubts);
            }
            let initial = if last.bounded[number] { i128::from(key.limits.initial) } else { 0 };
            for (site, value) in last.sites.iter().zip(&last.values[number]) {
                // What waits for rights is not lost.
                let value = value.map_or(0, i128::from) + last.parked[number];
                if !account.allows(value - initial) {
                    return Err(format!(
                        "site {} ends with {value} for {}, but {} was acknowledged{}",
                        site + 1,
                        String::from_utf8_lossy(&key.name),
                        account.certain + initial,
                        in_doubt(&account.doubts)
                    ));
                }
            }
        }
        Ok(())
    }
}

fn in_doubt(doubts: &[i64]) -> String {
    if doubts.is_empty() { String::new() } else { format!(", and {doubts:?} may have been stored") }
}

impl Account {
    /// Can the counter have this value?
    fn allows(&self, value: i128) -> bool {
        let rest = value - self.certain;
        if self.doubts.len() > DOUBTS_MAX {
            let sum = |of: fn(&i64) -> bool| -> i128 {
                self.doubts.iter().copied().filter(of).map(i128::from).sum()
            };
            return (sum(|amount| *amount < 0)..=sum(|amount| *amount > 0)).contains(&rest);
        }
        let mut sums = BTreeSet::from([0i128]);
        for doubt in &self.doubts {
            let more: Vec<i128> = sums.iter().map(|sum| sum + i128::from(*doubt)).collect();
            sums.extend(more);
        }
        sums.contains(&rest)
    }
}
