//! Where the values of a handoff come from and go to.
//!
//! The handshake moves values; a ledger holds them. The paper's counter is one ledger, a map of counters the
//! same with another tally, the rows of a shard a third.

use super::slot::Token;
use crate::{Id, Overflow, Tally};
use std::collections::BTreeMap;

/// What the [handshake](super::Handshake) needs of whatever holds the values.
pub trait Ledger {
    /// Names of replicas.
    type Id: Id;
    /// What tokens carry.
    type Amount: Tally;
    /// What a view tells of the values: the input of steps 4 and 5.
    type Report;

    /// Counts a token's value as our own, or refuses and changes nothing: then the slot stays open.
    fn credit(&mut self, token: &Token<Self::Id, Self::Amount>) -> Result<(), Overflow>;

    /// Takes all of our own value out, into a token.
    fn withdraw(&mut self) -> Self::Amount;

    /// Step 4, merge vectors.
    fn merge_vectors(&mut self, tiers: Tiers, report: &Self::Report);

    /// Step 5, aggregate.
    fn aggregate(&mut self, tiers: Tiers, report: &Self::Report);
}

/// The tiers of the two replicas of a merge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tiers {
    /// Of the one that merges.
    pub ours: u8,
    /// Of the one that sent.
    pub theirs: u8,
}

/// The ledger of the paper's counter: one tally, known by its parts.
#[derive(Debug, Clone, PartialEq, Eq, Hash, minicbor::Encode, minicbor::Decode)]
pub(super) struct CounterLedger<I: Ord, T> {
    /// What is safe to report. Never shrinks.
    #[n(0)]
    pub(super) val: T,
    /// A lower bound of what lower tiers hold.
    #[n(1)]
    pub(super) below: T,
    /// Counted here and not handed over; `vals[i]` in the paper.
    #[n(2)]
    pub(super) own: T,
    /// What the other tier 0 replicas hold, at tier 0; the rest of `vals` in the paper.
    #[n(3)]
    pub(super) others: BTreeMap<I, T>,
}

/// What a view tells of a counter.
#[derive(Debug, Clone, PartialEq, Eq, Hash, minicbor::Encode, minicbor::Decode)]
pub struct Report<I, T> {
    /// The value that the sender reports.
    #[n(0)]
    pub(super) val: T,
    /// The sender's lower bound of lower tiers.
    #[n(1)]
    pub(super) below: T,
    /// The values of all tier 0 replicas, the sender included, between two of them; else empty.
    #[n(2)]
    pub(super) vals: Vec<(I, T)>,
}

impl<I: Id, T: Tally> CounterLedger<I, T> {
    pub(super) fn new() -> Self {
        CounterLedger { val: T::default(), below: T::default(), own: T::default(), others: BTreeMap::new() }
    }

    #[inline]
    pub(super) fn report(&self, own_id: &I, tiers: Tiers) -> Report<I, T> {
        let mut vals = Vec::new();
        if tiers.ours == 0 && tiers.theirs == 0 {
            vals.reserve_exact(self.others.len() + 1);
            vals.push((own_id.clone(), self.own.clone()));
            vals.extend(self.others.iter().map(|(id, value)| (id.clone(), value.clone())));
        }
        Report { val: self.val.clone(), below: self.below.clone(), vals }
    }

    /// Does the report know more of us than we do?
    pub(super) fn is_behind(&self, own_id: &I, report: &Report<I, T>) -> bool {
        report.vals.iter().filter(|(id, _)| id == own_id).any(|(_, theirs)| {
            let mut joined = self.own.clone();
            joined.merge(theirs);
            joined != self.own
        })
    }
}

/// A counter's ledger in the hands of the replica that owns it: `own_id` tells which entry is its own.
pub(super) struct Owned<'a, I: Ord, T> {
    pub(super) own_id: &'a I,
    pub(super) ledger: &'a mut CounterLedger<I, T>,
}

impl<I: Id, T: Tally> Ledger for Owned<'_, I, T> {
    type Id = I;
    type Amount = T;
    type Report = Report<I, T>;

    fn credit(&mut self, token: &Token<I, T>) -> Result<(), Overflow> {
        self.ledger.own.try_add(&token.value)
    }

    fn withdraw(&mut self) -> T {
        std::mem::take(&mut self.ledger.own)
    }

    fn merge_vectors(&mut self, tiers: Tiers, report: &Report<I, T>) {
        if tiers.ours != 0 || tiers.theirs != 0 {
            return;
        }
        for (id, theirs) in &report.vals {
            if id == self.own_id {
                continue; // Only we write our own entry: theirs is never newer.
            }
            match self.ledger.others.get_mut(id) {
                Some(known) => known.merge(theirs),
                None => drop(self.ledger.others.insert(id.clone(), theirs.clone())),
            }
        }
    }

    /// At equal higher tiers the paper also adds the sender's own value. That counts it twice when the sender
    /// has handed it over in the meantime and we have heard of it from below: so we leave it out.
    fn aggregate(&mut self, tiers: Tiers, report: &Report<I, T>) {
        let CounterLedger { val, below, own, others } = &mut *self.ledger;
        if tiers.ours == tiers.theirs {
            below.merge(&report.below);
        } else if tiers.ours > tiers.theirs {
            below.merge(&report.val);
        }
        if tiers.ours == 0 {
            *val = own.clone();
            others.values().for_each(|other| val.saturating_add(other));
            return;
        }
        if tiers.ours == tiers.theirs {
            val.merge(&report.val);
        }
        let mut known = below.clone();
        known.saturating_add(own);
        val.merge(&known);
    }
}
