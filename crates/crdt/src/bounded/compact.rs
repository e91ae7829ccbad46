//! The compact form: totals, and the transfers under way.

use super::change::{Change, permission};
use super::ledger::{Ledger, Transfer, TransferId};
use super::{Definition, MergeError, OutOfRights, Prepared, Refused, Right, Rights, Summary};
use crate::algebra::Twin;
use crate::{Id, Merge, Pn, Tally};
use minicbor::decode::{Decode, Decoder, Error};
use std::collections::BTreeMap;

/// How many transfers of one replica may be under way. A giver whose receivers are cut off stops there.
pub const IN_FLIGHT_TRANSFERS_MAX: usize = 1024;

/// One replica of a bounded counter in the compact form: it takes the decisions of
/// [`Bounded`](super::Bounded) with one row of totals for each of n replicas and the transfers still under
/// way, instead of n² numbers.
///
/// How it works. A transfer is numbered by its giver, is never changed, and travels with every state until
/// its receiver has it. The receiver adds its rights to its own total `received` and strikes it out. A state
/// says how many transfers of each giver it knows; so one that knows a transfer and does not list it has
/// learned that it was received, and whoever merges that state strikes it out too. No acknowledgement is
/// sent for its own sake, and none has to be remembered.
///
/// Why it is exact under loss, repetition, reordering and replay:
/// - *Not twice.* The receiver takes a transfer out of a state only if it did not know it. Having taken it,
///   it knows it for ever, because `transfers` only grows.
/// - *Not lost.* Only the receiver strikes out a transfer that is new to it, together with the growth of its
///   own total. Everybody else strikes it out only on seeing a state that has that growth, and takes over
///   the grown total in the same merge. The giver therefore keeps it until then, sends it again and again,
///   and others pass it along.
/// - *Not revived.* An old state that still lists the transfer says nothing new to those who know it.
///
/// It rests on states travelling whole: to know a giver's fifth transfer is to have seen its first four.
///
/// What it can tell of others is the same as in the full form: the value, and the rights of every replica,
/// transfers on their way to it included, as of the newest state of each that it has heard of. What only the
/// full form can tell is how much one replica has passed to one other in all.
///
/// ```
/// use quipu_crdt::bounded::{CompactBounded, Definition, Right};
///
/// let stock = Definition::at_least(0, 40, "lisbon")?;
/// let mut lisbon = CompactBounded::new("lisbon", stock.clone());
/// let mut tokyo = CompactBounded::new("tokyo", stock);
///
/// lisbon.apply(lisbon.prepare_transfer(Right::ToSubtract, 15, "tokyo")?);
/// assert_eq!(lisbon.ledger().in_flight().len(), 1);
/// tokyo.merge(&lisbon)?;
/// tokyo.merge(&lisbon)?; // The same message again.
/// assert_eq!(tokyo.rights_to_subtract(&"tokyo"), Some(15));
///
/// lisbon.merge(&tokyo)?;
/// assert_eq!(lisbon.ledger().in_flight().len(), 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash, minicbor::Encode)]
pub struct CompactBounded<I: Ord> {
    #[n(0)]
    id: I,
    #[n(1)]
    definition: Definition<I>,
    #[n(2)]
    ledger: Ledger<I>,
}

impl<I: Id> CompactBounded<I> {
    /// The replica `id` before anything is counted.
    pub fn new(id: I, definition: Definition<I>) -> Self {
        CompactBounded { id, definition, ledger: Ledger::default() }
    }

    /// The name of this replica.
    pub fn id(&self) -> &I {
        &self.id
    }

    /// What the counter was created with.
    pub fn definition(&self) -> &Definition<I> {
        &self.definition
    }

    /// What this replica knows of all.
    pub fn ledger(&self) -> &Ledger<I> {
        &self.ledger
    }

    /// The value as far as this replica knows; within the bounds. Wide for the reason given at
    /// [`Bounded::value`](super::Bounded::value).
    pub fn value(&self) -> i128 {
        let rows = self.ledger.rows.values();
        rows.fold(i128::from(self.definition.initial()), |value, row| value + row.counted.value())
    }

    /// How much `id` may subtract, as far as this replica knows; `None` if there is no minimum.
    pub fn rights_to_subtract(&self, id: &I) -> Option<u128> {
        self.rights(Right::ToSubtract, id)
    }

    /// How much `id` may add, as far as this replica knows; `None` if there is no maximum.
    pub fn rights_to_add(&self, id: &I) -> Option<u128> {
        self.rights(Right::ToAdd, id)
    }

    /// The rights of this kind that `id` holds, those on their way to it included; `None` if no bound limits
    /// them.
    pub fn rights(&self, right: Right, id: &I) -> Option<u128> {
        self.balance(right, id).map(permission)
    }

    /// Prepares to add `amount`, or says why it cannot be.
    pub fn prepare_add(&self, amount: u64) -> Result<Prepared<I>, Refused> {
        self.require(Right::ToAdd, amount)?;
        self.prepare_count(Pn::added(amount))
    }

    /// Prepares to subtract `amount`, or says why it cannot be.
    pub fn prepare_subtract(&self, amount: u64) -> Result<Prepared<I>, Refused> {
        self.require(Right::ToSubtract, amount)?;
        self.prepare_count(Pn::subtracted(amount))
    }

    /// Prepares to pass on `amount` rights to another replica, or says why it cannot be.
    pub fn prepare_transfer(&self, right: Right, amount: u64, to: I) -> Result<Prepared<I>, Refused> {
        if to == self.id {
            return Err(Refused::ToItself);
        }
        if !self.definition.limits(right) {
            return Err(Refused::NoSuchRight { right });
        }
        self.require(right, amount)?;
        let mut row = self.own();
        row.passed_on.try_add(&Rights::of(right, amount))?;
        row.transfers.try_add(&1)?;
        if amount > 0 && self.under_way() >= IN_FLIGHT_TRANSFERS_MAX {
            return Err(Refused::TooManyInFlight);
        }
        Ok(Prepared {
            change: Change::PassOn { right, amount, to },
            at: self.id.clone(),
            progress: self.own().progress(),
        })
    }

    /// Makes the change. Cannot fail.
    ///
    /// # Panics
    /// If another change was applied since this one was prepared. (Merging in between does no harm: it
    /// never takes away rights of this replica.)
    pub fn apply(&mut self, prepared: Prepared<I>) {
        let Some(change) = prepared.change_on(&self.id, self.own().progress()) else { return };
        let row = self.ledger.rows.entry(self.id.clone()).or_default();
        // Found to fit when it was prepared, on this very row.
        match change {
            Change::Count(amount) => row.counted.saturating_add(&amount),
            Change::PassOn { right, amount, to } => {
                row.passed_on.saturating_add(&Rights::of(right, amount));
                Tally::saturating_add(&mut row.transfers, &1);
                let id = TransferId { giver: self.id.clone(), number: row.transfers };
                self.ledger.in_flight.insert(id, Transfer { to, right, amount });
            }
        }
    }

    /// Learns all that `other` knows, and takes what is on its way to this replica.
    pub fn merge(&mut self, other: &Self) -> Result<(), MergeError> {
        if self.definition != other.definition {
            return Err(MergeError::DifferentDefinition);
        }
        if self.is_forged_by(other) {
            return Err(Twin.into());
        }
        self.ledger.merge(&other.ledger);
        self.ledger.receive(&self.id);
        Ok(())
    }

    /// Does the other one know of our row or of our transfers what we do not know?
    fn is_forged_by(&self, other: &Self) -> bool {
        let ours = &self.ledger.in_flight;
        let rewritten = |(id, transfer)| ours.get(id).is_some_and(|our| our != transfer);
        !self.own().covers(&other.ledger.row(&self.id))
            || other.ledger.in_flight.iter().filter(|(id, _)| id.giver == self.id).any(rewritten)
    }

    fn own(&self) -> Summary {
        self.ledger.row(&self.id)
    }

    /// How many transfers of this replica are not known to have been received.
    fn under_way(&self) -> usize {
        self.ledger.in_flight.keys().filter(|id| id.giver == self.id).count()
    }

    fn prepare_count(&self, amount: Pn) -> Result<Prepared<I>, Refused> {
        self.own().counted.try_add(&amount)?;
        Ok(Prepared { change: Change::Count(amount), at: self.id.clone(), progress: self.own().progress() })
    }

    fn require(&self, right: Right, needed: u64) -> Result<(), OutOfRights> {
        let in_all = self.definition.rights_in_all(right, self.value());
        OutOfRights::unless_here(right, needed, self.balance(right, &self.id), in_all)
    }

    /// Below zero only in a forged state.
    fn balance(&self, right: Right, id: &I) -> Option<i128> {
        let initial = self.definition.initial_rights(right, id)?;
        Some(initial + self.ledger.row(id).balance(right) + self.ledger.in_flight_to(id, right))
    }

    /// The balances of all replicas in one pass: a forged state may name very many.
    fn balances(&self, right: Right) -> BTreeMap<&I, i128> {
        let Some(first) = self.definition.first_rights(right) else { return BTreeMap::new() };
        let mut balances = BTreeMap::from_iter(first);
        for (owner, row) in &self.ledger.rows {
            *balances.entry(owner).or_default() += row.balance(right);
        }
        for transfer in self.ledger.in_flight.values().filter(|transfer| transfer.right == right) {
            *balances.entry(&transfer.to).or_default() += i128::from(transfer.amount);
        }
        balances
    }

    /// What holds of every state that replicas can reach by counting, passing on and merging.
    fn check(&self) -> Result<(), &'static str> {
        self.ledger.check()?;
        for right in Right::BOTH {
            if !self.definition.limits(right)
                && self.ledger.rows.values().any(|row| row.passed_on.get(right) > 0)
            {
                return Err("rights that the counter does not have were passed on");
            }
            if self.balances(right).values().any(|held| *held < 0) {
                return Err("a replica has used rights that it did not have");
            }
        }
        Ok(())
    }
}

/// A replica as it is written, before it is checked.
#[derive(minicbor::Decode)]
struct Written<I: Ord> {
    #[n(0)]
    id: I,
    #[n(1)]
    definition: Definition<I>,
    #[n(2)]
    ledger: Ledger<I>,
}

impl<'b, C, I: Id + Decode<'b, C>> Decode<'b, C> for CompactBounded<I> {
    fn decode(decoder: &mut Decoder<'b>, context: &mut C) -> Result<Self, Error> {
        let Written { id, definition, ledger } = Written::decode(decoder, context)?;
        let replica = CompactBounded { id, definition, ledger };
        replica.check().map_err(Error::message)?;
        Ok(replica)
    }
}
