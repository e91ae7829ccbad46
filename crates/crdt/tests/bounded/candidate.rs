//! What the checks see of a bounded counter, so that the right ones and wrong ones go through the same.

use quipu_crdt::bounded::{Bounded, CompactBounded, Definition, Refused, Right, Rights, TransferId};
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::hash::Hash;

/// A replica that somebody claims keeps its bounds. Ids are indices.
pub(crate) trait Candidate: Clone + Debug + PartialEq + Eq + Hash + Send + Sync + 'static {
    fn create(id: u8, definition: &Definition<u8>) -> Self;
    /// Did it accept?
    fn add(&mut self, amount: u64) -> bool;
    fn subtract(&mut self, amount: u64) -> bool;
    fn pass(&mut self, right: Right, amount: u64, to: u8) -> bool;
    /// What it sends. Only a wrong one changes by it.
    fn message(&mut self) -> Self {
        self.clone()
    }
    fn receive(&mut self, message: &Self);
    fn value(&self) -> i128;
    fn rights(&self, right: Right, id: u8) -> Option<i128>;
    /// Rights that were passed on and that their receivers have not heard of.
    fn under_way(all: &[&Self], right: Right) -> i128;
    /// Do both know the same?
    fn agrees(&self, other: &Self) -> bool;
    /// Has this replica written anything of its own since it was `before`?
    fn has_written_since(&self, before: &Self) -> bool;
}

fn accepted<T>(prepared: Result<T, Refused>, apply: impl FnOnce(T)) -> bool {
    match prepared {
        Ok(change) => {
            apply(change);
            true
        }
        Err(Refused::OutOfRights(_)) => false,
        Err(other) => panic!("refused for a reason that no trace gives: {other}"),
    }
}

fn narrow(rights: Option<u128>) -> Option<i128> {
    rights.map(|rights| i128::try_from(rights).expect("traces are small"))
}

impl Candidate for Bounded<u8> {
    fn create(id: u8, definition: &Definition<u8>) -> Self {
        Bounded::new(id, definition.clone())
    }

    fn add(&mut self, amount: u64) -> bool {
        accepted(self.prepare_add(amount), |change| self.apply(change))
    }

    fn subtract(&mut self, amount: u64) -> bool {
        accepted(self.prepare_subtract(amount), |change| self.apply(change))
    }

    fn pass(&mut self, right: Right, amount: u64, to: u8) -> bool {
        accepted(self.prepare_transfer(right, amount, to), |change| self.apply(change))
    }

    fn receive(&mut self, message: &Self) {
        self.merge(message).expect("replicas of one counter, each with a name of its own");
    }

    fn value(&self) -> i128 {
        Bounded::value(self)
    }

    fn rights(&self, right: Right, id: u8) -> Option<i128> {
        narrow(Bounded::rights(self, right, &id))
    }

    fn under_way(all: &[&Self], right: Right) -> i128 {
        let passed = |knower: &Self, giver: u8, to: u8| -> i128 {
            let rights = knower.rows().get(&giver).and_then(|row| row.passed_on.get(&to));
            rights.map(|rights: &Rights| rights.get(right)).unwrap_or_default().into()
        };
        let pairs = all.iter().flat_map(|giver| all.iter().map(move |to| (giver, to)));
        pairs
            .map(|(giver, to)| passed(giver, *giver.id(), *to.id()) - passed(to, *giver.id(), *to.id()))
            .sum()
    }

    fn agrees(&self, other: &Self) -> bool {
        self.rows() == other.rows()
    }

    fn has_written_since(&self, before: &Self) -> bool {
        self.rows().get(self.id()) != before.rows().get(self.id())
    }
}

impl Candidate for CompactBounded<u8> {
    fn create(id: u8, definition: &Definition<u8>) -> Self {
        CompactBounded::new(id, definition.clone())
    }

    fn add(&mut self, amount: u64) -> bool {
        accepted(self.prepare_add(amount), |change| self.apply(change))
    }

    fn subtract(&mut self, amount: u64) -> bool {
        accepted(self.prepare_subtract(amount), |change| self.apply(change))
    }

    fn pass(&mut self, right: Right, amount: u64, to: u8) -> bool {
        accepted(self.prepare_transfer(right, amount, to), |change| self.apply(change))
    }

    fn receive(&mut self, message: &Self) {
        self.merge(message).expect("replicas of one counter, each with a name of its own");
    }

    fn value(&self) -> i128 {
        CompactBounded::value(self)
    }

    fn rights(&self, right: Right, id: u8) -> Option<i128> {
        narrow(CompactBounded::rights(self, right, &id))
    }

    fn under_way(all: &[&Self], right: Right) -> i128 {
        let listed: BTreeMap<&TransferId<u8>, _> =
            all.iter().flat_map(|replica| replica.ledger().in_flight()).collect();
        let news = listed.into_iter().filter(|(id, transfer)| {
            transfer.right == right && !all[usize::from(transfer.to)].ledger().knows(id)
        });
        news.map(|(_, transfer)| i128::from(transfer.amount)).sum()
    }

    fn agrees(&self, other: &Self) -> bool {
        self.ledger() == other.ledger()
    }

    fn has_written_since(&self, before: &Self) -> bool {
        self.ledger().rows().get(self.id()) != before.ledger().rows().get(self.id())
    }
}
