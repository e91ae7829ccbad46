//! Operations that were not counted exactly once. Rows witness only some of their operations: what they have told once is
//! kept when they do not tell it any more.

use std::collections::BTreeSet;

use minicbor::{Decode, Encode};

use super::audit::{Suspicion, Suspicious};
use crate::SiteId;

/// So many findings of a shard are named.
const NAMED_MAX: usize = 64;
/// The ids of so many others are told apart.
const FURTHER_MAX: usize = 4096;
/// How long a finding is told after it was made, in the shard's time: 30 days, longer than any window.
const KEPT_MS: u64 = 30 * 24 * 60 * 60 * 1000;

/// An operation that was not counted exactly once.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub(crate) struct Finding {
    #[n(0)]
    #[cbor(with = "crate::entry::key")]
    key: Box<[u8]>,
    /// Half of the operation's hash.
    #[n(1)]
    id: u64,
    #[n(2)]
    what: Suspicion,
    /// When it was found, in the shard's time.
    #[n(3)]
    found_ms: u64,
}

/// The findings of a shard, as its summary keeps them.
#[derive(Debug, Clone, PartialEq, Eq, Default, Encode, Decode)]
pub(crate) struct StoredFindings {
    #[n(0)]
    named: Vec<Finding>,
    /// How many there are besides these.
    #[n(1)]
    further: u64,
}

/// The findings of a shard.
#[derive(Debug, Default)]
pub(super) struct Findings {
    stored: StoredFindings,
    /// Ids of findings that are only counted, of this process.
    further: BTreeSet<u64>,
}

impl Findings {
    pub(super) fn new(stored: Option<StoredFindings>) -> Self {
        Self { stored: stored.unwrap_or_default(), further: BTreeSet::new() }
    }

    /// What the summary says: nothing, if there is nothing.
    pub(super) fn stored(&self) -> Option<StoredFindings> {
        let StoredFindings { named, further } = &self.stored;
        (!named.is_empty() || *further > 0).then(|| self.stored.clone())
    }

    pub(super) fn note(&mut self, key: &[u8], id: u64, what: Suspicion, now_ms: u64) {
        let StoredFindings { named, further } = &mut self.stored;
        if let Some(known) = named.iter_mut().find(|it| it.id == id && *it.key == *key) {
            known.what = what;
        } else if named.len() < NAMED_MAX {
            named.push(Finding { key: key.into(), id, what, found_ms: now_ms });
        } else if self.further.len() < FURTHER_MAX && self.further.insert(id) {
            *further += 1;
        }
    }

    /// What its rows do not witness any more is forgotten.
    pub(super) fn forget(&mut self, key: &[u8]) {
        self.stored.named.retain(|finding| *finding.key != *key);
    }

    /// A site's count of an operation was taken back.
    pub(super) fn taken_back(&mut self, id: u64, of: SiteId) {
        let StoredFindings { named, further } = &mut self.stored;
        named.retain_mut(|finding| match &mut finding.what {
            Suspicion::Twice(sites) if finding.id == id => {
                if let Some(place) = sites.iter().position(|site| *site == of) {
                    sites.remove(place);
                }
                sites.len() > 1
            }
            Suspicion::Twice(_) | Suspicion::Lost(_) => true,
        });
        if self.further.remove(&id) {
            *further -= 1;
        }
    }

    /// Old ones are told no more.
    pub(super) fn expire(&mut self, now_ms: u64) {
        let StoredFindings { named, further } = &mut self.stored;
        named.retain(|finding| now_ms < finding.found_ms.saturating_add(KEPT_MS));
        if named.is_empty() {
            *further = 0;
            self.further.clear();
        }
    }

    /// Those that are named, and how many there are besides; none, if there are none.
    pub(super) fn told(&self) -> (Option<Vec<Suspicious>>, Option<u64>) {
        let StoredFindings { named, further } = &self.stored;
        let told = named.iter().map(|it| Suspicious { key: it.key.to_vec(), what: it.what.clone() });
        ((!named.is_empty()).then(|| told.collect()), (*further > 0).then_some(*further))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: SiteId = SiteId { number: 2, incarnation: 0 };

    fn twice() -> Suspicion {
        Suspicion::Twice(vec![SiteId::FIRST, SECOND])
    }

    #[test]
    fn those_beyond_the_limit_are_counted() {
        let mut findings = Findings::default();
        for id in 0..NAMED_MAX as u64 + 10 {
            findings.note(b"k", id, twice(), 0);
            findings.note(b"k", id, twice(), 0);
        }
        let mut findings = Findings::new(findings.stored());
        let (named, further) = findings.told();
        assert_eq!((named.map(|named| named.len()), further), (Some(NAMED_MAX), Some(10)));
        findings.expire(KEPT_MS);
        assert_eq!((findings.told(), findings.stored()), ((None, None), None));
    }

    #[test]
    fn a_count_that_was_taken_back_is_no_finding() {
        let mut findings = Findings::default();
        findings.note(b"k", 1, twice(), 0);
        findings.note(b"k", 2, Suspicion::Twice(vec![SiteId::FIRST, SECOND, SECOND]), 0);
        findings.note(b"k", 3, Suspicion::Lost(SECOND), 0);
        (1..=3).for_each(|id| findings.taken_back(id, SECOND));
        let (named, _) = findings.told();
        let whats: Vec<_> = named.into_iter().flatten().map(|it| it.what).collect();
        assert_eq!(whats, [Suspicion::Twice(vec![SiteId::FIRST, SECOND]), Suspicion::Lost(SECOND)]);
    }
}
