//! The two kinds of rights, and how many of each.

use crate::{Merge, Overflow, Pn, Tally};
use std::fmt;

/// The permission to take one unit towards a bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, minicbor::Encode, minicbor::Decode)]
#[cbor(index_only)]
pub enum Right {
    /// To subtract one: exists under a minimum.
    #[n(0)]
    ToSubtract,
    /// To add one: exists under a maximum.
    #[n(1)]
    ToAdd,
}

impl Right {
    /// Both kinds.
    pub const BOTH: [Right; 2] = [Right::ToSubtract, Right::ToAdd];

    /// What counting this has made of such rights, less what it has used.
    pub(super) fn made_by(self, counted: &Pn) -> i128 {
        match self {
            Right::ToSubtract => counted.value(),
            Right::ToAdd => -counted.value(),
        }
    }
}

impl fmt::Display for Right {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Right::ToSubtract => "rights to subtract",
            Right::ToAdd => "rights to add",
        })
    }
}

/// How many rights of each kind. Two numbers that never mix: a counter between two bounds has both.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, minicbor::Encode, minicbor::Decode,
)]
pub struct Rights {
    /// Rights to subtract.
    #[n(0)]
    pub to_subtract: u64,
    /// Rights to add.
    #[n(1)]
    pub to_add: u64,
}

impl Rights {
    /// So many of one kind and none of the other.
    pub fn of(right: Right, amount: u64) -> Self {
        match right {
            Right::ToSubtract => Rights { to_subtract: amount, to_add: 0 },
            Right::ToAdd => Rights { to_subtract: 0, to_add: amount },
        }
    }

    /// How many of this kind.
    pub fn get(&self, right: Right) -> u64 {
        match right {
            Right::ToSubtract => self.to_subtract,
            Right::ToAdd => self.to_add,
        }
    }
}

impl Merge for Rights {
    fn merge(&mut self, other: &Self) {
        self.to_subtract.merge(&other.to_subtract);
        self.to_add.merge(&other.to_add);
    }
}

impl Tally for Rights {
    fn is_zero(&self) -> bool {
        self.to_subtract == 0 && self.to_add == 0
    }

    fn try_add(&mut self, amount: &Self) -> Result<(), Overflow> {
        let mut sum = *self;
        sum.to_subtract.try_add(&amount.to_subtract)?;
        sum.to_add.try_add(&amount.to_add)?;
        *self = sum;
        Ok(())
    }

    fn saturating_add(&mut self, amount: &Self) {
        Tally::saturating_add(&mut self.to_subtract, &amount.to_subtract);
        Tally::saturating_add(&mut self.to_add, &amount.to_add);
    }
}
