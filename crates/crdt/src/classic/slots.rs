//! What each replica has counted, in a slot of its own.

use crate::{Id, Merge, Overflow, Pn, Tally};
use minicbor::decode::Error;
use minicbor::{Decode, Decoder, Encode};
use std::collections::BTreeMap;

/// One slot for each replica that has counted something; the state of [`GCounter`](super::GCounter) with
/// `T = u64` and of [`PnCounter`](super::PnCounter) with `T = Pn`.
///
/// A slot is written by its replica alone and only grows, so of two versions of a slot the larger one is the
/// newer one, and the maximum never throws a count away. A missing slot is zero; a zero is never stored, so
/// equal states are equal values.
///
/// ```
/// use quipu_crdt::{Merge, classic::Slots};
/// let mut at_a = Slots::from_iter([("A", 5), ("B", 1)]);
/// let at_b = Slots::from_iter([("B", 4)]);
/// at_a.merge(&at_b);
/// at_a.merge(&at_b); // Delivered twice: no difference.
/// assert_eq!(at_a.value(), 9);
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash, Encode)]
#[cbor(transparent)]
pub struct Slots<I: Ord, T>(#[n(0)] BTreeMap<I, T>);

impl<I: Ord, T> Default for Slots<I, T> {
    fn default() -> Self {
        Slots(BTreeMap::new())
    }
}

impl<I: Id, T: Tally> Slots<I, T> {
    /// What this replica has counted, as far as is known here.
    pub fn of(&self, id: &I) -> T {
        self.0.get(id).cloned().unwrap_or_default()
    }

    /// All slots that are not zero, by replica.
    pub fn iter(&self) -> impl Iterator<Item = (&I, &T)> {
        self.0.iter()
    }

    /// Has nobody counted anything?
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Is `tally` nothing new about the slot of `id`?
    pub fn covers(&self, id: &I, tally: &T) -> bool {
        let ours = self.of(id);
        let mut joined = ours.clone();
        joined.merge(tally);
        joined == ours
    }

    /// The slots of which somebody who knows `known` does not know all.
    #[must_use]
    pub fn beyond(&self, known: &Self) -> Self {
        Slots(self.iter().filter(|(id, tally)| !known.covers(id, tally)).map(copied).collect())
    }

    /// What is known here of the slots that `asked` has.
    #[must_use]
    pub fn restricted_to(&self, asked: &Self) -> Self {
        Slots(self.iter().filter(|(id, _)| asked.0.contains_key(id)).map(copied).collect())
    }

    /// Counts `amount` in the slot of `id`. Private to the counters: only the owner of a slot may write it.
    pub(super) fn count(&mut self, id: &I, amount: &T) -> Result<(), Overflow> {
        if amount.is_zero() {
            return Ok(());
        }
        match self.0.get_mut(id) {
            Some(slot) => slot.try_add(amount),
            None => {
                self.0.insert(id.clone(), amount.clone());
                Ok(())
            }
        }
    }
}

fn copied<I: Clone, T: Clone>((id, tally): (&I, &T)) -> (I, T) {
    (id.clone(), tally.clone())
}

impl<I: Id> Slots<I, u64> {
    /// The sum of all slots. Wide enough for any number of replicas.
    pub fn value(&self) -> u128 {
        self.0.values().map(|&slot| u128::from(slot)).sum()
    }
}

impl<I: Id> Slots<I, Pn> {
    /// What all have added less what all have subtracted. Wide enough for any number of replicas.
    pub fn value(&self) -> i128 {
        self.0.values().map(Pn::value).sum()
    }
}

impl<I: Id, T: Tally> Merge for Slots<I, T> {
    fn merge(&mut self, other: &Self) {
        Merge::merge(&mut self.0, &other.0);
    }
}

/// Slots as given; several for one replica are joined.
impl<I: Id, T: Tally> FromIterator<(I, T)> for Slots<I, T> {
    fn from_iter<S: IntoIterator<Item = (I, T)>>(slots: S) -> Self {
        let mut joined = Slots::default();
        for (id, tally) in slots {
            if !tally.is_zero() {
                joined.merge(&Slots(BTreeMap::from([(id, tally)])));
            }
        }
        joined
    }
}

impl<'b, C, I: Id + Decode<'b, C>, T: Tally + Decode<'b, C>> Decode<'b, C> for Slots<I, T> {
    fn decode(decoder: &mut Decoder<'b>, context: &mut C) -> Result<Self, Error> {
        let mut slots = BTreeMap::new();
        for slot in decoder.map_iter_with(context)? {
            let (id, tally): (I, T) = slot?;
            if tally.is_zero() {
                return Err(Error::message("a slot that is zero"));
            }
            if slots.insert(id, tally).is_some() {
                return Err(Error::message("two slots for one replica"));
            }
        }
        Ok(Slots(slots))
    }
}
