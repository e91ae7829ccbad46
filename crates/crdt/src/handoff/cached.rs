//! Tokens that are kept for others, found by whom they are from and by whom they are for.

use super::slot::Token;
use crate::{Id, Tally};
use minicbor::{Decode, Decoder, Encode, Encoder};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeBounds;

/// Copies of tokens made elsewhere for targets elsewhere, at most one from each source for each target.
///
/// A source brings all its tokens at each visit and is told of those that are here: so they stand together,
/// however many others there are. What is for one target is found by the index.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Cached<I: Ord, A> {
    /// By source, then by target.
    by_source: BTreeMap<I, BTreeMap<I, Token<I, A>>>,
    /// The same as names: by target, the sources.
    sources_for: BTreeMap<I, BTreeSet<I>>,
}

impl<I: Id, A: Clone> Cached<I, A> {
    pub(super) fn new() -> Self {
        Cached { by_source: BTreeMap::new(), sources_for: BTreeMap::new() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_source.is_empty()
    }

    /// All, target by target.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Token<I, A>> {
        self.targets().flat_map(|target| self.for_target(target))
    }

    pub(super) fn targets(&self) -> impl Iterator<Item = &I> {
        self.sources_for.keys()
    }

    /// Whose tokens there are, within a range of names.
    pub(super) fn sources(&self, range: impl RangeBounds<I>) -> impl Iterator<Item = &I> {
        self.by_source.range(range).map(|(source, _)| source)
    }

    pub(super) fn of_source(&self, source: &I) -> impl Iterator<Item = &Token<I, A>> {
        self.by_source.get(source).into_iter().flat_map(BTreeMap::values)
    }

    pub(super) fn for_target(&self, target: &I) -> impl Iterator<Item = &Token<I, A>> {
        let sources = self.sources_for.get(target).into_iter().flatten();
        sources.filter_map(|source| self.by_source.get(source)?.get(target))
    }

    /// Keeps a copy; of two from one source to one target the newer.
    pub(super) fn insert(&mut self, token: &Token<I, A>) {
        if let Some(by_target) = self.by_source.get_mut(&token.source)
            && let Some(held) = by_target.get_mut(&token.target)
        {
            if held.slot.source_clock < token.slot.source_clock {
                *held = token.clone();
            }
            return;
        }
        self.sources_for.entry(token.target.clone()).or_default().insert(token.source.clone());
        let by_target = self.by_source.entry(token.source.clone()).or_default();
        by_target.insert(token.target.clone(), token.clone());
    }

    /// Drops the tokens for this target of which `gone` is true.
    pub(super) fn drop_for(&mut self, target: &I, gone: impl Fn(&Token<I, A>) -> bool) {
        let Some(sources) = self.sources_for.get_mut(target) else { return };
        let by_source = &mut self.by_source;
        sources.retain(|source| {
            let gone = by_source.get(source).and_then(|tokens| tokens.get(target)).is_none_or(&gone);
            if gone {
                take(by_source, source, target);
            }
            !gone
        });
        if sources.is_empty() {
            self.sources_for.remove(target);
        }
    }

    /// Takes out the tokens for this target.
    pub(super) fn take_for(&mut self, target: &I) -> Vec<Token<I, A>> {
        let sources = self.sources_for.remove(target).unwrap_or_default();
        sources.iter().filter_map(|source| take(&mut self.by_source, source, target)).collect()
    }
}

/// Takes one token out.
fn take<I: Id, A>(
    by_source: &mut BTreeMap<I, BTreeMap<I, Token<I, A>>>,
    source: &I,
    target: &I,
) -> Option<Token<I, A>> {
    let by_target = by_source.get_mut(source)?;
    let token = by_target.remove(target);
    if by_target.is_empty() {
        by_source.remove(source);
    }
    token
}

/// Only the tokens: the index follows from them.
impl<C, I: Ord + Encode<C>, A: Encode<C>> Encode<C> for Cached<I, A> {
    fn encode<W: minicbor::encode::Write>(
        &self,
        e: &mut Encoder<W>,
        ctx: &mut C,
    ) -> Result<(), minicbor::encode::Error<W::Error>> {
        self.by_source.encode(e, ctx)
    }
}

impl<'b, C, I: Id + Decode<'b, C>, A: Tally + Decode<'b, C>> Decode<'b, C> for Cached<I, A> {
    fn decode(d: &mut Decoder<'b>, ctx: &mut C) -> Result<Self, minicbor::decode::Error> {
        let by_source: BTreeMap<I, BTreeMap<I, Token<I, A>>> = BTreeMap::decode(d, ctx)?;
        let mut cached = Cached::new();
        for (source, by_target) in &by_source {
            for (target, token) in by_target {
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
            let by_target: Vec<_> = TARGETS.iter().flat_map(|name| cached.for_target(name)).collect();
            let all: Vec<_> = cached.iter().collect();
            assert_eq!(by_target, all);
            by_source.sort_by_key(|token| (token.target, token.source));
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
        cached.insert(&Token { value: 7, ..token(1, 2, 5) });
        assert_eq!(cached.iter().collect::<Vec<_>>(), [&token(1, 2, 5)], "of two as new the first");
    }

    #[test]
    fn a_token_in_the_wrong_place_is_refused() {
        for (source, target) in [(7u32, 2u32), (1, 7), (7, 7)] {
            let misplaced = BTreeMap::from([(source, BTreeMap::from([(target, token(1, 2, 3))]))]);
            let bytes = crate::codec::encode(&misplaced);
            assert!(crate::codec::decode::<Cached<u32, u64>>(&bytes).is_err(), "{source}, {target}");
        }
    }
}
