//! The seat of the one node that speaks for its site to others. It is fenced like a shard, and its log holds what that node
//! has agreed with other sites: so one that has lost the seat without knowing cannot agree to anything, and every other node
//! reads there what it has to act under.

use quipu_storage::{
    Batch, Fenced, Flush, Log, Mark, Outcome, Position, Record, Settled, ShardId, StorageError,
};

/// The seat, as one node sees it.
#[derive(Debug)]
pub struct Seat<L> {
    log: L,
    /// Stands in the place of a shard.
    id: ShardId,
    /// Where in the log stands what this node acts under: its own words, or another's that it has read.
    followed: Option<Position>,
}

/// Why something is not stored, as far as is known.
#[derive(Debug, thiserror::Error)]
pub enum NotStored {
    /// It is not.
    #[error("{0}")]
    Failed(StorageError),
    /// It may be, and other nodes may have read it; or somebody else has the seat. This node must not speak until it has taken
    /// the seat anew, and read what stands there.
    #[error("{0}; this node speaks no more for the site until it has read what stands there")]
    Unknown(StorageError),
}

/// Why it is not known what was agreed with other sites.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotKnown {
    /// Nothing stands there.
    #[error("nobody has spoken for this site yet")]
    NobodySpoke,
    /// Something that this node, which speaks, has not written.
    #[error("another node speaks for this site by now")]
    AnotherSpeaks,
}

impl<L: Log> Seat<L> {
    /// `id` stands in the place of a shard, and is none.
    pub fn new(log: L, id: ShardId) -> Self {
        Self { log, id, followed: None }
    }

    /// Takes it if its fence stands as it was seen. Returns what stands there, if anything does; `None`: it does not stand so.
    /// The node does not speak before it has [stored](Self::store) that anew.
    pub fn take(&mut self, seen: Option<Fenced>) -> Result<Option<Option<Record>>, StorageError> {
        let Some(taken) = self.log.take_seen(self.id, seen)? else { return Ok(None) };
        Ok(Some(self.log.read(self.id, taken.checkpoint)?.pop()))
    }

    /// Stores what is agreed now; what was before is not needed any more.
    pub fn store(&mut self, agreed: Vec<u8>) -> Result<Position, NotStored> {
        let unknown = |error| Err(NotStored::Unknown(error));
        let outcome = self.log.commit(&[Batch { shard: self.id, record: agreed }], Flush::Now).pop();
        let position = match outcome {
            Some(Outcome::Committed { position }) => position,
            Some(Outcome::Unknown(error)) => match self.log.settle(self.id) {
                Settled::Committed { position } => position,
                Settled::Lost | Settled::Nothing => return unknown(StorageError::Fenced(self.id)),
                Settled::Unknown(_) => return unknown(error),
            },
            Some(Outcome::Failed(error)) => return Err(NotStored::Failed(error)),
            Some(Outcome::Fenced) | None => return unknown(StorageError::Fenced(self.id)),
        };
        self.followed = Some(position);
        // What is left behind goes with the next.
        let _ = self.log.checkpoint(&[Mark { shard: self.id, position: Position(position.0 - 1) }]);
        Ok(position)
    }

    /// What was agreed last, as it was read after the fences were ([`Advice`](super::Advice)), if this node has not taken it
    /// over yet. A node takes no shard while that is not known.
    pub fn news<'a>(&self, speaks: bool, agreed: Option<&'a Record>) -> Result<Option<&'a Record>, NotKnown> {
        match agreed {
            // It has stored something since then.
            None if speaks => Ok(None),
            None => Err(NotKnown::NobodySpoke),
            Some(agreed) if !speaks => Ok(Some(agreed).filter(|it| self.followed != Some(it.position))),
            Some(agreed) if Some(agreed.position) <= self.followed => Ok(None),
            Some(_) => Err(NotKnown::AnotherSpeaks),
        }
    }

    /// The node acts under this from now on.
    pub fn follow(&mut self, agreed: &Record) {
        self.followed = Some(agreed.position);
    }

    /// Does the store say that it is another node's?
    pub fn is_lost(&mut self) -> bool {
        matches!(self.log.confirm(self.id), Err(StorageError::Fenced(_)))
    }

    /// Gives it back. Whoever is next finds out by itself, if this is not heard.
    pub fn release(&mut self) {
        let _ = self.log.release(self.id);
    }
}
