//! What was counted of the operations of one peer: each of them once.

use super::outbox::pair;
use crate::{Pn, Tally};
use minicbor::decode::Error;
use minicbor::{Decode, Decoder, Encode};
use std::collections::BTreeMap;

/// How far ahead of the first missing operation others are taken. One that is further ahead is not taken
/// and not acknowledged, so it comes again; this bounds what is remembered of each peer.
pub const OUT_OF_ORDER_OPERATIONS_MAX: u64 = 1024;

/// The operations of one peer that were counted: all up to a mark, and some beyond a gap.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Encode)]
pub(super) struct Heard {
    /// The operations 1 to this number were counted: the high-water mark.
    #[n(0)]
    mark: u64,
    /// The sum of those.
    #[n(1)]
    sum: Pn,
    /// Counted as well, with a gap before them; by number. They move into `sum` when the gap fills.
    #[n(2)]
    early: BTreeMap<u64, i64>,
}

impl Heard {
    /// All operations up to this number were counted.
    pub(super) fn mark(&self) -> u64 {
        self.mark
    }

    /// How many were counted beyond a gap.
    pub(super) fn early(&self) -> usize {
        self.early.len()
    }

    /// The sum of all that was counted.
    pub(super) fn value(&self) -> i128 {
        self.sum.value() + self.early.values().map(|&amount| i128::from(amount)).sum::<i128>()
    }

    /// Counts an operation, unless it was counted before or is too far ahead.
    pub(super) fn take(&mut self, number: u64, amount: i64) {
        if number > self.mark && number - self.mark <= OUT_OF_ORDER_OPERATIONS_MAX {
            self.early.entry(number).or_insert(amount);
            self.close_gap();
        }
    }

    /// Takes the sum of the operations 1 to `folded` in place of those of them that were counted one by one.
    pub(super) fn take_summary(&mut self, folded: u64, sum: Pn) {
        if folded > self.mark {
            self.mark = folded;
            self.sum = sum;
            self.early.retain(|&number, _| number > folded);
            self.close_gap();
        }
    }

    fn close_gap(&mut self) {
        while let Some(next) = self.mark.checked_add(1)
            && let Some(amount) = self.early.remove(&next)
        {
            self.mark = next;
            // A source refuses to count before its own sum overflows: only a dishonest one saturates.
            self.sum.saturating_add(&pair(amount));
        }
    }

    fn is_valid(&self) -> bool {
        let is_ahead = |&number: &u64| {
            number > self.mark && (2..=OUT_OF_ORDER_OPERATIONS_MAX).contains(&(number - self.mark))
        };
        self.early.keys().all(is_ahead)
    }
}

impl<'b, C> Decode<'b, C> for Heard {
    fn decode(decoder: &mut Decoder<'b>, context: &mut C) -> Result<Self, Error> {
        #[derive(Decode)]
        struct Wire {
            #[n(0)]
            mark: u64,
            #[n(1)]
            sum: Pn,
            #[n(2)]
            early: BTreeMap<u64, i64>,
        }
        let Wire { mark, sum, early } = Wire::decode(decoder, context)?;
        let heard = Heard { mark, sum, early };
        if !heard.is_valid() {
            return Err(Error::message("operations that are not within reach beyond a gap"));
        }
        Ok(heard)
    }
}
