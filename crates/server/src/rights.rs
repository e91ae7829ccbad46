//! Rights of a site: those that it can use now, and those that operations have made which are not settled. If such an
//! operation is taken back, so are the rights that it has made.

use quipu_engine::SiteView;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rights {
    pub(crate) usable: u128,
    pub(crate) waiting: u128,
}

impl Rights {
    /// `None`: no bound limits it.
    pub(crate) fn to_add(site: &SiteView) -> Option<Self> {
        Some(Self::split(site.rights_to_add?, site.provisional.subtracted))
    }

    /// `None`: no bound limits it.
    pub(crate) fn to_subtract(site: &SiteView) -> Option<Self> {
        Some(Self::split(site.rights_to_subtract?, site.provisional.added))
    }

    fn split(all: u128, provisional: u64) -> Self {
        let waiting = all.min(provisional.into());
        Self { usable: all - waiting, waiting }
    }
}

/// How much of a counter's value may be taken back, all in all.
pub(crate) fn provisional(sites: &[SiteView]) -> i128 {
    sites
        .iter()
        .map(|site| i128::from(site.provisional.added) - i128::from(site.provisional.subtracted))
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use quipu_engine::SiteId;

    #[test]
    fn rights_that_may_be_taken_back_are_told_apart() {
        let mut site = SiteView {
            site: SiteId::FIRST,
            added: 10,
            subtracted: 3,
            rights_to_add: None,
            rights_to_subtract: Some(7),
            provisional: Default::default(),
        };
        site.provisional.added = 4;
        assert_eq!(Rights::to_subtract(&site), Some(Rights { usable: 3, waiting: 4 }));
        assert_eq!(Rights::to_add(&site), None);
        // Some of what it has made has been spent or passed on.
        site.rights_to_subtract = Some(1);
        assert_eq!(Rights::to_subtract(&site), Some(Rights { usable: 0, waiting: 1 }));
        site.provisional.subtracted = 9;
        assert_eq!(provisional(&[site, site]), -10);
    }
}
