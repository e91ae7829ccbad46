//! The full form: who passed how much to whom.

use super::change::{Change, permission};
use super::{Definition, MergeError, OutOfRights, Parked, Prepared, Refused, Right, Rights, Row, Witness};
use crate::algebra::Twin;
use crate::{Id, Merge, Overflow, Pn, Tally};
use minicbor::decode::{Decode, Decoder, Error};
use std::collections::{BTreeMap, BTreeSet};

/// One replica of a bounded counter.
///
/// The state is the message: send it to anybody, whole, as often as you like. Each replica writes only its
/// own row, and rows merge by maximum.
///
/// What replica i may subtract under a minimum is what it held in the beginning, plus what it added, less
/// what it subtracted, plus what was passed to it, less what it passed on. Only i itself makes this number
/// smaller, so what it sees is a lower bound of what it has, and it can decide alone. Under a maximum the
/// same holds of adding. The rights of all replicas add up to the distance between value and bound.
///
/// ```
/// use quipu_crdt::bounded::{Bounded, Definition, Refused, Right};
///
/// // 40 tickets in stock, never fewer than none.
/// let stock = Definition::at_least(0, 40, "lisbon")?;
/// let mut lisbon = Bounded::new("lisbon", stock.clone());
/// let mut tokyo = Bounded::new("tokyo", stock);
///
/// assert!(matches!(tokyo.prepare_subtract(1), Err(Refused::OutOfRights(_))));
/// lisbon.apply(lisbon.prepare_transfer(Right::ToSubtract, 15, "tokyo")?);
/// tokyo.merge(&lisbon)?;
/// tokyo.apply(tokyo.prepare_subtract(10)?);
/// assert_eq!(tokyo.value(), 30);
/// assert_eq!(tokyo.rights_to_subtract(&"tokyo"), Some(5));
/// assert_eq!(tokyo.rights_to_subtract(&"lisbon"), Some(25));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash, minicbor::Encode)]
pub struct Bounded<I: Ord> {
    #[n(0)]
    id: I,
    #[n(1)]
    definition: Definition<I>,
    /// A replica without a row has recorded nothing.
    #[n(2)]
    rows: BTreeMap<I, Row<I>>,
}

impl<I: Id> Bounded<I> {
    /// The replica `id` before anything is counted.
    pub fn new(id: I, definition: Definition<I>) -> Self {
        Bounded { id, definition, rows: BTreeMap::new() }
    }

    /// The name of this replica.
    pub fn id(&self) -> &I {
        &self.id
    }

    /// What this replica knows, at another one, which has not written anything.
    #[must_use]
    pub fn known_at(self, id: I) -> Self {
        Bounded { id, ..self }
    }

    /// Wrong to send: what one replica has written, without the rights that allowed it.
    #[cfg(feature = "testing")]
    #[must_use]
    pub fn row_alone(&self, of: &I) -> Self {
        let rows = self.rows.iter().filter(|(id, _)| *id == of).map(|(id, row)| (id.clone(), row.clone()));
        Bounded { id: self.id.clone(), definition: self.definition.clone(), rows: rows.collect() }
    }

    /// What the counter was created with.
    pub fn definition(&self) -> &Definition<I> {
        &self.definition
    }

    /// What each replica has recorded, as far as this one knows.
    pub fn rows(&self) -> &BTreeMap<I, Row<I>> {
        &self.rows
    }

    /// The value as far as this replica knows; within the bounds.
    ///
    /// It is an `i128` because a counter with one bound can grow beyond 64 bits in the other direction: each
    /// replica adds up to 2⁶⁴, and no merge may fail. If the value has to fit an `i64`, say so with
    /// [`Definition::between`]; then it does.
    pub fn value(&self) -> i128 {
        self.rows
            .values()
            .fold(i128::from(self.definition.initial()), |value, row| value + row.counted.value())
    }

    /// How much `id` may subtract, as far as this replica knows; `None` if there is no minimum. Of itself a
    /// replica knows it exactly. Another may have used some since, or made more.
    pub fn rights_to_subtract(&self, id: &I) -> Option<u128> {
        self.rights(Right::ToSubtract, id)
    }

    /// How much `id` may add, as far as this replica knows; `None` if there is no maximum.
    pub fn rights_to_add(&self, id: &I) -> Option<u128> {
        self.rights(Right::ToAdd, id)
    }

    /// The rights of this kind that `id` holds; `None` if no bound limits them.
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

    /// Prepares to pass on `amount` rights to another replica, or says why it cannot be. Once that is applied
    /// they are gone here, whether or not the other one ever hears of it.
    pub fn prepare_transfer(&self, right: Right, amount: u64, to: I) -> Result<Prepared<I>, Refused> {
        if to == self.id {
            return Err(Refused::ToItself);
        }
        if !self.definition.limits(right) {
            return Err(Refused::NoSuchRight { right });
        }
        self.require(right, amount)?;
        let row = self.rows.get(&self.id);
        let mut passed_on = row.and_then(|row| row.passed_on.get(&to)).copied().unwrap_or_default();
        passed_on.try_add(&Rights::of(right, amount))?;
        Ok(Prepared {
            change: Change::PassOn { right, amount, to },
            at: self.id.clone(),
            progress: self.progress(),
        })
    }

    /// Makes the change. Cannot fail.
    ///
    /// # Panics
    /// If another change was applied since this one was prepared. (Merging in between does no harm: it
    /// never takes away rights of this replica.)
    pub fn apply(&mut self, prepared: Prepared<I>) {
        let Some(change) = prepared.change_on(&self.id, self.progress()) else { return };
        let row = self.rows.entry(self.id.clone()).or_default();
        // Found to fit when it was prepared, on this very row.
        match change {
            Change::Count(amount) => row.counted.saturating_add(&amount),
            Change::PassOn { right, amount, to } => {
                row.passed_on.entry(to).or_default().saturating_add(&Rights::of(right, amount));
            }
        }
    }

    /// From now on this replica holds the rights of `from`, those on their way to it included.
    ///
    /// Not in the paper. It is exact if `from` never writes again, all that it has ever written is known here, and
    /// nobody else inherits from it: whoever decides that a replica is gone has to see to that.
    pub fn inherit(&mut self, from: I) {
        if from != self.id {
            self.rows.entry(self.id.clone()).or_default().heir_of.get_or_insert_default().insert(from);
        }
    }

    /// Who holds the rights of `id`: itself, or its heir, or the heir of that one.
    pub fn holder<'a>(&'a self, id: &'a I) -> &'a I {
        let heir = |of: &I| {
            let inherits = |row: &Row<I>| row.heir_of.as_ref().is_some_and(|heirs| heirs.contains(of));
            self.rows.iter().find(|(_, row)| inherits(row)).map(|(heir, _)| heir)
        };
        let mut holder = id;
        // No longer than there are rows: heirs that go round in a circle are forged.
        for _ in 0..self.rows.len() {
            match heir(holder) {
                Some(next) => holder = next,
                None => break,
            }
        }
        holder
    }

    /// Notes in the own row that an operation with an id was counted in it, or taken back there for another one. Call it
    /// right after the count, of which it is a part.
    pub fn witness(&mut self, witness: Witness) {
        self.rows.entry(self.id.clone()).or_default().witness(witness);
    }

    /// Notes in the own row that an operation which was counted in it was taken back, with the count that takes it back;
    /// `is_lost` if no other row counts it.
    pub fn take_back_witness(&mut self, id: u64, is_lost: bool) {
        if let Some(row) = self.rows.get_mut(&self.id) {
            row.take_back_witness(id, is_lost);
        }
    }

    /// Takes in what has to be counted some day, whether there are rights for it or not.
    pub fn park(&mut self, amount: &Pn) -> Result<(), Overflow> {
        let row = self.rows.entry(self.id.clone()).or_default();
        row.parked.get_or_insert_default().taken.try_add(amount)
    }

    /// Wrong: counts whether there are rights for it or not. For tests that see this caught.
    #[cfg(feature = "testing")]
    pub fn count_without_rights(&mut self, amount: &Pn) -> Result<(), Overflow> {
        self.rows.entry(self.id.clone()).or_default().counted.try_add(amount)
    }

    /// What is parked anywhere and has not been counted, as far as is known here.
    pub fn parked_in_all(&self) -> Pn {
        open_of(self.rows.values().filter_map(|row| row.parked))
    }

    /// What was parked here, or by those whose heir this is, and has not been counted.
    pub fn parked(&self) -> Pn {
        if self.rows.values().all(|row| row.parked.is_none()) {
            return Pn::default();
        }
        let held = self.rows.iter().filter(|(id, _)| *self.holder(id) == self.id);
        open_of(held.filter_map(|(_, row)| row.parked))
    }

    /// Counts something of what is [parked](Self::parked), or says why it cannot be.
    pub fn count_parked(&mut self, amount: &Pn) -> Result<(), Refused> {
        let open = self.parked();
        if amount.added > open.added || amount.subtracted > open.subtracted {
            return Err(Overflow.into());
        }
        let row = self.rows.get(&self.id);
        row.and_then(|row| row.parked).unwrap_or_default().counted.try_add(amount)?;
        row.map(|row| row.counted).unwrap_or_default().try_add(amount)?;
        self.require(Right::ToAdd, amount.added)?;
        self.require(Right::ToSubtract, amount.subtracted)?;
        let row = self.rows.entry(self.id.clone()).or_default();
        row.counted.saturating_add(amount);
        row.parked.get_or_insert_default().counted.saturating_add(amount);
        Ok(())
    }

    /// Learns all that `other` knows.
    pub fn merge(&mut self, other: &Self) -> Result<(), MergeError> {
        if self.definition != other.definition {
            return Err(MergeError::DifferentDefinition);
        }
        if let Some(theirs) = other.rows.get(&self.id) {
            // Nobody can know more of our row than we do.
            if !self.rows.get(&self.id).is_some_and(|ours| ours.covers(theirs)) {
                return Err(Twin.into());
            }
        }
        Merge::merge(&mut self.rows, &other.rows);
        Ok(())
    }

    fn prepare_count(&self, amount: Pn) -> Result<Prepared<I>, Refused> {
        let mut counted = self.rows.get(&self.id).map(|row| row.counted).unwrap_or_default();
        counted.try_add(&amount)?;
        Ok(Prepared { change: Change::Count(amount), at: self.id.clone(), progress: self.progress() })
    }

    fn require(&self, right: Right, needed: u64) -> Result<(), OutOfRights> {
        let in_all = self.definition.rights_in_all(right, self.value());
        OutOfRights::unless_here(right, needed, self.balance(right, &self.id), in_all)
    }

    /// What `id` holds, with what it has inherited; nothing if it has an heir. Below zero only in a forged state.
    fn balance(&self, right: Right, id: &I) -> Option<i128> {
        let own = self.own_balance(right, id)?;
        if self.rows.values().all(|row| row.heir_of.is_none()) {
            return Some(own);
        }
        if self.holder(id) != id {
            return Some(0);
        }
        let inherited = self.rows.values().flat_map(|row| row.heir_of.iter().flatten());
        let inherited: BTreeSet<&I> = inherited.filter(|of| self.holder(of) == id).collect();
        inherited.into_iter().try_fold(own, |sum, of| Some(sum + self.own_balance(right, of)?))
    }

    /// What `id` itself was given and made, less what it used and passed on. Whoever uses what it has inherited goes below
    /// zero.
    fn own_balance(&self, right: Right, id: &I) -> Option<i128> {
        let initial = self.definition.initial_rights(right, id)?;
        let own =
            self.rows.get(id).map_or(0, |row| right.made_by(&row.counted) - row.passed_on_in_all(right));
        let passed_to = self.rows.values().filter_map(|row| row.passed_on.get(id));
        Some(initial + own + passed_to.map(|rights| i128::from(rights.get(right))).sum::<i128>())
    }

    fn progress(&self) -> u128 {
        self.rows.get(&self.id).map_or(0, Row::progress)
    }

    /// The balances of all replicas in one pass: a forged state may name very many.
    fn balances(&self, right: Right) -> BTreeMap<&I, i128> {
        let Some(first) = self.definition.first_rights(right) else { return BTreeMap::new() };
        let mut balances = BTreeMap::from_iter(first);
        for (owner, row) in &self.rows {
            *balances.entry(owner).or_default() += right.made_by(&row.counted) - row.passed_on_in_all(right);
            for (to, rights) in &row.passed_on {
                *balances.entry(to).or_default() += i128::from(rights.get(right));
            }
        }
        if self.rows.values().all(|row| row.heir_of.is_none()) {
            return balances;
        }
        balances.into_iter().fold(BTreeMap::new(), |mut held, (id, balance)| {
            *held.entry(self.holder(id)).or_default() += balance;
            held
        })
    }

    /// What holds of every state that replicas can reach by counting, passing on and merging.
    fn check(&self) -> Result<(), &'static str> {
        if !self.rows.iter().all(|(owner, row)| row.is_proper(owner)) {
            return Err("a row that nobody writes");
        }
        let mut passed_on = self.rows.values().flat_map(|row| row.passed_on.values());
        let limits = |right| self.definition.limits(right);
        if passed_on.any(|rights| Right::BOTH.iter().any(|&right| rights.get(right) > 0 && !limits(right))) {
            return Err("rights that the counter does not have were passed on");
        }
        if Right::BOTH.iter().any(|&right| self.balances(right).values().any(|held| *held < 0)) {
            return Err("a replica has used rights that it did not have");
        }
        Ok(())
    }
}

/// What of all this has not been counted. An heir counts more than it has taken itself.
fn open_of(parked: impl Iterator<Item = Parked>) -> Pn {
    let open = parked.fold((0i128, 0i128), |(added, subtracted), Parked { taken, counted }| {
        let open = |taken: u64, counted: u64| i128::from(taken) - i128::from(counted);
        (added + open(taken.added, counted.added), subtracted + open(taken.subtracted, counted.subtracted))
    });
    let amount = |open: i128| u64::try_from(open.max(0)).unwrap_or(u64::MAX);
    Pn { added: amount(open.0), subtracted: amount(open.1) }
}

/// A replica as it is written, before it is checked.
#[derive(minicbor::Decode)]
struct Written<I: Ord> {
    #[n(0)]
    id: I,
    #[n(1)]
    definition: Definition<I>,
    #[n(2)]
    rows: BTreeMap<I, Row<I>>,
}

impl<'b, C, I: Id + Decode<'b, C>> Decode<'b, C> for Bounded<I> {
    fn decode(decoder: &mut Decoder<'b>, context: &mut C) -> Result<Self, Error> {
        let Written { id, definition, rows } = Written::decode(decoder, context)?;
        let replica = Bounded { id, definition, rows };
        replica.check().map_err(Error::message)?;
        Ok(replica)
    }
}
