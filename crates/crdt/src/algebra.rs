//! The algebra that all counters share: a join that makes replicas agree, and a sum that counts.
//!
//! [`Merge`] is the join of a semilattice; [`Tally`] is what can be counted and moved between replicas
//! ("Scalable eventually consistent counters over unreliable networks", Almeida and Baquero, section 9).
//! The laws written on the traits are checked by [`crate::testing::laws`].

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::hash::Hash;

/// The name of a replica.
///
/// Whoever makes two replicas with one name breaks every promise of this crate; where a merge can notice it,
/// it reports a [`Twin`].
pub trait Id: Clone + Ord + Hash + Debug {}
impl<I: Clone + Ord + Hash + Debug> Id for I {}

/// The join ⊔ of a semilattice.
///
/// Laws, for all x, y, z:
/// - commutative: x ⊔ y = y ⊔ x, so messages may be reordered;
/// - associative: (x ⊔ y) ⊔ z = x ⊔ (y ⊔ z), so they may be combined on the way;
/// - idempotent: x ⊔ x = x, so they may be repeated.
pub trait Merge {
    /// Replaces `self` by `self ⊔ other`. Cannot fail and cannot overflow.
    fn merge(&mut self, other: &Self);
}

/// A sum would exceed what its type can hold. State unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the sum would overflow 64 bits; nothing was added")]
pub struct Overflow;

/// Another replica writes under the name of this one: it knows more of us than we do. State unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("another replica writes under the name of this one; nothing was merged")]
pub struct Twin;

/// What is counted: a commutative monoid ⊕ that is also a join semilattice ⊔.
///
/// Laws beside those of [`Merge`], for all x, y, z:
/// - ⊕ is commutative and associative;
/// - zero (the `Default`) is neutral for ⊕ and is the least element of ⊔: x ⊕ 0 = x = x ⊔ 0;
/// - a sum is never below a join: x ⊔ y ⊑ x ⊕ y, that is (x ⊔ y) ⊔ (x ⊕ y) = x ⊕ y;
/// - [`try_add`](Tally::try_add) is ⊕ where it succeeds, and changes nothing where it does not.
///
/// Values saturate in ⊕ so that a report of a sum can neither wrap nor panic in the middle of a merge; what
/// is *moved or counted* goes through `try_add`, which refuses instead.
pub trait Tally: Merge + Clone + Default + PartialEq + Debug {
    /// Is this the neutral element?
    fn is_zero(&self) -> bool;

    /// Exact ⊕: counts `amount`, or refuses and leaves `self` unchanged.
    fn try_add(&mut self, amount: &Self) -> Result<(), Overflow>;

    /// ⊕ that stops at the largest value. Only for reports, which are lower bounds anyway.
    fn saturating_add(&mut self, amount: &Self);
}

impl Merge for u64 {
    fn merge(&mut self, other: &Self) {
        *self = (*self).max(*other);
    }
}

impl Tally for u64 {
    fn is_zero(&self) -> bool {
        *self == 0
    }

    fn try_add(&mut self, amount: &Self) -> Result<(), Overflow> {
        *self = self.checked_add(*amount).ok_or(Overflow)?;
        Ok(())
    }

    fn saturating_add(&mut self, amount: &Self) {
        *self = u64::saturating_add(*self, *amount);
    }
}

/// What was added and what was subtracted, each of which only grows: the pair (p, n).
///
/// ```
/// use quipu_crdt::{Pn, Tally};
/// let mut tally = Pn::added(10);
/// tally.try_add(&Pn::subtracted(3))?;
/// assert_eq!(tally.value(), 7);
/// # Ok::<(), quipu_crdt::Overflow>(())
/// ```
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, minicbor::Encode, minicbor::Decode,
)]
pub struct Pn {
    /// p: the sum of all additions.
    #[n(0)]
    pub added: u64,
    /// n: the sum of all subtractions.
    #[n(1)]
    pub subtracted: u64,
}

impl Pn {
    /// An addition of `amount`.
    pub fn added(amount: u64) -> Self {
        Pn { added: amount, subtracted: 0 }
    }

    /// A subtraction of `amount`.
    pub fn subtracted(amount: u64) -> Self {
        Pn { added: 0, subtracted: amount }
    }

    /// p − n. Wide enough for every pair.
    pub fn value(&self) -> i128 {
        i128::from(self.added) - i128::from(self.subtracted)
    }
}

impl Merge for Pn {
    fn merge(&mut self, other: &Self) {
        self.added.merge(&other.added);
        self.subtracted.merge(&other.subtracted);
    }
}

impl Tally for Pn {
    fn is_zero(&self) -> bool {
        self.added == 0 && self.subtracted == 0
    }

    fn try_add(&mut self, amount: &Self) -> Result<(), Overflow> {
        let mut sum = *self;
        sum.added.try_add(&amount.added)?;
        sum.subtracted.try_add(&amount.subtracted)?;
        *self = sum;
        Ok(())
    }

    fn saturating_add(&mut self, amount: &Self) {
        Tally::saturating_add(&mut self.added, &amount.added);
        Tally::saturating_add(&mut self.subtracted, &amount.subtracted);
    }
}

impl<K: Ord + Clone, V: Merge + Clone> Merge for BTreeMap<K, V> {
    fn merge(&mut self, other: &Self) {
        for (key, theirs) in other {
            match self.get_mut(key) {
                Some(ours) => ours.merge(theirs),
                None => drop(self.insert(key.clone(), theirs.clone())),
            }
        }
    }
}

/// A map of tallies is a tally, key by key; a missing key is zero. An entry that is zero is never stored, so
/// equal maps are equal values.
impl<K: Ord + Clone + Debug, V: Tally> Tally for BTreeMap<K, V> {
    fn is_zero(&self) -> bool {
        self.values().all(V::is_zero)
    }

    fn try_add(&mut self, amount: &Self) -> Result<(), Overflow> {
        for (key, more) in amount {
            if let Some(ours) = self.get(key) {
                ours.clone().try_add(more)?;
            }
        }
        Tally::saturating_add(self, amount); // Checked above: no entry saturates.
        Ok(())
    }

    fn saturating_add(&mut self, amount: &Self) {
        for (key, more) in amount {
            match self.get_mut(key) {
                Some(ours) => ours.saturating_add(more),
                None if more.is_zero() => {}
                None => drop(self.insert(key.clone(), more.clone())),
            }
        }
    }
}
