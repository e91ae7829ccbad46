//! The books of a shard.

use quipu_crdt::Pn;

use minicbor::{Decode, Encode};

use super::{Shard, tally};
use crate::{SiteId, Unfinished, handoff::HandoffStats};

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
            open: origin.open.len() as u64,
        });
        ShardAudit {
            shard,
            issued: books.issued,
            set: books.set,
            cancelled: books.cancelled,
            sites: sites.collect(),
        }
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
        sum.commands += self.keys_of_waiting().len() as u64;
        sum.operations += own.open.len() as u64;
        for (site, peer) in &self.links.peers {
            let missing = own.position.saturating_sub(peer.received(self.settings.site));
            *sum.behind.entry(*site).or_default() += missing;
        }
        let HandoffStats { slots, cached, notices, .. } = self.desk.stats();
        sum.kept += cached + notices;
        sum.slots += slots;
    }

    /// Has this site, which joins, everything that the others had when they listed it?
    pub(crate) fn is_caught_up(&self) -> bool {
        self.links.is_caught_up()
    }
}
