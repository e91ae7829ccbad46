//! Everything that the simulation asks of the engine of an edge or a relay, and of a site on their behalf.

use super::replica::{EDGE, Purpose, Replica};
use crate::core::Millis;
use crate::system::calls::Key;
use crate::system::site::Site;
use crate::system::world::Station;
use quipu_engine::handoff::{
    Adoption, Answer, BadAnswer, Estate, HandoffStats, Name, Open, RELAY_TIER, RetireError, Retirement,
    Round, Server, Visit,
};
use quipu_engine::{Action, Add, Command, Ticket};
use quipu_storage::ShardId;
use std::collections::BTreeSet;

/// Reading it shows whether a batch was stored.
const ANY_KEY: &[u8] = b"-";

impl Replica {
    /// Counts, or reads.
    pub(in crate::system) fn submit(&mut self, key: &Key, purpose: Purpose, now: Millis) {
        let action = match purpose {
            Purpose::Add { amount, .. } => Action::Add { add: Add::of(amount), operation: None },
            _ => Action::Get,
        };
        let shard = if self.is_edge() { EDGE } else { key.shard };
        let (ticket, moment) = (self.ticket(purpose), self.moment(now));
        let Some(host) = &mut self.host else { return };
        if matches!(action, Action::Get) {
            host.ask(shard, &key.name);
        }
        host.submit(shard, ticket, Command { key: &key.name, action }, moment);
    }

    /// Does something when the batch is stored, which only an edge needs.
    pub(in crate::system) fn after_batch(&mut self, purpose: Purpose, now: Millis) {
        let (ticket, moment) = (self.ticket(purpose), self.moment(now));
        let Some(host) = &mut self.host else { return };
        host.submit(EDGE, ticket, Command { key: ANY_KEY, action: Action::Get }, moment);
    }

    /// What an edge has to say to a server. Send it when the batch is stored.
    pub(in crate::system) fn visits(&mut self, server: Server, chosen: bool) -> Vec<(u16, Visit)> {
        let Some(host) = &mut self.host else { return Vec::new() };
        let mut visits = host.visits(EDGE, server, chosen);
        visits.sort_by_key(|(shard, _)| *shard);
        visits
    }

    /// What a relay has to say comes as replies.
    pub(in crate::system) fn speak(&mut self, to: Station, server: Server, round: Round, now: Millis) {
        let moment = self.moment(now);
        for shard in self.own_shards() {
            let ticket = self.ticket(Purpose::Speak { to, server, chosen: round.chosen });
            if let Some(host) = &mut self.host {
                host.speak(shard, ticket, server, round, moment);
            }
        }
    }

    /// It is visited.
    pub(in crate::system) fn visit(&mut self, visit: u64, shard: u16, said: Visit, leaf: bool, now: Millis) {
        let (ticket, moment) = (self.ticket(Purpose::Visit { visit, shard }), self.moment(now));
        if let Some(host) = &mut self.host {
            host.visit(ShardId(shard), ticket, said, leaf, moment);
        }
    }

    /// A server has answered.
    pub(in crate::system) fn answered(
        &mut self,
        shard: u16,
        server: Server,
        answer: &Answer,
        now: Millis,
    ) -> Result<(), BadAnswer> {
        let (own, moment) = (self.own(shard), self.moment(now));
        self.host.as_mut().map_or(Ok(()), |host| host.answered(own, shard, server, answer, moment))
    }

    /// What it has not handed over.
    pub(in crate::system) fn open(&mut self) -> Open {
        let shards = self.own_shards();
        let mut all = Open::default();
        let Some(host) = &mut self.host else { return all };
        for shard in shards {
            let open = host.not_handed_over(shard).unwrap_or_default();
            let Open { pending, tokens, servers, last_words } = open;
            all.pending += pending;
            for (name, counters) in tokens {
                *all.tokens.entry(name).or_default() += counters;
            }
            all.servers.extend(servers);
            all.last_words += last_words;
        }
        all
    }

    /// Have all servers that an edge has to tell heard its last words? Not if its store cannot say so.
    pub(in crate::system) fn has_spoken(&mut self) -> bool {
        let open = self.host.as_mut().and_then(|host| host.not_handed_over(EDGE));
        open.is_some_and(|open| open.last_words == 0)
    }

    /// Is something stored that says that it is to leave?
    pub(super) fn is_leaving(&mut self) -> bool {
        let shards = self.own_shards();
        let Some(host) = &mut self.host else { return false };
        shards.iter().any(|shard| host.not_handed_over(*shard).is_some_and(|open| open.last_words > 0))
            || shards.iter().any(|shard| host.retirement(*shard).is_stopped)
    }

    /// An edge ends counting.
    pub(in crate::system) fn retire_edge(&mut self) -> Result<(), RetireError> {
        self.host.as_mut().map_or(Ok(()), |host| host.retire_edge(EDGE))
    }

    /// A relay takes nothing any more.
    pub(in crate::system) fn stop_relay(&mut self) -> Result<(), RetireError> {
        let shards = self.own_shards();
        let Some(host) = &mut self.host else { return Ok(()) };
        shards.into_iter().try_for_each(|shard| host.stop_relay(shard))
    }

    /// How it stands with a relay's retirement, shard by shard.
    pub(in crate::system) fn retirement(&self) -> Vec<(u16, Retirement)> {
        let Some(host) = &self.host else { return Vec::new() };
        self.own_shards().into_iter().map(|shard| (shard.0, host.retirement(shard))).collect()
    }

    /// What a relay leaves of a shard comes as a reply.
    pub(in crate::system) fn bequeath(&mut self, to: Station, server: Server, shard: u16) {
        let ticket = self.ticket(Purpose::Leave { to, server, shard });
        if let Some(host) = &mut self.host {
            host.bequeath(ShardId(shard), ticket, server.name);
        }
    }

    /// The heir has answered.
    pub(in crate::system) fn adopted(&mut self, shard: u16, adoption: &Adoption) {
        if let Some(host) = &mut self.host {
            host.adopted(ShardId(shard), adoption);
        }
    }

    /// What it is to those who hand over to it.
    pub(in crate::system) fn server(&self) -> Server {
        Server { name: self.name, tier: RELAY_TIER, shards: self.shards.count() }
    }

    pub(in crate::system) fn stats(&self) -> HandoffStats {
        self.host.as_ref().map(|host| host.handoff_stats()).unwrap_or_default()
    }

    /// For whom it keeps tokens and last words of others, by shard.
    pub(in crate::system) fn kept_for(&self) -> BTreeSet<(u16, Name)> {
        self.host.as_ref().map(|host| host.kept_for()).unwrap_or_default()
    }
}

impl Site {
    /// Takes over what a relay leaves.
    pub(in crate::system) fn adopt(&mut self, shard: u16, ticket: Ticket, estate: &Estate, now: Millis) {
        let moment = self.moment(now);
        if let Some(host) = self.host_mut() {
            host.adopt(ShardId(shard), ticket, estate, moment);
        }
    }

    /// Takes in what an edge or a relay says.
    pub(in crate::system) fn visit(
        &mut self,
        shard: u16,
        ticket: Ticket,
        said: Visit,
        leaf: bool,
        now: Millis,
    ) {
        let moment = self.moment(now);
        if let Some(host) = self.host_mut() {
            host.visit(ShardId(shard), ticket, said, leaf, moment);
        }
    }
}
