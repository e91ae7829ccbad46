//! What a bounded counter is created with, fixed for its life.

use super::Right;
use minicbor::decode::{Decode, Decoder, Error};
use minicbor::encode::{self, Encode, Encoder, Write};
use std::collections::BTreeMap;

/// Bounds that no counter can keep. Nothing was created.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadDefinition {
    /// Neither a minimum nor a maximum.
    #[error("a bounded counter needs a minimum, a maximum or both; nothing was created")]
    Unbounded,
    /// The bounds exclude every value.
    #[error("the minimum {minimum} is greater than the maximum {maximum}; nothing was created")]
    Reversed {
        /// The minimum asked for.
        minimum: i64,
        /// The maximum asked for.
        maximum: i64,
    },
    /// The counter would start out of bounds.
    #[error("the initial value {initial} is less than the minimum {minimum}; nothing was created")]
    InitialBelow {
        /// The initial value asked for.
        initial: i64,
        /// The minimum asked for.
        minimum: i64,
    },
    /// The counter would start out of bounds.
    #[error("the initial value {initial} is greater than the maximum {maximum}; nothing was created")]
    InitialAbove {
        /// The initial value asked for.
        initial: i64,
        /// The maximum asked for.
        maximum: i64,
    },
    /// Nobody would hold the rights.
    #[error("the rights are to be spread, and nobody has a share; nothing was created")]
    NoShares,
}

/// Bounds, the initial value, and who holds the rights in the beginning: the creator, or several by shares.
///
/// Every replica of a counter has the same definition, or their rights would not add up; replicas with
/// different ones refuse to merge. Bounds are `i64`, the numbers that users write; the distance of any two
/// fits the `u64` that counts rights, so no range is too large.
///
/// ```
/// use quipu_crdt::bounded::{BadDefinition, Definition};
/// let seats = Definition::between(0, 120, 120, "lisbon")?;
/// assert_eq!(seats.maximum(), Some(120));
///
/// let impossible = Definition::at_least(10, 9, "lisbon");
/// assert_eq!(impossible, Err(BadDefinition::InitialBelow { initial: 9, minimum: 10 }));
/// # Ok::<(), BadDefinition>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Definition<I: Ord> {
    minimum: Option<i64>,
    maximum: Option<i64>,
    initial: i64,
    creator: I,
    /// In which proportion the first rights are spread, none of them zero. Empty: the creator holds all.
    shares: BTreeMap<I, u64>,
}

impl<I: Ord> Definition<I> {
    /// A counter with a minimum.
    pub fn at_least(minimum: i64, initial: i64, creator: I) -> Result<Self, BadDefinition> {
        Definition::new(Some(minimum), None, initial, creator)
    }

    /// A counter with a maximum.
    pub fn at_most(maximum: i64, initial: i64, creator: I) -> Result<Self, BadDefinition> {
        Definition::new(None, Some(maximum), initial, creator)
    }

    /// A counter with both.
    pub fn between(minimum: i64, maximum: i64, initial: i64, creator: I) -> Result<Self, BadDefinition> {
        Definition::new(Some(minimum), Some(maximum), initial, creator)
    }

    /// A counter with the bounds that are given, at least one.
    pub fn new(
        minimum: Option<i64>,
        maximum: Option<i64>,
        initial: i64,
        creator: I,
    ) -> Result<Self, BadDefinition> {
        match (minimum, maximum) {
            (None, None) => return Err(BadDefinition::Unbounded),
            (Some(minimum), Some(maximum)) if minimum > maximum => {
                return Err(BadDefinition::Reversed { minimum, maximum });
            }
            _ => {}
        }
        if let Some(minimum) = minimum.filter(|minimum| initial < *minimum) {
            return Err(BadDefinition::InitialBelow { initial, minimum });
        }
        if let Some(maximum) = maximum.filter(|maximum| initial > *maximum) {
            return Err(BadDefinition::InitialAbove { initial, maximum });
        }
        Ok(Definition { minimum, maximum, initial, creator, shares: BTreeMap::new() })
    }

    /// The same counter with its first rights spread in proportion to these shares, each kind of rights for itself. What
    /// does not divide goes, one right each, to those with the lowest names, so that the sum is exact.
    ///
    /// ```
    /// use quipu_crdt::bounded::{BadDefinition, Bounded, Definition};
    /// let seats = Definition::at_least(0, 100, 1)?.spread([(1, 1), (2, 1), (3, 1)])?;
    /// let seats = Bounded::new(1, seats);
    /// let rights = [1, 2, 3].map(|id| seats.rights_to_subtract(&id));
    /// assert_eq!(rights, [Some(34), Some(33), Some(33)]);
    /// # Ok::<(), BadDefinition>(())
    /// ```
    pub fn spread(mut self, shares: impl IntoIterator<Item = (I, u64)>) -> Result<Self, BadDefinition> {
        self.shares = shares.into_iter().filter(|(_, share)| *share > 0).collect();
        if self.shares.is_empty() {
            return Err(BadDefinition::NoShares);
        }
        if self.shares.len() == 1 && self.shares.contains_key(&self.creator) {
            self.shares.clear();
        }
        Ok(self)
    }

    /// The value is never less.
    pub fn minimum(&self) -> Option<i64> {
        self.minimum
    }

    /// The value is never greater.
    pub fn maximum(&self) -> Option<i64> {
        self.maximum
    }

    /// The value before anything is counted.
    pub fn initial(&self) -> i64 {
        self.initial
    }

    /// The replica that holds all rights before any are passed on, unless they are spread.
    pub fn creator(&self) -> &I {
        &self.creator
    }

    /// In which proportion the first rights are spread; empty if the creator holds all.
    pub fn shares(&self) -> &BTreeMap<I, u64> {
        &self.shares
    }

    /// The replicas that hold rights before any are passed on.
    pub fn first_holders(&self) -> impl Iterator<Item = &I> {
        let creator = self.shares.is_empty().then_some(&self.creator);
        creator.into_iter().chain(self.shares.keys())
    }

    /// Is there a bound for which rights of this kind are needed?
    pub fn limits(&self, right: Right) -> bool {
        match right {
            Right::ToSubtract => self.minimum.is_some(),
            Right::ToAdd => self.maximum.is_some(),
        }
    }

    /// The rights of this kind that all replicas together hold when the counter has this value: its distance
    /// from the bound. `None` where no bound limits them.
    pub fn rights_in_all(&self, right: Right, value: i128) -> Option<i128> {
        match right {
            Right::ToSubtract => self.minimum.map(|minimum| value - i128::from(minimum)),
            Right::ToAdd => self.maximum.map(|maximum| i128::from(maximum) - value),
        }
    }
}

impl<I: Ord> Definition<I> {
    /// The rights that each replica holds in the beginning; they add up to all that there are. `None` where no bound
    /// limits them.
    pub(super) fn first_rights(&self, right: Right) -> Option<Vec<(&I, i128)>> {
        let all = self.rights_in_all(right, i128::from(self.initial))?;
        if self.shares.is_empty() {
            return Some(vec![(&self.creator, all)]);
        }
        // The distance of two numbers of 64 bits, so that no product below overflows.
        let all = all.unsigned_abs();
        let whole: u128 = self.shares.values().map(|share| u128::from(*share)).sum();
        let portion = |share: u64| all * u128::from(share) / whole;
        let mut rest = all - self.shares.values().map(|share| portion(*share)).sum::<u128>();
        let first = self.shares.iter().map(|(id, share)| {
            let extra = rest.min(1);
            rest -= extra;
            (id, (portion(*share) + extra).cast_signed())
        });
        Some(first.collect())
    }

    /// The rights that `id` holds in the beginning.
    pub(super) fn initial_rights(&self, right: Right, id: &I) -> Option<i128> {
        if self.shares.is_empty() {
            let all = self.rights_in_all(right, i128::from(self.initial))?;
            return Some(if *id == self.creator { all } else { 0 });
        }
        let first = self.first_rights(right)?;
        Some(first.into_iter().find(|(holder, _)| *holder == id).map_or(0, |(_, rights)| rights))
    }
}

/// A definition as it is written. One whose rights are spread has no creator where others have theirs: a version that
/// does not know of shares would give all rights to the creator, and must not read it.
#[derive(minicbor::Encode, minicbor::Decode)]
struct Written<I, S> {
    #[n(0)]
    minimum: Option<i64>,
    #[n(1)]
    maximum: Option<i64>,
    #[n(2)]
    initial: i64,
    #[n(3)]
    creator: Option<I>,
    #[n(4)]
    spread: Option<WrittenSpread<I, S>>,
}

#[derive(minicbor::Encode, minicbor::Decode)]
struct WrittenSpread<I, S> {
    #[n(0)]
    creator: I,
    #[n(1)]
    shares: S,
}

impl<C, I: Ord + Encode<C>> Encode<C> for Definition<I> {
    fn encode<W: Write>(
        &self,
        encoder: &mut Encoder<W>,
        context: &mut C,
    ) -> Result<(), encode::Error<W::Error>> {
        let Definition { minimum, maximum, initial, creator, shares } = self;
        let (creator, spread) = match shares.is_empty() {
            true => (Some(creator), None),
            false => (None, Some(WrittenSpread { creator, shares })),
        };
        let (minimum, maximum, initial) = (*minimum, *maximum, *initial);
        Written { minimum, maximum, initial, creator, spread }.encode(encoder, context)
    }
}

impl<'b, C, I: Ord + Decode<'b, C>> Decode<'b, C> for Definition<I> {
    fn decode(decoder: &mut Decoder<'b>, context: &mut C) -> Result<Self, Error> {
        let written: Written<I, BTreeMap<I, u64>> = Written::decode(decoder, context)?;
        let Written { minimum, maximum, initial, creator, spread } = written;
        let definition = |creator| Definition::new(minimum, maximum, initial, creator);
        match (creator, spread) {
            (Some(creator), None) => definition(creator),
            (None, Some(WrittenSpread { creator, shares })) => {
                definition(creator).and_then(|definition| definition.spread(shares))
            }
            _ => return Err(Error::message("a definition without a creator, or with two")),
        }
        .map_err(Error::message)
    }
}
