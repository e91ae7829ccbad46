//! The seat of the node that speaks for the site: to other sites, and in the council. It is fenced like a shard, and its log
//! holds what the council has stored: so a node that has lost the seat without knowing cannot take a step.

use std::collections::BTreeMap;

use quipu_engine::{Council, nodes::SeatAdvice};
use quipu_storage::{
    Batch, Fenced, Flush, Log, Mark, Outcome, Position, Record, Settled, ShardId, StorageError,
};

use super::{Siblings, lock};
use crate::{
    links::{LinksOf, Run},
    node::Shared,
    random::random,
};

/// Stands in the place of a shard.
pub(in crate::node) const SEAT: ShardId = ShardId(u16::MAX);

/// The log of the seat.
pub(super) struct Seat(Box<dyn Log>);

/// Why something is not stored, as far as is known.
#[derive(Debug, thiserror::Error)]
enum NotStored {
    #[error("{0}")]
    Failed(StorageError),
    /// It may be stored, and other nodes may have read it; or somebody else has the seat.
    #[error("{0}; this node speaks no more for the site until it has read what stands there")]
    Unknown(StorageError),
}

impl Seat {
    pub(super) fn new(log: Box<dyn Log>) -> Self {
        Self(log)
    }

    /// What the council has stored last, if it has.
    fn last(&mut self, checkpoint: Position) -> Result<Option<Vec<u8>>, StorageError> {
        Ok(self.0.read(SEAT, checkpoint)?.pop().map(|record| record.bytes))
    }

    /// Stores what the council states now; older statements are not needed any more.
    fn store(&mut self, bytes: Vec<u8>) -> Result<Position, NotStored> {
        let outcome = self.0.commit(&[Batch { shard: SEAT, record: bytes }], Flush::Now).pop();
        let position = match outcome {
            Some(Outcome::Committed { position }) => position,
            Some(Outcome::Unknown(error)) => match self.0.settle(SEAT) {
                Settled::Committed { position } => position,
                Settled::Lost | Settled::Nothing => {
                    return Err(NotStored::Unknown(StorageError::Fenced(SEAT)));
                }
                Settled::Unknown(_) => return Err(NotStored::Unknown(error)),
            },
            Some(Outcome::Failed(error)) => return Err(NotStored::Failed(error)),
            Some(Outcome::Fenced) | None => return Err(NotStored::Unknown(StorageError::Fenced(SEAT))),
        };
        // What is left behind goes with the next.
        let _ = self.0.checkpoint(&[Mark { shard: SEAT, position: Position(position.0 - 1) }]);
        Ok(position)
    }
}

impl Shared {
    /// Does this node speak for the site? One that has no others does.
    pub(in crate::node) fn speaks(&self) -> bool {
        self.board.links_of() == LinksOf::This
    }

    /// Stores what the council states, durably, and only if this node speaks for the site.
    pub(in crate::node) fn store_council(&self, bytes: Vec<u8>) -> Result<(), String> {
        match &self.siblings {
            None => self.folder.store_council(bytes).map_err(|error| error.to_string()),
            Some(siblings) => {
                let stored = lock(&siblings.seat).store(bytes);
                if let Err(NotStored::Unknown(_)) = &stored {
                    // Whoever takes the seat next, this node or another, goes on with what stands there.
                    self.board.set_links_of(LinksOf::Nobody);
                    siblings.look_now();
                }
                *lock(&siblings.followed) = Some(stored.map_err(|error| error.to_string())?);
                Ok(())
            }
        }
    }

    /// Does what is advised about the seat.
    pub(super) fn follow_seat(&self, siblings: &Siblings, advice: SeatAdvice) {
        let own = siblings.own();
        if let Some(seen) = advice.take {
            match self.take_seat(siblings, seen) {
                Ok(true) => tracing::info!("this node speaks for the site"),
                Ok(false) => {}
                Err(why) => tracing::warn!("this node cannot speak for the site yet: {why}"),
            }
            return;
        }
        if advice.release || advice.doubtful {
            let mut seat = lock(&siblings.seat);
            let is_lost = advice.doubtful && matches!(seat.0.confirm(SEAT), Err(StorageError::Fenced(_)));
            if advice.release || is_lost {
                self.fall_silent(siblings, &advice);
                // Whoever is next finds out by itself, if this is not heard.
                let _ = seat.0.release(SEAT);
            }
            return;
        }
        if advice.speaker != Some(own) {
            self.board.set_links_of(siblings.links_of(advice.speaker));
        }
    }

    fn fall_silent(&self, siblings: &Siblings, advice: &SeatAdvice) {
        tracing::info!("another node speaks for the site");
        self.board.set_links_of(siblings.links_of(advice.speaker.filter(|node| *node != siblings.own())));
    }

    /// What the node that speaks has agreed with other sites holds here, too. The error is that it is not known.
    pub(super) fn follow_agreed(&self, siblings: &Siblings, agreed: Option<&Record>) -> Result<(), String> {
        let Record { position, bytes } = match agreed {
            Some(agreed) => agreed,
            // It has stored something since then.
            None if self.speaks() => return Ok(()),
            None => return Err("nobody has spoken for this site yet".to_owned()),
        };
        let mut state = self.council.lock();
        let mut followed = lock(&siblings.followed);
        if self.speaks() {
            let is_own = Some(*position) <= *followed;
            return is_own.then_some(()).ok_or_else(|| "another node speaks for this site by now".to_owned());
        }
        if *followed != Some(*position) {
            let council = Council::decode(bytes).map_err(|bad| bad.to_string())?;
            self.follow_council(&mut state, council);
            *followed = Some(*position);
        }
        drop((state, followed));
        self.stop_if_removed();
        Ok(())
    }

    /// Takes the seat, and goes on with what the council has stored last.
    fn take_seat(&self, siblings: &Siblings, seen: Option<Fenced>) -> Result<bool, String> {
        // In the order in which steps take them.
        let mut state = self.council.lock();
        let mut seat = lock(&siblings.seat);
        let Some(taken) = seat.0.take_seen(SEAT, seen).map_err(|error| error.to_string())? else {
            return Ok(false);
        };
        let stored = seat.last(taken.checkpoint).map_err(|error| error.to_string())?;
        let council = match &stored {
            Some(bytes) => Council::decode(bytes).map_err(|bad| bad.to_string())?,
            None => state.council.clone(),
        };
        // Each speaker stores it anew: so its run has a number that no other has.
        let position = seat.store(council.encode()).map_err(|error| error.to_string())?;
        drop(seat);
        *lock(&siblings.followed) = Some(position);
        let leaves = self.folder.is_leaving().map_err(|error| error.to_string())?;
        self.council.leaving.set_wanted(leaves);
        self.follow_council(&mut state, council);
        // What links another node had is of no use any more.
        self.open_instead(&mut state, BTreeMap::new());
        self.board.set_run(Run { number: position.0, nonce: random() });
        drop(state);
        self.board.set_links_of(LinksOf::This);
        self.stop_if_removed();
        Ok(true)
    }
}
