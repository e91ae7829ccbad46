//! The two halves of a handoff: the slot that permits to receive a value, and the token that carries it.

use crate::{Id, Tally};

/// The permission to receive one value from one source: what the target remembers of an open handoff.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, minicbor::Encode, minicbor::Decode)]
pub struct Slot {
    /// The clock of the source for which the slot was opened; `sck` in the paper.
    #[n(0)]
    pub source_clock: u64,
    /// The clock of the target when it opened the slot, different for each of its slots; `dck` in the paper.
    #[n(1)]
    pub target_clock: u64,
}

/// A value on its way from a source to the one slot of the target that it fits.
#[derive(Debug, Clone, PartialEq, Eq, Hash, minicbor::Encode, minicbor::Decode)]
pub struct Token<I, A> {
    /// Who counted the value.
    #[n(0)]
    pub source: I,
    /// Whose slot it fits.
    #[n(1)]
    pub target: I,
    /// The slot.
    #[n(2)]
    pub slot: Slot,
    /// What moves.
    #[n(3)]
    pub value: A,
}

/// The name of a token, without its value: how a target says what is closed.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, minicbor::Encode, minicbor::Decode)]
pub struct TokenName<I> {
    /// Who made it.
    #[n(0)]
    pub source: I,
    /// For whom.
    #[n(1)]
    pub target: I,
    /// The target's clock in its slot: with the target, it names the slot for ever.
    #[n(2)]
    pub target_clock: u64,
}

impl<I: Id, A: Tally> Token<I, A> {
    /// The name of this token.
    pub fn name(&self) -> TokenName<I> {
        TokenName {
            source: self.source.clone(),
            target: self.target.clone(),
            target_clock: self.slot.target_clock,
        }
    }

    pub(super) fn has_name(&self, name: &TokenName<I>) -> bool {
        self.slot.target_clock == name.target_clock
            && self.source == name.source
            && self.target == name.target
    }
}
