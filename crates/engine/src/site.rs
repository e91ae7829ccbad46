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

/// Text that is no site.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no site; give its number, such as 2, or its id, such as 2.1")]
pub struct BadSiteId(String);

impl std::str::FromStr for SiteId {
    type Err = BadSiteId;

    /// Reads what `Display` writes.
    fn from_str(text: &str) -> Result<Self, BadSiteId> {
        let bad = || BadSiteId(text.to_owned());
        let (number, incarnation) = text.split_once('.').unwrap_or((text, "0"));
        let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        let read = |text: &str| text.parse().ok().filter(|_| digits(text));
        let number = read(number).filter(|number| *number != 0).ok_or_else(bad)?;
        Ok(Self { number, incarnation: read(incarnation).ok_or_else(bad)? })
    }
}

impl std::fmt::Display for SiteId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.incarnation {
            0 => write!(f, "{}", self.number),
            incarnation => write!(f, "{}.{incarnation}", self.number),
        }
    }
}
