//! The real counter and its oracle side by side: after every step they must be in the same state.

use crate::counter::{Counter, Held, Name};
use crate::literal::{self, Literal, RIGHT};
use quipu_crdt::causal::Dot;
use quipu_crdt::{Borrow, BorrowState};

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Pair<R, L> {
    pub(crate) real: R,
    pub(crate) literal: L,
}

pub(crate) type Paired = Pair<Borrow<Name, u64>, Literal<RIGHT>>;

impl Paired {
    /// Does the same to both. Both do it or both refuse, and they agree afterwards.
    fn both(
        &mut self,
        real: impl FnOnce(&mut Borrow<Name, u64>) -> bool,
        literal: impl FnOnce(&mut Literal<RIGHT>) -> bool,
    ) -> bool {
        let done = real(&mut self.real);
        assert_eq!(done, literal(&mut self.literal));
        assert_eq!(as_literal(self.real.state()), self.literal.state());
        done
    }
}

/// The compressed state, written out.
fn as_literal(state: &BorrowState<Name, u64>) -> literal::State<RIGHT> {
    let mut written = literal::State::default();
    for (owner, dots) in state.store().iter() {
        let accounts = written.accounts.entry(*owner).or_default();
        for (dot, account) in dots.iter() {
            let account = literal::Account { frozen: account.frozen, amount: account.amount };
            accounts.insert((dot.creator, dot.number.get()), account);
        }
    }
    for creator in 0..=Name::MAX {
        let numbers = 1..=state.context().max(&creator);
        let dots = numbers.filter_map(|number| Dot::new(creator, number));
        let heard = dots.filter(|dot| state.context().contains(dot));
        written.context.extend(heard.map(|dot| (creator, dot.number.get())));
    }
    written
}

impl Counter for Paired {
    type State = Pair<BorrowState<Name, u64>, literal::State<RIGHT>>;

    fn new(id: Name) -> Self {
        Pair { real: Borrow::new(id), literal: Literal::new(id) }
    }

    fn state(&self) -> Self::State {
        Pair { real: self.real.state().clone(), literal: self.literal.state() }
    }

    fn create(&mut self, owner: Name) -> bool {
        self.both(|real| Counter::create(real, owner), |literal| literal.create(owner))
    }

    fn add(&mut self, amount: u64) -> bool {
        self.both(|real| Counter::add(real, amount), |literal| literal.add(amount))
    }

    fn retire(&mut self) {
        Counter::retire(&mut self.real);
        self.both(
            |_| true,
            |literal| {
                literal.retire();
                true
            },
        );
    }

    fn transfer(&mut self, from: Name) -> bool {
        self.both(|real| Counter::transfer(real, from), |literal| literal.transfer(from))
    }

    fn merge(&mut self, state: &Self::State) -> bool {
        self.both(|real| Counter::merge(real, &state.real), |literal| literal.merge(&state.literal))
    }

    fn value(&self) -> u64 {
        assert_eq!(self.real.value(), self.literal.value());
        self.real.value()
    }

    fn dots(&self) -> Vec<Held> {
        self.real.dots()
    }
}
