//! What clients do: ask any node, wait, try again, here or elsewhere.

use super::{Event, Verdict, World, address};
use crate::system::calls::{Act, Attempt, Call};
use crate::system::client::Waiting;

/// A client that was told that nothing was done tries again within this time.
const AGAIN_MS_MAX: u64 = 100;

impl World {
    fn attempt(&mut self, client: usize, call: usize, to: usize, tries: usize) {
        let attempt = self.attempts.len();
        self.attempts.push(Attempt::new(call, Some(client), to));
        self.order += 1;
        self.asked.push(self.order);
        let asked = &self.calls[call];
        self.reads.begins(attempt, &self.pool.keys[asked.key], asked);
        let asking = &mut self.clients[client];
        asking.waiting = Some(Waiting { call, attempt, tries, site: to });
        asking.turn += 1;
        let turn = asking.turn;
        self.to_nodes.send(&mut self.queue, address(client), address(to), Event::Request { attempt });
        self.queue.push(self.plan.work.timeout_ms, Event::Wake { client, turn });
    }

    /// A client has thought for long enough, or waited for an answer.
    pub(super) fn wake(&mut self, client: usize) {
        if let Some(waiting) = self.clients[client].waiting {
            return self.try_again(client, waiting);
        }
        if self.closing {
            return;
        }
        let now = self.queue.now();
        let asking = &mut self.clients[client];
        // A node that was there when it was last asked, most likely.
        let to = asking.home;
        let asked_for = asking.wonders(&self.plan.work).or_else(|| asking.last_operation());
        let call = match asked_for {
            Some(last) => Call { act: Act::Outcome, since_ms: now, ..self.calls[last].clone() },
            None => asking.next_call(&mut self.pool, &self.plan.work, now),
        };
        self.calls.push(call);
        self.counts.calls += 1;
        self.attempt(client, self.calls.len() - 1, to, 1);
    }

    fn try_again(&mut self, client: usize, waiting: Waiting) {
        let call = &self.calls[waiting.call];
        // What was not done, and what changes nothing, can be asked for again; else an id is needed.
        let is_safe = call.id.is_some()
            || !matches!(call.act, Act::Add { .. })
            || self.not_done.remove(&waiting.attempt);
        let is_early = self.now() - call.since_ms < self.plan.patience_ms();
        if !is_safe || !is_early || waiting.tries >= self.plan.work.attempts_max {
            return self.done(client, waiting.call);
        }
        let places = self.places.len();
        let to = self.clients[client].next_site(waiting.site, &self.plan.work, places);
        self.attempt(client, waiting.call, to, waiting.tries + 1);
    }

    pub(super) fn answered(&mut self, attempt: usize, verdict: Verdict) {
        let Attempt { client: Some(client), call, .. } = self.attempts[attempt] else { return };
        let asking = &mut self.clients[client];
        let Some(waiting) = asking.waiting.filter(|waiting| waiting.attempt == attempt) else { return };
        if verdict == Verdict::Done {
            asking.home = waiting.site;
            return self.done(client, call);
        }
        if verdict == Verdict::NotDone {
            self.not_done.insert(attempt);
        }
        asking.turn += 1;
        let turn = asking.turn;
        let wait = 1 + asking.random.bits() % AGAIN_MS_MAX;
        self.queue.push(wait, Event::Wake { client, turn });
    }

    fn done(&mut self, client: usize, call: usize) {
        let places = self.places.len();
        let asking = &mut self.clients[client];
        asking.done(call, &self.calls[call]);
        if asking.random.chance(0.1) {
            asking.home = asking.random.below(places);
        }
        asking.turn += 1;
        let turn = asking.turn;
        let wait = asking.think_ms(&self.plan.work);
        self.queue.push(wait, Event::Wake { client, turn });
    }

    /// Have clients finished?
    pub(in crate::nodes) fn is_quiet(&self) -> bool {
        self.closing
            && self.clients.iter().all(|client| client.waiting.is_none())
            && self.places.iter().all(|place| place.open.is_empty() && place.inbox.is_empty())
    }

    /// Asks a node, apart from all clients.
    pub(in crate::nodes) fn probe(&mut self, at: usize, call: Call) -> usize {
        self.calls.push(call);
        let attempt = self.attempts.len();
        self.attempts.push(Attempt::new(self.calls.len() - 1, None, at));
        self.asked.push(self.order);
        self.places[at].inbox.push_back(attempt);
        self.schedule(at, 1);
        attempt
    }
}
