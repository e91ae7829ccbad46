//! One of several nodes over one store: shards come and go while the host runs, and what is in memory may be another node's
//! by now.

use quipu_storage::{Fenced, Log, ShardId, StorageError, Table};

use super::{Host, OpenError, Released, Running, State};
use crate::{
    Moment, Refusal,
    coverage::{Branch, reached},
};

/// How far a node may rely on what it has in memory ([`crate::nodes::Trust`] at one moment).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Standing {
    /// The epoch of its trust.
    pub epoch: u64,
    /// It has not lapsed.
    pub holds: bool,
}

impl Default for Standing {
    /// There are no other nodes.
    fn default() -> Self {
        Self { epoch: 0, holds: true }
    }
}

impl Running {
    /// Only a shard that is surely no other node's speaks with other sites.
    pub(super) fn may_speak(&self, standing: Standing) -> bool {
        matches!(self.state, State::Live) && standing.is_trusted(self.confirmed)
    }
}

impl Standing {
    pub(super) fn is_trusted(self, confirmed: u64) -> bool {
        self.holds && self.epoch == confirmed
    }
}

impl<L: Log, T: Table> Host<L, T> {
    /// How it stands with this node at this moment: to be said before every [`Self::commit`] and [`Self::outgoing`], after
    /// everything was taken in that these speak of, and before a shard is listed, watched or counted. Whatever is not trusted
    /// is committed before anything is said of it, even if nothing has changed.
    pub fn set_standing(&mut self, standing: Standing) {
        self.standing = standing;
    }

    pub(super) fn is_trusted(&self, id: ShardId) -> bool {
        let running = self.shards.get(usize::from(id.0)).and_then(Option::as_deref);
        self.discipline.trusts_blindly()
            || running.is_some_and(|running| self.standing.is_trusted(running.confirmed))
    }

    /// May a shard be read between batches? If it may be another node's by now, the answer is no, and its fence is asked with
    /// the next batch.
    pub(super) fn check_readable(&mut self, id: ShardId) -> Result<(), Refusal> {
        let (is_trusted, holds) = (self.is_trusted(id), self.standing.holds);
        let running = self.running(id).ok_or(Refusal::NotHere)?;
        if let Some(refusal) = running.state.refusal() {
            return Err(refusal);
        }
        if is_trusted {
            return Ok(());
        }
        if holds {
            reached(Branch::FenceAsked);
            running.shard.store_anyway();
        }
        Err(Refusal::NotHere)
    }

    /// Takes a shard if its fence stands as it was seen, and reads what was committed. Returns whether it did.
    pub fn open_seen(&mut self, id: ShardId, seen: Option<Fenced>, now: Moment) -> Result<bool, OpenError> {
        match self.store.open_seen(id, seen)? {
            Some(recovered) => self.install(id, &recovered, now).map(|()| true),
            None => {
                reached(Branch::FenceNotAsSeen);
                Ok(false)
            }
        }
    }

    /// A shard has something to say, or is told something, and may be another node's. If this node is relied on again, the
    /// shard asks its fence, and goes on when that has answered.
    pub fn ask_fence(&mut self, id: ShardId) {
        if self.standing.holds {
            reached(Branch::FenceAsked);
            self.confirm(id);
        }
    }

    /// Asks a shard's fence, with the next batch, whether it is still this node's.
    pub fn confirm(&mut self, id: ShardId) {
        if let Some(running) = self.running(id).filter(|running| matches!(running.state, State::Live)) {
            running.shard.store_anyway();
            self.mark_pending(id);
        }
    }

    /// Is it open here, as far as this node knows?
    pub fn is_open(&self, id: ShardId) -> bool {
        let running = self.shards.get(usize::from(id.0)).and_then(Option::as_deref);
        running.is_some_and(|running| !matches!(running.state, State::Lost))
    }

    /// Gives a shard back, for another node. Call it between batches. What waits in it is answered; whoever watches a
    /// counter hears nothing more. The error is that it cannot be given back now, and stays.
    pub fn close(&mut self, id: ShardId, released: &mut Released) -> Result<(), StorageError> {
        debug_assert!(self.pending.is_empty());
        match self.running(id).map(|running| &running.state) {
            None => return Err(StorageError::NotOpen(id)),
            Some(State::Live | State::Lost) => {}
            Some(State::Committing(_) | State::Unsettled { .. } | State::Broken { .. }) => {
                return Err(StorageError::Unsettled(id));
            }
        }
        reached(Branch::ShardClosed);
        self.forget_shard(id, released);
        // If this is not heard, the node finds at the fence that it still has the shard when it looks around again.
        let _ = self.store.log().release(id);
        Ok(())
    }

    /// Gives a shard back that is not open here, and is this node's by its fence: it was taken, or given back, without an
    /// answer. If the fence does not stand as it was seen nothing is done.
    pub fn free(&mut self, id: ShardId, seen: Option<Fenced>) -> Result<(), StorageError> {
        if self.running(id).is_some() {
            return Ok(());
        }
        match self.store.log().take_seen(id, seen)? {
            Some(_) => {
                reached(Branch::ShardFreed);
                self.store.log().release(id)
            }
            None => Ok(()),
        }
    }

    /// Forgets the shards that other nodes have taken, and says which they are.
    pub fn forget_lost(&mut self, released: &mut Released) -> Vec<ShardId> {
        let running = self.shards.iter().flatten();
        let lost = running.filter(|running| matches!(running.state, State::Lost));
        let lost: Vec<ShardId> = lost.map(|running| running.id).collect();
        for id in &lost {
            self.forget_shard(*id, released);
        }
        lost
    }

    fn forget_shard(&mut self, id: ShardId, released: &mut Released) {
        if let Some(checkpointer) = &self.checkpointer {
            checkpointer.forget(id);
        }
        self.marks.retain(|mark| mark.shard != id);
        if let Some(mut running) = self.shards.get_mut(usize::from(id.0)).and_then(Option::take) {
            released.replies.extend(running.shard.give_up_waiting());
        }
    }
}
