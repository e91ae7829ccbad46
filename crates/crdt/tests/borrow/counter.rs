//! What the tests ask of a counter: of the real one, and of the literal ones, right and wrong.

use quipu_crdt::{Borrow, BorrowState};
use std::fmt::Debug;
use std::hash::Hash;

pub(crate) type Name = u8;

/// Who holds a dot, and who made it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Held {
    pub(crate) owner: Name,
    pub(crate) creator: Name,
}

/// A Borrow-Counter. What may be refused says whether it was done.
pub(crate) trait Counter: Clone + Debug + Eq + Hash {
    type State: Clone + Debug + Eq + Hash;

    fn new(id: Name) -> Self;
    fn state(&self) -> Self::State;
    fn create(&mut self, owner: Name) -> bool;
    fn add(&mut self, amount: u64) -> bool;
    fn retire(&mut self);
    fn transfer(&mut self, from: Name) -> bool;
    fn merge(&mut self, state: &Self::State) -> bool;
    fn value(&self) -> u64;
    fn dots(&self) -> Vec<Held>;
}

impl Counter for Borrow<Name, u64> {
    type State = BorrowState<Name, u64>;

    fn new(id: Name) -> Self {
        Borrow::new(id)
    }

    fn state(&self) -> Self::State {
        self.state().clone()
    }

    fn create(&mut self, owner: Name) -> bool {
        self.create(&owner).is_ok()
    }

    fn add(&mut self, amount: u64) -> bool {
        self.add(&amount).is_ok()
    }

    fn retire(&mut self) {
        self.retire();
    }

    fn transfer(&mut self, from: Name) -> bool {
        self.transfer(&from).is_ok()
    }

    fn merge(&mut self, state: &Self::State) -> bool {
        self.merge(state).is_ok()
    }

    fn value(&self) -> u64 {
        self.value()
    }

    fn dots(&self) -> Vec<Held> {
        let owners = self.state().store().iter();
        let held = |(&owner, dots): (&Name, &quipu_crdt::causal::DotFun<_, _>)| {
            dots.iter().map(|(dot, _)| Held { owner, creator: dot.creator }).collect::<Vec<_>>()
        };
        owners.flat_map(held).collect()
    }
}
