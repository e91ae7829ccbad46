//! Wrong bounded counters, and the same code without the fault, which must pass.

use super::candidate::Candidate;
use super::figure::first_rights;
use quipu_crdt::bounded::{Definition, Right, Rights};
use quipu_crdt::{Merge, Pn, Tally};
use std::collections::BTreeMap;

/// Replicas are indices below this.
pub(crate) const REPLICAS_MAX: usize = 5;

pub(crate) const RIGHT: u8 = 0;
pub(crate) const SUM_INSTEAD_OF_MAX: u8 = 1;
pub(crate) const PASSES_UNCHECKED: u8 = 2;
pub(crate) const SUBTRACTS_UNCHECKED: u8 = 3;
pub(crate) const GIVER_KEEPS_WHAT_IT_PASSES: u8 = 4;
pub(crate) const EVERYBODY_CREATES: u8 = 5;
pub(crate) const ONE_NUMBER_FOR_BOTH_RIGHTS: u8 = 6;
pub(crate) const SENDS_ITS_OWN_ROW_ALONE: u8 = 7;

/// The full form on arrays, with a fault.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Full<const FAULT: u8> {
    me: usize,
    definition: Definition<u8>,
    counted: [Pn; REPLICAS_MAX],
    passed: [[Rights; REPLICAS_MAX]; REPLICAS_MAX],
}

fn initial_rights(definition: &Definition<u8>, right: Right, everybody: bool, id: usize) -> Option<i128> {
    let all = definition.rights_in_all(right, definition.initial().into())?;
    Some(if everybody { all } else { first_rights(definition, all, id) })
}

fn made(right: Right, counted: Pn) -> i128 {
    if right == Right::ToSubtract { counted.value() } else { -counted.value() }
}

impl<const FAULT: u8> Full<FAULT> {
    fn balance(&self, right: Right, id: usize) -> Option<i128> {
        let mut balance = initial_rights(&self.definition, right, FAULT == EVERYBODY_CREATES, id)?;
        balance += made(right, self.counted[id]);
        for other in 0..REPLICAS_MAX {
            balance += i128::from(self.passed(right, other, id));
            if FAULT != GIVER_KEEPS_WHAT_IT_PASSES {
                balance -= i128::from(self.passed(right, id, other));
            }
        }
        Some(balance)
    }

    fn passed(&self, right: Right, giver: usize, to: usize) -> u64 {
        let right = if FAULT == ONE_NUMBER_FOR_BOTH_RIGHTS { Right::ToAdd } else { right };
        self.passed[giver][to].get(right)
    }

    fn may(&self, right: Right, amount: u64) -> bool {
        self.balance(right, self.me).is_none_or(|rights| rights >= i128::from(amount))
    }
}

impl<const FAULT: u8> Candidate for Full<FAULT> {
    fn create(id: u8, definition: &Definition<u8>) -> Self {
        Full {
            me: id.into(),
            definition: definition.clone(),
            counted: Default::default(),
            passed: Default::default(),
        }
    }

    fn add(&mut self, amount: u64) -> bool {
        let accepted = self.may(Right::ToAdd, amount);
        if accepted {
            self.counted[self.me].saturating_add(&Pn::added(amount));
        }
        accepted
    }

    fn subtract(&mut self, amount: u64) -> bool {
        let accepted = FAULT == SUBTRACTS_UNCHECKED || self.may(Right::ToSubtract, amount);
        if accepted {
            self.counted[self.me].saturating_add(&Pn::subtracted(amount));
        }
        accepted
    }

    fn pass(&mut self, right: Right, amount: u64, to: u8) -> bool {
        let accepted = FAULT == PASSES_UNCHECKED || self.may(right, amount);
        if accepted {
            let right = if FAULT == ONE_NUMBER_FOR_BOTH_RIGHTS { Right::ToAdd } else { right };
            self.passed[self.me][usize::from(to)].saturating_add(&Rights::of(right, amount));
        }
        accepted
    }

    fn message(&mut self) -> Self {
        let mut message = self.clone();
        if FAULT == SENDS_ITS_OWN_ROW_ALONE {
            for other in (0..REPLICAS_MAX).filter(|other| *other != self.me) {
                message.counted[other] = Pn::default();
                message.passed[other] = Default::default();
            }
        }
        message
    }

    fn receive(&mut self, message: &Self) {
        for i in 0..REPLICAS_MAX {
            if FAULT == SUM_INSTEAD_OF_MAX {
                self.counted[i].saturating_add(&message.counted[i]);
            } else {
                self.counted[i].merge(&message.counted[i]);
            }
            for j in 0..REPLICAS_MAX {
                self.passed[i][j].merge(&message.passed[i][j]);
            }
        }
    }

    fn value(&self) -> i128 {
        i128::from(self.definition.initial()) + self.counted.iter().map(Pn::value).sum::<i128>()
    }

    fn rights(&self, right: Right, id: u8) -> Option<i128> {
        self.balance(right, id.into())
    }

    fn under_way(all: &[&Self], right: Right) -> i128 {
        let pairs = all.iter().flat_map(|giver| all.iter().map(move |to| (giver, to)));
        let news = pairs.map(|(giver, to)| {
            i128::from(giver.passed(right, giver.me, to.me)) - i128::from(to.passed(right, giver.me, to.me))
        });
        news.sum()
    }

    fn agrees(&self, other: &Self) -> bool {
        self.counted == other.counted && self.passed == other.passed
    }

    fn has_written_since(&self, before: &Self) -> bool {
        let row = |replica: &Self| (replica.counted[self.me], replica.passed[self.me]);
        row(self) != row(before)
    }
}

pub(crate) const COUNTS_REPEATED_TRANSFERS: u8 = 1;
pub(crate) const FORGETS_WHEN_SENT: u8 = 2;
pub(crate) const LISTS_RECEIVED_TRANSFERS: u8 = 3;

/// The compact form on arrays, with a fault.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Compact<const FAULT: u8> {
    me: usize,
    definition: Definition<u8>,
    rows: [Totals; REPLICAS_MAX],
    /// (giver, number) to (receiver, right, amount)
    in_flight: BTreeMap<(usize, u64), (usize, Right, u64)>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
struct Totals {
    counted: Pn,
    transfers: u64,
    passed_on: Rights,
    received: Rights,
}

impl<const FAULT: u8> Compact<FAULT> {
    fn may(&self, right: Right, amount: u64) -> bool {
        self.balance(right, self.me).is_none_or(|rights| rights >= i128::from(amount))
    }

    fn balance(&self, right: Right, id: usize) -> Option<i128> {
        let row = &self.rows[id];
        let coming = self.in_flight.values().filter(|(to, kind, _)| (*to, *kind) == (id, right));
        let mut balance = initial_rights(&self.definition, right, false, id)?;
        balance += made(right, row.counted) + i128::from(row.received.get(right));
        balance += coming.map(|(_, _, amount)| i128::from(*amount)).sum::<i128>();
        Some(balance - i128::from(row.passed_on.get(right)))
    }

    fn knows(&self, (giver, number): (usize, u64)) -> bool {
        self.rows[giver].transfers >= number
    }

    fn take_what_arrived(&mut self, arrived: &Self) {
        for (id, (to, right, amount)) in &arrived.in_flight {
            if *to == self.me && (FAULT == COUNTS_REPEATED_TRANSFERS || !self.knows(*id)) {
                self.rows[self.me].received.saturating_add(&Rights::of(*right, *amount));
            }
        }
    }
}

impl<const FAULT: u8> Candidate for Compact<FAULT> {
    fn create(id: u8, definition: &Definition<u8>) -> Self {
        Compact {
            me: id.into(),
            definition: definition.clone(),
            rows: Default::default(),
            in_flight: BTreeMap::new(),
        }
    }

    fn add(&mut self, amount: u64) -> bool {
        let accepted = self.may(Right::ToAdd, amount);
        if accepted {
            self.rows[self.me].counted.saturating_add(&Pn::added(amount));
        }
        accepted
    }

    fn subtract(&mut self, amount: u64) -> bool {
        let accepted = self.may(Right::ToSubtract, amount);
        if accepted {
            self.rows[self.me].counted.saturating_add(&Pn::subtracted(amount));
        }
        accepted
    }

    fn pass(&mut self, right: Right, amount: u64, to: u8) -> bool {
        let accepted = self.may(right, amount);
        if accepted && amount > 0 {
            let row = &mut self.rows[self.me];
            row.passed_on.saturating_add(&Rights::of(right, amount));
            row.transfers += 1;
            self.in_flight.insert((self.me, row.transfers), (to.into(), right, amount));
        }
        accepted
    }

    fn message(&mut self) -> Self {
        let message = self.clone();
        if FAULT == FORGETS_WHEN_SENT {
            self.in_flight.retain(|(giver, _), _| *giver != self.me);
        }
        message
    }

    fn receive(&mut self, message: &Self) {
        self.take_what_arrived(message);
        let mut in_flight = self.in_flight.clone();
        if FAULT != LISTS_RECEIVED_TRANSFERS {
            in_flight.retain(|id, _| message.in_flight.contains_key(id) || !message.knows(*id));
        }
        in_flight.extend(message.in_flight.iter().filter(|(id, _)| !self.knows(**id)));
        in_flight.retain(|_, (to, _, _)| *to != self.me);
        self.in_flight = in_flight;
        for (ours, theirs) in self.rows.iter_mut().zip(&message.rows) {
            ours.counted.merge(&theirs.counted);
            ours.transfers.merge(&theirs.transfers);
            ours.passed_on.merge(&theirs.passed_on);
            ours.received.merge(&theirs.received);
        }
    }

    fn value(&self) -> i128 {
        let counted = self.rows.iter().map(|row| row.counted.value());
        i128::from(self.definition.initial()) + counted.sum::<i128>()
    }

    fn rights(&self, right: Right, id: u8) -> Option<i128> {
        self.balance(right, id.into())
    }

    fn under_way(all: &[&Self], right: Right) -> i128 {
        let listed: BTreeMap<_, _> = all.iter().flat_map(|replica| &replica.in_flight).collect();
        let news = listed.into_iter().filter(|(id, (to, kind, _))| *kind == right && !all[*to].knows(**id));
        news.map(|(_, (_, _, amount))| i128::from(*amount)).sum()
    }

    fn agrees(&self, other: &Self) -> bool {
        self.rows == other.rows && self.in_flight == other.in_flight
    }

    fn has_written_since(&self, before: &Self) -> bool {
        self.rows[self.me] != before.rows[self.me]
    }
}
