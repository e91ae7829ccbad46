//! What a bounded counter is created with, fixed for its life.

use super::Right;
use minicbor::decode::{Decode, Decoder, Error};

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
}

/// Bounds, the initial value, and the replica that holds all rights in the beginning.
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
#[derive(Debug, Clone, PartialEq, Eq, Hash, minicbor::Encode)]
pub struct Definition<I> {
    #[n(0)]
    minimum: Option<i64>,
    #[n(1)]
    maximum: Option<i64>,
    #[n(2)]
    initial: i64,
    #[n(3)]
    creator: I,
}

impl<I> Definition<I> {
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
        Ok(Definition { minimum, maximum, initial, creator })
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

    /// The replica that holds all rights before any are passed on.
    pub fn creator(&self) -> &I {
        &self.creator
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

impl<I: PartialEq> Definition<I> {
    /// The rights that `id` holds in the beginning.
    pub(super) fn initial_rights(&self, right: Right, id: &I) -> Option<i128> {
        let all = self.rights_in_all(right, i128::from(self.initial))?;
        Some(if *id == self.creator { all } else { 0 })
    }
}

/// A definition as it is written, before it is checked.
#[derive(minicbor::Decode)]
struct Written<I> {
    #[n(0)]
    minimum: Option<i64>,
    #[n(1)]
    maximum: Option<i64>,
    #[n(2)]
    initial: i64,
    #[n(3)]
    creator: I,
}

impl<'b, C, I: Decode<'b, C>> Decode<'b, C> for Definition<I> {
    fn decode(decoder: &mut Decoder<'b>, context: &mut C) -> Result<Self, Error> {
        let Written { minimum, maximum, initial, creator } = Written::decode(decoder, context)?;
        Definition::new(minimum, maximum, initial, creator).map_err(Error::message)
    }
}
