//! Tokens that are kept for others, found by whom they are for and by whom they are from.

use super::slot::Token;
use crate::{Id, Tally};
use minicbor::{Decode, Decoder, Encode, Encoder};
use std::collections::{BTreeMap, BTreeSet};

/// Copies of tokens made elsewhere for targets elsewhere, at most one from each source for each target.
///
/// Who visits a server with many cached tokens is told of its own; without the second index that would mean
/// a look at every target.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Cached<I: Ord, A> {
    /// By target, then by source.
    by_target: BTreeMap<I, BTreeMap<I, Token<I, A>>>,
    /// The same as names: by source, the targets.
    targets_of: BTreeMap<I, BTreeSet<I>>,
}

impl<I: Id, A: Clone> Cached<I, A> {
    pub(super) fn new() -> Self {
        Cached { by_target: BTreeMap::new(), targets_of: BTreeMap::new() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_target.is_empty()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Token<I, A>> {
        self.by_target.values().flat_map(BTreeMap::values)
    }

    pub(super) fn targets(&self) -> impl Iterator<Item = &I> {
        self.by_target.keys()
    }

    pub(super) fn for_target(&self, target: &I) -> impl Iterator<Item = &Token<I, A>> {
        self.by_target.get(target).into_iter().flat_map(BTreeMap::values)
    }

    pub(super) fn of_source(&self, source: &I) -> impl Iterator<Item = &Token<I, A>> {
        let targets = self.targets_of.get(source).into_iter().flatten();
        targets.filter_map(|target| self.by_target.get(target)?.get(source))
    }

    /// Keeps a copy; of two from one source to one target the newer.
    pub(super) fn insert(&mut self, token: &Token<I, A>) {
        if let Some(by_source) = self.by_target.get_mut(&token.target)
            && let Some(held) = by_source.get_mut(&token.source)
        {
            if held.slot.source_clock < token.slot.source_clock {
                *held = token.clone();
            }
            return;
        }
        self.targets_of.entry(token.source.clone()).or_default().insert(token.target.clone());
        let by_source = self.by_target.entry(token.target.clone()).or_default();
        by_source.insert(token.source.clone(), token.clone());
    }

    /// Drops the tokens for this target of which `gone` is true.
    pub(super) fn drop_for(&mut self, target: &I, gone: impl Fn(&Token<I, A>) -> bool) {
        let Some(by_source) = self.by_target.get_mut(target) else { return };
        let targets_of = &mut self.targets_of;
        by_source.retain(|source, token| {
            let gone = gone(token);
            if gone {
                forget(targets_of, source, target);
            }
            !gone
        });
        if by_source.is_empty() {
            self.by_target.remove(target);
        }
    }

    /// Takes out the tokens for this target.
    pub(super) fn take_for(&mut self, target: &I) -> impl Iterator<Item = Token<I, A>> + use<I, A> {
        let taken = self.by_target.remove(target).unwrap_or_default();
        taken.keys().for_each(|source| forget(&mut self.targets_of, source, target));
        taken.into_values()
    }
}

fn forget<I: Id>(targets_of: &mut BTreeMap<I, BTreeSet<I>>, source: &I, target: &I) {
    let Some(targets) = targets_of.get_mut(source) else { return };
    targets.remove(target);
    if targets.is_empty() {
        targets_of.remove(source);
    }
}

/// Only the tokens: the index follows from them.
impl<C, I: Ord + Encode<C>, A: Encode<C>> Encode<C> for Cached<I, A> {
    fn encode<W: minicbor::encode::Write>(
        &self,
        e: &mut Encoder<W>,
        ctx: &mut C,
    ) -> Result<(), minicbor::encode::Error<W::Error>> {
        self.by_target.encode(e, ctx)
    }
}

impl<'b, C, I: Id + Decode<'b, C>, A: Tally + Decode<'b, C>> Decode<'b, C> for Cached<I, A> {
    fn decode(d: &mut Decoder<'b>, ctx: &mut C) -> Result<Self, minicbor::decode::Error> {
        let by_target: BTreeMap<I, BTreeMap<I, Token<I, A>>> = BTreeMap::decode(d, ctx)?;
        let mut cached = Cached::new();
        for (target, by_source) in &by_target {
            for (source, token) in by_source {
                if token.source != *source || token.target != *target {
                    return Err(minicbor::decode::Error::message("a cached token in the wrong place"));
                }
                cached.insert(token);
            }
        }
        Ok(cached)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handoff::Slot;
    use crate::testing::Random;

    const SOURCES: [u32; 6] = [0, 1, 2, 3, 4, 5];
    const TARGETS: [u32; 6] = [10, 11, 12, 13, 14, 15];

    fn token(source: u32, target: u32, source_clock: u64) -> Token<u32, u64> {
        Token { source, target, slot: Slot { source_clock, target_clock: 0 }, value: 1 }
    }

    #[test]
    fn both_indexes_find_the_same_tokens_whatever_was_done() {
        let mut random = Random::new(1);
        let mut cached = Cached::new();
        for step in 0..5_000 {
            let (source, target) = (*random.pick(&SOURCES), *random.pick(&TARGETS));
            match random.below(10) {
                0 => drop(cached.take_for(&target)),
                1 => cached.drop_for(&target, |token| token.source <= source),
                _ => cached.insert(&token(source, target, step % 7)),
            }
            let mut by_source: Vec<_> = SOURCES.iter().flat_map(|name| cached.of_source(name)).collect();
            let mut by_target: Vec<_> = TARGETS.iter().flat_map(|name| cached.for_target(name)).collect();
            let all: Vec<_> = cached.iter().collect();
            assert_eq!(by_target, all);
            by_source.sort_by_key(|token| (token.source, token.target));
            by_target.sort_by_key(|token| (token.source, token.target));
            assert_eq!(by_source, by_target);
            assert_eq!(cached.is_empty(), all.is_empty());
            let bytes = crate::codec::encode(&cached);
            assert_eq!(crate::codec::decode::<Cached<u32, u64>>(&bytes).expect("its own bytes"), cached);
        }
    }

    #[test]
    fn of_two_tokens_the_newer_stays() {
        let mut cached = Cached::new();
        for clock in [3, 5, 4] {
            cached.insert(&token(1, 2, clock));
        }
        assert_eq!(cached.iter().collect::<Vec<_>>(), [&token(1, 2, 5)]);
    }

    #[test]
    fn a_token_in_the_wrong_place_is_refused() {
        let misplaced = BTreeMap::from([(7u32, BTreeMap::from([(1u32, token(1, 2, 3))]))]);
        let bytes = crate::codec::encode(&misplaced);
        assert!(crate::codec::decode::<Cached<u32, u64>>(&bytes).is_err());
    }
}
