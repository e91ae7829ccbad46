//! What nodes do with calls: take them, pass them on, answer.

use super::{Event, Verdict, World, address};
use crate::nodes::node::Handed;
use crate::system::calls::{Attempt, Stage};
use crate::system::check::{Check as _, Final, Seen};
use crate::system::history::{Note, Said};
use quipu_engine::nodes::Trust;
use quipu_engine::{Refusal, Reply, SiteId};
use std::collections::BTreeMap;

impl World {
    /// A call reaches a node, or the place where one should be.
    pub(super) fn requested(&mut self, attempt: usize, at: usize) {
        if !self.places[at].is_up {
            self.attempts[attempt].stage = Stage::Done;
            return self.tell(attempt, Verdict::NotDone);
        }
        self.places[at].inbox.push_back(attempt);
        self.schedule(at, 1);
    }

    /// What has reached a node.
    pub(in crate::nodes) fn read_inbox(&mut self, at: usize) -> Vec<Handed> {
        let inbox: Vec<usize> = self.places[at].inbox.iter().copied().collect();
        let hand = |attempt: usize| {
            let call = self.calls[self.attempts[attempt].call].clone();
            Handed { attempt, key: self.pool.keys[call.key].clone(), call }
        };
        inbox.into_iter().map(hand).collect()
    }

    /// A call is not in the inbox any more.
    fn picked_up(&mut self, at: usize, attempt: usize) {
        self.places[at].inbox.retain(|waiting| *waiting != attempt);
    }

    /// A call is for a shard that a node does not have: another one has it, or is about to.
    pub(in crate::nodes) fn pass_on(&mut self, at: usize, attempt: usize) {
        self.picked_up(at, attempt);
        let shard = self.pool.keys[self.calls[self.attempts[attempt].call].key].shard;
        let to = self.places[at].routes.get(&shard).copied().filter(|to| *to != at);
        let is_first = !self.via.contains_key(&attempt) && self.attempts[attempt].client.is_some();
        match to.filter(|_| is_first) {
            Some(to) => {
                self.counts.passed_on += 1;
                self.via.insert(attempt, (at, self.places[at].run));
                self.attempts[attempt].site = to;
                let event = Event::PassedOn { attempt, to };
                self.between.send(&mut self.queue, address(at), address(to), event);
            }
            None => {
                self.attempts[attempt].stage = Stage::Done;
                if self.attempts[attempt].client.is_none() {
                    self.probed.insert(attempt, Reply::Refused(Refusal::NotHere));
                }
                self.tell(attempt, Verdict::NotDone);
            }
        }
    }

    /// A node's host takes a call.
    pub(in crate::nodes) fn take(&mut self, at: usize, attempt: usize) {
        self.picked_up(at, attempt);
        self.attempts[attempt].stage = Stage::Taken;
        self.attempts[attempt].site = at;
        self.places[at].open.push(attempt);
        if self.attempts[attempt].client.is_some() {
            self.note(Note::Taken { attempt });
        }
    }

    /// A node is about to commit. Returns how far it may rely on what it has.
    pub(in crate::nodes) fn offer(&mut self, at: usize) -> Trust {
        for &attempt in &self.places[at].open {
            let stage = &mut self.attempts[attempt].stage;
            *stage = if *stage == Stage::Taken { Stage::Offered } else { *stage };
        }
        self.places[at].trust
    }

    fn seen(&self, attempt: usize) -> Seen<'_> {
        let call = &self.calls[self.attempts[attempt].call];
        let key = &self.pool.keys[call.key];
        Seen { now: self.now(), order: self.order, site: 0, id: SiteId::FIRST, key, call, attempt }
    }

    /// Everybody may know of this answer.
    pub(in crate::nodes) fn released(&mut self, attempt: usize, reply: &Reply) {
        let Attempt { site, stage, client, .. } = self.attempts[attempt];
        if stage == Stage::Done {
            return self.fail(format!("node {} answers call {attempt} again", site + 1));
        }
        self.attempts[attempt].stage = Stage::Done;
        self.places[site].open.retain(|open| *open != attempt);
        self.order += 1;
        if client.is_none() {
            self.probed.insert(attempt, reply.clone());
            return;
        }
        self.note(Note::Released { attempt, said: Said::of(reply) });
        self.count(attempt, reply);
        let checked = self.check(attempt, reply);
        self.holds(checked);
        if is_ready(reply) {
            let key = self.calls[self.attempts[attempt].call].key;
            self.pool.ready[key] = true;
        }
        self.tell(attempt, verdict(reply));
    }

    fn count(&mut self, attempt: usize, reply: &Reply) {
        match reply {
            // Without a commit: it could be trusted.
            Reply::Value(_) => self.counts.reads_alone += u64::from(self.number_of(attempt).is_none()),
            Reply::Added(_) => self.counts.acknowledged += 1,
            Reply::Refused(Refusal::InDoubt(_)) => self.counts.in_doubt += 1,
            Reply::Refused(Refusal::NotHere) => self.counts.fenced += 1,
            _ => {}
        }
    }

    fn check(&mut self, attempt: usize, reply: &Reply) -> Result<(), String> {
        let mut counting = std::mem::take(&mut self.counting);
        let checked = counting.released(self.seen(attempt), reply);
        self.counting = counting;
        checked?;
        let call = &self.calls[self.attempts[attempt].call];
        let key = &self.pool.keys[call.key];
        self.bounds.released(key, call, reply)?;
        self.reads.released(attempt, key, call, reply)?;
        self.answers.released(attempt, key, call, reply, (self.asked[attempt], self.order))
    }

    /// What the checks say in the end.
    pub(in crate::nodes) fn finish(
        &mut self,
        values: &[Option<i64>],
        bounded: &[bool],
    ) -> Result<(), String> {
        for (attempt, number) in std::mem::take(&mut self.died) {
            let mut counting = std::mem::take(&mut self.counting);
            counting.lost(self.seen(attempt), self.may_be_stored(number));
            self.counting = counting;
        }
        for (number, (key, value)) in self.pool.keys.iter().zip(values).enumerate() {
            value.map_or(Ok(()), |value| self.bounds.within(number, key, value))?;
        }
        self.bounds.finished(&self.pool.keys, bounded)?;
        let values: Vec<Vec<Option<i64>>> = values.iter().map(|value| vec![*value]).collect();
        let parked = vec![0; values.len()];
        let last = Final {
            keys: &self.pool.keys,
            sites: &[0],
            values: &values,
            bounded,
            parked: &parked,
            brought: &BTreeMap::new(),
        };
        self.counting.finished(&last)?;
        self.answers.finished()
    }

    /// An answer goes back to its client, by the way on which the call has come.
    pub(super) fn tell(&mut self, attempt: usize, verdict: Verdict) {
        let Attempt { client: Some(client), site, .. } = self.attempts[attempt] else { return };
        match self.via.get(&attempt) {
            Some((via, _)) => {
                let event = Event::PassedBack { attempt, verdict };
                self.between.send(&mut self.queue, address(site), address(*via), event);
            }
            None => {
                let event = Event::Answer { attempt, verdict };
                self.to_clients.send(&mut self.queue, address(site), address(client), event);
            }
        }
    }

    /// An answer reaches the node that has passed the call on. If that is gone, nobody hears it.
    pub(super) fn passed_back(&mut self, attempt: usize, verdict: Verdict) {
        let (Some((via, run)), Some(client)) =
            (self.via.get(&attempt).copied(), self.attempts[attempt].client)
        else {
            return;
        };
        if !self.is_alive(via, run) {
            return;
        }
        if let Some(until) = self.paused_until(via) {
            return self.queue.push(until - self.now(), Event::PassedBack { attempt, verdict });
        }
        let event = Event::Answer { attempt, verdict };
        self.to_clients.send(&mut self.queue, address(via), address(client), event);
    }
}

/// Does the answer tell that the counter is there?
fn is_ready(reply: &Reply) -> bool {
    match reply {
        Reply::Created | Reply::Refused(Refusal::Exists) => true,
        Reply::Inspected(inspection) => inspection.as_ref().is_some_and(|found| found.bounded.is_some()),
        _ => false,
    }
}

fn verdict(reply: &Reply) -> Verdict {
    match reply {
        Reply::Refused(Refusal::InDoubt(_)) => Verdict::Doubt,
        Reply::Refused(
            Refusal::NotStored(_)
            | Refusal::NotHere
            | Refusal::OutOfBounds { .. }
            | Refusal::Reserved { .. }
            | Refusal::Unsettled { .. },
        ) => Verdict::NotDone,
        _ => Verdict::Done,
    }
}
