//! What a counter database should answer, in the simplest way.

use std::collections::BTreeMap;

use quipu_engine::{Action, Add, Added, Beyond, Limits, Outcome, Refusal, Reply, SiteId};

/// A map of keys to values, the bounds of some, and the operations that were counted.
#[derive(Debug, Default)]
pub(crate) struct Model {
    pub(crate) values: BTreeMap<Vec<u8>, i64>,
    bounds: BTreeMap<Vec<u8>, Limits>,
    counted: BTreeMap<(Vec<u8>, Vec<u8>), (i64, Added)>,
}

impl Model {
    /// The answer to a command, which is done.
    pub(crate) fn run(&mut self, key: &[u8], action: Action<'_>) -> Reply {
        let value = self.values.get(key).copied();
        match action {
            Action::Get => Reply::Value(value),
            Action::Add { add, operation: None } => self.add(key, add),
            Action::Add { add, operation: Some(operation) } => {
                let name = (key.to_vec(), operation.id.to_vec());
                match self.counted.get(&name) {
                    Some((first, _)) if *first != add.amount => {
                        Reply::Refused(Refusal::OtherAmount { first: *first, now: add.amount })
                    }
                    Some((_, added)) => Reply::Added(Added { repeated: true, ..*added }),
                    None => {
                        let reply = self.add(key, add);
                        // An attempt that counted nothing is no outcome.
                        if let Reply::Added(added) = reply
                            && (added.applied != 0 || add.amount == 0)
                        {
                            self.counted.insert(name, (add.amount, added));
                        }
                        reply
                    }
                }
            }
            Action::Reset { .. } if self.bounds.contains_key(key) => Reply::Refused(Refusal::BoundedReset),
            Action::Reset { to } => {
                match to {
                    Some(to) => self.values.insert(key.to_vec(), to),
                    None => self.values.remove(key),
                };
                Reply::Reset { aside: value }
            }
            Action::Create { wait_ms: 0, .. } if value.is_some() => Reply::Refused(Refusal::Exists),
            Action::Create { limits, .. } => {
                self.values.insert(key.to_vec(), limits.initial);
                self.bounds.insert(key.to_vec(), limits);
                Reply::Created
            }
            Action::Outcome(operation) => {
                let counted = self.counted.get(&(key.to_vec(), operation.id.to_vec()));
                Reply::Outcome(counted.map_or(Outcome::Unknown, |(_, added)| Outcome::Counted(*added)))
            }
            Action::Inspect | Action::Move(_) => unreachable!("not asked here"),
        }
    }

    fn add(&mut self, key: &[u8], add: Add) -> Reply {
        let before = self.values.get(key).copied();
        let value = before.unwrap_or(0);
        let bounds = self.bounds.get(key);
        let (asked, own) = match add.amount < 0 {
            true => (add.lower, bounds.and_then(|bounds| bounds.minimum)),
            false => (add.upper, bounds.and_then(|bounds| bounds.maximum)),
        };
        // How far it is to each limit, in the direction of the add.
        let room = |limit: i64| u64::try_from(if add.amount < 0 { value - limit } else { limit - value });
        let nearest = [asked, own].into_iter().flatten().map(|limit| (room(limit).unwrap_or(0), limit)).min();
        let applied = match nearest {
            Some((room, limit)) if room < add.amount.unsigned_abs() => match add.beyond {
                Beyond::Refuse => {
                    let amount = add.amount;
                    return Reply::Refused(Refusal::OutOfBounds {
                        amount,
                        limit,
                        value,
                        available: room,
                        elsewhere: Vec::new(),
                        in_all: None,
                    });
                }
                Beyond::Skip => 0,
                Beyond::Saturate => add.amount.signum() * i64::try_from(room).expect("less than the amount"),
            },
            _ => add.amount,
        };
        if before.is_some() || applied != 0 || add.amount == 0 {
            self.values.insert(key.to_vec(), value + applied);
        }
        Reply::Added(Added { value: value + applied, applied, repeated: false, site: SiteId::FIRST })
    }
}
