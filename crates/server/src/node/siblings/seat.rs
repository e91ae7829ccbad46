//! The seat of the node that speaks for the site: to other sites, and in the council. It is fenced like a shard, and its log
//! holds what the council has stored: so a node that has lost the seat without knowing cannot take a step.

use std::collections::BTreeMap;

use quipu_engine::{
    Council,
    nodes::{NotStored, SeatAdvice},
};
use quipu_storage::{Fenced, Record, ShardId};

use super::{Siblings, lock};
use crate::{
    links::{LinksOf, Run},
    node::Shared,
    random::random,
};

/// Stands in the place of a shard.
pub(in crate::node) const SEAT: ShardId = ShardId(u16::MAX);

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
                stored.map(drop).map_err(|error| error.to_string())
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
            let is_lost = advice.doubtful && seat.is_lost();
            if advice.release || is_lost {
                self.fall_silent(siblings, &advice);
                seat.release();
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
        let mut state = self.council.lock();
        let mut seat = lock(&siblings.seat);
        let news = seat.news(self.speaks(), agreed).map_err(|why| why.to_string())?;
        if let Some(agreed) = news {
            let council = Council::decode(&agreed.bytes).map_err(|bad| bad.to_string())?;
            self.follow_council(&mut state, council);
            seat.follow(agreed);
        }
        Ok(())
    }

    /// Takes the seat, and goes on with what the council has stored last.
    fn take_seat(&self, siblings: &Siblings, seen: Option<Fenced>) -> Result<bool, String> {
        // In the order in which steps take them.
        let mut state = self.council.lock();
        let mut seat = lock(&siblings.seat);
        let Some(stored) = seat.take(seen).map_err(|error| error.to_string())? else { return Ok(false) };
        let council = match &stored {
            Some(record) => Council::decode(&record.bytes).map_err(|bad| bad.to_string())?,
            None => state.council.clone(),
        };
        let leaves = self.folder.is_leaving().map_err(|error| error.to_string())?;
        // Each speaker stores it anew: so its run has a number that no other has.
        let position = seat.store(council.encode()).map_err(|error| error.to_string())?;
        drop(seat);
        self.council.leaving.set_wanted(leaves);
        self.follow_council(&mut state, council);
        // What links another node had is of no use any more.
        self.open_instead(&mut state, BTreeMap::new());
        self.board.set_run(Run { number: position.0, nonce: random() });
        drop(state);
        self.board.set_links_of(LinksOf::This);
        Ok(true)
    }
}
