//! What a shard knows of the same shard at other sites: their streams, and how far everybody has got.
//!
//! [`Message`] tells the protocol. Here is only the bookkeeping; rows and operations are the shard's.

mod message;
mod origin;
mod peer;
mod runs;
mod written;

pub use self::message::{BadMessage, EXCHANGE_BYTES_MAX, MESSAGE_BYTES_MAX, Message};
pub(crate) use self::{
    message::{
        AheadRow, Ask, Carried, CarriedEntry, Hearsay, KeyRow, Leaning, MoveAsk, Part, Received, StreamRuns,
        Sweep, Swept, WireRow,
    },
    origin::{Changed, Origin},
    peer::Peer,
    runs::Runs,
    written::{PartAround, Rows, SharedPart},
};

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use foldhash::fast::FixedState;
use hashbrown::HashMap;

use crate::{
    Membership, SiteId,
    entry::{Count, Entry, What},
    operations::OperationHash,
    record::{Stream, Undone},
};

/// What a site that joins waits for, in a shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum WaitsFor {
    /// A message of a member that lists this site and those that were removed.
    Word {
        /// The member.
        of: SiteId,
    },
    /// Changes of a member.
    Changes {
        /// The member.
        of: SiteId,
    },
    /// Changes of a removed site, from a member that has them.
    Removed {
        /// The removed site.
        of: SiteId,
        /// The member.
        at: SiteId,
    },
    /// The same, and this site has taken in what another copy of the removed site has written. They do not come.
    Branch {
        /// The removed site.
        of: SiteId,
        /// The member.
        at: SiteId,
    },
}

impl fmt::Display for WaitsFor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Word { of } => write!(f, "site {of} has not told how far it is"),
            Self::Changes { of } => write!(f, "changes of site {of} are on their way"),
            Self::Removed { of, at } => write!(f, "changes of site {of} that site {at} has are on their way"),
            Self::Branch { of, at } => write!(
                f,
                "site {at} has changes of site {of} that do not go on from those that are known here: two copies of the folder \
                 of site {of} have run"
            ),
        }
    }
}

/// The streams of all sites, and the peers.
#[derive(Debug)]
pub(crate) struct Links {
    pub(crate) site: SiteId,
    pub(crate) membership: Membership,
    /// The own one too.
    pub(crate) origins: BTreeMap<SiteId, Origin>,
    pub(crate) peers: BTreeMap<SiteId, Peer>,
    /// How far this site has got with all rows of a stream that it is being sent, and who has begun with that.
    pub(crate) sweeping: BTreeMap<SiteId, (SiteId, Swept)>,
    /// Third sites, and the peers that know another branch of their streams than this site, as far as this process has heard.
    pub(crate) differing: BTreeSet<(SiteId, SiteId)>,
    /// The membership that this site speaks under: the present one, or, while it has yet to tell rows of removed sites, an
    /// earlier one.
    pub(crate) told_epoch: u64,
    /// How long the own stream was, at most, when all of these were in it.
    told_at: u64,
    /// Where the entries of an operation are that are not settled.
    index: HashMap<OperationHash, Vec<(SiteId, u64)>, FixedState>,
    /// There may be something to send.
    pub(crate) restless: bool,
    /// And there will be then.
    pub(crate) wake_ms: Option<u64>,
}

impl Links {
    /// `changes` is the number of the last change, `streams` what was stored.
    pub(crate) fn new(
        site: SiteId,
        membership: &Membership,
        changes: u64,
        streams: Option<&[Stream]>,
        seed: u64,
    ) -> Self {
        let mut links = Self {
            site,
            membership: membership.clone(),
            origins: BTreeMap::from([(site, Origin::at(changes))]),
            peers: BTreeMap::new(),
            sweeping: BTreeMap::new(),
            differing: BTreeSet::new(),
            told_epoch: 0,
            told_at: 0,
            index: HashMap::with_hasher(FixedState::with_seed(seed)),
            restless: true,
            wake_ms: None,
        };
        for Stream { site, position, settled, counted, runs, is_told, copied } in streams.unwrap_or_default()
        {
            let mut origin = Origin::at(*position);
            origin.runs = runs.clone().unwrap_or_default();
            origin.is_told = *is_told == Some(true);
            origin.copied = *copied;
            // Somebody may not have heard that some of it is settled.
            (origin.settled, origin.last_settled, origin.counted) = (*settled, *settled, *counted);
            links.origins.insert(*site, origin);
        }
        links.follow(membership.clone());
        links
    }

    /// From now on these belong to the cluster.
    pub(crate) fn follow(&mut self, membership: Membership) {
        let others = || membership.members.iter().filter(|site| **site != self.site);
        self.peers.retain(|site, _| membership.members.contains(site));
        self.differing.retain(|(_, peer)| membership.members.contains(peer));
        for peer in others() {
            self.peers.entry(*peer).or_default();
            self.origins.entry(*peer).or_default();
        }
        for removed in membership.removed.keys() {
            self.origins.entry(*removed).or_default();
        }
        if self.membership.epoch < membership.epoch {
            for peer in self.peers.values_mut() {
                peer.listed_at = None;
                // An heir waits until everybody has said something under the present list.
                peer.owed |= peer.connected;
            }
        }
        self.membership = membership;
        self.restless = true;
    }

    /// The removed sites whose rows here that are ahead of their streams are not in the own one yet.
    pub(crate) fn untold(&self) -> impl Iterator<Item = SiteId> {
        let is_told = |site: &SiteId| self.origins.get(site).is_some_and(|origin| origin.is_told);
        self.membership.removed.keys().copied().filter(move |site| !is_told(site))
    }

    /// Speaks under the present membership, if nothing has to be told before.
    pub(crate) fn speak_up(&mut self) {
        if self.untold().next().is_none() && self.told_epoch < self.membership.epoch {
            (self.told_epoch, self.told_at) = (self.membership.epoch, self.own().position);
            self.peers.values_mut().for_each(|peer| peer.owed |= peer.connected);
            self.restless = true;
        }
    }

    /// Where the streams of removed sites end here.
    pub(crate) fn removed_ends(&self) -> BTreeMap<SiteId, u64> {
        let end = |site: &SiteId| self.origins.get(site).map_or(0, |origin| origin.position);
        self.membership.removed.keys().map(|site| (*site, end(site))).collect()
    }

    pub(crate) fn is_alone(&self) -> bool {
        self.membership.is_alone()
    }

    /// Can no other site know of what is here? A copy that goes on is alone until the others list it, and has their streams.
    pub(crate) fn knows_nobody(&self) -> bool {
        self.is_alone() && self.origins.len() <= 1
    }

    pub(crate) fn own(&self) -> &Origin {
        &self.origins[&self.site]
    }

    pub(crate) fn own_mut(&mut self) -> &mut Origin {
        self.origins.entry(self.site).or_default()
    }

    /// What was stored of the streams.
    pub(crate) fn streams(&self) -> Option<Vec<Stream>> {
        let stream = |(site, origin): (&SiteId, &Origin)| Stream {
            site: *site,
            position: origin.position,
            settled: origin.settled,
            counted: origin.counted,
            runs: (!origin.runs.is_empty()).then(|| origin.runs.clone()),
            is_told: origin.is_told.then_some(true),
            copied: origin.copied,
        };
        (!self.knows_nobody()).then(|| self.origins.iter().map(stream).collect())
    }

    /// An entry is known now. One that takes the same count back as an earlier one of the same site replaces it.
    pub(crate) fn insert(&mut self, site: SiteId, entry: Entry) {
        let known = self.entries(entry.hash).find_map(|(other, known)| match (&known.what, &entry.what) {
            _ if other != site => None,
            (What::Cancelled(known_one), What::Cancelled(it)) if known_one.of == it.of => Some(known.number),
            (What::Counted(_), What::Counted(_)) => Some(known.number),
            _ => None,
        });
        let is_here = self.origins.get(&site).is_some_and(|it| it.open.contains_key(&entry.number));
        if known == Some(entry.number) || is_here {
            return;
        }
        match &entry.what {
            What::Counted(count) => {
                let is_cancelled = self.is_cancelled(entry.hash, site);
                if !is_cancelled && known.is_none() {
                    self.origins.entry(site).or_default().add_provisional(&entry.key, count.applied);
                }
            }
            What::Cancelled(cancellation) if !self.is_cancelled(entry.hash, cancellation.of) => {
                let of = cancellation.of;
                if let Some(applied) = self.count_of(entry.hash, of).map(|count| count.applied) {
                    self.origins.entry(of).or_default().remove_provisional(&entry.key, applied);
                }
            }
            What::Cancelled(_) | What::Taken(_) => {}
        }
        if let Some(number) = known {
            self.unlist(site, number, entry.hash);
            self.origins.entry(site).or_default().remove(number);
        }
        self.index.entry(entry.hash).or_default().push((site, entry.number));
        self.origins.entry(site).or_default().insert(entry);
    }

    /// An entry is settled, or taken over elsewhere.
    pub(crate) fn remove(&mut self, site: SiteId, number: u64) -> Option<Entry> {
        let (hash, counted) = {
            let entry = self.origins.get(&site)?.open.get(&number)?;
            (entry.hash, entry.count().map(|count| (entry.key.clone(), count.applied)))
        };
        let is_cancelled = self.is_cancelled(hash, site);
        self.unlist(site, number, hash);
        let origin = self.origins.get_mut(&site)?;
        if let Some((key, applied)) = counted.filter(|_| !is_cancelled) {
            origin.remove_provisional(&key, applied);
        }
        origin.last_settled = origin.last_settled.max(number);
        origin.remove(number)
    }

    /// An entry is settled. Returns whether the table has it, too: the next checkpoint lists it as settled.
    pub(crate) fn retire(&mut self, site: SiteId, number: u64) -> Option<(Entry, bool)> {
        let entry = self.remove(site, number)?;
        let origin = self.origins.get_mut(&site)?;
        let is_in_table = origin.stored.remove(&number);
        origin.gone.extend(is_in_table.then_some(number));
        Some((entry, is_in_table))
    }

    /// Forgets entries that were undone. Returns which of them the table may have.
    pub(crate) fn undo(&mut self, undone: Undone) -> Vec<u64> {
        let Undone { site, position } = undone;
        let Some(origin) = self.origins.get(&site) else { return Vec::new() };
        let last_settled = origin.last_settled;
        let numbers: Vec<u64> = origin.open.range(position + 1..).map(|(number, _)| *number).collect();
        numbers.iter().for_each(|number| drop(self.remove(site, *number)));
        let Some(origin) = self.origins.get_mut(&site) else { return Vec::new() };
        // They are not settled.
        origin.last_settled = last_settled;
        numbers.into_iter().filter(|number| origin.stored.remove(number)).collect()
    }

    /// Does a lower site than this one keep its count of an operation, as far as is known here?
    pub(crate) fn is_kept_below(&self, hash: OperationHash, site: SiteId) -> bool {
        self.entries(hash)
            .any(|(other, entry)| other < site && entry.count().is_some() && !self.is_cancelled(hash, other))
    }

    fn unlist(&mut self, site: SiteId, number: u64, hash: OperationHash) {
        if let Some(places) = self.index.get_mut(&hash) {
            places.retain(|place| *place != (site, number));
            if places.is_empty() {
                self.index.remove(&hash);
            }
        }
    }

    /// The entries of an operation that are not settled.
    pub(crate) fn entries(&self, hash: OperationHash) -> impl Iterator<Item = (SiteId, &Entry)> {
        let places = self.index.get(&hash).into_iter().flatten();
        places.filter_map(|(site, number)| Some((*site, self.origins.get(site)?.open.get(number)?)))
    }

    /// Who has counted an operation, as far as that is not settled; the lowest first.
    pub(crate) fn counts(&self, hash: OperationHash) -> Vec<(SiteId, Count)> {
        let counts = self.entries(hash).filter_map(|(site, entry)| Some((site, *entry.count()?)));
        let mut counts: Vec<_> = counts.collect();
        counts.sort_unstable_by_key(|(site, _)| *site);
        counts
    }

    pub(crate) fn count_of(&self, hash: OperationHash, site: SiteId) -> Option<Count> {
        self.entries(hash).find_map(|(other, entry)| entry.count().filter(|_| other == site).copied())
    }

    /// Was this site's count taken back?
    pub(crate) fn is_cancelled(&self, hash: OperationHash, site: SiteId) -> bool {
        self.cancellation(hash, site).is_some()
    }

    /// Who has taken this site's count back, and the number of that entry.
    pub(crate) fn cancellation(&self, hash: OperationHash, of: SiteId) -> Option<(SiteId, u64)> {
        self.entries(hash).find_map(|(site, entry)| match &entry.what {
            What::Cancelled(cancellation) if cancellation.of == of => Some((site, entry.number)),
            _ => None,
        })
    }

    /// The lowest site for whose sake a count of an operation was taken back, as far as that is not settled.
    pub(crate) fn kept_by(&self, hash: OperationHash) -> Option<SiteId> {
        let cancellations = self.entries(hash).filter_map(|(_, entry)| match &entry.what {
            What::Cancelled(cancellation) => Some(cancellation.kept_by),
            What::Counted(_) | What::Taken(_) => None,
        });
        cancellations.min()
    }

    /// The number, here, of the oldest change that has to be in memory.
    pub(crate) fn oldest_here(&self) -> u64 {
        self.origins.values().filter_map(Origin::oldest_here).min().unwrap_or(u64::MAX)
    }

    /// Has the table entries that are settled?
    pub(crate) fn is_stored_in_vain(&self) -> bool {
        self.origins.values().any(|origin| !origin.gone.is_empty() || !origin.deletable.is_empty())
    }

    /// Everybody's position in a stream is told here; what all have is forgotten.
    pub(crate) fn trim(&mut self) {
        for (site, origin) in &mut self.origins {
            let others = self.peers.iter().filter(|(peer, _)| *peer != site);
            let position = others.map(|(_, peer)| peer.received(*site)).min();
            let position = position.unwrap_or(origin.position);
            origin.trim(position);
            origin.runs.trim(position);
        }
    }

    /// Does this site answer for what another one has left open? Once all that stay have the same of it.
    pub(crate) fn answers_for(&self, site: SiteId) -> bool {
        // What an heir that was removed, too, had of it is part of that one's row.
        let mut at = site;
        while let Some(heir) = self.membership.removed.get(&at).filter(|_| at != self.site) {
            if !self.is_closed(at) {
                return false;
            }
            at = *heir;
        }
        at == self.site
    }

    /// Is all that anybody knows of a removed site here? Only what is said under the present membership counts: who has
    /// said that takes nothing from the removed one any more.
    pub(crate) fn is_closed(&self, removed: SiteId) -> bool {
        let here = self.origins.get(&removed).map_or(0, |origin| origin.position);
        let is_here = |(site, peer): (&SiteId, &Peer)| {
            peer.epoch >= self.membership.epoch
                && peer.received(removed) <= here
                && self.has_listed(*site, peer)
        };
        self.membership.removed.contains_key(&removed) && self.peers.iter().all(is_here)
    }

    /// Has all come here that a peer had written when it first spoke under the present membership?
    fn has_listed(&self, site: SiteId, peer: &Peer) -> bool {
        peer.listed_at
            .is_some_and(|position| self.origins.get(&site).is_some_and(|it| it.position >= position))
    }

    /// Has everybody the rows that others have told because they are ahead of the streams of removed sites?
    fn all_have_been_told(&self) -> bool {
        let has_all_of = |peer: &Peer, teller: &SiteId, at: Option<u64>| {
            at.is_some_and(|position| peer.received(*teller) >= position)
        };
        self.told_epoch >= self.membership.epoch
            && self.peers.iter().all(|(site, peer)| {
                let others = self.peers.iter().filter(|(teller, _)| *teller != site);
                let mut tellers = others.map(|(teller, it)| (teller, it.listed_at));
                has_all_of(peer, &self.site, Some(self.told_at))
                    && tellers.all(|(teller, at)| has_all_of(peer, teller, at))
            })
    }

    /// Is all that anybody knows of any removed site here?
    pub(crate) fn all_removed_are_closed(&self) -> bool {
        self.membership.removed.keys().all(|gone| self.is_closed(*gone))
    }

    /// Has everybody all that is known of the removed sites? Then entries of theirs that come are old ones.
    pub(crate) fn all_have_removed(&self) -> bool {
        self.all_removed_are_closed()
            && self.all_have_been_told()
            && self.membership.removed.keys().all(|gone| self.all_have(*gone))
    }

    /// Has everybody all that is known here of a removed site, and has all come here that they wrote until they had it?
    pub(crate) fn all_have(&self, removed: SiteId) -> bool {
        let arrived = |site: &SiteId| self.origins.get(site).map_or(0, |origin| origin.position);
        let position = arrived(&removed);
        self.peers
            .iter()
            .all(|(site, peer)| peer.received(removed) >= position && peer.is_heard_out(arrived(site)))
    }

    /// Has everybody this entry of another site, which is here?
    pub(crate) fn all_have_entry(&self, site: SiteId, number: u64) -> bool {
        let here = self.origins.get(&site).map_or(0, |origin| origin.position);
        if number > here && self.membership.removed.contains_key(&site) {
            // It came ahead of its stream, which brings it to nobody any more.
            return self.all_have_removed();
        }
        self.peers.iter().all(|(peer, it)| *peer == site || it.received(site) >= number)
    }

    /// Must somebody say something under the present membership before this site, or one that joins and hears of others
    /// through this one, can go on? What was said may have been lost.
    pub(crate) fn waits_for_word(&self) -> bool {
        let Membership { epoch, joining, removed, .. } = &self.membership;
        let is_silent = |peer: &Peer| peer.epoch < *epoch || peer.listed_at.is_none();
        let is_open = |site: &SiteId| self.origins.get(site).is_some_and(|origin| !origin.open.is_empty());
        !(joining.is_empty() && removed.is_empty())
            && (self.peers.values().any(is_silent)
                // Who has been told what, everybody says of itself.
                || removed.keys().any(is_open) && !self.all_have_been_told())
    }

    /// What this site, which joins, lacks of what the others had when they listed it, of those who are gone too.
    pub(crate) fn waits_for(&self) -> BTreeSet<WaitsFor> {
        let Membership { epoch, removed, .. } = &self.membership;
        let mut waits = BTreeSet::new();
        for (at, peer) in &self.peers {
            if peer.listed_at.is_none() || (peer.epoch < *epoch && !removed.is_empty()) {
                waits.insert(WaitsFor::Word { of: *at });
            } else if !self.has_listed(*at, peer) {
                waits.insert(WaitsFor::Changes { of: *at });
            }
            let here = |site: &SiteId| self.origins.get(site).map_or(0, |origin| origin.position);
            waits.extend(removed.keys().filter(|of| peer.received(**of) > here(of)).map(|of| {
                match self.differing.contains(&(*of, *at)) {
                    true => WaitsFor::Branch { of: *of, at: *at },
                    false => WaitsFor::Removed { of: *of, at: *at },
                }
            }));
        }
        waits
    }
}
