//! What replicas of the compact form know in common: a row of totals each, and the transfers under way.

use super::{Right, Rights};
use crate::{Id, Merge, Pn, Tally};
use std::collections::BTreeMap;

/// The totals of one replica. Written by that replica alone; every number only grows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, minicbor::Encode, minicbor::Decode)]
pub struct Summary {
    /// What it has counted.
    #[n(0)]
    pub counted: Pn,
    /// How many transfers it has made. They are numbered from 1.
    #[n(1)]
    pub transfers: u64,
    /// The rights that it has passed on, to whomever.
    #[n(2)]
    pub passed_on: Rights,
    /// The rights that it has taken out of transfers to it.
    #[n(3)]
    pub received: Rights,
}

impl Summary {
    /// What the owner makes of rights of this kind, less what it uses and passes on.
    pub(super) fn balance(&self, right: Right) -> i128 {
        right.made_by(&self.counted) + i128::from(self.received.get(right))
            - i128::from(self.passed_on.get(right))
    }

    /// Grows with each change that the owner makes, but not with what it receives.
    pub(super) fn progress(&self) -> u128 {
        u128::from(self.counted.added) + u128::from(self.counted.subtracted) + u128::from(self.transfers)
    }

    /// Is nothing in the other one newer?
    pub(super) fn covers(&self, other: &Self) -> bool {
        let mut joined = *self;
        joined.merge(other);
        joined == *self
    }
}

impl Merge for Summary {
    fn merge(&mut self, other: &Self) {
        self.counted.merge(&other.counted);
        self.transfers.merge(&other.transfers);
        self.passed_on.merge(&other.passed_on);
        self.received.merge(&other.received);
    }
}

/// The name of a transfer: the giver's n-th.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, minicbor::Encode, minicbor::Decode)]
pub struct TransferId<I> {
    /// Who passed on the rights.
    #[n(0)]
    pub giver: I,
    /// The how manieth transfer of the giver it is, from 1.
    #[n(1)]
    pub number: u64,
}

/// Rights on their way. Never changed once made.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, minicbor::Encode, minicbor::Decode)]
pub struct Transfer<I> {
    /// Who is to receive them.
    #[n(0)]
    pub to: I,
    /// Of which kind they are.
    #[n(1)]
    pub right: Right,
    /// How many they are, not zero.
    #[n(2)]
    pub amount: u64,
}

/// All that a replica of the compact form knows. [`CompactBounded`](super::CompactBounded) has the argument
/// why so little is enough.
#[derive(Debug, Clone, PartialEq, Eq, Hash, minicbor::Encode, minicbor::Decode)]
pub struct Ledger<I: Ord> {
    /// The totals of each replica; one that has none has done nothing.
    #[n(0)]
    pub(super) rows: BTreeMap<I, Summary>,
    /// The known transfers that are not known to have been received.
    #[n(1)]
    pub(super) in_flight: BTreeMap<TransferId<I>, Transfer<I>>,
}

impl<I: Ord> Default for Ledger<I> {
    fn default() -> Self {
        Ledger { rows: BTreeMap::new(), in_flight: BTreeMap::new() }
    }
}

impl<I: Id> Merge for Ledger<I> {
    /// A transfer that only one side still has, and the other knows, has been received: it goes. One that
    /// the other does not know is news: it stays.
    fn merge(&mut self, other: &Self) {
        self.in_flight.retain(|id, _| other.in_flight.contains_key(id) || !other.knows(id));
        for (id, theirs) in &other.in_flight {
            if !self.knows(id) {
                self.in_flight.insert(id.clone(), theirs.clone());
            } else if let Some(ours) = self.in_flight.get_mut(id).filter(|ours| **ours < *theirs) {
                // Somebody writes under the giver's name: any choice will do that all make alike.
                *ours = theirs.clone();
            }
        }
        // Last: until here `knows` spoke of what was known before.
        Merge::merge(&mut self.rows, &other.rows);
    }
}

impl<I: Id> Ledger<I> {
    /// The totals of each replica.
    pub fn rows(&self) -> &BTreeMap<I, Summary> {
        &self.rows
    }

    /// The transfers that are not known to have been received.
    pub fn in_flight(&self) -> &BTreeMap<TransferId<I>, Transfer<I>> {
        &self.in_flight
    }

    /// Has this ledger ever held that transfer? Ledgers travel whole, so whoever knows a transfer of a giver
    /// knows all that came before it.
    pub fn knows(&self, id: &TransferId<I>) -> bool {
        self.row(&id.giver).transfers >= id.number
    }

    pub(super) fn row(&self, id: &I) -> Summary {
        self.rows.get(id).copied().unwrap_or_default()
    }

    /// Moves the rights that are on their way to `receiver`, who calls this, into its row.
    pub(super) fn receive(&mut self, receiver: &I) {
        let arrived = self.in_flight.extract_if(.., |_, transfer| transfer.to == *receiver);
        let arrived: Vec<_> = arrived.collect();
        if arrived.is_empty() {
            return;
        }
        let row = self.rows.entry(receiver.clone()).or_default();
        for (id, transfer) in arrived {
            // What does not fit into the total stays a transfer: counted as the receiver's all the same.
            if row.received.try_add(&Rights::of(transfer.right, transfer.amount)).is_err() {
                self.in_flight.insert(id, transfer);
            }
        }
    }

    /// What is on its way to `receiver`.
    pub(super) fn in_flight_to(&self, receiver: &I, right: Right) -> i128 {
        let transfers = self.in_flight.values().filter(|it| it.to == *receiver && it.right == right);
        transfers.map(|transfer| i128::from(transfer.amount)).sum()
    }

    /// What holds of every ledger: rows that say something, transfers that were made, and every right passed
    /// on either received or on its way.
    pub(super) fn check(&self) -> Result<(), &'static str> {
        if self.rows.values().any(|row| *row == Summary::default()) {
            return Err("a row that nobody writes");
        }
        let proper = |(id, transfer): (&TransferId<I>, &Transfer<I>)| {
            id.number > 0 && self.knows(id) && transfer.to != id.giver && transfer.amount > 0
        };
        if !self.in_flight.iter().all(proper) {
            return Err("a transfer that nobody makes");
        }
        let sum = |of: fn(&Summary) -> Rights, right| -> i128 {
            self.rows.values().map(|row| i128::from(of(row).get(right))).sum()
        };
        for right in Right::BOTH {
            let transfers = self.in_flight.values().filter(|transfer| transfer.right == right);
            let in_flight: i128 = transfers.map(|transfer| i128::from(transfer.amount)).sum();
            if sum(|row| row.passed_on, right) != sum(|row| row.received, right) + in_flight {
                return Err("rights received are not rights passed on");
            }
        }
        Ok(())
    }
}
