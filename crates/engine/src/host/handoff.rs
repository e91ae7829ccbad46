//! Visits of edges and relays, and those that a relay or an edge makes.

use std::collections::{BTreeMap, BTreeSet};

use quipu_crdt::Tally as _;
#[cfg(feature = "testing")]
use quipu_crdt::handoff::Handshake;
use quipu_storage::{Log, ShardId, Table};

use super::{Host, Running, State, load};
use crate::{
    Moment, Refusal, Reply, Ticket,
    handoff::{Answer, BadAnswer, Deltas, HandoffStats, Name, Open, RetireError, Server, Visit},
    shard::Shard,
};

/// How often shards are looked through for what waits.
const TEND_EVERY_MS: u64 = 1_000;

impl<L: Log, T: Table> Host<L, T> {
    /// Takes in what an edge or a relay says. Its answer is released with the batch, which is put on the device whatever
    /// the host's way of flushing: whoever hands over forgets what it is told to be here.
    pub fn visit(&mut self, id: ShardId, ticket: Ticket, mut visit: Visit, leaf: bool, now: Moment) {
        let table = self.store.table();
        let running = self.shards.get_mut(usize::from(id.0)).and_then(Option::as_deref_mut);
        let refusal = match &running {
            None => Some(Refusal::NotHere),
            Some(running) => running.state.refusal(),
        };
        let (Some(running), None) = (running, refusal.clone()) else {
            let refusal = refusal.unwrap_or(Refusal::NotHere);
            return self.refused.replies.push((ticket, Reply::refused(refusal)));
        };
        if leaf {
            visit.restrict_to_a_leaf();
        }
        let here = running.shard.keys_kept_for_desks_here();
        let to_decide = running.shard.keys_to_decide();
        for key in visit
            .keys()
            .map(Box::from)
            .chain(here)
            .chain(to_decide.into_iter().flatten())
            .collect::<Vec<Box<[u8]>>>()
        {
            if let Err(refusal) = load(table, running, &key) {
                return self.refused.replies.push((ticket, Reply::refused(refusal)));
            }
        }
        let now = running.clock.at(now);
        running.shard.visit(ticket, id.0, visit, leaf, now);
        self.flush_next = true;
        self.mark_pending(id);
    }

    /// From time to time, into the batch: folds slots that were opened long ago, counts what waits for rights.
    pub(super) fn tend(&mut self, now: Moment) {
        if self.tended_ms.is_some_and(|then| now.elapsed_ms < then + TEND_EVERY_MS) {
            return;
        }
        self.tended_ms = Some(now.elapsed_ms);
        for at in 0..self.shards.len() {
            let table = self.store.table();
            let Some(running) = self.shards[at].as_deref_mut() else { continue };
            let (id, now) = (running.id, running.clock.at(now));
            if !matches!(running.state, State::Live) {
                continue;
            }
            let mut refused = running.shard.keys_of_refused();
            refused.extend(running.shard.keys_kept_for_desks_here());
            // What cannot be read now is tried the next time.
            if !refused.is_empty() && refused.iter().all(|key| load(table, running, key).is_ok()) {
                running.shard.try_last_words(id.0, now);
            }
            if let Some(keys) = running.shard.keys_to_decide()
                && keys.iter().all(|key| load(table, running, key).is_ok())
            {
                running.shard.decide_kept(id.0, now);
            }
            if running.shard.tend(now) {
                self.mark_pending(id);
            }
        }
    }

    /// What a relay or an edge has to say to a server now, by the shards of the cluster. Send it after the next
    /// [`Self::commit`], if that has succeeded. A `chosen` server is handed what was counted; others are told what they
    /// must know to close their slots.
    pub fn visits(&mut self, id: ShardId, server: Server, chosen: bool) -> Vec<(u16, Visit)> {
        let Some(shard) = self.live_shard(id) else { return Vec::new() };
        let visits = shard.visits(server, chosen);
        self.flush_next = true;
        self.mark_pending(id);
        visits
    }

    /// Takes in the answer of a server's shard. Its effects are committed with the batch.
    pub fn answered(
        &mut self,
        id: ShardId,
        shard: u16,
        server: Server,
        answer: &Answer,
        now: Moment,
    ) -> Result<(), BadAnswer> {
        let Some(running) = self.live_running(id) else {
            return Ok(()); // It will be said again.
        };
        let now = running.clock.at(now);
        let taken = running.shard.answered(shard, server, answer, now);
        self.flush_next = true;
        self.mark_pending(id);
        taken
    }

    /// From now on servers are asked for the value of a counter. Returns what is known; `None`: nothing.
    pub fn ask(&mut self, id: ShardId, key: &[u8]) -> Option<i64> {
        self.live_shard(id)?.ask(key)
    }

    /// No more.
    pub fn ask_no_more(&mut self, id: ShardId, key: &[u8]) {
        if let Some(shard) = self.live_shard(id) {
            shard.ask_no_more(key);
        }
    }

    /// Has a server told the value of a counter?
    pub fn is_heard(&mut self, id: ShardId, key: &[u8]) -> bool {
        self.live_shard(id).is_some_and(|shard| shard.is_heard(key))
    }

    /// What a relay or an edge has not handed over. `None`: that is not known, because the store of the shard is in trouble.
    pub fn not_handed_over(&mut self, id: ShardId) -> Option<Open> {
        self.live_shard(id).map(|shard| shard.open())
    }

    /// What a relay or an edge has sent to each server and of which it is not known that it has arrived.
    pub fn in_flight(&mut self, id: ShardId) -> BTreeMap<Name, Deltas> {
        let mut in_flight: BTreeMap<Name, Deltas> = BTreeMap::new();
        for token in self.live_shard(id).into_iter().flat_map(|shard| shard.in_flight()) {
            in_flight.entry(token.target).or_default().saturating_add(&token.value);
        }
        in_flight
    }

    /// Ends counting at an edge.
    pub fn retire_edge(&mut self, id: ShardId) -> Result<(), RetireError> {
        let Some(shard) = self.live_shard(id) else { return Ok(()) };
        let retired = shard.retire_edge();
        self.flush_next = true;
        self.mark_pending(id);
        retired
    }

    /// Brings the table up to date with all that is committed, now. Call it between batches. If it fails, the log still
    /// has everything.
    pub fn checkpoint(&mut self, id: ShardId, now: Moment) {
        debug_assert!(self.pending.is_empty());
        if self.live_shard(id).is_some_and(|shard| shard.is_unsaved()) {
            self.begin_checkpoint(id, now);
        }
    }

    /// Numbers about handoffs.
    pub fn handoff_stats(&self) -> HandoffStats {
        let mut stats = HandoffStats::default();
        self.shards.iter().flatten().for_each(|running| stats.add(&running.shard.handoff_stats()));
        stats
    }

    /// For whom tokens and last words of others are kept here, by the shard of the cluster.
    pub fn kept_for(&self) -> BTreeSet<(u16, Name)> {
        self.shards.iter().flatten().flat_map(|running| running.shard.kept_for()).collect()
    }

    /// The state of all handoffs with a shard of the cluster, for tests that compare.
    #[cfg(feature = "testing")]
    pub fn handshake(&self, shard: u16) -> Option<&Handshake<Name, Deltas>> {
        self.shards.iter().flatten().find_map(|running| running.shard.handshake(shard))
    }

    fn live_shard(&mut self, id: ShardId) -> Option<&mut Shard> {
        self.live_running(id).map(|running| &mut running.shard)
    }

    pub(super) fn live_running(&mut self, id: ShardId) -> Option<&mut Running> {
        self.running(id).filter(|running| matches!(running.state, State::Live))
    }
}
