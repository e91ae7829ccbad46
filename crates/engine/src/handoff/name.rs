//! Who takes part in handoffs.

use minicbor::{Decode, Encode};

use crate::SiteId;

/// The name of a site, a relay or an edge. Those of sites are their numbers; others draw theirs, which nobody else has.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
#[cbor(transparent)]
pub struct Name(#[cbor(with = "minicbor::bytes")] [u8; 16]);

/// Marks names that were drawn.
const DRAWN: u8 = 0x80;

impl Name {
    /// The name of a relay or an edge, of random bytes.
    pub fn drawn(mut random: [u8; 16]) -> Self {
        random[0] |= DRAWN;
        Self(random)
    }

    /// The name of a site.
    pub fn of_site(site: SiteId) -> Self {
        let mut bytes = [0; 16];
        bytes[12..14].copy_from_slice(&site.number.to_be_bytes());
        bytes[14..].copy_from_slice(&site.incarnation.to_be_bytes());
        Self(bytes)
    }

    /// The site with this name, if it is one.
    pub fn site(self) -> Option<SiteId> {
        let [.., a, b, c, d] = self.0;
        let site = SiteId { number: u16::from_be_bytes([a, b]), incarnation: u16::from_be_bytes([c, d]) };
        (Self::of_site(site) == self).then_some(site)
    }

    /// The bytes.
    pub fn bytes(self) -> [u8; 16] {
        self.0
    }

    /// Names are stored in so many pages,
    pub(crate) fn page(self) -> u8 {
        self.0[0]
    }

    /// each of which has the names from the first to the last of these.
    pub(crate) fn of_page(page: u8) -> std::ops::RangeInclusive<Self> {
        let (mut first, mut last) = ([0; 16], [u8::MAX; 16]);
        (first[0], last[0]) = (page, page);
        Self(first)..=Self(last)
    }
}

impl std::fmt::Display for Name {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.site() {
            Some(site) => write!(f, "site {site}"),
            None => self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}")),
        }
    }
}

impl std::fmt::Debug for Name {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{self}")
    }
}

impl std::str::FromStr for Name {
    type Err = BadName;

    /// What was [displayed](std::fmt::Display) of a relay or an edge.
    fn from_str(text: &str) -> Result<Self, BadName> {
        let number = (text.len() == 32).then(|| u128::from_str_radix(text, 16).ok()).flatten();
        let bytes = number.ok_or(BadName)?.to_be_bytes();
        if bytes[0] & DRAWN == 0 { Err(BadName) } else { Ok(Self(bytes)) }
    }
}

/// A text that is no name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the name of a relay or an edge has 32 hexadecimal digits, of which the first is 8 or more")]
pub struct BadName;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_sites_and_drawn_ones_are_apart() {
        let site = SiteId { number: 7, incarnation: 2 };
        assert_eq!(Name::of_site(site).site(), Some(site));
        let drawn = Name::drawn([0; 16]);
        assert_eq!(drawn.site(), None);
        assert_eq!(drawn.to_string().parse(), Ok(drawn));
        assert_eq!("07".repeat(16).parse::<Name>(), Err(BadName), "a name that nobody can have drawn");
        assert!(Name::of_page(drawn.page()).contains(&drawn));
    }
}
