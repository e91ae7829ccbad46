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
    /// Removes sites: all of them at once, because nobody waits for those whom a change removes.
    #[n(2)]
    Remove {
        /// Who goes.
        #[n(0)]
        sites: BTreeSet<SiteId>,
        /// Who takes over; it stays.
        #[n(1)]
        heir: SiteId,
        /// Must all of them be [leaving](Standing::Leaving)? Otherwise they are lost, and what they told nobody with them.
        #[n(2)]
        drained: bool,
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
    /// The site itself says that it takes no writes any more, and that the others have all that it has counted.
    #[n(4)]
    Leave {
        /// Who says it.
        #[n(0)]
        site: SiteId,
    },
    /// The site itself, which was about to leave, wants to take writes again.
    #[n(5)]
    Stay {
        /// Who wants it.
        #[n(0)]
        site: SiteId,
    },
}

impl Change {
    /// Whom it removes.
    pub fn removes(&self) -> BTreeSet<SiteId> {
        match self {
            Self::Add { .. } | Self::Joined { .. } | Self::Leave { .. } | Self::Stay { .. } => {
                BTreeSet::new()
            }
            Self::Remove { sites, .. } => sites.clone(),
            Self::Restore { old, .. } => BTreeSet::from([*old]),
        }
    }

    /// Does it rely on what the sites that it removes have said themselves?
    pub(super) fn is_planned_removal(&self) -> bool {
        matches!(self, Self::Remove { drained: true, .. })
    }

    /// Has it, or the same by another's proposal, come into force?
    pub fn is_in(&self, config: &Config) -> bool {
        match self {
            Self::Add { site, .. } | Self::Restore { new: site, .. } => config.sites.contains_key(site),
            Self::Joined { site } | Self::Stay { site } => config.standing(*site) == Some(Standing::Member),
            Self::Leave { site } => config.standing(*site) == Some(Standing::Leaving),
            Self::Remove { sites, .. } => sites.iter().all(|site| config.removed.contains_key(site)),
        }
    }
}

impl std::fmt::Display for Change {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Add { site, .. } => write!(f, "add site {site}"),
            Self::Joined { site } => write!(f, "let site {site} take writes"),
            Self::Remove { sites, heir, .. } => write!(f, "remove {} with site {heir} as heir", list(sites)),
            Self::Restore { old, new, .. } => write!(f, "let site {old} go on as {new}"),
            Self::Leave { site } => write!(f, "let site {site} take no more writes, before it leaves"),
            Self::Stay { site } => write!(f, "let site {site} take writes again"),
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
            Change::Leave { site } | Change::Stay { site } if *site != by => {
                Err(BadChange::OnlyItself { site: *site })
            }
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
            Change::Leave { site } => {
                next.turn(*site, Standing::Member, Standing::Leaving)?;
                if !next.sites.values().any(|seat| seat.standing == Standing::Member) {
                    return Err(BadChange::NobodyStays { site: *site });
                }
            }
            Change::Stay { site } => next.turn(*site, Standing::Leaving, Standing::Member)?,
            Change::Remove { sites, heir, drained } => {
                if sites.is_empty() {
                    return Err(BadChange::Nobody);
                }
                // Where the members are lost, those who were about to leave must be able to go on.
                let inherits = match self.listed(*heir)? {
                    Standing::Joining => false,
                    Standing::Member => true,
                    Standing::Leaving => !drained,
                };
                if !inherits || sites.contains(heir) {
                    return Err(BadChange::CannotInherit { heir: *heir });
                }
                let counts = |site: &&SiteId| self.standing(**site) != Some(Standing::Leaving);
                if let Some(site) = sites.iter().find(counts).filter(|_| *drained) {
                    self.listed(*site)?;
                    return Err(BadChange::NotDrained { site: *site });
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

    fn turn(&mut self, site: SiteId, from: Standing, to: Standing) -> Result<(), BadChange> {
        match self.sites.get_mut(&site) {
            Some(seat) if seat.standing == from => seat.standing = to,
            _ => return Err(BadChange::OtherStanding { site, needed: from }),
        }
        Ok(())
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
