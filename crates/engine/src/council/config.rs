//! A list of the sites of a cluster.

use std::collections::{BTreeMap, BTreeSet};

use minicbor::{Decode, Encode};

use super::BadChange;
use crate::SiteId;

/// How many sites a cluster can have at a time.
pub const SITES_MAX: usize = 256;
/// How many sites can have been removed from a cluster in its life.
pub const REMOVED_MAX: usize = 4096;
/// The longest name or address of a site, in bytes.
pub const TEXT_BYTES_MAX: usize = 255;
/// No cluster changes so often.
const EPOCH_MAX: u64 = 1 << 48;

/// Who belongs to the cluster. Each change leads to the next epoch, and there is one list per epoch.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Encode, Decode)]
pub struct Config {
    /// The number of changes, from 1. 0: a newcomer's, who knows of nobody yet.
    #[n(0)]
    pub epoch: u64,
    /// Who belongs to it.
    #[n(1)]
    pub sites: BTreeMap<SiteId, Seat>,
    /// Who once did, and never will again.
    #[n(2)]
    pub removed: BTreeMap<SiteId, Removed>,
}

/// One site's place in the list.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Encode, Decode)]
pub struct Seat {
    /// For people.
    #[n(0)]
    pub name: String,
    /// Where its peers reach it.
    #[n(1)]
    pub address: String,
    /// May it count yet?
    #[n(2)]
    pub standing: Standing,
}

/// How far a site has come. It is asked about changes from the moment it is listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
#[cbor(index_only)]
pub enum Standing {
    /// It gathers what the others have, and takes no writes.
    #[n(0)]
    Joining,
    /// It takes writes.
    #[n(1)]
    Member,
    /// It takes no writes any more, and all others have what it has counted: it may be removed, or stay after all.
    #[n(2)]
    Leaving,
}

impl std::fmt::Display for Standing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Joining => "joining",
            Self::Member => "member",
            Self::Leaving => "leaving",
        })
    }
}

/// What became of a site that was removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Encode, Decode)]
pub struct Removed {
    /// Who took over its rights and its duties. (It may have been removed later itself.)
    #[n(0)]
    pub heir: SiteId,
    /// The first epoch without it.
    #[n(1)]
    pub epoch: u64,
}

impl Seat {
    /// Of a site that counts.
    pub fn member(name: impl Into<String>, address: impl Into<String>) -> Self {
        Self { name: name.into(), address: address.into(), standing: Standing::Member }
    }
}

/// Sites for people to read.
pub(super) fn list<'a>(sites: impl IntoIterator<Item = &'a SiteId>) -> String {
    let sites: Vec<String> = sites.into_iter().map(ToString::to_string).collect();
    format!("{{{}}}", sites.join(", "))
}

impl Config {
    /// The list that a cluster begins with. It is the same at every site, except for names and addresses.
    pub fn first(sites: BTreeMap<SiteId, Seat>) -> Result<Self, BadChange> {
        let config = Self { epoch: 1, sites, removed: BTreeMap::new() };
        config.check()?;
        Ok(config)
    }

    /// How far a site has come; `None`: it is not listed.
    pub fn standing(&self, site: SiteId) -> Option<Standing> {
        self.sites.get(&site).map(|seat| seat.standing)
    }

    /// The incarnation of this site, this or another one, that is listed.
    pub(super) fn incarnation_of(&self, site: SiteId) -> Option<SiteId> {
        self.sites.keys().find(|listed| listed.number == site.number).copied()
    }

    /// The id under which a site of this number can be added.
    pub fn next_of(&self, number: u16) -> Option<SiteId> {
        let used = self.sites.keys().chain(self.removed.keys()).filter(|site| site.number == number);
        match used.map(|site| site.incarnation).max() {
            None => Some(SiteId { number, incarnation: 0 }),
            Some(last) => Some(SiteId { number, incarnation: last.checked_add(1)? }),
        }
    }

    /// Are these the same list? Names and addresses may differ: each site begins with those it was started with.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        let standings = |config: &Self| -> Vec<_> {
            config.sites.iter().map(|(site, seat)| (*site, seat.standing)).collect()
        };
        self.epoch == other.epoch && standings(self) == standings(other) && self.removed == other.removed
    }

    /// Can changes lead from this list to the other? Sites are never forgotten, never come back, and join once.
    pub(super) fn can_become(&self, other: &Self) -> bool {
        let remains = |(site, seat): (&SiteId, &Seat)| match other.standing(*site) {
            Some(Standing::Joining) => seat.standing == Standing::Joining,
            Some(Standing::Member | Standing::Leaving) => true,
            None => other.removed.contains_key(site),
        };
        self.epoch < other.epoch
            && self.sites.iter().all(remains)
            && self.removed.iter().all(|(site, removed)| other.removed.get(site) == Some(removed))
    }

    /// Takes over a later list, but no address that is known here already: how a site is reached may depend on from where.
    pub(super) fn become_next(&mut self, mut next: Self) {
        for (site, seat) in &mut next.sites {
            if let Some(known) = self.sites.get(site) {
                (seat.name, seat.address) = (known.name.clone(), known.address.clone());
            }
        }
        *self = next;
    }

    /// What holds of every list.
    pub(super) fn check(&self) -> Result<(), BadChange> {
        let is_long = |text: &str| text.len() > TEXT_BYTES_MAX;
        if self.sites.values().any(|seat| is_long(&seat.name) || is_long(&seat.address)) {
            return Err(BadChange::TooLong);
        }
        let numbers: BTreeSet<u16> = self.sites.keys().map(|site| site.number).collect();
        if numbers.contains(&0) || numbers.len() < self.sites.len() {
            return Err(BadChange::BadNumbers { sites: list(self.sites.keys()) });
        }
        if self.sites.len() > SITES_MAX || self.removed.len() > REMOVED_MAX {
            return Err(BadChange::TooMany);
        }
        // Each heir was there when the site went: it still is, or went later.
        let inherits = |removed: &Removed| match self.removed.get(&removed.heir) {
            Some(heir) => heir.epoch > removed.epoch,
            None => self.sites.contains_key(&removed.heir),
        };
        let is_from_then = |removed: &Removed| (2..=self.epoch).contains(&removed.epoch);
        let is_begun = (self.epoch == 0) == self.sites.is_empty();
        if !is_begun
            || self.epoch > EPOCH_MAX
            || !self.removed.values().all(inherits)
            || !self.removed.values().all(is_from_then)
            || self.removed.keys().any(|site| self.sites.contains_key(site))
        {
            return Err(BadChange::NoList { epoch: self.epoch });
        }
        Ok(())
    }
}
