//! Answers that get lost on request, for tests: the commit is stored, or is not, or lands late.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard},
};

use quipu_storage::ShardId;
use tokio::sync::watch;

/// What happens to every attempt of a shard's commits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// It is not sent, and no answer comes.
    NotSent,
    /// It is sent, and the answer is lost.
    AnswerLost,
    /// It is on its way until the fault is healed, and no answer comes.
    Late,
}

/// The faults of a session.
#[derive(Debug)]
pub struct Faults {
    shards: Mutex<BTreeMap<ShardId, Fault>>,
    healed: watch::Sender<u64>,
}

impl Default for Faults {
    fn default() -> Self {
        Self { shards: Mutex::new(BTreeMap::new()), healed: watch::Sender::new(0) }
    }
}

impl Faults {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<ShardId, Fault>> {
        self.shards.lock().expect("a test that panicked here has failed already")
    }

    /// From now on, until [`Faults::heal`].
    pub fn inject(&self, shard: ShardId, fault: Fault) {
        self.lock().insert(shard, fault);
    }

    /// The trouble is over; what was late lands.
    pub fn heal(&self) {
        self.lock().clear();
        self.healed.send_modify(|times| *times += 1);
    }

    pub(crate) fn of(&self, shard: ShardId) -> Option<Fault> {
        self.lock().get(&shard).copied()
    }

    /// Tells when the faults are healed the next time.
    pub(crate) fn healing(&self) -> watch::Receiver<u64> {
        self.healed.subscribe()
    }
}
