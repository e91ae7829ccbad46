//! One counter as this site knows it.
//!
//! A site writes only its own row, and a row only grows: a reset sets aside what has been counted, by marks that merge
//! by maximum, so that two sites that reset at once reset once, and what a reset had not seen survives it.

mod merge;
mod row;

use std::collections::BTreeMap;

use minicbor::{Decode, Encode};
use quipu_crdt::{Bounded, Merge, Overflow, Pn, Tally};

pub(crate) use self::{
    merge::{Merged, growth},
    row::{Creation, Mark, Proposal, Row},
};
use crate::{Refusal, Rules, SiteId, handoff::Reading};

/// A counter. Most are touched at one site and never reset: that case is the small one.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(flat)]
pub(crate) enum Counter {
    /// Counted at this site alone, never reset.
    #[n(0)]
    Plain(#[n(0)] Pn),
    /// Counted at several sites, or reset.
    #[n(1)]
    Shared(#[n(0)] Box<Shared>),
    /// With bounds.
    #[n(2)]
    Bounded(#[n(0)] Box<Bounded<SiteId>>),
}

/// The rows of a counter, by the site that writes them.
#[derive(Debug, Clone, PartialEq, Eq, Default, Encode, Decode)]
pub(crate) struct Shared {
    #[n(0)]
    pub(crate) rows: BTreeMap<SiteId, Row>,
}

impl Merge for Shared {
    /// Of each site's row the newer one: a row is written by its site alone.
    fn merge(&mut self, other: &Self) {
        for (site, theirs) in &other.rows {
            let ours = self.rows.entry(*site).or_default();
            if theirs.version > ours.version {
                ours.clone_from(theirs);
            }
        }
    }
}

impl Shared {
    fn new(site: SiteId, version: u64, counted: Pn) -> Self {
        Self { rows: BTreeMap::from([(site, Row::counted(version, counted))]) }
    }

    /// What all sites together have set aside of a site's row.
    pub(crate) fn mark(&self, site: &SiteId) -> Mark {
        let mut mark = Mark::default();
        for set_aside in self.rows.values().filter_map(|row| row.set_aside.get(site)) {
            mark.merge(set_aside);
        }
        mark
    }

    /// What counts, of each site.
    fn counting(&self) -> impl Iterator<Item = (SiteId, Pn)> {
        self.rows.iter().map(|(site, row)| {
            let mark = self.mark(site);
            let added = row.counted.added.saturating_sub(mark.counted.added);
            let subtracted = row.counted.subtracted.saturating_sub(mark.counted.subtracted);
            (*site, Pn { added, subtracted })
        })
    }

    /// Has anybody ever counted under this key?
    pub(crate) fn is_used(&self) -> bool {
        self.rows.values().any(|row| row.used_at() > 0)
    }

    /// The proposals to make a bounded counter of it, the lowest site's first.
    pub(crate) fn proposals(&self) -> impl Iterator<Item = (SiteId, &Proposal)> {
        self.rows.iter().filter_map(|(site, row)| Some((*site, row.proposal()?)))
    }

    fn exists(&self) -> bool {
        self.rows.iter().any(|(site, row)| row.used_at() > self.mark(site).version)
    }

    fn add(&mut self, site: SiteId, version: u64, amount: &Pn) -> Result<(), Overflow> {
        let row = self.rows.entry(site).or_default();
        row.counted.try_add(amount)?;
        row.change_by_client(version);
        Ok(())
    }

    fn reset(&mut self, site: SiteId, version: u64, to: Option<Pn>) -> Result<(), Overflow> {
        let mut set_aside: BTreeMap<SiteId, Mark> = BTreeMap::new();
        for (other, row) in &self.rows {
            let mut mark = self.mark(other);
            mark.merge(&Mark { version: row.version, counted: row.counted });
            set_aside.insert(*other, mark);
        }
        if to.is_none() {
            // This change of the own row is no reason for the counter to exist.
            set_aside.entry(site).or_default().version = version;
        }
        let row = self.rows.entry(site).or_default();
        row.counted.try_add(&to.unwrap_or_default())?;
        row.change_by_client(version);
        row.set_aside = set_aside;
        Ok(())
    }
}

/// The amount as it goes into a row.
pub(crate) fn pn(amount: i64) -> Pn {
    if amount < 0 { Pn::subtracted(amount.unsigned_abs()) } else { Pn::added(amount.unsigned_abs()) }
}

impl Counter {
    pub(crate) fn value(&self) -> i128 {
        match self {
            Self::Plain(counted) => counted.value(),
            Self::Shared(shared) => shared.counting().map(|(_, counted)| counted.value()).sum(),
            Self::Bounded(bounded) => bounded.value(),
        }
    }

    /// Who wants to make a bounded counter of it, which nobody has counted on. Who is gone will not.
    pub(crate) fn reserved(&self, is_gone: impl Fn(SiteId) -> bool) -> Option<SiteId> {
        match self {
            Self::Shared(shared) if !shared.is_used() => {
                shared.proposals().map(|(site, _)| site).find(|site| !is_gone(*site))
            }
            _ => None,
        }
    }

    /// A counter that was deleted is there only to remember that.
    pub(crate) fn exists(&self) -> bool {
        match self {
            Self::Shared(shared) => shared.exists(),
            Self::Plain(_) | Self::Bounded(_) => true,
        }
    }

    /// Counts. Rights and the range of the value have been looked at before; on an error nothing has changed.
    pub(crate) fn add(
        &mut self,
        site: SiteId,
        version: u64,
        amount: i64,
        alone: bool,
    ) -> Result<(), Refusal> {
        let counted = match self {
            Self::Plain(counted) => counted.try_add(&pn(amount)),
            Self::Shared(shared) => shared.add(site, version, &pn(amount)),
            Self::Bounded(bounded) => {
                let prepared = match amount {
                    ..0 => bounded.prepare_subtract(amount.unsigned_abs()),
                    0.. => bounded.prepare_add(amount.unsigned_abs()),
                };
                // Rights are not missing here, so only a total can be full.
                bounded.apply(prepared.map_err(|_| Refusal::Overflow)?);
                Ok(())
            }
        };
        match counted {
            Ok(()) => Ok(()),
            Err(Overflow) if alone => {
                self.begin_anew()?;
                self.add(site, version, amount, alone)
            }
            Err(Overflow) => Err(Refusal::Overflow),
        }
    }

    /// Counts what was handed over. Of a bounded counter, what needs rights is parked. On an error nothing has changed.
    pub(crate) fn credit(
        &mut self,
        site: SiteId,
        version: u64,
        delta: &Pn,
        alone: bool,
        rules: Rules,
    ) -> Result<(), Overflow> {
        let counted = match self {
            Self::Plain(counted) => counted.try_add(delta),
            Self::Shared(shared) => shared.add(site, version, delta),
            Self::Bounded(bounded) => return rules.take_in(bounded, delta),
        };
        match counted {
            Ok(()) => Ok(()),
            Err(Overflow) if alone => {
                self.begin_anew().map_err(|_| Overflow)?;
                self.credit(site, version, delta, false, rules)
            }
            Err(Overflow) => Err(Overflow),
        }
    }

    /// What can be told of it to those who add to what they have heard before.
    pub(crate) fn reading(&self, own: SiteId) -> Reading {
        match self {
            Self::Plain(counted) => Reading { counted: *counted, set_aside: Pn::default() },
            Self::Shared(shared) => {
                let mut reading = Reading::default();
                for (site, row) in &shared.rows {
                    let mark = shared.mark(site).counted;
                    reading.counted.saturating_add(&row.counted);
                    reading.set_aside.saturating_add(&mark);
                }
                reading
            }
            Self::Bounded(bounded) => {
                let mut counted = pn(bounded.definition().initial());
                self.sites(own).iter().for_each(|(_, of_site)| counted.saturating_add(of_site));
                Reading { counted, set_aside: Pn::default() }
            }
        }
    }

    /// A total is full although the value is not. While there is one site, nobody else has a row of this counter, so it
    /// may begin anew from its value.
    fn begin_anew(&mut self) -> Result<(), Refusal> {
        let value = i64::try_from(self.value()).map_err(|_| Refusal::Overflow)?;
        *self = Self::Plain(pn(value));
        Ok(())
    }

    /// Sets aside what was counted. `before` is the version of the last change.
    pub(crate) fn reset(
        &mut self,
        site: SiteId,
        before: u64,
        version: u64,
        to: Option<i64>,
        alone: bool,
    ) -> Result<(), Refusal> {
        let shared = self.share(site, before).ok_or(Refusal::BoundedReset)?;
        match shared.reset(site, version, to.map(pn)) {
            Ok(()) => {}
            // As in `begin_anew`.
            Err(Overflow) if alone => *self = Self::Plain(to.map(pn).unwrap_or_default()),
            Err(Overflow) => return Err(Refusal::Overflow),
        }
        Ok(())
    }

    /// What each site has counted.
    pub(crate) fn sites(&self, own: SiteId) -> Vec<(SiteId, Pn)> {
        match self {
            Self::Plain(counted) => vec![(own, *counted)],
            Self::Shared(shared) => shared.counting().collect(),
            Self::Bounded(bounded) => {
                let mut sites: BTreeMap<SiteId, Pn> =
                    bounded.rows().iter().map(|(site, row)| (*site, row.counted)).collect();
                let receivers = bounded.rows().values().flat_map(|row| row.passed_on.keys());
                let definition = bounded.definition();
                for site in receivers.chain([&own, definition.creator()]).chain(definition.first_holders()) {
                    sites.entry(*site).or_default();
                }
                sites.into_iter().collect()
            }
        }
    }

    /// Bytes on the heap, roughly.
    pub(crate) fn heap_bytes(&self) -> usize {
        const ROW_BYTES: usize = 160;
        const WITNESS_BYTES: usize = 24;
        match self {
            Self::Plain(_) => 0,
            Self::Shared(shared) => ROW_BYTES * (1 + shared.rows.len()),
            Self::Bounded(bounded) => {
                let witnesses = bounded.rows().values().flat_map(|row| &row.witnesses).map(Vec::len);
                ROW_BYTES * (1 + bounded.rows().len()) + WITNESS_BYTES * witnesses.sum::<usize>()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: SiteId = SiteId { number: 1, incarnation: 0 };
    const B: SiteId = SiteId { number: 2, incarnation: 0 };

    fn counted_at_both() -> Shared {
        let mut shared = Shared::new(A, 1, Pn::added(5));
        shared.merge(&Shared::new(B, 1, Pn::added(7)));
        shared
    }

    #[test]
    fn two_resets_at_once_reset_once() {
        let (mut at_a, mut at_b) = (counted_at_both(), counted_at_both());
        at_a.reset(A, 2, Some(Pn::added(1))).unwrap();
        at_b.reset(B, 2, None).unwrap();
        at_a.merge(&at_b);
        at_b.merge(&at_a);
        assert_eq!(at_a, at_b);
        assert_eq!(Counter::Shared(Box::new(at_a)).value(), 1);
    }

    #[test]
    fn what_a_reset_had_not_seen_survives_it() {
        let (mut at_a, mut at_b) = (counted_at_both(), counted_at_both());
        at_a.reset(A, 2, None).unwrap();
        assert!(!at_a.exists());
        at_b.add(B, 2, &Pn::added(3)).unwrap();
        at_a.merge(&at_b);
        assert!(at_a.exists());
        assert_eq!(Counter::Shared(Box::new(at_a)).value(), 3);
    }

    #[test]
    fn totals_that_are_full_do_not_refuse_a_value_that_fits() {
        let mut counter = Counter::Plain(Pn::default());
        for round in 0..5 {
            counter.add(A, 3 * round + 1, i64::MAX, true).unwrap();
            assert_eq!(counter.value(), i128::from(i64::MAX));
            counter.add(A, 3 * round + 2, -i64::MAX, true).unwrap();
            assert_eq!(counter.value(), 0);
            counter.reset(A, 3 * round + 2, 3 * round + 3, Some(i64::MIN), true).unwrap();
            assert_eq!((counter.value(), counter.exists()), (i128::from(i64::MIN), true));
            counter.reset(A, 3 * round + 2, 3 * round + 3, Some(0), true).unwrap();
        }
    }

    #[test]
    fn set_to_zero_exists_and_deleted_does_not() {
        let mut counter = Counter::Plain(Pn::added(4));
        counter.reset(A, 1, 2, Some(0), true).unwrap();
        assert!(counter.exists());
        assert_eq!(counter.value(), 0);
        counter.reset(A, 2, 3, None, true).unwrap();
        assert!(!counter.exists());
        counter.add(A, 4, 0, true).unwrap();
        assert!(counter.exists());
    }
}
