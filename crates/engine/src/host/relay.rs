//! What a relay says to its parents, and how it retires: each is made durable first, and then released as a reply.

use quipu_storage::{Log, ShardId, Table};

use super::{Host, State, load};
use crate::{
    Moment, Refusal, Reply, Ticket,
    handoff::{Adoption, Estate, Name, RetireError, Retirement, Round, Server},
};

impl<L: Log, T: Table> Host<L, T> {
    /// What a relay's shard has to say to the same shard of a server now, which may be nothing:
    /// [`Reply::Visits`], with the batch.
    pub fn speak(&mut self, id: ShardId, ticket: Ticket, server: Server, round: Round, now: Moment) {
        let Some(running) = self.live_running(id) else { return self.not_now(id, ticket) };
        let now = running.clock.at(now);
        running.shard.speak(ticket, id.0, server, round, now);
        self.flush_next = true;
        self.mark_pending(id);
    }

    /// Is something here that this server can be handed, or that it has not confirmed?
    pub fn has_pending(&self, server: Option<Name>) -> bool {
        self.shards.iter().flatten().any(|running| running.shard.has_pending(server))
    }

    /// From the next batch on a relay's shard takes nothing from others, and counts nothing.
    pub fn stop_relay(&mut self, id: ShardId) -> Result<(), RetireError> {
        let Some(running) = self.live_running(id) else { return Ok(()) };
        let stopped = running.shard.stop_relay(id.0);
        self.flush_next = true;
        self.mark_pending(id);
        stopped
    }

    /// What a stopped relay's shard leaves, for this heir alone: [`Reply::Estate`], with the batch.
    pub fn bequeath(&mut self, id: ShardId, ticket: Ticket, heir: Name) {
        let Some(running) = self.live_running(id) else { return self.not_now(id, ticket) };
        running.shard.bequeath(ticket, id.0, heir);
        self.flush_next = true;
        self.mark_pending(id);
    }

    /// Takes over what a relay leaves: [`Reply::Adopted`], with the batch.
    pub fn adopt(&mut self, id: ShardId, ticket: Ticket, estate: &Estate, now: Moment) {
        let table = self.store.table();
        let running = self.shards.get_mut(usize::from(id.0)).and_then(Option::as_deref_mut);
        let Some(running) = running.filter(|running| running.state.refusal().is_none()) else {
            return self.not_now(id, ticket);
        };
        let left = estate.tokens().flat_map(|token| token.value.keys()).map(|key| key.bytes().into());
        for key in left.chain(running.shard.kept_keys()).collect::<Vec<Box<[u8]>>>() {
            if let Err(refusal) = load(table, running, &key) {
                return self.refused.replies.push((ticket, Reply::refused(refusal)));
            }
        }
        let now = running.clock.at(now);
        running.shard.adopt(ticket, id.0, estate, now);
        self.flush_next = true;
        self.mark_pending(id);
    }

    /// The heir has answered.
    pub fn adopted(&mut self, id: ShardId, adoption: &Adoption) {
        let Some(running) = self.live_running(id) else { return };
        running.shard.adopted(id.0, adoption);
        self.flush_next = true;
        self.mark_pending(id);
    }

    /// How it stands with a relay's retirement.
    pub fn retirement(&self, id: ShardId) -> Retirement {
        let running = self.shards.get(usize::from(id.0)).and_then(Option::as_deref);
        let live = running.filter(|running| matches!(running.state, State::Live));
        live.map(|running| running.shard.retirement(id.0)).unwrap_or_default()
    }

    fn not_now(&mut self, id: ShardId, ticket: Ticket) {
        let text = format!("shard {} is not available; nothing was done. Try again", id.0);
        self.refused.replies.push((ticket, Reply::refused(Refusal::NotStored(text))));
    }
}
