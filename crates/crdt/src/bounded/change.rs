//! What a replica is about to write into its own row, and why it may refuse to.

use super::{IN_FLIGHT_TRANSFERS_MAX, Right};
use crate::algebra::Twin;
use crate::{Overflow, Pn, Tally};

/// There are not enough rights at this replica. State unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "{needed} {right} are needed; {here} are here and {elsewhere} are known at other replicas; \
     nothing was changed"
)]
pub struct OutOfRights {
    /// The kind that is missing.
    pub right: Right,
    /// How many are needed.
    pub needed: u64,
    /// How many this replica holds.
    pub here: u128,
    /// How many the others hold, as far as this replica knows. They may have used or made some since.
    pub elsewhere: u128,
}

impl OutOfRights {
    /// Checks that `needed` rights are here. Without a bound there are none and none are needed.
    pub(super) fn unless_here(
        right: Right,
        needed: u64,
        here: Option<i128>,
        in_all: Option<i128>,
    ) -> Result<(), Self> {
        match (here, in_all) {
            (Some(here), Some(in_all)) if here < i128::from(needed) => {
                let elsewhere = permission(in_all - here);
                Err(OutOfRights { right, needed, here: permission(here), elsewhere })
            }
            _ => Ok(()),
        }
    }
}

/// A change that cannot be made here and now. State unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// Not enough rights here.
    #[error(transparent)]
    OutOfRights(#[from] OutOfRights),
    /// This replica has counted or passed on so much that one of its totals is full.
    #[error(transparent)]
    Overflow(#[from] Overflow),
    /// No bound limits this direction, so there are no rights to pass on, and none are needed.
    #[error("this counter has no {right}, because no bound limits them; nothing was changed")]
    NoSuchRight {
        /// The kind that does not exist.
        right: Right,
    },
    /// The receiver is the giver.
    #[error("rights can be passed on to another replica only; nothing was changed")]
    ToItself,
    /// Only [`CompactBounded`](super::CompactBounded): the receivers have not been heard of for long.
    #[error("{IN_FLIGHT_TRANSFERS_MAX} transfers of this replica have not arrived yet; nothing was changed")]
    TooManyInFlight,
}

/// A state that cannot be merged into this one. State unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum MergeError {
    /// The other state is of another counter, or of one that was created twice.
    #[error("the counters have different definitions; nothing was merged")]
    DifferentDefinition,
    /// Another replica writes our row.
    #[error(transparent)]
    Twin(#[from] Twin),
}

/// A change of one's own row that has been found possible, for `apply` on the state that it was prepared on.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "nothing is counted until it is applied"]
pub struct Prepared<I> {
    pub(super) change: Change<I>,
    /// The replica on which it was prepared.
    pub(super) at: I,
    /// How much the own row had recorded: two changes prepared on the same rights must not both be applied.
    pub(super) progress: u128,
}

/// What changes.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Change<I> {
    Count(Pn),
    PassOn { right: Right, amount: u64, to: I },
}

impl<I: PartialEq> Prepared<I> {
    /// The change, unless it changes nothing. `at` and `progress` are those of the state it is applied to.
    pub(super) fn change_on(self, at: &I, progress: u128) -> Option<Change<I>> {
        assert!(self.at == *at, "applied to another replica than it was prepared on");
        assert!(self.progress == progress, "applied to another state than it was prepared on");
        match &self.change {
            Change::Count(amount) if amount.is_zero() => None,
            Change::PassOn { amount: 0, .. } => None,
            _ => Some(self.change),
        }
    }
}

/// A right is a permission: a debt, which only a forged state can show, is none.
pub(super) fn permission(balance: i128) -> u128 {
    u128::try_from(balance).unwrap_or(0)
}
