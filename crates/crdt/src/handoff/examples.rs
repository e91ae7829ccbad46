//! The two examples of the paper's section 9: a map of counters, and a counter that also goes down. Neither
//! needs a merge of its own: they are handoff over another tally.

use super::{AddError, Handoff};
use crate::{Id, Pn};
use std::collections::BTreeMap;
use std::fmt::Debug;

/// Many counters that share slots, tokens and clocks.
///
/// ```
/// use quipu_crdt::handoff::Handoff;
/// use std::collections::BTreeMap;
/// let mut counters = Handoff::<_, BTreeMap<&str, u64>>::new("site", 0);
/// counters.increment("likes", 3)?;
/// assert_eq!(counters.fetch_key(&"likes"), 3);
/// assert_eq!(counters.fetch_key(&"views"), 0);
/// # Ok::<(), quipu_crdt::handoff::AddError>(())
/// ```
impl<I: Id, K: Ord + Clone + Debug> Handoff<I, BTreeMap<K, u64>> {
    /// Adds to one counter.
    pub fn increment(&mut self, key: K, amount: u64) -> Result<(), AddError> {
        self.add(&BTreeMap::from([(key, amount)]))
    }

    /// The value of one counter.
    pub fn fetch_key(&self, key: &K) -> u64 {
        self.fetch().get(key).copied().unwrap_or(0)
    }
}

/// A counter that also goes down.
///
/// ```
/// use quipu_crdt::{Pn, handoff::Handoff};
/// let mut counter = Handoff::<_, Pn>::new("site", 0);
/// counter.increase(5)?;
/// counter.decrease(7)?;
/// assert_eq!(counter.value(), -2);
/// # Ok::<(), quipu_crdt::handoff::AddError>(())
/// ```
impl<I: Id> Handoff<I, Pn> {
    /// Adds.
    pub fn increase(&mut self, amount: u64) -> Result<(), AddError> {
        self.add(&Pn::added(amount))
    }

    /// Subtracts.
    pub fn decrease(&mut self, amount: u64) -> Result<(), AddError> {
        self.add(&Pn::subtracted(amount))
    }

    /// What was added less what was subtracted, as far as it is safe to report.
    pub fn value(&self) -> i128 {
        self.fetch().value()
    }
}
