//! What edges and relays count and read.

use crate::system::calls::Kind;
use crate::system::fleet::{Purpose, Stage, shown};
use crate::system::world::World;
use quipu_engine::{Refusal, Reply};

impl World {
    /// Counts or reads something, if it is time.
    pub(super) fn count_something(&mut self, at: usize) {
        let now = self.now();
        let fleet = self.plan.fleet;
        let replica = &mut self.fleet.replicas[at];
        if replica.stage != Stage::Active || self.fleet.is_closing || now < replica.acts_at {
            return;
        }
        replica.acts_at = now + 1 + replica.random.bits() % (2 * fleet.think_ms);
        let room = self.plan.work.room;
        let Some(key) = self.pool.for_fleet(fleet.bounded, &mut replica.random) else { return };
        let purpose = if replica.random.chance(0.25) {
            Purpose::Read { key }
        } else {
            let size = i64::try_from(replica.random.below(9)).expect("small");
            let amount = match self.pool.keys[key].kind {
                Kind::Plain => 1 + size,
                Kind::Bounded if replica.random.chance(0.5) => 1 + size.min(room - 1),
                Kind::Bounded => -1 - size.min(room - 1),
                _ => size - 3,
            };
            let counter = &self.pool.keys[key];
            self.checks.iter_mut().for_each(|check| check.issued(key, counter, amount));
            Purpose::Add { key, amount }
        };
        replica.submit(&self.pool.keys[key], purpose, now);
    }

    /// It has counted, or says why not.
    pub(super) fn has_counted(
        &mut self,
        at: usize,
        key: usize,
        amount: i64,
        reply: &Reply,
    ) -> Result<(), String> {
        let replica = &mut self.fleet.replicas[at];
        match reply {
            Reply::Added(added) if added.applied == amount => {
                self.fleet.ledger.counted(replica.name, key, amount);
                self.fleet.counted += 1;
                if let Some(shown) = replica.shown.get_mut(&key) {
                    *shown += amount;
                    return self.has_shown(at, key, added.value);
                }
                Ok(())
            }
            Reply::Refused(Refusal::InDoubt(_)) => {
                self.fleet.ledger.doubt(replica.name, key, amount);
                Ok(())
            }
            Reply::Refused(Refusal::NotStored(_) | Refusal::TooManyPending { .. } | Refusal::Leaving) => {
                Ok(())
            }
            other => {
                let name = shown(&self.pool.keys[key]);
                Err(format!("{} answers {other:?} to an add of {amount} to {name}", replica.who))
            }
        }
    }

    pub(super) fn has_read(&mut self, at: usize, key: usize, reply: &Reply) -> Result<(), String> {
        match reply {
            Reply::Value(value) => self.has_shown(at, key, value.unwrap_or(0)),
            _ => Ok(()),
        }
    }

    /// Of a counter that only grows it never shows less than before and what it has counted since, nor more than was asked
    /// for anywhere.
    fn has_shown(&mut self, at: usize, key: usize, value: i64) -> Result<(), String> {
        let counter = &self.pool.keys[key];
        if counter.kind != Kind::Plain {
            return Ok(());
        }
        let replica = &mut self.fleet.replicas[at];
        let before = replica.shown.insert(key, value);
        if let Some(before) = before.filter(|before| value < *before) {
            let name = shown(counter);
            return Err(format!("{} shows {value} for {name}, after {before} with its own", replica.who));
        }
        self.checks.iter().try_for_each(|check| check.shown_elsewhere(replica.who, key, counter, value))
    }
}
