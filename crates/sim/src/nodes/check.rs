//! The checks that are about nodes. What is counted is checked as for several sites ([`crate::system`]); here it is one
//! site, so answers must also agree with each other in time, whoever gives them.
//!
//! - [`Bounds`]: no value is shown that is beyond the bounds of its counter.
//! - [`Reads`]: what began after an answer was given sees at least what that one has said.
//! - [`Answers`]: an operation is counted once, always said to be of the same amount, and nobody says that it was not counted
//!   after it was.

use crate::system::calls::{Act, Call, Key, Kind};
use crate::system::check::at;
use quipu_engine::{Limits, Outcome, Refusal, Reply};
use std::collections::{BTreeMap, BTreeSet};

/// Counters that only grow.
#[derive(Debug, Default)]
pub(super) struct Reads {
    accounts: Vec<Account>,
    /// What each attempt must see at least.
    floors: BTreeMap<usize, i64>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Account {
    /// Nodes were asked to add so much.
    asked: i64,
    acknowledged: i64,
    /// The largest value that was shown.
    shown: i64,
}

impl Reads {
    /// A client sends a call.
    pub(super) fn begins(&mut self, attempt: usize, key: &Key, call: &Call) {
        if key.kind == Kind::Plain {
            let account = at(&mut self.accounts, call.key);
            self.floors.insert(attempt, account.acknowledged.max(account.shown));
            if let Act::Add { amount, .. } = call.act {
                account.asked += amount;
            }
        }
    }

    pub(super) fn released(
        &mut self,
        attempt: usize,
        key: &Key,
        call: &Call,
        reply: &Reply,
    ) -> Result<(), String> {
        let Some(floor) = self.floors.remove(&attempt) else { return Ok(()) };
        let (shown, added) = match reply {
            Reply::Added(added) => (added.value, added.applied),
            Reply::Value(value) => (value.unwrap_or(0), 0),
            _ => return Ok(()),
        };
        let account = at(&mut self.accounts, call.key);
        account.acknowledged += added;
        account.shown = account.shown.max(shown);
        let name = String::from_utf8_lossy(&key.name);
        if shown < floor + added {
            return Err(format!(
                "{shown} is shown for {name}, and before this was asked {floor} had been acknowledged or shown"
            ));
        }
        if shown > account.asked {
            return Err(format!("{shown} is shown for {name}, and only {} was asked for", account.asked));
        }
        Ok(())
    }
}

/// Counters with bounds. (What is acknowledged is not summed up here: a node can have stored something, and somebody else
/// have used it, before that is acknowledged.)
#[derive(Debug, Default)]
pub(super) struct Bounds {
    /// Counters that are known to have bounds.
    created: BTreeSet<usize>,
}

impl Bounds {
    pub(super) fn released(&mut self, key: &Key, call: &Call, reply: &Reply) -> Result<(), String> {
        if key.kind != Kind::Bounded {
            return Ok(());
        }
        let shown = match reply {
            Reply::Added(added) => Some(added.value),
            Reply::Value(value) => *value,
            Reply::Inspected(Some(found)) => Some(found.value),
            _ => None,
        };
        let is_bounded = match reply {
            Reply::Created => true,
            Reply::Inspected(Some(found)) => found.bounded.is_some(),
            _ => false,
        };
        if is_bounded {
            self.created.insert(call.key);
        }
        shown.map_or(Ok(()), |value| self.within(call.key, key, value))
    }

    /// Is this a value that the counter can have?
    pub(super) fn within(&self, number: usize, key: &Key, value: i64) -> Result<(), String> {
        let Limits { minimum, maximum, .. } = key.limits;
        let holds =
            minimum.is_none_or(|minimum| minimum <= value) && maximum.is_none_or(|maximum| value <= maximum);
        if holds || !self.created.contains(&number) {
            return Ok(());
        }
        Err(format!("{value} is shown for {}: {:?}", String::from_utf8_lossy(&key.name), key.limits))
    }

    /// Counters that had bounds still have them.
    pub(super) fn finished(&self, keys: &[Key], bounded: &[bool]) -> Result<(), String> {
        match self.created.iter().find(|number| !bounded[**number]) {
            Some(number) => {
                Err(format!("{} was created, and is gone", String::from_utf8_lossy(&keys[*number].name)))
            }
            None => Ok(()),
        }
    }
}

/// What was said of an operation.
#[derive(Debug, Clone, Default)]
struct Said {
    /// It was answered that it was counted, for the first time when so much had happened.
    counted: Option<u64>,
    /// So much of it.
    applied: Option<i64>,
    is_counted_once: bool,
    /// Attempts that were stored, and when: how much had happened.
    stored: BTreeMap<usize, u64>,
    /// Attempts that were refused before they came into a commit.
    refused: BTreeSet<usize>,
    /// Somebody asked for it, when so much had happened, and was told that nothing is known of it.
    denied: Vec<u64>,
}

/// Operations with ids.
#[derive(Debug, Default)]
pub(super) struct Answers {
    operations: Vec<Said>,
}

impl Answers {
    /// The commit that holds an attempt is stored.
    pub(super) fn stored(&mut self, attempt: usize, key: &Key, call: &Call, order: u64) {
        // Limits may have refused it, and what adds nothing is no outcome.
        if let (Kind::Ids, Some(id), Act::Add { amount, limit: None, .. }) = (key.kind, &call.id, call.act)
            && amount != 0
        {
            at(&mut self.operations, id.number).stored.entry(attempt).or_insert(order);
        }
    }

    /// `asked` is how much had happened when the client sent the call.
    pub(super) fn released(
        &mut self,
        attempt: usize,
        key: &Key,
        call: &Call,
        reply: &Reply,
        (asked, order): (u64, u64),
    ) -> Result<(), String> {
        let Some(id) = &call.id else { return Ok(()) };
        let said = at(&mut self.operations, id.number);
        let name = String::from_utf8_lossy(&key.name);
        let told = match reply {
            Reply::Added(added) if added.applied != 0 => Some(added.applied),
            Reply::Outcome(Outcome::Counted(added)) => Some(added.applied),
            _ => None,
        };
        if let Some(applied) = told {
            let first = *said.applied.get_or_insert(applied);
            if first != applied {
                return Err(format!(
                    "operation {} of {name} was told to have counted {first}, and now {applied}",
                    id.number
                ));
            }
        }
        match reply {
            // An attempt that counted nothing is no outcome.
            Reply::Added(added) if added.applied == 0 && !matches!(call.act, Act::Add { amount: 0, .. }) => {}
            Reply::Added(added) => {
                said.counted.get_or_insert(order);
                if !added.repeated && std::mem::replace(&mut said.is_counted_once, true) {
                    return Err(format!("operation {} of {name} is counted again", id.number));
                }
            }
            Reply::Outcome(Outcome::Counted(_)) => _ = said.counted.get_or_insert(order),
            Reply::Outcome(Outcome::Unknown) => {
                said.denied.push(asked);
                if said.counted.is_some_and(|counted| counted < asked) {
                    return Err(format!("nothing is known of operation {} of {name} any more", id.number));
                }
            }
            Reply::Refused(Refusal::InDoubt(_)) => {}
            Reply::Refused(_) => _ = said.refused.insert(attempt),
            _ => {}
        }
        Ok(())
    }

    /// Nobody was told that nothing is known of an operation that was stored before it was asked for.
    pub(super) fn finished(&self) -> Result<(), String> {
        for (number, said) in self.operations.iter().enumerate() {
            let stored = said.stored.iter().filter(|(attempt, _)| !said.refused.contains(attempt));
            let Some(stored) = stored.map(|(_, order)| order).min() else { continue };
            if said.denied.iter().any(|asked| stored < asked) {
                return Err(format!(
                    "operation {number} was counted, and then it was said that nothing is known of it"
                ));
            }
        }
        Ok(())
    }
}
