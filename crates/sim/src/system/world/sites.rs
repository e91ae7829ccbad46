//! What sites do: take calls, commit, answer, die.

use super::{Band, Event, IDLE_TICK_MS, Station, TICK_MS, Verdict, World};
use crate::core::Millis;
use crate::system::calls::{Attempt, Stage};
use crate::system::check::Seen;
use crate::system::history::{Note, Said};
use crate::system::site::{Standing, Worked};
use quipu_engine::{Refusal, Reply};

impl World {
    pub(super) fn start_site(&mut self, site: usize) -> Result<(), String> {
        self.note(Note::Text(format!("site {} starts", site + 1)));
        let now = self.now();
        self.sites[site].start(now)?;
        if self.sites[site].is_lazy() && self.sites[site].run_of_process().number > 1 {
            self.comes_back_behind(site);
        }
        // What it had heard may not have been stored.
        self.starts_behind(site);
        self.schedule(site, TICK_MS);
        self.look_at_links();
        Ok(())
    }

    /// A call reaches its site.
    pub(super) fn take(&mut self, attempt: usize) {
        let site = self.attempts[attempt].site;
        if !self.sites[site].is_up() || self.sites[site].standing == Standing::Leaving {
            self.attempts[attempt].stage = Stage::Done;
            return self.tell(attempt, Verdict::Again);
        }
        self.submit(attempt);
        self.schedule(site, self.plan.commit_ms);
    }

    pub(super) fn submit(&mut self, attempt: usize) {
        let now = self.now();
        let Attempt { site, call, client, .. } = self.attempts[attempt];
        self.attempts[attempt].stage = Stage::Taken;
        if client.is_some() {
            self.note(Note::Taken { attempt });
        }
        self.order += 1;
        let call = &self.calls[call];
        let key = &self.pool.keys[call.key];
        let id = self.sites[site].id;
        let seen = Seen { now, order: self.order, site, id, key, call, attempt };
        self.checks.iter_mut().for_each(|check| check.taken(seen));
        self.sites[site].open.push(attempt);
        let before = self.sites[site].got_to(key.shard, id);
        self.sites[site].submit(attempt, key, call, now);
        self.attempts[attempt].after = before;
        self.attempts[attempt].upto = self.sites[site].got_to(key.shard, id);
    }

    /// Commits, and sends what may be known then.
    pub(in crate::system) fn work(&mut self, site: usize) -> Result<(), String> {
        let now = self.now();
        self.sites[site].works_at = None;
        if !self.sites[site].is_up() {
            return Ok(());
        }
        if !self.commit(site)? {
            return Ok(());
        }
        if now - self.sites[site].maintained_ms >= TICK_MS {
            let worked = self.sites[site].maintain(now);
            self.release(site, worked)?;
        }
        let flush_ms = self.sites[site].flush(now);
        let sent = self.send(site);
        self.sites[site].rests(now, sent)?;
        // After the end there is nothing to hurry for.
        let tick_ms = if self.is_quiet() { IDLE_TICK_MS } else { TICK_MS };
        let tick_ms = flush_ms.map_or(tick_ms, |flush_ms| tick_ms.min(flush_ms));
        let wanted = self.sites[site].wants_at();
        self.schedule(site, wanted.map_or(tick_ms, |at| at.saturating_sub(now).clamp(1, tick_ms)));
        Ok(())
    }

    /// Returns whether the site is still there.
    pub(super) fn commit(&mut self, site: usize) -> Result<bool, String> {
        let now = self.now();
        for &attempt in &self.sites[site].open {
            let stage = &mut self.attempts[attempt].stage;
            *stage = if *stage == Stage::Taken { Stage::Offered } else { *stage };
        }
        let worked = self.sites[site].commit(now);
        let dies = self.sites[site].dying.filter(|_| worked.wrote);
        self.release(site, worked)?;
        if let Some(away_ms) = dies {
            self.crash(site, away_ms);
        }
        Ok(dies.is_none())
    }

    pub(super) fn release(&mut self, site: usize, worked: Worked) -> Result<(), String> {
        if worked.replies.is_empty() {
            return Ok(());
        }
        for (ticket, reply) in worked.replies {
            if let Some((visit, shard)) = Band::visit_of(ticket) {
                self.visited(visit, shard, reply);
                continue;
            }
            let attempt = usize::try_from(ticket.0).expect("tickets are indices");
            self.released(attempt, &reply)?;
            if self.attempts[attempt].client.is_none() {
                self.probed.insert(attempt, reply);
            }
        }
        let attempts = &self.attempts;
        self.sites[site].open.retain(|&attempt| attempts[attempt].stage != Stage::Done);
        Ok(())
    }

    /// Everybody may know of this answer.
    pub(super) fn released(&mut self, attempt: usize, reply: &Reply) -> Result<(), String> {
        let now = self.now();
        let Attempt { site, call, stage, client, .. } = self.attempts[attempt];
        if stage == Stage::Done {
            return Err(format!("site {} answers call {attempt} again", site + 1));
        }
        self.attempts[attempt].stage = Stage::Done;
        if client.is_some() {
            self.note(Note::Released { attempt, said: Said::of(reply) });
        }
        self.order += 1;
        self.acknowledged += u64::from(matches!(reply, Reply::Added(_)));
        if self.forgets {
            self.claim(attempt, reply);
        }
        self.note_for_mistakes(attempt, reply);
        let call = &self.calls[call];
        let key = &self.pool.keys[call.key];
        let seen = Seen { now, order: self.order, site, id: self.sites[site].id, key, call, attempt };
        for check in &mut self.checks {
            check.released(seen, reply)?;
        }
        if is_ready(reply) {
            self.pool.ready[call.key] = true;
        }
        if client.is_some() {
            self.tell(attempt, verdict(reply));
        }
        Ok(())
    }

    /// A process dies, and starts again.
    pub(super) fn crash(&mut self, site: usize, away_ms: Millis) {
        self.die(site);
        self.queue.push(away_ms, Event::Restart { site });
    }

    /// A process dies with all that it has not stored.
    pub(super) fn die(&mut self, site: usize) {
        let now = self.now();
        self.note(Note::Text(format!("site {} dies", site + 1)));
        self.sites[site].crash();
        for attempt in std::mem::take(&mut self.sites[site].open) {
            let Attempt { call, stage, .. } = self.attempts[attempt];
            let doubt = stage == Stage::Offered;
            self.attempts[attempt].stage = Stage::Done;
            self.note(Note::Lost { attempt, doubt });
            self.order += 1;
            let call = &self.calls[call];
            let (id, key) = (self.sites[site].id, &self.pool.keys[call.key]);
            let seen = Seen { now, order: self.order, site, id, key, call, attempt };
            self.checks.iter_mut().for_each(|check| check.lost(seen, doubt));
            self.tell(attempt, Verdict::Again);
        }
        self.die_with_visits(Station::Site(site));
        self.look_at_links();
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
        Reply::Refused(
            Refusal::NotStored(_)
            | Refusal::InDoubt(_)
            | Refusal::OutOfBounds { .. }
            | Refusal::Reserved { .. }
            | Refusal::Joining
            | Refusal::JoinedLately { .. }
            | Refusal::Unsettled { .. },
        ) => Verdict::Again,
        _ => Verdict::Done,
    }
}
