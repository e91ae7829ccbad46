//! The books of a shard.

use std::collections::{BTreeMap, BTreeSet};

use minicbor::{Decode, Encode};
use quipu_crdt::{
    Bounded, Pn,
    bounded::{Fate, Witness},
};

use super::{Shard, tally};
use crate::{
    Moment, SiteId, Unfinished, WaitsFor,
    counter::Counter,
    counters::Index,
    entry::{Entry, What},
    handoff::HandoffStats,
    operations::OperationHash,
};

/// So many counters of a shard are named.
const SUSPICIOUS_MAX: usize = 100;

/// What was counted at this site and why, and what is known of the others. Totals are modulo 2^64.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct ShardAudit {
    /// The shard.
    #[n(0)]
    pub shard: u16,
    /// What clients were told was counted at this site.
    #[n(1)]
    pub issued: Pn,
    /// What was put in the place of what was set aside.
    #[n(2)]
    pub set: Pn,
    /// What was taken back of retries that two sites have counted.
    #[n(3)]
    pub cancelled: Pn,
    /// This site and the others.
    #[n(4)]
    pub sites: Vec<SiteAudit>,
    /// Counters whose rows, as they are known here, witness that an operation was not counted exactly once.
    #[n(5)]
    pub suspicious: Option<Vec<Suspicious>>,
}

/// A counter on which an operation was not counted exactly once.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Suspicious {
    /// The counter.
    #[cbor(n(0), with = "minicbor::bytes")]
    pub key: Vec<u8>,
    /// What its rows tell.
    #[n(1)]
    pub what: Suspicion,
}

/// What the rows of a counter tell of an operation.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum Suspicion {
    /// It counts in the rows of these sites; one that is named twice counts it twice.
    #[n(0)]
    Twice(#[n(0)] Vec<SiteId>),
    /// This site has counted it and taken it back, and no other counts it.
    #[n(1)]
    Lost(#[n(0)] SiteId),
}

/// What the rows of a counter tell of an operation that was not counted exactly once, if there is one. While operations
/// are not settled, one that two sites have counted is found too. An id that is used again after the window is none.
fn suspicion(bounded: &Bounded<SiteId>, window_s: u64) -> Option<Suspicion> {
    let mut counts: BTreeMap<u64, Vec<(SiteId, u64)>> = BTreeMap::new();
    let mut taken_back: BTreeMap<u64, usize> = BTreeMap::new();
    for (site, row) in bounded.rows() {
        for Witness { id, at_s, fate } in row.witnesses.iter().flatten() {
            match fate {
                Fate::Counts => counts.entry(*id).or_default().push((*site, *at_s)),
                Fate::TakenBack => *taken_back.entry(*id).or_default() += 1,
                Fate::Lost => return Some(Suspicion::Lost(*site)),
            }
        }
    }
    let mut twice = counts.into_iter().filter_map(|(id, mut counts)| {
        let newest_s = counts.iter().map(|(_, at_s)| *at_s).max()?;
        counts.retain(|(_, at_s)| newest_s - at_s < window_s);
        let expected = 1 + taken_back.get(&id).copied().unwrap_or(0);
        (counts.len() > expected).then(|| counts.into_iter().map(|(site, _)| site).collect())
    });
    twice.next().map(Suspicion::Twice)
}

/// What is known of one site.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct SiteAudit {
    /// The site.
    #[n(0)]
    pub site: SiteId,
    /// All that it has counted, as far as is known here.
    #[n(1)]
    pub counted: Pn,
    /// How far its stream has got here.
    #[n(2)]
    pub position: u64,
    /// Its operations up to here are settled.
    #[n(3)]
    pub settled: u64,
    /// How many entries after that are known here.
    #[n(4)]
    pub open: u64,
}

impl Shard {
    /// An operation with an id is part of the own row of a bounded counter now.
    pub(super) fn witness(&mut self, key: &[u8], hash: OperationHash, applied: i64, now: Moment) {
        let Some(index) = self.counters.find(key).filter(|_| applied != 0) else { return };
        let witness = Witness { id: hash.half(), at_s: now.unix_ms / 1_000, fate: Fate::Counts };
        self.change_witnesses(index, |bounded| bounded.witness(witness));
    }

    /// A count of an operation is taken back in the own row: one of this site, or of a removed one whose heir it is.
    /// `is_lost`: in favour of an attempt that has counted nothing.
    pub(super) fn take_back_witness(
        &mut self,
        key: &[u8],
        hash: OperationHash,
        is_heir: bool,
        is_lost: bool,
    ) {
        let Some(index) = self.counters.find(key) else { return };
        if is_lost && !matches!(self.counters.get(index).counter, Some(Counter::Bounded(_))) {
            // Its rows witness nothing.
            self.suspects.insert(key.into(), Suspicion::Lost(self.settings.site));
            return;
        }
        let id = hash.half();
        self.change_witnesses(index, |bounded| match is_heir {
            true => bounded.witness(Witness { id, at_s: 0, fate: Fate::TakenBack }),
            false => bounded.take_back_witness(id, is_lost),
        });
    }

    /// The row has been touched for what is witnessed.
    fn change_witnesses(&mut self, index: Index, change: impl FnOnce(&mut Bounded<SiteId>)) {
        self.counters.change(index, |entry| {
            if let Some(Counter::Bounded(bounded)) = &mut entry.counter {
                change(bounded);
            }
        });
    }

    /// A counter has changed, or has been read: do its rows witness that something is wrong?
    pub(super) fn note_suspect(&mut self, index: Index) {
        let entry = self.counters.get(index);
        let Some(Counter::Bounded(bounded)) = &entry.counter else { return };
        match suspicion(bounded, self.settings.window.length_ms() / 1_000) {
            Some(suspicion) => _ = self.suspects.insert(entry.key.clone(), suspicion),
            None if self.suspects.is_empty() => {}
            None => _ = self.suspects.remove(&entry.key),
        }
    }

    /// What this site has counted in all.
    pub(super) fn counted_here(&self) -> Pn {
        let books = self.summary.books.unwrap_or_default();
        let mut counted = books.issued;
        tally(&mut counted, books.set);
        tally(&mut counted, books.cancelled);
        counted
    }

    pub(crate) fn audit(&self, shard: u16) -> ShardAudit {
        let books = self.summary.books.unwrap_or_default();
        let sites = self.links.origins.iter().map(|(site, origin)| SiteAudit {
            site: *site,
            counted: if *site == self.settings.site { self.counted_here() } else { origin.counted },
            position: origin.position,
            settled: origin.settled,
            open: self.open_of(*site),
        });
        ShardAudit {
            shard,
            issued: books.issued,
            set: books.set,
            cancelled: books.cancelled,
            sites: sites.collect(),
            suspicious: (!self.suspects.is_empty()).then(|| self.suspicious()),
        }
    }

    /// Entries of a site that are not settled. Those of tokens that a removed one has taken in part stay for as long as the rest
    /// may come.
    fn open_of(&self, site: SiteId) -> u64 {
        let Some(origin) = self.links.origins.get(&site) else { return 0 };
        let is_removed = self.links.membership.removed.contains_key(&site);
        let waits = |entry: &&Entry| match &entry.what {
            What::Taken(taken) => !is_removed || self.is_wholly_taken(entry.hash, taken),
            What::Counted(_) | What::Cancelled(_) => true,
        };
        origin.open.values().filter(waits).count() as u64
    }

    /// As many as one needs to find out more.
    fn suspicious(&self) -> Vec<Suspicious> {
        let suspects = self.suspects.iter().take(SUSPICIOUS_MAX);
        suspects.map(|(key, what)| Suspicious { key: key.to_vec(), what: what.clone() }).collect()
    }

    /// The number of the last own change.
    pub(crate) fn position(&self) -> u64 {
        self.links.own().position
    }

    /// How far this site has got with a stream.
    pub(crate) fn received(&self, of: SiteId) -> Option<u64> {
        self.links.origins.get(&of).map(|origin| origin.position)
    }

    /// How many other sites have the own changes up to this one.
    pub(crate) fn acknowledged(&self, position: u64) -> usize {
        self.acknowledged_by(position).count()
    }

    /// Which other sites have the own changes up to this one.
    pub(crate) fn acknowledged_by(&self, position: u64) -> impl Iterator<Item = SiteId> {
        let own = self.settings.site;
        self.links.peers.iter().filter(move |(_, peer)| peer.received(own) >= position).map(|(site, _)| *site)
    }

    pub(crate) fn add_unfinished(&self, sum: &mut Unfinished) {
        let own = self.links.own();
        sum.commands += self.waiting.len() as u64;
        sum.operations += own.open.len() as u64;
        for (site, peer) in &self.links.peers {
            let missing = own.position.saturating_sub(peer.received(self.settings.site));
            *sum.behind.entry(*site).or_default() += missing;
        }
        let HandoffStats { cached, notices, .. } = self.desk.stats();
        sum.kept += cached + notices;
    }

    /// What this site, which joins, lacks of what the others had when they listed it.
    pub(crate) fn waits_for(&self) -> BTreeSet<WaitsFor> {
        self.links.waits_for()
    }

    /// Third sites, and the peers that know another branch of their streams.
    pub(crate) fn differing(&self) -> &BTreeSet<(SiteId, SiteId)> {
        &self.links.differing
    }
}
