//! The row of a site.

use std::collections::BTreeMap;

use minicbor::{Decode, Encode};
use quipu_crdt::{Merge, Pn, bounded::Definition};

use crate::SiteId;

/// What one site has counted and reset. Of two the newer one counts.
#[derive(Debug, Clone, PartialEq, Eq, Default, Encode, Decode)]
pub(crate) struct Row {
    /// Grows with every change of this row: the number of the change.
    #[n(0)]
    pub(crate) version: u64,
    #[n(1)]
    pub(crate) counted: Pn,
    /// What this site has set aside of each site's row.
    #[n(2)]
    pub(crate) set_aside: BTreeMap<SiteId, Mark>,
    /// The last change that a client made, if it was not the last of all. What a site takes back or agrees to is no
    /// reason for a counter to exist.
    #[n(3)]
    used_at: Option<u64>,
    /// What this site says about making a bounded counter of the key.
    #[n(4)]
    pub(crate) creation: Option<Box<Creation>>,
}

/// How much of a row does not count any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Encode, Decode)]
pub(crate) struct Mark {
    /// A row up to this version does not make the counter exist.
    #[n(0)]
    pub(crate) version: u64,
    #[n(1)]
    pub(crate) counted: Pn,
}

impl Merge for Mark {
    fn merge(&mut self, other: &Self) {
        self.version = self.version.max(other.version);
        self.counted.merge(&other.counted);
    }
}

/// What a site says about making a bounded counter of a key.
///
/// A definition takes effect when every site has agreed to it and none has counted under the key. Nobody takes an agreement
/// back; only who has proposed can withdraw. A site that has a proposal of its own does not agree to that of a higher one,
/// so of several only the lowest can get the agreement of all.
#[derive(Debug, Clone, PartialEq, Eq, Default, Encode, Decode)]
pub(crate) struct Creation {
    /// Its own proposal, until it is withdrawn. One that was will never take effect.
    #[n(0)]
    pub(crate) proposes: Option<Proposal>,
    /// Whose proposals it has agreed to. Until these are withdrawn it counts nothing under the key.
    #[n(1)]
    pub(crate) agrees: BTreeMap<SiteId, u64>,
}

/// A definition that is to take effect.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub(crate) struct Proposal {
    #[n(0)]
    pub(crate) definition: Definition<SiteId>,
    /// The number of the change that made it: an agreement to an earlier one says nothing about this one.
    #[n(1)]
    pub(crate) at: u64,
}

impl Row {
    /// Only counted, never reset.
    pub(crate) fn counted(version: u64, counted: Pn) -> Self {
        Self { version, counted, ..Self::default() }
    }

    /// Has it only counted?
    pub(crate) fn is_plain(&self) -> bool {
        self.set_aside.is_empty() && self.used_at.is_none() && self.creation.is_none()
    }

    /// The number of the last change that a client made.
    pub(crate) fn used_at(&self) -> u64 {
        self.used_at.unwrap_or(self.version)
    }

    pub(crate) fn change_by_client(&mut self, version: u64) {
        self.version = version;
        self.used_at = None;
    }

    /// A change that no client has asked for.
    pub(crate) fn change_by_site(&mut self, version: u64) {
        self.used_at = Some(self.used_at());
        self.version = version;
    }

    /// What it proposes.
    pub(crate) fn proposal(&self) -> Option<&Proposal> {
        self.creation.as_ref()?.proposes.as_ref()
    }

    pub(crate) fn agrees_to(&self, proposer: SiteId, at: u64) -> bool {
        self.creation.as_ref().is_some_and(|creation| creation.agrees.get(&proposer) == Some(&at))
    }
}
