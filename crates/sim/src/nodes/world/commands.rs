//! What nodes do with calls: take them, pass them on, answer.

use super::{Event, Verdict, World, address};
use crate::nodes::node::{Handed, with_command};
use crate::system::calls::{Act, Attempt, Stage};
use crate::system::check::{Check as _, Final, Seen};
use crate::system::history::{Note, Said};
use quipu_engine::nodes::Trust;
use quipu_engine::{Refusal, Reply, SiteId, Ticket, passed_on};
use std::collections::{BTreeMap, BTreeSet};

impl World {
    /// A call reaches a node, or the place where one should be.
    pub(super) fn requested(&mut self, attempt: usize, at: usize) {
        if !self.places[at].is_up {
            self.attempts[attempt].stage = Stage::Done;
            return self.tell(attempt, Verdict::NotDone);
        }
        self.places[at].inbox.push_back(attempt);
        let clock_ms = self.clock_ms(at);
        self.arrived_ms.insert(attempt, clock_ms);
        self.schedule(at, 1);
    }

    /// For how long a call has waited at its node, by the clock of that node.
    pub(in crate::nodes) fn waited_ms(&self, at: usize, attempt: usize) -> u64 {
        let clock_ms = self.clock_ms(at);
        clock_ms - self.arrived_ms.get(&attempt).copied().unwrap_or(clock_ms).min(clock_ms)
    }

    /// The calls that a node has taken, and that have waited for so long in all.
    pub(in crate::nodes) fn waited_for(&self, at: usize, ms: u64) -> BTreeSet<Ticket> {
        let open = self.places[at].open.iter();
        open.filter(|attempt| self.waited_ms(at, **attempt) >= ms)
            .map(|attempt| Ticket(*attempt as u64))
            .collect()
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
                if let Some(deadline_ms) = self.plan.deadline_ms {
                    let left_ms = deadline_ms.saturating_sub(self.waited_ms(at, attempt));
                    let wait = (left_ms * 1_000).div_ceil(self.plan.rates[at]);
                    self.queue.push(wait, Event::Overdue { attempt });
                }
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

    /// A call that waits for its turn is withdrawn: nobody waits for it any longer.
    pub(in crate::nodes) fn withdraw(&mut self, at: usize, attempt: usize, refusal: Refusal) {
        self.picked_up(at, attempt);
        self.attempts[attempt].site = at;
        self.released(attempt, &Reply::Refused(refusal));
    }

    /// The time of a call is up that a node has passed on.
    pub(super) fn overdue(&mut self, attempt: usize) {
        let Some((via, run)) = self.via.get(&attempt).copied() else { return };
        if !self.is_alive(via, run) || self.passed_back.contains(&attempt) {
            return;
        }
        if let Some(until) = self.paused_until(via) {
            return self.queue.push(until - self.now(), Event::Overdue { attempt });
        }
        self.passed_back.insert(attempt);
        self.counts.given_up += 1;
        let call = self.calls[self.attempts[attempt].call].clone();
        let key = self.pool.keys[call.key].clone();
        let doubt = Some("the node that it was passed on to has not answered")
            .filter(|_| !self.plan.wrong.denies_passed_on);
        let refusal = with_command(&Handed { attempt, key, call }, |command| passed_on(&command, doubt));
        let reply = Reply::Refused(refusal);
        self.note(Note::Released { attempt, said: Said::of(&reply) });
        self.deny(attempt, &reply);
        let Some(client) = self.attempts[attempt].client else { return };
        let event = Event::Answer { attempt, verdict: verdict(&reply) };
        self.to_clients.send(&mut self.queue, address(via), address(client), event);
    }

    /// If a node says of a call that it has passed on that nothing was done, that is so, and stays so.
    fn deny(&mut self, attempt: usize, reply: &Reply) {
        let changes =
            !matches!(self.calls[self.attempts[attempt].call].act, Act::Get | Act::Inspect | Act::Outcome);
        if changes && !matches!(reply, Reply::Refused(Refusal::InDoubt(_))) {
            self.denied.insert(attempt);
            self.check_denied(attempt);
        }
    }

    /// Was something counted of which it was said that nothing was done?
    fn check_denied(&mut self, attempt: usize) {
        if self.denied.contains(&attempt) && self.counted.contains(&attempt) {
            self.fail(format!("it was said of call {attempt} that nothing was done, and it was counted"));
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
        if matches!(reply, Reply::Added(added) if added.applied != 0 && !added.repeated) {
            self.counted.insert(attempt);
            self.check_denied(attempt);
        }
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
        if !self.is_alive(via, run) || self.passed_back.contains(&attempt) {
            return;
        }
        if let Some(until) = self.paused_until(via) {
            return self.queue.push(until - self.now(), Event::PassedBack { attempt, verdict });
        }
        self.passed_back.insert(attempt);
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
