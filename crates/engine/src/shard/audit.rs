//! The books of a shard.

use std::collections::{BTreeMap, BTreeSet};

use minicbor::{Decode, Encode};
use quipu_crdt::{
    Bounded, Pn,
    bounded::{Fate, Witness},
};

use super::{Shard, tally};
use crate::{
    Membership, Moment, Rule, SiteId, Unfinished, WaitsFor,
    counter::Counter,
    counters::Index,
    entry::{Entry, What},
    handoff::HandoffStats,
    operations::OperationHash,
};

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
    /// Operations of which rows have witnessed here, at some time, that they were not counted exactly once.
    #[n(5)]
    pub suspicious: Option<Vec<Suspicious>>,
    /// How many there are besides those that are named.
    #[n(6)]
    pub suspicious_further: Option<u64>,
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

/// What the rows of a counter tell of operations that were not counted exactly once. While operations are not settled,
/// those that two sites have counted are found too. An id that is used again after the window is none.
fn suspicions(bounded: &Bounded<SiteId>, window_s: u64) -> Vec<(u64, Suspicion)> {
    let mut found = Vec::new();
    let mut counts: BTreeMap<u64, Vec<(SiteId, u64)>> = BTreeMap::new();
    let mut taken_back: BTreeMap<u64, usize> = BTreeMap::new();
    for (site, row) in bounded.rows() {
        for Witness { id, at_s, fate } in row.witnesses.iter().flatten() {
            match fate {
                Fate::Counts => counts.entry(*id).or_default().push((*site, *at_s)),
                Fate::TakenBack => *taken_back.entry(*id).or_default() += 1,
                Fate::Lost => found.push((*id, Suspicion::Lost(*site))),
            }
        }
    }
    for (id, mut counts) in counts {
        let newest_s = counts.iter().map(|(_, at_s)| *at_s).max().unwrap_or(0);
        counts.retain(|(_, at_s)| newest_s - at_s < window_s);
        let expected = 1 + taken_back.get(&id).copied().unwrap_or(0);
        if counts.len() > expected {
            found.push((id, Suspicion::Twice(counts.into_iter().map(|(site, _)| site).collect())));
        }
    }
    found
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
            let lost = Suspicion::Lost(self.settings.site);
            self.findings.note(key, hash.half(), lost, self.summary.time_ms);
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

    /// What the rows of the counters witness that the batch has changed goes with it.
    pub(super) fn note_suspects(&mut self) {
        for at in 0..self.touched.len() {
            self.note_suspect(self.touched[at]);
        }
        self.summary.findings = self.findings.stored();
    }

    /// A counter has changed, or has been read: do its rows witness that something is wrong?
    pub(super) fn note_suspect(&mut self, index: Index) {
        let Membership { members, joining, .. } = &self.links.membership;
        let own = self.settings.site;
        if self.incarnation.is_some() || !members.contains(&own) || joining.contains(&own) {
            // What it has is of different times, and the others have their own findings.
            return;
        }
        let entry = self.counters.get(index);
        let Some(Counter::Bounded(bounded)) = &entry.counter else { return };
        if !self.settings.rules.keep(Rule::FindingsStay) {
            self.findings.forget(&entry.key);
        }
        for (id, mut suspicion) in suspicions(bounded, self.settings.window.length_ms() / 1_000) {
            if let Suspicion::Twice(sites) = &mut suspicion {
                sites.retain(|site| !self.is_taken_back(&entry.key, id, *site));
                if sites.len() < 2 {
                    continue;
                }
            }
            self.findings.note(&entry.key, id, suspicion, self.summary.time_ms);
        }
    }

    /// Has an entry arrived by which a site's count of an operation is taken back? Its row may come later.
    fn is_taken_back(&self, key: &[u8], id: u64, of: SiteId) -> bool {
        let mut entries = self.links.origins.values().flat_map(|origin| origin.entries_of(key, 0));
        entries
            .any(|entry| entry.hash.half() == id && matches!(&entry.what, What::Cancelled(it) if it.of == of))
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
        let (suspicious, suspicious_further) = self.findings.told();
        ShardAudit {
            shard,
            issued: books.issued,
            set: books.set,
            cancelled: books.cancelled,
            sites: sites.collect(),
            suspicious,
            suspicious_further,
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
