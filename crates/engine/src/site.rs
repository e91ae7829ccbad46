//! Who writes a row.

use minicbor::{Decode, Encode};

/// One permanent replica. A restored copy of a site goes on under a higher incarnation, so that what the lost disk
/// alone knew is never taken for something new.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
pub struct SiteId {
    /// Unique in the cluster, from 1.
    #[n(0)]
    pub number: u16,
    /// How often it was restored.
    #[n(1)]
    pub incarnation: u16,
}

impl SiteId {
    /// The site of a cluster of one.
    pub const FIRST: Self = Self { number: 1, incarnation: 0 };
}

impl std::fmt::Display for SiteId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.incarnation {
            0 => write!(f, "{}", self.number),
            incarnation => write!(f, "{}.{incarnation}", self.number),
        }
    }
}
