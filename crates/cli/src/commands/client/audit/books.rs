//! The books of a site, as its server shows them at `/v1/audit`.

use serde::{Deserialize, Serialize};
use std::fmt;

/// A site by its number and how often it was restored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
pub(super) struct Site {
    number: u16,
    incarnation: u16,
}

impl TryFrom<String> for Site {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let (number, incarnation) = text.split_once('.').unwrap_or((&text, "0"));
        match (number.parse(), incarnation.parse()) {
            (Ok(number), Ok(incarnation)) => Ok(Self { number, incarnation }),
            _ => Err(format!("{text:?} is no site")),
        }
    }
}

impl fmt::Display for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.incarnation {
            0 => write!(f, "{}", self.number),
            incarnation => write!(f, "{}.{incarnation}", self.number),
        }
    }
}

/// Sums, modulo 2^64.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Amounts {
    pub(super) added: u64,
    pub(super) subtracted: u64,
}

impl Amounts {
    pub(super) fn plus(self, other: Self) -> Self {
        Self {
            added: self.added.wrapping_add(other.added),
            subtracted: self.subtracted.wrapping_add(other.subtracted),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct Books {
    pub(super) site: Site,
    pub(super) members: Vec<Site>,
    pub(super) shard_count: usize,
    /// Those in which something was counted.
    pub(super) shards: Vec<ShardBooks>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct ShardBooks {
    pub(super) shard: u16,
    pub(super) issued: Amounts,
    pub(super) set: Amounts,
    pub(super) cancelled: Amounts,
    pub(super) sites: Vec<Known>,
    /// Operations that were not counted once. Older servers do not tell.
    #[serde(default)]
    pub(super) suspicious: Vec<Suspicious>,
    /// How many there are besides those that are named.
    pub(super) suspicious_further: Option<u64>,
}

/// A counter on which an operation was not counted exactly once.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct Suspicious {
    key: Option<String>,
    key_base64: Option<String>,
    what: String,
    sites: Vec<Site>,
}

impl fmt::Display for Suspicious {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = self.key.as_deref().or(self.key_base64.as_deref()).unwrap_or_default();
        let sites: Vec<_> = self.sites.iter().map(Site::to_string).collect();
        let sites = sites.join(" and ");
        match self.what.as_str() {
            "counted_twice" => write!(f, "an operation on {key:?} is counted at site {sites}"),
            "lost" => write!(
                f,
                "an operation on {key:?} was counted at site {sites}, taken back, and is counted nowhere"
            ),
            other => write!(f, "{other}: an operation on {key:?}, at site {sites}"),
        }
    }
}

/// What is known of one site.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub(super) struct Known {
    pub(super) site: Site,
    pub(super) counted: Amounts,
    pub(super) position: u64,
    pub(super) open: u64,
}

impl Books {
    /// What it knows of a site in a shard; nothing, where it does not name it.
    pub(super) fn known(&self, shard: u16, site: Site) -> Known {
        let shard = self.shards.iter().find(|books| books.shard == shard);
        let known = shard.and_then(|books| books.sites.iter().find(|known| known.site == site));
        known.copied().unwrap_or(Known { site, counted: Amounts::default(), position: 0, open: 0 })
    }
}
