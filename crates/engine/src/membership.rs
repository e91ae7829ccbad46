//! Who belongs to the cluster.

use std::{
    collections::{BTreeMap, BTreeSet},
    iter,
};

use crate::SiteId;

/// Who belongs to the cluster, as a site knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Membership {
    /// Grows with every change.
    pub epoch: u64,
    /// All sites, oneself among them.
    pub members: BTreeSet<SiteId>,
    /// Those of them that do not take writes yet.
    pub joining: BTreeSet<SiteId>,
    /// Who was removed, and who is the heir of each.
    pub removed: BTreeMap<SiteId, SiteId>,
}

impl Membership {
    /// A cluster of one.
    pub fn alone(site: SiteId) -> Self {
        Self::of([site])
    }

    /// A cluster that begins with these.
    pub fn of(sites: impl IntoIterator<Item = SiteId>) -> Self {
        Self {
            epoch: 1,
            members: sites.into_iter().collect(),
            joining: BTreeSet::new(),
            removed: BTreeMap::new(),
        }
    }

    /// Who answers for a site: itself, or the heir of its heirs.
    pub fn holder(&self, site: SiteId) -> SiteId {
        let mut holder = site;
        // As often as there can be heirs: a list that goes round in a circle is nobody's.
        for _ in 0..=self.removed.len() {
            match self.removed.get(&holder) {
                Some(heir) => holder = *heir,
                None => break,
            }
        }
        holder
    }

    /// Has a site that was removed left to this one what it answered for, by way of whatever heirs?
    pub(crate) fn has_left_to(&self, site: SiteId, heir: SiteId) -> bool {
        let heirs = iter::successors(self.removed.get(&site), |site| self.removed.get(site));
        // As in `holder`.
        heirs.take(self.removed.len()).any(|it| *it == heir)
    }

    /// Was there ever another one?
    pub(crate) fn is_alone(&self) -> bool {
        self.members.len() <= 1 && self.removed.is_empty()
    }
}
