//! Dots, and the set of all dots ever heard of.

use crate::{Id, Merge};
use minicbor::decode::{Decoder, Error};
use minicbor::{Decode, Encode};
use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU64;

/// The name of one event: `creator` made it, as the `number`-th of its own.
///
/// ```
/// use quipu_crdt::causal::Dot;
/// let second = Dot::new("a", 2).expect("numbers start at 1");
/// assert_eq!(second.to_string(), "a:2");
/// assert_eq!(Dot::new("a", 0), None);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
pub struct Dot<I> {
    /// Who made it. Nobody else makes dots under this name.
    #[n(0)]
    pub creator: I,
    /// Which of the creator's dots this is; the first is 1.
    #[n(1)]
    pub number: NonZeroU64,
}

impl<I> Dot<I> {
    /// The `number`-th dot of `creator`, where there is one.
    pub fn new(creator: I, number: u64) -> Option<Self> {
        NonZeroU64::new(number).map(|number| Dot { creator, number })
    }
}

impl<I: std::fmt::Display> std::fmt::Display for Dot<I> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.creator, self.number)
    }
}

/// A node has made as many dots as numbers allow. No dot was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("this node has used up the numbers of its dots; none was made")]
pub struct OutOfDots;

/// A set of dots, compressed: for each creator the end of the run that starts at 1 (together they are a
/// version vector), and one by one the dots that lie beyond a gap (the dot cloud).
///
/// Equal sets are equal values: a dot that closes a gap moves the run forward at once.
///
/// ```
/// use quipu_crdt::causal::{CausalContext, Dot};
/// let mut context = CausalContext::new();
/// let first = context.next(&"a")?;
/// context.add(first);
/// context.add(Dot::new("a", 3).expect("not zero")); // a:2 is still missing
/// assert_eq!((context.vector_len(), context.cloud_len()), (1, 1));
/// context.add(Dot::new("a", 2).expect("not zero"));
/// assert_eq!((context.vector_len(), context.cloud_len()), (1, 0));
/// # Ok::<(), quipu_crdt::causal::OutOfDots>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash, Encode)]
#[cbor(transparent)]
pub struct CausalContext<I: Id> {
    #[n(0)]
    seen: BTreeMap<I, Seen>,
}

/// The numbers of one creator's dots. Not empty, and `beyond` starts after a gap.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Encode, Decode)]
struct Seen {
    /// 1, 2, … up to this are all here; 0 if the first is missing.
    #[n(0)]
    up_to: u64,
    #[n(1)]
    beyond: BTreeSet<u64>,
}

impl<I: Id> Default for CausalContext<I> {
    fn default() -> Self {
        CausalContext { seen: BTreeMap::new() }
    }
}

impl<I: Id> CausalContext<I> {
    /// No dots.
    pub fn new() -> Self {
        CausalContext::default()
    }

    /// Has this dot been heard of?
    pub fn contains(&self, dot: &Dot<I>) -> bool {
        self.seen.get(&dot.creator).is_some_and(|seen| seen.contains(dot.number.get()))
    }

    /// The largest number of a dot of this creator, 0 if there is none.
    pub fn max(&self, creator: &I) -> u64 {
        self.seen.get(creator).map_or(0, Seen::max)
    }

    /// The dot that `creator` makes next. It is not added yet.
    pub fn next(&self, creator: &I) -> Result<Dot<I>, OutOfDots> {
        let number = self.max(creator).checked_add(1).ok_or(OutOfDots)?;
        Ok(Dot::new(creator.clone(), number).expect("one more than a number is not zero"))
    }

    /// Adds a dot; false if it was here already.
    pub fn add(&mut self, dot: Dot<I>) -> bool {
        self.seen.entry(dot.creator).or_default().add(dot.number.get())
    }

    /// Has no dot been heard of?
    pub fn is_empty(&self) -> bool {
        self.seen.is_empty()
    }

    /// How many creators there are: what the vector costs.
    pub fn vector_len(&self) -> usize {
        self.seen.len()
    }

    /// How many dots lie beyond a gap: what the cloud costs. Zero as long as only whole states are merged.
    pub fn cloud_len(&self) -> usize {
        self.seen.values().map(|seen| seen.beyond.len()).sum()
    }
}

impl<I: Id> FromIterator<Dot<I>> for CausalContext<I> {
    fn from_iter<D: IntoIterator<Item = Dot<I>>>(dots: D) -> Self {
        let mut context = CausalContext::new();
        for dot in dots {
            context.add(dot);
        }
        context
    }
}

/// The union.
impl<I: Id> Merge for CausalContext<I> {
    fn merge(&mut self, other: &Self) {
        Merge::merge(&mut self.seen, &other.seen);
    }
}

impl Seen {
    fn contains(&self, number: u64) -> bool {
        number <= self.up_to || self.beyond.contains(&number)
    }

    fn max(&self) -> u64 {
        self.beyond.last().copied().unwrap_or(self.up_to)
    }

    fn add(&mut self, number: u64) -> bool {
        if self.contains(number) {
            return false;
        }
        self.beyond.insert(number);
        self.compact();
        true
    }

    /// Moves the run forward over the dots that continue it.
    fn compact(&mut self) {
        while let Some(next) = self.up_to.checked_add(1)
            && self.beyond.remove(&next)
        {
            self.up_to = next;
        }
    }

    fn is_canonical(&self) -> bool {
        match self.beyond.first() {
            None => self.up_to > 0,
            Some(first) => *first > self.up_to && first - self.up_to > 1,
        }
    }
}

impl Merge for Seen {
    fn merge(&mut self, other: &Self) {
        self.up_to = self.up_to.max(other.up_to);
        self.beyond.extend(&other.beyond);
        self.beyond.retain(|number| *number > self.up_to);
        self.compact();
    }
}

/// Refuses dots of number 0, creators without dots, and cloud dots that belong into the vector: so what is
/// decoded is as good as what was computed here.
impl<'b, C, I: Id + Decode<'b, C>> Decode<'b, C> for CausalContext<I> {
    fn decode(decoder: &mut Decoder<'b>, ctx: &mut C) -> Result<Self, Error> {
        let seen: BTreeMap<I, Seen> = decoder.decode_with(ctx)?;
        if seen.values().all(Seen::is_canonical) {
            Ok(CausalContext { seen })
        } else {
            Err(Error::message("a causal context that is not compressed"))
        }
    }
}
