//! The laws of [`Merge`] and [`Tally`], each as one check over given values.
//!
//! A check returns the law that is broken, with the values that break it, instead of panicking: so a test
//! can also demand that a wrong implementation is caught.

use crate::{Merge, Tally};
use std::fmt::Debug;

/// The law that does not hold, and for which values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broken {
    /// The name of the law.
    pub law: &'static str,
    /// The values, as `Debug` prints them.
    pub values: String,
}

fn holds(law: &'static str, holds: bool, values: &impl Debug) -> Result<(), Broken> {
    if holds { Ok(()) } else { Err(Broken { law, values: format!("{values:?}") }) }
}

fn join<M: Merge + Clone>(x: &M, y: &M) -> M {
    let mut joined = x.clone();
    joined.merge(y);
    joined
}

fn sum<T: Tally>(x: &T, y: &T) -> T {
    let mut total = x.clone();
    total.saturating_add(y);
    total
}

/// All laws of [`Merge`].
pub fn check_merge<M: Merge + Clone + PartialEq + Debug>(x: &M, y: &M, z: &M) -> Result<(), Broken> {
    merge_commutes(x, y)?;
    merge_associates(x, y, z)?;
    merge_is_idempotent(x)
}

/// All laws of [`Tally`], those of [`Merge`] included.
pub fn check_tally<T: Tally>(x: &T, y: &T, z: &T) -> Result<(), Broken> {
    check_merge(x, y, z)?;
    add_commutes(x, y)?;
    add_associates(x, y, z)?;
    zero_is_neutral(x)?;
    zero_is_least(x)?;
    join_is_below_sum(x, y)?;
    try_add_is_add_or_nothing(x, y)
}

/// x ⊔ y = y ⊔ x
pub fn merge_commutes<M: Merge + Clone + PartialEq + Debug>(x: &M, y: &M) -> Result<(), Broken> {
    holds("merge commutes", join(x, y) == join(y, x), &(x, y))
}

/// (x ⊔ y) ⊔ z = x ⊔ (y ⊔ z)
pub fn merge_associates<M: Merge + Clone + PartialEq + Debug>(x: &M, y: &M, z: &M) -> Result<(), Broken> {
    holds("merge associates", join(&join(x, y), z) == join(x, &join(y, z)), &(x, y, z))
}

/// x ⊔ x = x
pub fn merge_is_idempotent<M: Merge + Clone + PartialEq + Debug>(x: &M) -> Result<(), Broken> {
    holds("merge is idempotent", join(x, x) == *x, x)
}

/// x ⊕ y = y ⊕ x
pub fn add_commutes<T: Tally>(x: &T, y: &T) -> Result<(), Broken> {
    holds("add commutes", sum(x, y) == sum(y, x), &(x, y))
}

/// (x ⊕ y) ⊕ z = x ⊕ (y ⊕ z)
pub fn add_associates<T: Tally>(x: &T, y: &T, z: &T) -> Result<(), Broken> {
    holds("add associates", sum(&sum(x, y), z) == sum(x, &sum(y, z)), &(x, y, z))
}

/// x ⊕ 0 = x, and zero is what `is_zero` says
pub fn zero_is_neutral<T: Tally>(x: &T) -> Result<(), Broken> {
    let zero = T::default();
    holds("zero is zero", zero.is_zero() && x.is_zero() == (*x == zero), x)?;
    holds("zero is neutral", sum(x, &zero) == *x, x)
}

/// x ⊔ 0 = x
pub fn zero_is_least<T: Tally>(x: &T) -> Result<(), Broken> {
    holds("zero is least", join(x, &T::default()) == *x, x)
}

/// x ⊔ y ⊑ x ⊕ y
pub fn join_is_below_sum<T: Tally>(x: &T, y: &T) -> Result<(), Broken> {
    let total = sum(x, y);
    holds("join is below sum", join(&join(x, y), &total) == total, &(x, y))
}

/// `try_add` is ⊕, or leaves the value as it was
pub fn try_add_is_add_or_nothing<T: Tally>(x: &T, y: &T) -> Result<(), Broken> {
    let mut added = x.clone();
    let expected = match added.try_add(y) {
        Ok(()) => sum(x, y),
        Err(_) => x.clone(),
    };
    holds("try_add is add or nothing", added == expected, &(x, y))
}
