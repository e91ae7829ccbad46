//! The changes that lead from one list of sites to the next.

use std::collections::BTreeSet;

use minicbor::{Decode, Encode};

use super::{BadChange, Config, Removed, Seat, Standing, config::list};
use crate::SiteId;

/// One step from a list to the next.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Encode, Decode)]
pub enum Change {
    /// Lists a new site, which then joins.
    #[n(0)]
    Add {
        /// The new one.
        #[n(0)]
        site: SiteId,
        /// For people.
        #[n(1)]
        name: String,
        /// Where its peers reach it.
        #[n(2)]
        address: String,
    },
    /// The site itself says that it has everything.
    #[n(1)]
    Joined {
        /// Who says it.
        #[n(0)]
        site: SiteId,
    },
    /// Removes sites that are dead or have been drained: all of them at once, because nobody waits for those whom a
    /// change removes.
    #[n(2)]
    Remove {
        /// Who goes.
        #[n(0)]
        sites: BTreeSet<SiteId>,
        /// Who takes over; it stays.
        #[n(1)]
        heir: SiteId,
    },
    /// A restored folder goes on under a new incarnation, which joins and is the heir of the old one.
    #[n(3)]
    Restore {
        /// What the folder was.
        #[n(0)]
        old: SiteId,
        /// What it is now.
        #[n(1)]
        new: SiteId,
        /// Where its peers reach it.
        #[n(2)]
        address: String,
    },
}

impl Change {
    /// Whom it removes.
    pub fn removes(&self) -> BTreeSet<SiteId> {
        match self {
            Self::Add { .. } | Self::Joined { .. } => BTreeSet::new(),
            Self::Remove { sites, .. } => sites.clone(),
            Self::Restore { old, .. } => BTreeSet::from([*old]),
        }
    }

    /// Has it, or the same by another's proposal, come into force?
    pub fn is_in(&self, config: &Config) -> bool {
        match self {
            Self::Add { site, .. } | Self::Restore { new: site, .. } => config.sites.contains_key(site),
            Self::Joined { site } => config.standing(*site) == Some(Standing::Member),
            Self::Remove { sites, .. } => sites.iter().all(|site| config.removed.contains_key(site)),
        }
    }
}

impl std::fmt::Display for Change {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Add { site, .. } => write!(f, "add site {site}"),
            Self::Joined { site } => write!(f, "let site {site} take writes"),
            Self::Remove { sites, heir } => write!(f, "remove {} with site {heir} as heir", list(sites)),
            Self::Restore { old, new, .. } => write!(f, "let site {old} go on as {new}"),
        }
    }
}

impl Config {
    /// Who must agree to a change: everybody listed, except whom it removes.
    pub fn stayers(&self, change: &Change) -> BTreeSet<SiteId> {
        let removed = change.removes();
        self.sites.keys().filter(|site| !removed.contains(site)).copied().collect()
    }

    /// The list after a change, if this site may propose it.
    pub fn after(&self, by: SiteId, change: &Change) -> Result<Self, BadChange> {
        if self.listed(by)? == Standing::Joining && *change != (Change::Joined { site: by }) {
            return Err(BadChange::StillJoining { site: by });
        }
        if change.removes().contains(&by) {
            return Err(BadChange::RemovesItself { site: by });
        }
        match change {
            Change::Joined { site } if *site != by => Err(BadChange::NotJoining { site: *site }),
            _ => self.changed(change),
        }
    }

    /// The list after a change, whoever proposes it.
    pub(super) fn changed(&self, change: &Change) -> Result<Self, BadChange> {
        let mut next = self.clone();
        next.epoch += 1;
        match change {
            Change::Add { site, name, address } => {
                if let Some(listed) = self.incarnation_of(*site) {
                    return Err(BadChange::NumberTaken { site: *site, listed });
                }
                next.seat(self, *site, name, address)?;
            }
            Change::Joined { site } => match next.sites.get_mut(site) {
                Some(seat) if seat.standing == Standing::Joining => seat.standing = Standing::Member,
                _ => return Err(BadChange::NotJoining { site: *site }),
            },
            Change::Remove { sites, heir } => {
                if sites.is_empty() {
                    return Err(BadChange::Nobody);
                }
                if self.listed(*heir)? == Standing::Joining || sites.contains(heir) {
                    return Err(BadChange::CannotInherit { heir: *heir });
                }
                sites.iter().try_for_each(|site| next.unseat(*site, *heir).map(drop))?;
            }
            Change::Restore { old, new, address } => {
                if old.number != new.number {
                    return Err(BadChange::OtherNumber { old: *old, new: *new });
                }
                let seat = next.unseat(*old, *new)?;
                next.seat(self, *new, &seat.name, address)?;
            }
        }
        next.check()?;
        Ok(next)
    }

    fn listed(&self, site: SiteId) -> Result<Standing, BadChange> {
        self.standing(site).ok_or(BadChange::NotListed { site })
    }

    fn seat(&mut self, before: &Self, site: SiteId, name: &str, address: &str) -> Result<(), BadChange> {
        // An id is never used again, nor one below it: what its folder wrote is remembered under it.
        let next = before.next_of(site.number);
        if next.is_none_or(|next| site.incarnation < next.incarnation) {
            return Err(BadChange::UsedBefore { site, next });
        }
        let seat = Seat { name: name.into(), address: address.into(), standing: Standing::Joining };
        self.sites.insert(site, seat);
        Ok(())
    }

    fn unseat(&mut self, site: SiteId, heir: SiteId) -> Result<Seat, BadChange> {
        let seat = self.sites.remove(&site).ok_or(BadChange::NotListed { site })?;
        self.removed.insert(site, Removed { heir, epoch: self.epoch });
        Ok(seat)
    }
}
