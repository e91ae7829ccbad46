//! How edges and relays begin, work, die and end.

use super::{Happening, Station};
use crate::core::Millis;
use crate::system::fleet::{Ended, Mishap, Purpose, Replica, Stage, Who};
use crate::system::history::Note;
use crate::system::world::{Event, World};
use quipu_engine::{Refusal, Reply, Ticket};
use quipu_storage::ShardId;

/// Its store is looked after this often.
const MAINTAIN_MS: Millis = 200;

impl World {
    pub(in crate::system::world) fn start_fleet(&mut self) -> Result<(), String> {
        (0..self.fleet.replicas.len()).try_for_each(|at| self.come(at))
    }

    /// A new one begins.
    pub(super) fn come(&mut self, at: usize) -> Result<(), String> {
        let replica = &mut self.fleet.replicas[at];
        replica.begin();
        self.fleet.ledger.begin(replica.name);
        self.fleet.edges += u64::from(replica.is_edge());
        self.start_replica(at)
    }

    fn start_replica(&mut self, at: usize) -> Result<(), String> {
        let now = self.now();
        let replica = &mut self.fleet.replicas[at];
        replica.start(now)?;
        let (who, name) = (replica.who, replica.name);
        self.note(Note::Text(format!("{who} starts: {name}")));
        self.schedule_replica(at, 1);
        Ok(())
    }

    pub(super) fn restart_replica(&mut self, at: usize) -> Result<(), String> {
        let replica = &self.fleet.replicas[at];
        if replica.is_up() || replica.stage == Stage::Gone { Ok(()) } else { self.start_replica(at) }
    }

    pub(super) fn wake_replica(&mut self, at: usize, run: u32) -> Result<(), String> {
        let now = self.now();
        let replica = &mut self.fleet.replicas[at];
        if replica.run != run || replica.works_at != Some(now) || !replica.is_up() {
            return Ok(());
        }
        replica.works_at = None;
        self.count_something(at);
        self.speak(at);
        if !self.commit_replica(at)? {
            return Ok(());
        }
        let replies = self.fleet.replicas[at].maintain(now, MAINTAIN_MS);
        self.release_replica(at, replies)?;
        self.leaves_if_it_may(at);
        if self.fleet.replicas[at].is_up() {
            self.plan_replica(at);
        }
        Ok(())
    }

    /// When does it work again?
    pub(super) fn plan_replica(&mut self, at: usize) {
        let now = self.now();
        let is_closing = self.fleet.is_closing;
        let Replica { acts_at, speaks_at, waiting, stage, .. } = &self.fleet.replicas[at];
        let speaks_at = waiting.map_or(*speaks_at, |waiting| waiting.until);
        let acts = *stage == Stage::Active && !is_closing;
        let next = if acts { speaks_at.min(*acts_at) } else { speaks_at };
        self.schedule_replica(at, next.saturating_sub(now).max(1));
    }

    /// Makes durable what was asked and heard. Returns whether it is still there.
    pub(super) fn commit_replica(&mut self, at: usize) -> Result<bool, String> {
        let now = self.now();
        let (replies, wrote) = self.fleet.replicas[at].commit(now);
        let dies = self.fleet.replicas[at].dying.filter(|_| wrote);
        self.release_replica(at, replies)?;
        if let Some(away_ms) = dies {
            self.crash_replica(at, away_ms);
        }
        Ok(dies.is_none())
    }

    fn release_replica(&mut self, at: usize, replies: Vec<(Ticket, Reply)>) -> Result<(), String> {
        for (ticket, reply) in replies {
            let Some(purpose) = self.fleet.replicas[at].purposes.remove(&ticket) else {
                let who = self.fleet.replicas[at].who;
                return Err(format!("{who} answers again: {reply:?}"));
            };
            match (purpose, reply) {
                (Purpose::Add { key, amount }, reply) => self.has_counted(at, key, amount, &reply)?,
                (Purpose::Read { key }, reply) => self.has_read(at, key, &reply)?,
                (Purpose::Send { to, server, visits, waits }, Reply::Value(_)) => {
                    self.send_visits(at, to, server, visits, waits);
                }
                (Purpose::Speak { to, server, chosen }, Reply::Visits(visits)) => {
                    if !visits.is_empty() {
                        self.send_visits(at, to, Some(server), visits, chosen);
                    }
                }
                (Purpose::Leave { to, server, shard }, Reply::Estate(estate)) => {
                    self.send_estate(at, to, server, shard, *estate);
                }
                (Purpose::Retire, Reply::Value(_)) => self.fleet.replicas[at].has_retired = true,
                (Purpose::Visit { visit, shard }, reply) => self.visited(visit, shard, reply),
                // Its disk fails: it says it again.
                (_, Reply::Refused(Refusal::NotStored(_) | Refusal::InDoubt(_))) => {}
                (Purpose::Leave { .. }, Reply::Refused(Refusal::CannotRetire(_))) => {}
                (purpose, reply) => {
                    let who = self.fleet.replicas[at].who;
                    return Err(format!("{who} answers {reply:?} to {purpose:?}"));
                }
            }
        }
        Ok(())
    }

    /// A process dies, and starts again.
    pub(super) fn crash_replica(&mut self, at: usize, away_ms: Millis) {
        self.kill_replica(at);
        self.queue.push(away_ms, Event::Fleet(Happening::Restart { replica: at }));
    }

    fn kill_replica(&mut self, at: usize) {
        let replica = &mut self.fleet.replicas[at];
        let (who, name) = (replica.who, replica.name);
        let open = replica.crash();
        self.note(Note::Text(format!("{who} dies")));
        for purpose in open {
            if let Purpose::Add { key, amount } = purpose {
                self.fleet.ledger.doubt(name, key, amount);
            }
        }
        self.die_with_visits(Station::Relay(at));
    }

    /// It is gone for good.
    pub(super) fn end_replica(&mut self, at: usize, ended: Ended) {
        let replica = &self.fleet.replicas[at];
        let (who, name) = (replica.who, replica.name);
        if replica.is_up() {
            self.kill_replica(at);
        }
        self.note(Note::Text(format!("{who} is gone: {ended:?}")));
        self.fleet.replicas[at].stage = Stage::Gone;
        self.fleet.ledger.end(name, ended);
    }

    /// Something befalls an edge or a relay.
    pub(in crate::system::world) fn befall(&mut self, who: Who, mishap: Mishap) {
        let now = self.now();
        let Some(at) = self.fleet.index_of(who) else { return };
        let replica = &mut self.fleet.replicas[at];
        if replica.stage == Stage::Gone {
            return;
        }
        match mishap {
            Mishap::Crash { away_ms } if replica.is_up() => self.crash_replica(at, away_ms),
            Mishap::CrashInCommit { when, away_ms } if replica.is_up() && replica.dying.is_none() => {
                replica.memory.crash_in_next_commit(when);
                replica.dying = Some(away_ms);
            }
            Mishap::LoseDisk { away_ms } => {
                self.end_replica(at, Ended::Lost);
                self.queue.push(away_ms + 1, Event::Fleet(Happening::Come { replica: at }));
            }
            Mishap::Vanish => self.end_replica(at, Ended::Lost),
            Mishap::Retire { early } => {
                if replica.stage == Stage::Active {
                    replica.stage = Stage::Leaving { early };
                }
            }
            Mishap::Disk { fault, times } => {
                (0..times).for_each(|_| replica.memory.inject(ShardId(0), fault));
            }
            Mishap::AbsentAfter { site, away_ms } => {
                replica.dies_of_answer = Some((Station::Site(site), away_ms));
            }
            Mishap::Cut { for_ms } => replica.cut_until = replica.cut_until.max(now + for_ms),
            Mishap::Crash { .. } | Mishap::CrashInCommit { .. } => {}
        }
    }

    /// Everything that befalls them ends.
    pub(in crate::system::world) fn heal_fleet(&mut self) -> Result<(), String> {
        for at in 0..self.fleet.replicas.len() {
            self.fleet.replicas[at].memory.heal();
            self.fleet.replicas[at].cut_until = 0;
            self.fleet.replicas[at].dies_of_answer = None;
            self.restart_replica(at)?;
        }
        Ok(())
    }
}
