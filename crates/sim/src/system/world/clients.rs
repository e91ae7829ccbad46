//! What clients do: ask, wait, try again, here or elsewhere.

use super::{Event, Verdict, World, node};
use crate::system::calls::{Act, Attempt, Call};
use crate::system::client::Waiting;

impl World {
    pub(super) fn tell(&mut self, attempt: usize, verdict: Verdict) {
        let Attempt { client: Some(client), site, .. } = self.attempts[attempt] else { return };
        let event = Event::Answer { attempt, verdict };
        self.to_clients.send(&mut self.queue, node(site), node(client), event);
    }

    pub(super) fn attempt(&mut self, client: usize, call: usize, site: usize, tries: usize) {
        let attempt = self.attempts.len();
        self.attempts.push(Attempt::new(call, Some(client), site));
        let asking = &mut self.clients[client];
        asking.waiting = Some(Waiting { call, attempt, tries, site });
        asking.turn += 1;
        let turn = asking.turn;
        self.to_sites.send(&mut self.queue, node(client), node(site), Event::Request { attempt });
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
        if let Some((call, site)) = self.mistake(client) {
            self.calls.push(call);
            self.client_calls += 1;
            return self.attempt(client, self.calls.len() - 1, site, 1);
        }
        let asking = &mut self.clients[client];
        let site = asking.home;
        if let Some(call) = asking.stale(&self.plan.work) {
            let site = asking.random.below(self.sites.len());
            return self.attempt(client, call, site, self.plan.work.attempts_max);
        }
        if let Some(operation) = asking.wonders(&self.plan.work) {
            let site = asking.random.below(self.sites.len());
            self.calls.push(Call { act: Act::Outcome, ..self.calls[operation].clone() });
            self.client_calls += 1;
            return self.attempt(client, self.calls.len() - 1, site, 1);
        }
        let call = match asking.last_operation() {
            Some(last) => Call { act: Act::Outcome, ..self.calls[last].clone() },
            None => asking.next_call(&mut self.pool, &self.plan.work, self.queue.now()),
        };
        self.calls.push(call);
        self.client_calls += 1;
        self.attempt(client, self.calls.len() - 1, site, 1);
    }

    fn try_again(&mut self, client: usize, waiting: Waiting) {
        let call = &self.calls[waiting.call];
        let may = call.id.is_some()
            && matches!(call.act, Act::Add { .. })
            && waiting.tries < self.plan.work.attempts_max
            && self.now() - call.since_ms < self.plan.patience_ms();
        if !may {
            return self.done(client, waiting.call);
        }
        let site = self.clients[client].next_site(waiting.site, &self.plan.work, self.sites.len());
        self.attempt(client, waiting.call, site, waiting.tries + 1);
    }

    pub(super) fn answered(&mut self, attempt: usize, verdict: Verdict) {
        let Attempt { client: Some(client), call, .. } = self.attempts[attempt] else { return };
        let asking = &mut self.clients[client];
        if asking.waiting.is_none_or(|waiting| waiting.attempt != attempt) {
            return;
        }
        match verdict {
            Verdict::Done => self.done(client, call),
            Verdict::Again => {
                asking.turn += 1;
                let turn = asking.turn;
                let wait = 1 + asking.random.bits() % 50;
                self.queue.push(wait, Event::Wake { client, turn });
            }
        }
    }

    pub(super) fn done(&mut self, client: usize, call: usize) {
        let asking = &mut self.clients[client];
        asking.done(call, &self.calls[call]);
        asking.turn += 1;
        let turn = asking.turn;
        let wait = asking.think_ms(&self.plan.work);
        self.queue.push(wait, Event::Wake { client, turn });
    }

    /// Clients of a site that leaves go to another one.
    pub(super) fn clients_move(&mut self, from: usize, to: usize) {
        self.clients.iter_mut().filter(|client| client.home == from).for_each(|client| client.home = to);
    }

    /// Some clients go to a site that has come.
    pub(super) fn clients_come(&mut self, to: usize) {
        let sites = self.sites.len();
        self.clients
            .iter_mut()
            .filter(|client| client.number % sites == to)
            .for_each(|client| client.home = to);
    }

    /// From now on clients finish what they have begun, and begin nothing.
    pub(in crate::system) fn close(&mut self) {
        self.closing = true;
    }

    /// Have clients finished?
    pub(in crate::system) fn is_quiet(&self) -> bool {
        self.closing
            && self.clients.iter().all(|client| client.waiting.is_none())
            && self.sites.iter().all(|site| site.open.is_empty())
    }
}
