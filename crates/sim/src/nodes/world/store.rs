//! What becomes of requests to the store.

use super::{Event, World};
use crate::core::Millis;
use crate::nodes::line::Reached;
use crate::system::calls::Stage;
use quipu_storage::memory::Answer;
use quipu_storage::{Registered, Registry as _, ShardId, Table as _, Write};

/// A node waits so long for an answer.
const TIMEOUT_MS: Millis = 200;

impl World {
    /// How many requests are not answered.
    fn unanswered_share(&self) -> f64 {
        if self.healed { 0.0 } else { self.storm.unwrap_or(self.plan.weather.unanswered) }
    }

    fn late_ms(&mut self) -> Millis {
        self.chance.bits() % (self.plan.weather.late_ms_max + 1)
    }

    /// What becomes of a request of a node.
    pub(in crate::nodes) fn reach(&mut self, at: usize) -> Reached {
        if self.places[at].cut_until > self.now() {
            return Reached::Lost;
        }
        if !self.chance.chance(self.unanswered_share()) {
            return Reached::Done;
        }
        match self.chance.below(3) {
            0 => Reached::Unheard,
            1 => Reached::Late { after_ms: TIMEOUT_MS + self.late_ms() },
            _ => Reached::Lost,
        }
    }

    /// A commit is under way.
    pub(in crate::nodes) fn send_off(&mut self, at: usize, shard: ShardId, number: u64) {
        let (attempts, calls, keys) = (&self.attempts, &self.calls, &self.pool.keys);
        let is_in = |attempt: &usize| {
            let is_offered = attempts[*attempt].stage == Stage::Offered;
            is_offered && keys[calls[attempts[*attempt].call].key].shard == shard
        };
        let batch: Vec<usize> = self.places[at].open.iter().copied().filter(is_in).collect();
        batch.iter().for_each(|attempt| _ = self.batch_of.insert(*attempt, number));
        self.batches.insert(number, batch);
        self.places[at].sent.insert(shard, number);
        let there_ms = 1 + self.chance.bits() % self.plan.commit_ms + self.hold_up();
        let back_ms = 1 + self.chance.bits() % self.plan.commit_ms + self.hold_up();
        let (delivered, answer, heard_ms) = match self.reach(at) {
            Reached::Done => (Some(there_ms), Answer::Told, there_ms + back_ms),
            Reached::Unheard => (Some(there_ms), Answer::Unanswered, TIMEOUT_MS.max(there_ms)),
            Reached::Late { after_ms } => (Some(after_ms), Answer::Unanswered, TIMEOUT_MS),
            Reached::Lost if self.chance.chance(0.3) => (None, Answer::Refused, there_ms + back_ms),
            Reached::Lost => (None, Answer::Unanswered, TIMEOUT_MS),
        };
        if let Some(delay) = delivered {
            self.queue.push(delay, Event::Deliver { number });
        }
        if answer == Answer::Unanswered {
            self.unanswered.insert(number);
        }
        self.queue.push(heard_ms, Event::Hear { place: at, number, answer });
    }

    /// By how much a message is slower than usual.
    fn hold_up(&mut self) -> Millis {
        if self.healed || !self.chance.chance(self.plan.weather.slow) {
            return 0;
        }
        self.chance.bits() % (self.plan.weather.slow_ms_max + 1)
    }

    /// A commit arrives.
    pub(super) fn deliver(&mut self, number: u64) {
        let is_unanswered = self.unanswered.contains(&number);
        if self.memory.deliver(number) {
            self.counts.stored_late += u64::from(is_unanswered);
            self.is_stored(number);
        } else {
            self.counts.refused_late += u64::from(is_unanswered);
        }
    }

    /// A commit was found to be stored.
    pub(in crate::nodes) fn found_stored(&mut self, at: usize, shard: ShardId) {
        if let Some(number) = self.places[at].sent.get(&shard) {
            self.is_stored(*number);
        }
    }

    fn is_stored(&mut self, number: u64) {
        if !self.stored.insert(number) {
            return;
        }
        for attempt in self.batches.get(&number).into_iter().flatten() {
            let call = &self.calls[self.attempts[*attempt].call];
            self.answers.stored(*attempt, &self.pool.keys[call.key], call, self.order);
        }
    }

    /// The commit that holds an attempt.
    pub(super) fn number_of(&self, attempt: usize) -> Option<u64> {
        self.batch_of.get(&attempt).copied()
    }

    /// A commit is issued again, without an answer.
    pub(in crate::nodes) fn reissue(&mut self, at: usize, shard: ShardId) {
        if let Some(number) = self.places[at].sent.get(&shard) {
            self.reissued.insert(*number);
        }
    }

    /// May a commit have been stored?
    pub(super) fn may_be_stored(&self, number: u64) -> bool {
        self.stored.contains(&number) || self.reissued.contains(&number)
    }

    pub(super) fn put_late(&mut self, shard: ShardId, writes: &[Write]) {
        // Nobody waits for it.
        let _ = self.memory.table().put(shard, writes);
    }

    pub(super) fn beat_late(&mut self, registered: &Registered) {
        let registry = self.memory.registry(registered.node);
        let is_older = |it: &Registered| it.node == registered.node && it.count < registered.count;
        // What was deleted stays deleted, and nothing is older than what it replaces.
        if registry.nodes().is_ok_and(|nodes| nodes.iter().any(is_older)) {
            let _ = registry.write(registered);
        }
    }
}
