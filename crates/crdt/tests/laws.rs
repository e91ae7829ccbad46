//! The laws of the algebra, and that the checks catch what breaks them.

use proptest::collection::btree_map;
use proptest::prelude::*;
use quipu_crdt::testing::laws::{self, Broken};
use quipu_crdt::{Merge, Overflow, Pn, Tally};
use std::collections::{BTreeMap, BTreeSet};

/// Small numbers meet often, large ones overflow.
fn amounts() -> impl Strategy<Value = u64> {
    prop_oneof![0u64..5, any::<u64>(), u64::MAX - 2..=u64::MAX]
}

fn pairs() -> impl Strategy<Value = Pn> {
    (amounts(), amounts()).prop_map(|(added, subtracted)| Pn { added, subtracted })
}

fn maps() -> impl Strategy<Value = BTreeMap<u8, Pn>> {
    btree_map(0u8..4, pairs(), 0..4).prop_map(|mut map| {
        map.retain(|_, tally| !tally.is_zero());
        map
    })
}

proptest! {
    #[test]
    fn numbers_are_tallies(x in amounts(), y in amounts(), z in amounts()) {
        prop_assert_eq!(laws::check_tally(&x, &y, &z), Ok(()));
    }

    #[test]
    fn pairs_are_tallies(x in pairs(), y in pairs(), z in pairs()) {
        prop_assert_eq!(laws::check_tally(&x, &y, &z), Ok(()));
    }

    #[test]
    fn maps_of_tallies_are_tallies(x in maps(), y in maps(), z in maps()) {
        prop_assert_eq!(laws::check_tally(&x, &y, &z), Ok(()));
    }
}

#[test]
fn an_overflow_is_refused_and_changes_nothing() {
    let mut number = u64::MAX;
    assert_eq!(number.try_add(&1), Err(Overflow));
    assert_eq!(number, u64::MAX);

    let mut map = BTreeMap::from([("a", 1), ("b", u64::MAX)]);
    let before = map.clone();
    assert_eq!(map.try_add(&BTreeMap::from([("a", 1), ("b", 1)])), Err(Overflow));
    assert_eq!(map, before);
}

#[test]
fn a_sum_of_maps_stores_no_zero() {
    let mut map = BTreeMap::from([("a", 1)]);
    map.try_add(&BTreeMap::from([("b", 0)])).expect("zero fits");
    assert_eq!(map, BTreeMap::from([("a", 1)]));
}

/// A number whose operations are given: so that wrong ones can be tried.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Wrong<const VARIANT: u8>(u64);

const SUM_INSTEAD_OF_MAX: u8 = 0;
const KEEPS_ITS_OWN: u8 = 1;
const MEAN_OF_BOTH: u8 = 2;
const ADDS_ONE_MORE: u8 = 3;
const ADDS_TWICE_THE_OTHER: u8 = 4;
const SMALLER_SUM: u8 = 5;
const TRIES_AND_WRAPS: u8 = 6;
const ADDS_HALVES: u8 = 7;
const JOIN_ABOVE_ZERO: u8 = 8;

impl<const VARIANT: u8> Merge for Wrong<VARIANT> {
    fn merge(&mut self, other: &Self) {
        self.0 = match VARIANT {
            SUM_INSTEAD_OF_MAX => self.0.saturating_add(other.0),
            KEEPS_ITS_OWN => self.0,
            MEAN_OF_BOTH => self.0.midpoint(other.0),
            JOIN_ABOVE_ZERO => self.0.max(other.0).max(1),
            _ => self.0.max(other.0),
        }
    }
}

impl<const VARIANT: u8> Tally for Wrong<VARIANT> {
    fn is_zero(&self) -> bool {
        self.0 == 0
    }

    fn try_add(&mut self, amount: &Self) -> Result<(), Overflow> {
        if VARIANT == TRIES_AND_WRAPS {
            self.0 = self.0.wrapping_add(amount.0);
            return Ok(());
        }
        let before = self.0;
        self.saturating_add(amount);
        if before.checked_add(amount.0).is_none() {
            self.0 = before;
            return Err(Overflow);
        }
        Ok(())
    }

    fn saturating_add(&mut self, amount: &Self) {
        self.0 = match VARIANT {
            ADDS_ONE_MORE => self.0.saturating_add(amount.0).saturating_add(1),
            ADDS_TWICE_THE_OTHER => self.0.saturating_add(amount.0.saturating_mul(2)),
            SMALLER_SUM => self.0.min(amount.0),
            ADDS_HALVES => self.0 / 2 + amount.0 / 2,
            _ => self.0.saturating_add(amount.0),
        }
    }
}

/// The laws that some three of these numbers break.
fn broken_laws<const VARIANT: u8>() -> BTreeSet<&'static str> {
    let numbers = [0, 1, 2, 5, u64::MAX].map(Wrong::<VARIANT>);
    let mut broken = BTreeSet::new();
    for (x, y, z) in iproduct(&numbers) {
        let checks = [
            laws::merge_commutes(x, y),
            laws::merge_associates(x, y, z),
            laws::merge_is_idempotent(x),
            laws::add_commutes(x, y),
            laws::add_associates(x, y, z),
            laws::zero_is_neutral(x),
            laws::zero_is_least(x),
            laws::join_is_below_sum(x, y),
            laws::try_add_is_add_or_nothing(x, y),
        ];
        assert_eq!(laws::check_tally(x, y, z).is_ok(), checks.iter().all(Result::is_ok));
        broken.extend(checks.into_iter().filter_map(Result::err).map(|Broken { law, .. }| law));
    }
    broken
}

fn iproduct<T>(of: &[T]) -> impl Iterator<Item = (&T, &T, &T)> {
    of.iter().flat_map(move |x| of.iter().flat_map(move |y| of.iter().map(move |z| (x, y, z))))
}

#[test]
fn every_law_catches_a_wrong_variant() {
    assert!(broken_laws::<SUM_INSTEAD_OF_MAX>().contains("merge is idempotent"));
    assert!(broken_laws::<KEEPS_ITS_OWN>().contains("merge commutes"));
    assert!(broken_laws::<MEAN_OF_BOTH>().contains("merge associates"));
    assert!(broken_laws::<JOIN_ABOVE_ZERO>().contains("zero is least"));
    assert!(broken_laws::<ADDS_ONE_MORE>().contains("zero is neutral"));
    assert!(broken_laws::<ADDS_TWICE_THE_OTHER>().contains("add commutes"));
    assert!(broken_laws::<ADDS_HALVES>().contains("add associates"));
    assert!(broken_laws::<SMALLER_SUM>().contains("join is below sum"));
    assert!(broken_laws::<TRIES_AND_WRAPS>().contains("try_add is add or nothing"));
    assert!(broken_laws::<{ u8::MAX }>().is_empty(), "the right one passes");
}
