//! What is held under dots, and how two stores join ("Borrowing an Identity for a Distributed Counter",
//! Enes, Baquero, Almeida and Leitão, figure 1).

use super::{CausalContext, Dot};
use crate::{Id, Merge};
use minicbor::decode::{Decoder, Error};
use minicbor::{Decode, Encode};
use std::collections::BTreeMap;

/// The first half of a [`Causal`](super::Causal) state. Empty is ⊥.
pub trait DotStore: Default {
    /// Who makes the dots.
    type Id: Id;

    /// The dots that are held, a dot that is held twice twice.
    fn dots(&self) -> impl Iterator<Item = &Dot<Self::Id>>;

    /// Is no dot held?
    fn is_empty(&self) -> bool {
        self.dots().next().is_none()
    }

    /// Replaces `self` by the store of `(self, ours) ⊔ (other, theirs)`.
    ///
    /// What both hold stays; what one holds stays unless the other has heard of it, and so has removed it.
    fn join(&mut self, ours: &CausalContext<Self::Id>, other: &Self, theirs: &CausalContext<Self::Id>);
}

/// A value of a semilattice under each dot.
///
/// ```
/// use quipu_crdt::causal::{CausalContext, Dot, DotFun, DotStore};
/// let dot = Dot::new("a", 1).expect("not zero");
/// let heard = CausalContext::from_iter([dot]);
/// let mut ours = DotFun::from_iter([(dot, 5)]);
/// ours.join(&heard, &DotFun::from_iter([(dot, 7)]), &heard);
/// assert_eq!(ours.get(&dot), Some(&7));
/// ours.join(&heard, &DotFun::default(), &heard); // removed there
/// assert_eq!(ours.get(&dot), None);
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash, Encode)]
#[cbor(transparent)]
pub struct DotFun<I: Id, V> {
    #[n(0)]
    entries: BTreeMap<Dot<I>, V>,
}

impl<I: Id, V> DotFun<I, V> {
    /// The value under this dot.
    pub fn get(&self, dot: &Dot<I>) -> Option<&V> {
        self.entries.get(dot)
    }

    /// All dots and their values, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&Dot<I>, &V)> {
        self.entries.iter()
    }

    pub(crate) fn entries_mut(&mut self) -> &mut BTreeMap<Dot<I>, V> {
        &mut self.entries
    }
}

impl<I: Id, V> Default for DotFun<I, V> {
    fn default() -> Self {
        DotFun { entries: BTreeMap::new() }
    }
}

impl<I: Id, V> FromIterator<(Dot<I>, V)> for DotFun<I, V> {
    fn from_iter<E: IntoIterator<Item = (Dot<I>, V)>>(entries: E) -> Self {
        DotFun { entries: entries.into_iter().collect() }
    }
}

impl<I: Id, V: Merge + Clone> DotStore for DotFun<I, V> {
    type Id = I;

    fn dots(&self) -> impl Iterator<Item = &Dot<I>> {
        self.entries.keys()
    }

    fn join(&mut self, ours: &CausalContext<I>, other: &Self, theirs: &CausalContext<I>) {
        self.entries.retain(|dot, value| match other.entries.get(dot) {
            Some(same) => {
                value.merge(same);
                true
            }
            None => !theirs.contains(dot),
        });
        for (dot, value) in &other.entries {
            if !ours.contains(dot) {
                self.entries.insert(dot.clone(), value.clone());
            }
        }
    }
}

impl<'b, C, I: Id + Decode<'b, C>, V: Decode<'b, C>> Decode<'b, C> for DotFun<I, V> {
    fn decode(decoder: &mut Decoder<'b>, ctx: &mut C) -> Result<Self, Error> {
        Ok(DotFun { entries: decoder.decode_with(ctx)? })
    }
}

/// A store under each key. A key whose store is empty is not held.
///
/// ```
/// use quipu_crdt::causal::{Dot, DotFun, DotMap};
/// let dot = Dot::new("a", 1).expect("not zero");
/// let map = DotMap::from_iter([("x", DotFun::from_iter([(dot, 5)])), ("y", DotFun::default())]);
/// assert!(map.get(&"x").is_some());
/// assert!(map.get(&"y").is_none());
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash, Encode)]
#[cbor(transparent)]
pub struct DotMap<K: Ord, S> {
    #[n(0)]
    entries: BTreeMap<K, S>,
}

impl<K: Ord, S> DotMap<K, S> {
    /// The store under this key; `None` for an empty one.
    pub fn get(&self, key: &K) -> Option<&S> {
        self.entries.get(key)
    }

    /// All keys and their stores, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &S)> {
        self.entries.iter()
    }
}

impl<K: Ord + Clone, S: DotStore> DotMap<K, S> {
    /// Changes the store under a key, and keeps it if it is not empty then.
    pub(crate) fn update<R>(&mut self, key: &K, change: impl FnOnce(&mut S) -> R) -> R {
        let store = self.entries.entry(key.clone()).or_default();
        let result = change(store);
        if store.is_empty() {
            self.entries.remove(key);
        }
        result
    }
}

impl<K: Ord, S> Default for DotMap<K, S> {
    fn default() -> Self {
        DotMap { entries: BTreeMap::new() }
    }
}

impl<K: Ord, S: DotStore> FromIterator<(K, S)> for DotMap<K, S> {
    fn from_iter<E: IntoIterator<Item = (K, S)>>(entries: E) -> Self {
        DotMap { entries: entries.into_iter().filter(|(_, store)| !store.is_empty()).collect() }
    }
}

impl<K: Ord + Clone, S: DotStore> DotStore for DotMap<K, S> {
    type Id = S::Id;

    fn dots(&self) -> impl Iterator<Item = &Dot<S::Id>> {
        self.entries.values().flat_map(S::dots)
    }

    fn join(&mut self, ours: &CausalContext<S::Id>, other: &Self, theirs: &CausalContext<S::Id>) {
        let nothing = S::default();
        for (key, store) in &mut self.entries {
            store.join(ours, other.get(key).unwrap_or(&nothing), theirs);
        }
        for (key, store) in &other.entries {
            if !self.entries.contains_key(key) {
                let mut new = S::default();
                new.join(ours, store, theirs);
                self.entries.insert(key.clone(), new);
            }
        }
        self.entries.retain(|_, store| !store.is_empty());
    }
}

/// Refuses a key that holds nothing.
impl<'b, C, K: Ord + Decode<'b, C>, S: DotStore + Decode<'b, C>> Decode<'b, C> for DotMap<K, S> {
    fn decode(decoder: &mut Decoder<'b>, ctx: &mut C) -> Result<Self, Error> {
        let entries: BTreeMap<K, S> = decoder.decode_with(ctx)?;
        if entries.values().any(S::is_empty) {
            return Err(Error::message("a key that holds no dot"));
        }
        Ok(DotMap { entries })
    }
}
