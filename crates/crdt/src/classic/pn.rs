//! The counter that goes both ways.

use super::Slots;
use crate::algebra::Twin;
use crate::{Id, Merge, Overflow, Pn};
use minicbor::{Decode, Encode};

/// A replica of a counter that goes up and down (PN-Counter).
///
/// Nothing is ever taken out of a slot: a decrement grows a number of its own, and the value is the
/// difference of two numbers that only grow. So it merges like a [`GCounter`](super::GCounter).
///
/// ```
/// use quipu_crdt::classic::PnCounter;
/// let (mut a, mut b) = (PnCounter::new("A"), PnCounter::new("B"));
/// a.inc(10)?;
/// a.dec(3)?;
/// b.dec(5)?;
/// a.merge(b.slots());
/// b.merge(a.slots());
/// assert_eq!((a.value(), b.value()), (2, 2));
/// # Ok::<(), quipu_crdt::Overflow>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash, Encode, Decode)]
pub struct PnCounter<I: Id> {
    #[n(0)]
    id: I,
    #[n(1)]
    slots: Slots<I, Pn>,
}

impl<I: Id> PnCounter<I> {
    /// A replica that has counted nothing yet.
    pub fn new(id: I) -> Self {
        PnCounter { id, slots: Slots::default() }
    }

    /// The name of this replica.
    pub fn id(&self) -> &I {
        &self.id
    }

    /// Counts `amount` up.
    pub fn inc(&mut self, amount: u64) -> Result<(), Overflow> {
        self.slots.count(&self.id, &Pn::added(amount))
    }

    /// Counts `amount` down; the value may become negative.
    pub fn dec(&mut self, amount: u64) -> Result<(), Overflow> {
        self.slots.count(&self.id, &Pn::subtracted(amount))
    }

    /// What all replicas have added less what they have subtracted, as far as is known here.
    pub fn value(&self) -> i128 {
        self.slots.value()
    }

    /// The state, which is also the message to send to anybody.
    pub fn slots(&self) -> &Slots<I, Pn> {
        &self.slots
    }

    /// Takes in the state of another replica.
    pub fn merge(&mut self, other: &Slots<I, Pn>) {
        self.slots.merge(other);
    }

    /// Takes in the state of another replica, unless it knows more of our slot than we do. State unchanged
    /// then.
    pub fn try_merge(&mut self, other: &Slots<I, Pn>) -> Result<(), Twin> {
        if !self.slots.covers(&self.id, &other.of(&self.id)) {
            return Err(Twin);
        }
        self.merge(other);
        Ok(())
    }
}
