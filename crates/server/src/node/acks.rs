//! What other sites have of what clients have written: for `WAIT`.
//!
//! A connection remembers in which shards it has written ([`Writes`]). The worker of a shard says up to which of its changes
//! that was, and tells whenever more sites have them ([`Asked`]); `wait.rs` puts together what the workers say.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use quipu_engine::{Host, SiteId};
use quipu_storage::{Log, ShardId, Table};
use tokio::sync::mpsc;

/// A busy worker looks this often at most whether sites have got on.
pub(super) const LOOK_EVERY: Duration = Duration::from_millis(1);

/// Something written in a shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Written {
    pub(super) shard: ShardId,
    /// It is among the changes of the shard up to this one, once that has been asked.
    pub(super) position: Option<u64>,
}

/// Where a connection has written, in the order of the shards.
#[derive(Debug, Default)]
pub(super) struct Writes(Vec<Written>);

impl Writes {
    /// Something is written in this shard.
    pub(super) fn note(&mut self, shard: ShardId) {
        match self.0.binary_search_by_key(&shard, |written| written.shard) {
            Ok(at) => self.0[at].position = None,
            Err(at) => self.0.insert(at, Written { shard, position: None }),
        }
    }

    /// It has been asked how far that was. Nothing was written meanwhile. So whoever asks again and again asks for the same.
    pub(super) fn learn(&mut self, written: &[Written]) {
        for learned in written {
            if let Ok(at) = self.0.binary_search_by_key(&learned.shard, |written| written.shard) {
                self.0[at] = *learned;
            }
        }
    }

    pub(super) fn all(&self) -> Vec<Written> {
        self.0.clone()
    }
}

/// A question to the worker of some shards.
#[derive(Debug)]
pub(super) struct AskAcks {
    pub(super) written: Vec<Written>,
    /// Gets an answer at once, and another one whenever it changes, until the other end is dropped.
    pub(super) answers: mpsc::UnboundedSender<Acks>,
}

/// What other sites have of what was written in some shards of one worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Acks {
    /// The same as was asked for, with all positions.
    pub(super) written: Vec<Written>,
    /// The other sites that have all of it.
    pub(super) sites: BTreeSet<SiteId>,
}

/// Who knows what other sites have.
pub(super) trait Acknowledged {
    /// The last change of a shard.
    fn position(&self, shard: ShardId) -> Option<u64>;
    /// Which other sites have a shard's changes up to this one.
    fn acknowledged_by(&self, shard: ShardId, position: u64) -> BTreeSet<SiteId>;
}

impl<L: Log, T: Table> Acknowledged for Host<L, T> {
    fn position(&self, shard: ShardId) -> Option<u64> {
        Host::position(self, shard)
    }

    fn acknowledged_by(&self, shard: ShardId, position: u64) -> BTreeSet<SiteId> {
        Host::acknowledged_by(self, shard, position)
    }
}

/// The questions that a worker has not finished with.
#[derive(Debug, Default)]
pub(super) struct Asked {
    asked: Vec<(AskAcks, Option<Acks>)>,
    looked: Option<Instant>,
    /// It was too early to look.
    is_late: bool,
}

impl Asked {
    pub(super) fn push(&mut self, mut ask: AskAcks, host: &impl Acknowledged) {
        for written in &mut ask.written {
            written.position = written.position.or_else(|| host.position(written.shard));
        }
        self.asked.push((ask, None));
        self.looked = None;
    }

    /// Is there something to look at a moment later?
    pub(super) fn is_late(&self) -> bool {
        self.is_late
    }

    /// Tells those who ask what has changed. Everything that has come is committed.
    pub(super) fn look(&mut self, host: &impl Acknowledged, now: Instant) {
        self.is_late = false;
        if self.asked.is_empty() {
            return;
        }
        if self.looked.is_some_and(|looked| now.duration_since(looked) < LOOK_EVERY) {
            self.is_late = true;
            return;
        }
        self.looked = Some(now);
        self.asked.retain_mut(|(ask, told)| {
            let acks = count(&ask.written, host);
            if told.as_ref() == Some(&acks) {
                return !ask.answers.is_closed();
            }
            *told = Some(acks.clone());
            ask.answers.send(acks).is_ok()
        });
    }
}

fn count(written: &[Written], host: &impl Acknowledged) -> Acks {
    let having = |written: &Written| match written.position {
        Some(position) => host.acknowledged_by(written.shard, position),
        None => BTreeSet::new(),
    };
    let sites = written.iter().map(having).reduce(|all, these| &all & &these).unwrap_or_default();
    Acks { written: written.to_vec(), sites }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    /// What each of two other sites has of each shard; all shards are at 10.
    struct Fake(BTreeMap<ShardId, [u64; 2]>);

    impl Acknowledged for Fake {
        fn position(&self, shard: ShardId) -> Option<u64> {
            self.0.contains_key(&shard).then_some(10)
        }

        fn acknowledged_by(&self, shard: ShardId, position: u64) -> BTreeSet<SiteId> {
            let Some(sites) = self.0.get(&shard) else { return BTreeSet::new() };
            let having = sites.iter().zip([2, 3]).filter(|(has, _)| **has >= position);
            having.map(|(_, number)| SiteId { number, incarnation: 0 }).collect()
        }
    }

    fn written(shard: u16, position: Option<u64>) -> Written {
        Written { shard: ShardId(shard), position }
    }

    #[test]
    fn a_shard_that_is_written_again_is_asked_again() {
        let mut writes = Writes::default();
        for shard in [7, 3, 7] {
            writes.note(ShardId(shard));
        }
        assert_eq!(writes.all(), [written(3, None), written(7, None)]);
        writes.learn(&[written(3, Some(10)), written(7, Some(20)), written(9, Some(1))]);
        assert_eq!(writes.all(), [written(3, Some(10)), written(7, Some(20))]);
        writes.note(ShardId(3));
        assert_eq!(writes.all(), [written(3, None), written(7, Some(20))]);
    }

    #[test]
    fn whoever_asks_is_told_of_changes_and_of_nothing_else() {
        let mut host = Fake(BTreeMap::from([(ShardId(1), [10, 9]), (ShardId(2), [4, 10])]));
        let (answers, mut told) = mpsc::unbounded_channel();
        let (mut asked, start) = (Asked::default(), Instant::now());
        asked.push(AskAcks { written: vec![written(1, None), written(2, Some(5))], answers }, &host);
        asked.look(&host, start);
        // Each lacks something, in another shard.
        let first = Acks { written: vec![written(1, Some(10)), written(2, Some(5))], sites: BTreeSet::new() };
        assert_eq!(told.try_recv(), Ok(first.clone()));
        asked.look(&host, start + LOOK_EVERY);
        assert!(told.try_recv().is_err(), "nothing has changed");
        host.0.insert(ShardId(2), [5, 10]);
        asked.look(&host, start + LOOK_EVERY);
        assert!(told.try_recv().is_err() && asked.is_late(), "too early");
        asked.look(&host, start + 2 * LOOK_EVERY);
        assert!(!asked.is_late());
        let second = SiteId { number: 2, incarnation: 0 };
        assert_eq!(told.try_recv(), Ok(Acks { sites: [second].into(), ..first }));
        drop(told);
        asked.look(&host, start + 3 * LOOK_EVERY);
        assert!(asked.asked.is_empty(), "nobody asks any more");
    }

    #[test]
    fn a_shard_that_is_not_open_has_reached_nobody() {
        let host = Fake(BTreeMap::from([(ShardId(1), [10, 10])]));
        let acks = count(&[written(1, Some(10)), written(2, None)], &host);
        assert_eq!(acks.sites, BTreeSet::new());
    }
}
