//! Counters that are set and deleted. Each call that adds has a digit of its own in the value, so that the value tells
//! which of them count: never one twice, none that a reset surely saw, and all that no reset can have seen.

use super::{Acked, Check, Fate, Final, Seen, at};
use crate::system::calls::{Act, Kind};
use quipu_engine::{Refusal, Reply, SiteId};
use std::collections::BTreeMap;

/// A call at one site.
#[derive(Debug, Clone, Copy)]
struct Happened {
    attempt: usize,
    site: SiteId,
    taken: u64,
    released: u64,
}

/// A call that adds: an add, or what a set puts in the place of what was.
#[derive(Debug, Clone, Default)]
struct Adding {
    first_taken: Option<u64>,
    /// Where it was counted; for an operation with an id the lowest site keeps it.
    counted: Vec<Happened>,
    /// May have been stored at this site.
    doubts: Vec<SiteId>,
}

/// What is known of a counter.
#[derive(Debug, Default)]
struct Account {
    /// By digit.
    adding: BTreeMap<u32, Adding>,
    /// Resets that were acknowledged.
    resets: Vec<(Happened, Option<u32>)>,
    /// When resets were taken, whatever became of them, and their digits.
    resets_taken: Vec<(u64, Option<u32>)>,
}

/// The accounts.
#[derive(Debug, Default)]
pub(in crate::system) struct Resets {
    accounts: BTreeMap<usize, Account>,
    /// When attempts were taken.
    taken: Vec<u64>,
}

/// The digit of an amount of the form 4^digit.
fn digit(amount: i64) -> u32 {
    amount.trailing_zeros() / 2
}

impl Resets {
    fn doubt(&mut self, seen: Seen<'_>) {
        let amount = match seen.call.act {
            Act::Add { amount, .. } | Act::Reset { to: Some(amount) } => amount,
            _ => return,
        };
        let account = self.accounts.entry(seen.call.key).or_default();
        account.adding.entry(digit(amount)).or_default().doubts.push(seen.id);
    }
}

impl Check for Resets {
    fn taken(&mut self, seen: Seen<'_>) {
        if seen.key.kind != Kind::Resets {
            return;
        }
        *at(&mut self.taken, seen.attempt) = seen.order;
        let account = self.accounts.entry(seen.call.key).or_default();
        let mut first = |amount: i64| {
            account.adding.entry(digit(amount)).or_default().first_taken.get_or_insert(seen.order);
        };
        match seen.call.act {
            Act::Add { amount, .. } => first(amount),
            Act::Reset { to } => {
                to.into_iter().for_each(first);
                account.resets_taken.push((seen.order, to.map(digit)));
            }
            _ => {}
        }
    }

    fn released(&mut self, seen: Seen<'_>, reply: &Reply) -> Result<(), String> {
        if seen.key.kind != Kind::Resets {
            return Ok(());
        }
        let Seen { attempt, id: site, order: released, .. } = seen;
        let happened = Happened { attempt, site, taken: *at(&mut self.taken, attempt), released };
        let account = self.accounts.entry(seen.call.key).or_default();
        match (seen.call.act, reply) {
            (Act::Add { amount, .. }, Reply::Added(added)) if !added.repeated => {
                account.adding.entry(digit(amount)).or_default().counted.push(happened);
            }
            (Act::Reset { to }, Reply::Reset { .. }) => {
                if let Some(amount) = to {
                    account.adding.entry(digit(amount)).or_default().counted.push(happened);
                }
                account.resets.push((happened, to.map(digit)));
            }
            (_, Reply::Refused(Refusal::InDoubt(_))) => self.doubt(seen),
            _ => {}
        }
        Ok(())
    }

    fn lost(&mut self, seen: Seen<'_>, doubt: bool) {
        if doubt && seen.key.kind == Kind::Resets {
            self.doubt(seen);
        }
    }

    fn forgotten(&mut self, seen: Seen<'_>, _: Acked, fate: Fate) {
        let Some(account) = self.accounts.get_mut(&seen.call.key) else { return };
        account.resets.retain(|(reset, _)| reset.attempt != seen.attempt);
        let (Act::Add { amount, .. } | Act::Reset { to: Some(amount) }) = seen.call.act else { return };
        let adding = account.adding.entry(digit(amount)).or_default();
        if fate == Fate::Doubt {
            adding.doubts.push(seen.id);
            adding.doubts.extend(adding.counted.drain(..).map(|count| count.site));
        }
        adding.counted.retain(|count| count.attempt != seen.attempt);
    }

    fn finished(&mut self, last: &Final<'_>) -> Result<(), String> {
        for (&number, account) in &self.accounts {
            let name = String::from_utf8_lossy(&last.keys[number].name);
            // All sites agree by now, so one is as good as another.
            let value = last.values[number][0].unwrap_or(0);
            let problem =
                |what: String| format!("{name} ends with {value} (base 4: {}): {what}", base4(value));
            if value < 0 {
                return Err(problem("less than nothing was added".to_owned()));
            }
            for found in 0..31 {
                let times = value >> (2 * found) & 3;
                account.check(found, times).map_err(problem)?;
            }
        }
        Ok(())
    }
}

fn base4(mut value: i64) -> String {
    let mut digits = Vec::new();
    while value > 0 {
        digits.push(char::from(b'0' + u8::try_from(value & 3).expect("two bits")));
        value >>= 2;
    }
    digits.iter().rev().collect()
}

impl Account {
    fn check(&self, digit: u32, times: i64) -> Result<(), String> {
        let none = Adding::default();
        let adding = self.adding.get(&digit).unwrap_or(&none);
        match times {
            0 if self.surely_survives(digit, adding) => {
                Err(format!("digit {digit} is missing, and no reset can have seen it"))
            }
            0 => Ok(()),
            1 if adding.counted.is_empty() && adding.doubts.is_empty() => {
                Err(format!("digit {digit} was not acknowledged"))
            }
            1 if self.surely_removed(digit, adding) => {
                Err(format!("digit {digit} is there, and a reset had seen it"))
            }
            1 => Ok(()),
            _ => Err(format!("digit {digit} counts {times} times")),
        }
    }

    /// Was every reset of the counter begun before this was first asked for?
    fn surely_survives(&self, digit: u32, adding: &Adding) -> bool {
        let Some(first) = adding.first_taken else { return false };
        let seen_by = |&(taken, own): &(u64, Option<u32>)| taken > first && own != Some(digit);
        !adding.counted.is_empty() && !self.resets_taken.iter().any(seen_by)
    }

    /// Had the site that keeps the count acknowledged it before it was asked for a reset?
    fn surely_removed(&self, digit: u32, adding: &Adding) -> bool {
        let Some(kept) = adding.counted.iter().min_by_key(|count| count.site) else { return false };
        if adding.doubts.iter().any(|&site| site <= kept.site) {
            return false;
        }
        let saw = |(reset, own): &(Happened, Option<u32>)| {
            reset.site == kept.site && reset.taken > kept.released && *own != Some(digit)
        };
        self.resets.iter().any(saw)
    }
}
