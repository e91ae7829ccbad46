//! The paper's formulas written down as they stand, with plain sets and maps: an oracle for the real
//! counter. Each variant but the right one gets one thing wrong, and must be caught.

use crate::counter::{Counter, Held, Name};
use quipu_crdt::Merge;
use std::collections::{BTreeMap, BTreeSet};

/// The paper, with the correction that `transfer` takes only what the transferring node created.
pub(crate) const RIGHT: u8 = 0;
/// The paper as printed.
pub(crate) const TAKES_ANOTHERS_DOT: u8 = 1;
/// Joins stores without a look at contexts.
pub(crate) const KEEPS_REMOVED_DOTS: u8 = 2;
pub(crate) const SUMS_IN_JOIN: u8 = 3;
/// In a join, active wins over frozen.
pub(crate) const FORGETS_FREEZE: u8 = 4;
pub(crate) const TRANSFER_REMOVES_NOTHING: u8 = 5;
/// Drops a dot from the store and the context.
pub(crate) const FORGETS_REMOVAL: u8 = 6;
/// Takes the next dot after those in the store, not those in the context.
pub(crate) const REUSES_DOTS: u8 = 7;
pub(crate) const ADDS_TO_FROZEN: u8 = 8;
/// Takes dots that their owner may still add to.
pub(crate) const TAKES_ACTIVE_DOTS: u8 = 9;

type Dot = (Name, u64);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Account {
    pub(crate) frozen: bool,
    pub(crate) amount: u64,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct State<const VARIANT: u8> {
    pub(crate) accounts: BTreeMap<Name, BTreeMap<Dot, Account>>,
    pub(crate) context: BTreeSet<Dot>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Literal<const VARIANT: u8> {
    id: Name,
    state: State<VARIANT>,
}

impl<const VARIANT: u8> State<VARIANT> {
    fn join_accounts(&self, other: &Self, owner: Name) -> BTreeMap<Dot, Account> {
        let none = BTreeMap::new();
        let ours = self.accounts.get(&owner).unwrap_or(&none);
        let theirs = other.accounts.get(&owner).unwrap_or(&none);
        let blind = VARIANT == KEEPS_REMOVED_DOTS;
        let mut joined = BTreeMap::new();
        for (dot, x) in ours {
            match theirs.get(dot) {
                Some(y) => drop(joined.insert(*dot, join::<VARIANT>(*x, *y))),
                None if blind || !other.context.contains(dot) => drop(joined.insert(*dot, *x)),
                None => {}
            }
        }
        for (dot, y) in theirs {
            if !ours.contains_key(dot) && (blind || !self.context.contains(dot)) {
                joined.insert(*dot, *y);
            }
        }
        joined
    }
}

fn join<const VARIANT: u8>(x: Account, y: Account) -> Account {
    Account {
        frozen: if VARIANT == FORGETS_FREEZE { x.frozen && y.frozen } else { x.frozen || y.frozen },
        amount: match VARIANT {
            SUMS_IN_JOIN => x.amount.saturating_add(y.amount),
            _ => x.amount.max(y.amount),
        },
    }
}

impl<const VARIANT: u8> Merge for State<VARIANT> {
    fn merge(&mut self, other: &Self) {
        let owners: BTreeSet<Name> = self.accounts.keys().chain(other.accounts.keys()).copied().collect();
        let joined = owners.into_iter().map(|owner| (owner, self.join_accounts(other, owner)));
        let accounts = joined.filter(|(_, dots)| !dots.is_empty()).collect();
        self.accounts = accounts;
        self.context.extend(&other.context);
    }
}

impl<const VARIANT: u8> Literal<VARIANT> {
    fn active(&self) -> Vec<Dot> {
        let own = self.state.accounts.get(&self.id).into_iter().flatten();
        own.filter(|(_, account)| !account.frozen || VARIANT == ADDS_TO_FROZEN).map(|(dot, _)| *dot).collect()
    }

    fn next(&self) -> Dot {
        let stored: Vec<Dot> = self.state.accounts.values().flat_map(BTreeMap::keys).copied().collect();
        let taken =
            if VARIANT == REUSES_DOTS { stored } else { self.state.context.iter().copied().collect() };
        let own = taken.into_iter().filter(|(creator, _)| *creator == self.id);
        (self.id, own.map(|(_, number)| number).max().unwrap_or(0) + 1)
    }

    fn may_take(&self, dot: &Dot, account: &Account) -> bool {
        let let_go = account.frozen || VARIANT == TAKES_ACTIVE_DOTS;
        let_go && (dot.0 == self.id || VARIANT == TAKES_ANOTHERS_DOT)
    }
}

impl<const VARIANT: u8> Counter for Literal<VARIANT> {
    type State = State<VARIANT>;

    fn new(id: Name) -> Self {
        Literal { id, state: State::default() }
    }

    fn state(&self) -> Self::State {
        self.state.clone()
    }

    fn create(&mut self, owner: Name) -> bool {
        let permanent = self.active().iter().any(|(creator, _)| *creator == self.id);
        if owner != self.id && !permanent {
            return false;
        }
        let dot = self.next();
        self.state.context.insert(dot);
        let account = Account { frozen: false, amount: 0 };
        self.state.accounts.entry(owner).or_default().insert(dot, account);
        true
    }

    fn add(&mut self, amount: u64) -> bool {
        let Some(dot) = self.active().first().copied() else { return amount == 0 };
        let account = self.state.accounts.entry(self.id).or_default().entry(dot);
        account.and_modify(|account| account.amount += amount);
        true
    }

    fn retire(&mut self) {
        for account in self.state.accounts.get_mut(&self.id).into_iter().flat_map(BTreeMap::values_mut) {
            account.frozen = true;
        }
    }

    fn transfer(&mut self, from: Name) -> bool {
        let Some(target) = self.active().first().copied() else { return false };
        let dots = self.state.accounts.get(&from).cloned().unwrap_or_default();
        let taken = dots.into_iter().filter(|(dot, account)| *dot != target && self.may_take(dot, account));
        let taken: BTreeMap<Dot, Account> = taken.collect();
        self.add(taken.values().map(|account| account.amount).sum());
        if VARIANT == FORGETS_REMOVAL {
            self.state.accounts.entry(from).or_default().retain(|dot, _| !taken.contains_key(dot));
            self.state.context.retain(|dot| !taken.contains_key(dot));
        } else if VARIANT != TRANSFER_REMOVES_NOTHING {
            // The join with (⊥, taken), as in the paper.
            let removal = State { accounts: BTreeMap::new(), context: taken.into_keys().collect() };
            self.state.merge(&removal);
        }
        true
    }

    fn merge(&mut self, state: &Self::State) -> bool {
        self.state.merge(state);
        true
    }

    fn value(&self) -> u64 {
        let accounts = self.state.accounts.values().flat_map(BTreeMap::values);
        accounts.fold(0, |sum, account| sum.saturating_add(account.amount))
    }

    fn dots(&self) -> Vec<Held> {
        let owners = self.state.accounts.iter();
        owners.flat_map(|(&owner, dots)| dots.keys().map(move |dot| Held { owner, creator: dot.0 })).collect()
    }
}
