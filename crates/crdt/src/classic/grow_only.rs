//! The counter that only grows.

use super::Slots;
use crate::algebra::Twin;
use crate::{Id, Merge, Overflow};
use minicbor::{Decode, Encode};

/// A replica of a counter that only grows (G-Counter).
///
/// It counts in its own slot alone, and learns of the others by merging their [`Slots`]. Replicas that have
/// seen the same increments report the same value, whatever was lost, repeated or reordered on the way.
///
/// ```
/// use quipu_crdt::classic::GCounter;
/// let (mut a, mut b) = (GCounter::new("A"), GCounter::new("B"));
/// a.inc(3)?;
/// b.inc(5)?;
/// a.merge(b.slots());
/// b.merge(a.slots());
/// assert_eq!((a.value(), b.value()), (8, 8));
/// # Ok::<(), quipu_crdt::Overflow>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash, Encode, Decode)]
pub struct GCounter<I: Id> {
    #[n(0)]
    id: I,
    #[n(1)]
    slots: Slots<I, u64>,
}

impl<I: Id> GCounter<I> {
    /// A replica that has counted nothing yet.
    pub fn new(id: I) -> Self {
        GCounter { id, slots: Slots::default() }
    }

    /// The name of this replica.
    pub fn id(&self) -> &I {
        &self.id
    }

    /// Counts `amount` in the slot of this replica.
    pub fn inc(&mut self, amount: u64) -> Result<(), Overflow> {
        self.slots.count(&self.id, &amount)
    }

    /// The sum of all that is known here.
    pub fn value(&self) -> u128 {
        self.slots.value()
    }

    /// The state, which is also the message to send to anybody.
    pub fn slots(&self) -> &Slots<I, u64> {
        &self.slots
    }

    /// Takes in the state of another replica.
    pub fn merge(&mut self, other: &Slots<I, u64>) {
        self.slots.merge(other);
    }

    /// Takes in the state of another replica, unless it knows more of our slot than we do. State unchanged
    /// then.
    pub fn try_merge(&mut self, other: &Slots<I, u64>) -> Result<(), Twin> {
        if !self.slots.covers(&self.id, &other.of(&self.id)) {
            return Err(Twin);
        }
        self.merge(other);
        Ok(())
    }
}
