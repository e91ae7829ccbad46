//! A set of target clocks.

use std::collections::BTreeMap;

use minicbor::{Decode, Decoder, Encode, Encoder, decode::Error, encode::Write};

/// A set of target clocks, as ranges. Nearly all slots that a server has opened are closed, so there are few gaps.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Clocks(BTreeMap<u64, u64>);

impl Clocks {
    /// All clocks below `end` but these.
    pub(crate) fn below_without(end: u64, without: impl Iterator<Item = u64>) -> Self {
        let mut without: Vec<u64> = without.filter(|clock| *clock < end).collect();
        without.sort_unstable();
        let mut ranges = BTreeMap::new();
        let mut first = 0;
        for clock in without.into_iter().chain([end]) {
            if first < clock {
                ranges.insert(first, clock);
            }
            first = clock + 1;
        }
        Self(ranges)
    }

    pub(crate) fn contains(&self, clock: u64) -> bool {
        self.0.range(..=clock).next_back().is_some_and(|(_, end)| clock < *end)
    }

    /// Adds one. Returns whether it is new.
    pub(crate) fn insert(&mut self, clock: u64) -> bool {
        let is_new = !self.contains(clock);
        if is_new {
            self.insert_range(clock, clock + 1);
        }
        is_new
    }

    /// Adds all of another set.
    pub(crate) fn merge(&mut self, other: &Self) {
        other.0.iter().for_each(|(first, end)| self.insert_range(*first, *end));
    }

    fn insert_range(&mut self, mut first: u64, mut end: u64) {
        while let Some((&other, &other_end)) = self.0.range(..=end).next_back() {
            if other_end < first {
                break;
            }
            (first, end) = (first.min(other), end.max(other_end));
            self.0.remove(&other);
        }
        self.0.insert(first, end);
    }
}

/// By turns the length of a gap and that of a range: small numbers, and no length that promises more than follows.
impl<C> Encode<C> for Clocks {
    fn encode<W: Write>(
        &self,
        encoder: &mut Encoder<W>,
        _: &mut C,
    ) -> Result<(), minicbor::encode::Error<W::Error>> {
        encoder.array(2 * self.0.len() as u64)?;
        let mut at = 0;
        for (first, end) in &self.0 {
            encoder.u64(first - at)?.u64(end - first)?;
            at = *end;
        }
        Ok(())
    }
}

impl<'b, C> Decode<'b, C> for Clocks {
    fn decode(decoder: &mut Decoder<'b>, _: &mut C) -> Result<Self, Error> {
        let bad = || Error::message("not a set of clocks");
        let mut numbers = decoder.array_iter::<u64>()?;
        let (mut ranges, mut at) = (BTreeMap::new(), 0u64);
        while let Some(gap) = numbers.next() {
            let length = numbers.next().ok_or_else(bad)??;
            let first = at.checked_add(gap?).ok_or_else(bad)?;
            at = first.checked_add(length).filter(|end| first < *end && *end < u64::MAX).ok_or_else(bad)?;
            ranges.insert(first, at);
        }
        Ok(Self(ranges))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use quipu_crdt::testing::Random;

    use super::*;

    fn encode(clocks: &Clocks) -> Vec<u8> {
        minicbor::to_vec(clocks).unwrap()
    }

    #[test]
    fn ranges_are_the_set_of_their_clocks() {
        let mut random = Random::new(1);
        for _ in 0..200 {
            let (mut set, mut clocks) = (BTreeSet::new(), Clocks::default());
            let (mut other_set, mut other) = (BTreeSet::new(), Clocks::default());
            for _ in 0..random.below(60) {
                let clock = random.below(50) as u64;
                assert_eq!(clocks.insert(clock), set.insert(clock));
                let clock = random.below(80) as u64;
                assert_eq!(other.insert(clock), other_set.insert(clock));
            }
            clocks.merge(&other);
            set.extend(other_set);
            assert!((0..100).all(|clock| clocks.contains(clock) == set.contains(&clock)));
            assert!(clocks.0.iter().zip(clocks.0.iter().skip(1)).all(|((_, end), (next, _))| end < next));
            assert_eq!(minicbor::decode::<Clocks>(&encode(&clocks)).unwrap(), clocks);
            let without = Clocks::below_without(80, (0..80).filter(|clock| !set.contains(clock)));
            assert_eq!(without, clocks);
        }
    }

    #[test]
    fn bytes_that_are_no_set_are_refused() {
        for numbers in [&[1][..], &[1, 0], &[1, u64::MAX], &[0, 5, u64::MAX, 1]] {
            assert!(minicbor::decode::<Clocks>(&minicbor::to_vec(numbers).unwrap()).is_err(), "{numbers:?}");
        }
        assert_eq!(encode(&Clocks::below_without(1_000_000, [7].into_iter())).len(), 9);
    }
}
