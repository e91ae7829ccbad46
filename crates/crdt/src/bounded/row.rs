//! What one replica has done, in the full form.

use super::{Right, Rights};
use crate::{Id, Merge, Pn, Tally};
use std::collections::{BTreeMap, BTreeSet};

/// What one replica has counted and passed on. Written by that replica alone; every number only grows, so
/// the larger one is the newer one.
#[derive(Debug, Clone, PartialEq, Eq, Hash, minicbor::Encode, minicbor::Decode)]
pub struct Row<I: Ord> {
    /// `R[i][i]` and `U[i]` in the paper, for a minimum; under a maximum they swap their parts.
    #[n(0)]
    pub counted: Pn,
    /// `R[i][j]` in the paper: all rights ever passed on to j. Zero is not stored.
    #[n(1)]
    pub passed_on: BTreeMap<I, Rights>,
    /// Whose rights it holds, because they will never write again. Not in the paper.
    #[n(2)]
    pub heir_of: Option<BTreeSet<I>>,
    /// What was brought here to be counted, whether there are rights for it or not. Not in the paper.
    #[n(3)]
    pub parked: Option<Parked>,
    /// The last operations with ids in `counted`, by which others can tell whether one was counted twice. Not in the paper.
    #[n(4)]
    pub witnesses: Option<Vec<Witness>>,
}

/// So many of the last operations are witnessed, whichever they are,
const LAST_MAX: usize = 4;
/// and so many of a sample, which go further back where there are many.
const SAMPLE_MAX: usize = 4;
/// The sample: one in so many.
const SAMPLE_EVERY: u64 = 64;
/// Operations of others that were taken back here are few; so many are witnessed.
const TAKEN_BACK_MAX: usize = 64;

/// That an operation with an id is part of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, minicbor::Encode, minicbor::Decode)]
pub struct Witness {
    /// A hash of its id.
    #[n(0)]
    pub id: u64,
    /// When it was counted, by the wall clock, in seconds. An id may be used again after a time.
    #[n(1)]
    pub at_s: u64,
    /// What became of it.
    #[n(2)]
    pub fate: Fate,
}

/// Which witnesses are kept together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Group {
    Last,
    Sample,
    TakenBack,
}

impl Group {
    fn max(self) -> usize {
        match self {
            Group::Last => LAST_MAX,
            Group::Sample => SAMPLE_MAX,
            Group::TakenBack => TAKEN_BACK_MAX,
        }
    }
}

impl Witness {
    fn group(&self) -> Group {
        match self.fate {
            Fate::TakenBack => Group::TakenBack,
            Fate::Counts | Fate::Lost if self.id.is_multiple_of(SAMPLE_EVERY) => Group::Sample,
            Fate::Counts | Fate::Lost => Group::Last,
        }
    }
}

/// What became of an operation that a row witnesses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, minicbor::Encode, minicbor::Decode)]
#[cbor(index_only)]
pub enum Fate {
    /// It counts in this row.
    #[n(0)]
    Counts,
    /// Its count in the row of another replica was taken back in this one.
    #[n(1)]
    TakenBack,
    /// It was counted in this row, and taken back although no other row counts it.
    #[n(2)]
    Lost,
}

/// What was brought to be counted as soon as there are rights for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, minicbor::Encode, minicbor::Decode)]
pub struct Parked {
    /// All that was ever parked.
    #[n(0)]
    pub taken: Pn,
    /// How much of what was parked, here or by those whose heir this is, was counted since.
    #[n(1)]
    pub counted: Pn,
}

impl Merge for Parked {
    fn merge(&mut self, other: &Self) {
        self.taken.merge(&other.taken);
        self.counted.merge(&other.counted);
    }
}

impl<I: Ord> Default for Row<I> {
    fn default() -> Self {
        Row {
            counted: Pn::default(),
            passed_on: BTreeMap::new(),
            heir_of: None,
            parked: None,
            witnesses: None,
        }
    }
}

impl<I: Id> Merge for Row<I> {
    fn merge(&mut self, other: &Self) {
        if other.progress() > self.progress() {
            // The newer row's: they come and go with what is counted.
            self.witnesses.clone_from(&other.witnesses);
        }
        self.counted.merge(&other.counted);
        Merge::merge(&mut self.passed_on, &other.passed_on);
        if let Some(theirs) = &other.heir_of {
            self.heir_of.get_or_insert_default().extend(theirs.iter().cloned());
        }
        if let Some(theirs) = &other.parked {
            self.parked.get_or_insert_default().merge(theirs);
        }
    }
}

impl<I: Ord> Row<I> {
    /// Notes an operation. Of too many the oldest go.
    pub(super) fn witness(&mut self, witness: Witness) {
        let witnesses = self.witnesses.get_or_insert_default();
        witnesses.push(witness);
        let group = witness.group();
        if witnesses.iter().filter(|it| it.group() == group).count() > group.max()
            && let Some(oldest) = witnesses.iter().position(|it| it.group() == group)
        {
            witnesses.remove(oldest);
        }
    }

    /// An operation of this row is taken back: it counts in another one, or nowhere.
    pub(super) fn take_back_witness(&mut self, id: u64, is_lost: bool) {
        let Some(witnesses) = &mut self.witnesses else { return };
        let Some(place) = witnesses.iter().rposition(|it| it.id == id && it.fate == Fate::Counts) else {
            return;
        };
        if is_lost {
            witnesses[place].fate = Fate::Lost;
        } else {
            witnesses.remove(place);
        }
        if witnesses.is_empty() {
            self.witnesses = None;
        }
    }
}

impl<I: Id> Row<I> {
    /// All that the owner has passed on.
    pub(super) fn passed_on_in_all(&self, right: Right) -> i128 {
        self.passed_on.values().map(|rights| i128::from(rights.get(right))).sum()
    }

    /// Everything that the owner has recorded: grows with each of its changes.
    pub(super) fn progress(&self) -> u128 {
        let counted = u128::from(self.counted.added) + u128::from(self.counted.subtracted);
        let passed_on = Right::BOTH.map(|right| self.passed_on_in_all(right).unsigned_abs());
        let Parked { taken, counted: of_parked } = self.parked.unwrap_or_default();
        let parked = [taken.added, taken.subtracted, of_parked.added, of_parked.subtracted].map(u128::from);
        let heirs = self.heir_of.as_ref().map_or(0, BTreeSet::len) as u128;
        counted + passed_on[0] + passed_on[1] + heirs + parked.iter().sum::<u128>()
    }

    /// Does this row hold everything that the other one does?
    pub(super) fn covers(&self, other: &Self) -> bool {
        let mut joined = self.clone();
        joined.merge(other);
        joined == *self
    }

    /// Is it the row of `owner` as that one would have written it?
    pub(super) fn is_proper(&self, owner: &I) -> bool {
        let recorded = !self.counted.is_zero()
            || !self.passed_on.is_empty()
            || self.heir_of.is_some()
            || self.parked.is_some();
        let inherits = self.heir_of.as_ref().is_none_or(|of| !of.is_empty() && !of.contains(owner));
        recorded && inherits && self.passed_on.iter().all(|(to, rights)| to != owner && !rights.is_zero())
    }
}
