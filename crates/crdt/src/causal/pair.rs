//! A store and its context, which join together.

use super::{CausalContext, DotStore};
use crate::Merge;
use minicbor::decode::{Decoder, Error};
use minicbor::encode::{Encoder, Error as EncodeError, Write};
use minicbor::{Decode, Encode};
use std::collections::BTreeSet;

/// The state of a causal CRDT: what is held, and all that was ever heard of.
///
/// Every dot of the store is in the context, and stands in the store once.
///
/// ```
/// use quipu_crdt::Merge;
/// use quipu_crdt::causal::{Causal, CausalContext, Dot, DotFun};
/// let dot = Dot::new("a", 1).expect("not zero");
/// let mut holds = Causal::new(DotFun::from_iter([(dot, 5)]), CausalContext::from_iter([dot]))?;
/// let old = holds.clone();
/// let removed = Causal::new(DotFun::default(), CausalContext::from_iter([dot]))?;
/// holds.merge(&removed);
/// holds.merge(&old);
/// assert_eq!(holds, removed, "what was removed does not come back");
/// # Ok::<(), quipu_crdt::causal::Inconsistent>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Causal<S: DotStore> {
    pub(crate) store: S,
    pub(crate) context: CausalContext<S::Id>,
}

/// A store that holds a dot twice, or one that its context has not heard of. No state was made of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the store holds a dot twice or one that is not in its context; it was refused")]
pub struct Inconsistent;

impl<S: DotStore> Causal<S> {
    /// This store with this context, if they agree.
    pub fn new(store: S, context: CausalContext<S::Id>) -> Result<Self, Inconsistent> {
        let mut once = BTreeSet::new();
        if store.dots().all(|dot| context.contains(dot) && once.insert(dot)) {
            drop(once);
            Ok(Causal { store, context })
        } else {
            Err(Inconsistent)
        }
    }

    /// What is held.
    pub fn store(&self) -> &S {
        &self.store
    }

    /// All dots ever heard of, held or removed.
    pub fn context(&self) -> &CausalContext<S::Id> {
        &self.context
    }
}

impl<S: DotStore> Default for Causal<S> {
    fn default() -> Self {
        Causal { store: S::default(), context: CausalContext::default() }
    }
}

impl<S: DotStore> Merge for Causal<S> {
    fn merge(&mut self, other: &Self) {
        self.store.join(&self.context, &other.store, &other.context);
        self.context.merge(&other.context);
    }
}

/// The pair as it is written. (A derived bound cannot speak of `S::Id`.)
#[derive(Encode, Decode)]
struct Wire<S, X> {
    #[n(0)]
    store: S,
    #[n(1)]
    context: X,
}

impl<C, S: DotStore<Id: Encode<C>> + Encode<C>> Encode<C> for Causal<S> {
    fn encode<W: Write>(&self, encoder: &mut Encoder<W>, ctx: &mut C) -> Result<(), EncodeError<W::Error>> {
        Wire { store: &self.store, context: &self.context }.encode(encoder, ctx)
    }
}

/// Refuses what [`Causal::new`] refuses.
impl<'b, C, S: DotStore<Id: Decode<'b, C>> + Decode<'b, C>> Decode<'b, C> for Causal<S> {
    fn decode(decoder: &mut Decoder<'b>, ctx: &mut C) -> Result<Self, Error> {
        let Wire { store, context } = decoder.decode_with(ctx)?;
        Causal::new(store, context).map_err(Error::custom)
    }
}
