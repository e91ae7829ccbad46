//! The stream of one site, as far as it is known here: the own one too.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use foldhash::fast::FixedState;
use hashbrown::{HashMap, HashSet};
use quipu_crdt::Pn;

use super::Runs;
use crate::{counters::Index, entry::Entry, record::Copied};

/// So many changes are remembered. Whoever is further behind is sent all rows.
const CHANGES_MAX: usize = 32 * 1024;
/// They are thinned out after so many new ones at the earliest: looking through all of them for each would cost far more
/// than the change itself.
const THIN_OUT_EVERY: usize = CHANGES_MAX / 4;

/// A counter whose row has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Changed {
    /// At this position of the stream, or before.
    pub(crate) number: u64,
    /// The number of the change here. A counter stays in memory as long as one of its changes is remembered.
    pub(crate) here: u64,
    pub(crate) index: Index,
}

/// The entries of a stream that are not settled and speak of one counter.
#[derive(Debug, Default)]
struct OfKey {
    numbers: BTreeSet<u64>,
    /// What they have counted, without what was taken back.
    provisional: Pn,
}

/// The stream of one site.
#[derive(Debug, Default)]
pub(crate) struct Origin {
    /// How far this site has got with it.
    pub(crate) position: u64,
    /// Its operations up to here are settled.
    pub(crate) settled: u64,
    /// The number of the last entry that was.
    pub(crate) last_settled: u64,
    /// Entries after that, by number. Nobody may forget them yet.
    pub(crate) open: BTreeMap<u64, Entry>,
    /// Those of them that the table has, or the checkpoint under way writes.
    pub(crate) stored: BTreeSet<u64>,
    /// Numbers of settled ones that the table has: first a checkpoint must have written where they went to,
    pub(crate) gone: Vec<u64>,
    /// as the one under way does,
    pub(crate) leaving: Vec<u64>,
    /// then the next one deletes them.
    pub(crate) deletable: Vec<u64>,
    /// The entries in `open`, by key.
    of_keys: HashMap<Box<[u8]>, OfKey, FixedState>,
    /// Who has written it.
    pub(crate) runs: Runs,
    /// Of a removed site: the rows here that are ahead of its stream are in the own one.
    pub(crate) is_told: bool,
    /// Of a site that went on from a copy.
    pub(crate) copied: Option<Copied>,
    /// All that the site has counted, modulo 2^64.
    pub(crate) counted: Pn,
    /// The changes after `since`, in their order.
    changes: VecDeque<Changed>,
    since: u64,
    /// How many have come since they were thinned out.
    unthinned: usize,
}

impl Origin {
    /// A stream known up to here, of whose changes nothing is remembered.
    pub(crate) fn at(position: u64) -> Self {
        Self { position, since: position, ..Self::default() }
    }

    /// It has got to this position by changes that are not remembered.
    pub(crate) fn skip_to(&mut self, position: u64) {
        self.changes.clear();
        (self.position, self.since) = (position, position);
    }

    /// Rows that changed up to here came by a sweep: which ones is not remembered.
    pub(crate) fn forget_until(&mut self, position: u64) {
        while self.changes.front().is_some_and(|changed| changed.number <= position) {
            self.changes.pop_front();
        }
        self.since = self.since.max(position);
    }

    /// The position after which all changes are remembered.
    pub(crate) fn since(&self) -> u64 {
        self.since
    }

    /// The number, here, of the oldest change that is remembered.
    pub(crate) fn oldest_here(&self) -> Option<u64> {
        self.changes.front().map(|changed| changed.here)
    }

    /// A counter has changed. `boundaries` are the positions that others have got to, or will get to by what is under way.
    pub(crate) fn push(&mut self, changed: Changed, boundaries: impl Iterator<Item = u64>) {
        self.changes.push_back(changed);
        self.unthinned += 1;
        if self.changes.len() > CHANGES_MAX && self.unthinned >= THIN_OUT_EVERY {
            self.thin_out(boundaries.collect());
            self.unthinned = 0;
        }
        while self.changes.len() > CHANGES_MAX {
            self.forget_oldest();
        }
    }

    fn forget_oldest(&mut self) {
        let Some(oldest) = self.changes.pop_front() else { return };
        self.since = oldest.number;
        // All of one number are sent together or not at all.
        while self.changes.front().is_some_and(|next| next.number == oldest.number) {
            self.changes.pop_front();
        }
    }

    /// Of several changes of a counter after the position of whoever is behind, the first is enough: with it goes the row
    /// as it is when it is sent. The last one stays too. What was sent may be acknowledged long after it was given up, and
    /// whoever has the row as it was between the two needs it once more.
    fn thin_out(&mut self, mut boundaries: Vec<u64>) {
        boundaries.sort_unstable();
        let mut boundaries = boundaries.into_iter().peekable();
        let numbers = self.changes.iter().map(|changed| (changed.index, changed.number));
        let last: HashMap<Index, u64, FixedState> = numbers.collect();
        let mut seen = HashSet::with_capacity_and_hasher(last.len(), FixedState::default());
        self.changes.retain(|changed| {
            while boundaries.next_if(|boundary| *boundary < changed.number).is_some() {
                seen.clear();
            }
            seen.insert(changed.index) || last.get(&changed.index) == Some(&changed.number)
        });
    }

    /// Everybody has got to this position.
    pub(crate) fn trim(&mut self, position: u64) {
        while self.changes.front().is_some_and(|changed| changed.number <= position) {
            self.forget_oldest();
        }
        self.since = self.since.max(position.min(self.position));
    }

    /// The changes after a position. All of them, if it is not before [`Self::since`].
    pub(crate) fn changes_after(&self, position: u64) -> impl ExactSizeIterator<Item = Changed> {
        let begin = self.changes.partition_point(|changed| changed.number <= position);
        self.changes.range(begin..).copied()
    }

    /// Keeps an entry until it is settled.
    pub(crate) fn insert(&mut self, entry: Entry) {
        self.of_keys.entry(entry.key.clone()).or_default().numbers.insert(entry.number);
        self.open.insert(entry.number, entry);
    }

    /// Drops an entry.
    pub(crate) fn remove(&mut self, number: u64) -> Option<Entry> {
        let entry = self.open.remove(&number)?;
        if let Some(of_key) = self.of_keys.get_mut(&entry.key) {
            of_key.numbers.remove(&number);
            if of_key.numbers.is_empty() {
                self.of_keys.remove(&entry.key);
            }
        }
        Some(entry)
    }

    /// The entries that are not settled and speak of a counter, after a position.
    pub(crate) fn entries_of(&self, key: &[u8], after: u64) -> impl Iterator<Item = &Entry> {
        let numbers = self.of_keys.get(key).into_iter().flat_map(move |it| it.numbers.range(after + 1..));
        numbers.filter_map(|number| self.open.get(number))
    }

    /// How many there are.
    pub(crate) fn count_of(&self, key: &[u8]) -> usize {
        if self.open.is_empty() { 0 } else { self.of_keys.get(key).map_or(0, |it| it.numbers.len()) }
    }

    /// An entry of this counter has counted so much.
    pub(crate) fn add_provisional(&mut self, key: &[u8], applied: i64) {
        let amount = crate::counter::pn(applied);
        let sum = &mut self.of_keys.entry(key.into()).or_default().provisional;
        sum.added = sum.added.saturating_add(amount.added);
        sum.subtracted = sum.subtracted.saturating_add(amount.subtracted);
    }

    /// And that was taken back, or is settled.
    pub(crate) fn remove_provisional(&mut self, key: &[u8], applied: i64) {
        let Some(OfKey { provisional: sum, .. }) = self.of_keys.get_mut(key) else { return };
        let amount = crate::counter::pn(applied);
        sum.added = sum.added.saturating_sub(amount.added);
        sum.subtracted = sum.subtracted.saturating_sub(amount.subtracted);
    }

    /// What operations that are not settled have counted under a key.
    pub(crate) fn provisional(&self, key: &[u8]) -> Pn {
        self.of_keys.get(key).map(|it| it.provisional).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(origin: &Origin, after: u64) -> Vec<(u64, Index)> {
        origin.changes_after(after).map(|changed| (changed.number, changed.index)).collect()
    }

    fn changed(number: u64, index: Index) -> Changed {
        Changed { number, here: number, index }
    }

    #[test]
    fn a_hot_counter_does_not_push_the_others_out() {
        let mut origin = Origin::default();
        let behind = 10;
        for number in 1..=100 {
            origin.push(changed(number, u32::try_from(number).unwrap()), [behind].into_iter());
        }
        for number in 101..=4 * CHANGES_MAX as u64 {
            origin.push(changed(number, 0), [behind].into_iter());
        }
        assert!(origin.since() <= behind);
        let after = numbers(&origin, behind);
        assert_eq!(
            after[..90],
            (11..=100).map(|number| (number, u32::try_from(number).unwrap())).collect::<Vec<_>>()
        );
        assert_eq!(after[90], (101, 0));
    }

    #[test]
    fn what_one_has_got_is_kept_for_another() {
        let mut origin = Origin::default();
        for number in 1..=6 {
            origin.push(changed(number, 7), [].into_iter());
        }
        origin.thin_out(vec![2]);
        // The first is for whoever has nothing, the third for who has two, the last for who turns out to have others.
        assert_eq!(numbers(&origin, 0), [(1, 7), (3, 7), (6, 7)]);
        origin.position = 6;
        origin.trim(2);
        assert_eq!((numbers(&origin, 2), origin.since()), (vec![(3, 7), (6, 7)], 2));
    }

    #[test]
    fn changes_of_many_counters_are_not_looked_through_again_and_again() {
        let mut origin = Origin::default();
        let mut looks = 0;
        let counters = 4 * CHANGES_MAX as u64;
        for number in 1..=counters {
            let boundaries = std::iter::once(0).inspect(|_| looks += 1);
            origin.push(changed(number, u32::try_from(number).unwrap()), boundaries);
        }
        assert_eq!(looks, 1 + 3 * CHANGES_MAX / THIN_OUT_EVERY - 1);
        assert_eq!((origin.changes.len(), origin.since()), (CHANGES_MAX, counters - CHANGES_MAX as u64));
    }
}
