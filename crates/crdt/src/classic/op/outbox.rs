//! The operations of this replica that are not acknowledged by everybody yet.

use crate::{Overflow, Pn, Tally};
use minicbor::decode::Error;
use minicbor::{Decode, Decoder, Encode};
use std::collections::VecDeque;

/// How many operations are kept one by one for peers that have not acknowledged them. Older ones are kept
/// as their sum, so an absent peer costs a bounded amount of memory and nobody is ever kept from counting.
pub const OUTBOX_OPERATIONS_MAX: usize = 1024;

/// The first operations folded into a sum, and the rest one by one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Encode)]
pub(super) struct Outbox {
    /// The operations 1 to this number are folded.
    #[n(0)]
    folded: u64,
    /// The sum of the folded ones.
    #[n(1)]
    folded_sum: Pn,
    /// The amounts of the operations after them, in order.
    #[n(2)]
    pending: VecDeque<i64>,
    /// The sum of all, folded and pending. Kept so that counting does not walk over the pending ones.
    #[n(3)]
    sum: Pn,
}

/// An amount as the pair that is counted.
pub(super) fn pair(amount: i64) -> Pn {
    if amount < 0 { Pn::subtracted(amount.unsigned_abs()) } else { Pn::added(amount.unsigned_abs()) }
}

impl Outbox {
    /// The number of the newest operation; 0 before the first.
    pub(super) fn last(&self) -> u64 {
        self.folded + self.pending.len() as u64
    }

    /// The sum of all operations.
    pub(super) fn sum(&self) -> Pn {
        self.sum
    }

    /// How many operations are kept one by one.
    pub(super) fn pending(&self) -> usize {
        self.pending.len()
    }

    /// Counts, and returns the number of the operation.
    pub(super) fn push(&mut self, amount: i64) -> Result<u64, Overflow> {
        let sequence = self.last().checked_add(1).ok_or(Overflow)?;
        self.sum.try_add(&pair(amount))?;
        self.pending.push_back(amount);
        if self.pending.len() > OUTBOX_OPERATIONS_MAX {
            self.fold_first();
        }
        Ok(sequence)
    }

    /// Everybody has acknowledged the operations up to this one.
    pub(super) fn fold_until(&mut self, acknowledged: u64) {
        while self.folded < acknowledged && !self.pending.is_empty() {
            self.fold_first();
        }
    }

    fn fold_first(&mut self) {
        if let Some(amount) = self.pending.pop_front() {
            self.folded += 1;
            // A part of `sum`, which fits: it does not saturate.
            self.folded_sum.saturating_add(&pair(amount));
        }
    }

    /// How many operations were folded and their sum, for somebody who has them only up to `acknowledged`
    /// and so lacks some of them.
    pub(super) fn summary_after(&self, acknowledged: u64) -> Option<(u64, Pn)> {
        (acknowledged < self.folded).then_some((self.folded, self.folded_sum))
    }

    /// The numbers and amounts of the pending operations after `acknowledged`.
    pub(super) fn pending_after(&self, acknowledged: u64) -> impl Iterator<Item = (u64, i64)> {
        let numbered = self.pending.iter().zip(1..).map(|(&amount, offset)| (self.folded + offset, amount));
        numbered.filter(move |&(number, _)| number > acknowledged)
    }

    fn is_valid(&self) -> bool {
        let mut sum = self.folded_sum;
        self.pending.len() <= OUTBOX_OPERATIONS_MAX
            && self.folded.checked_add(self.pending.len() as u64).is_some()
            && self.pending.iter().all(|&amount| amount != 0 && sum.try_add(&pair(amount)).is_ok())
            && sum == self.sum
    }
}

impl<'b, C> Decode<'b, C> for Outbox {
    fn decode(decoder: &mut Decoder<'b>, context: &mut C) -> Result<Self, Error> {
        #[derive(Decode)]
        struct Wire {
            #[n(0)]
            folded: u64,
            #[n(1)]
            folded_sum: Pn,
            #[n(2)]
            pending: VecDeque<i64>,
            #[n(3)]
            sum: Pn,
        }
        let Wire { folded, folded_sum, pending, sum } = Wire::decode(decoder, context)?;
        let outbox = Outbox { folded, folded_sum, pending, sum };
        if !outbox.is_valid() {
            return Err(Error::message("an outbox that does not add up"));
        }
        Ok(outbox)
    }
}
