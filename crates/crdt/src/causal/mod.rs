//! Building blocks of causal CRDTs: replicas that forget what was removed, yet never take it in again.
//!
//! A state is a pair ([`Causal`]): a [store](DotStore) that holds values under [dots](Dot), each the name of
//! one event, and a [context](CausalContext), the dots of all events ever heard of. A dot that is in the
//! context but not in the store has been removed, and so the context is the only tombstone that is needed;
//! kept as a vector, it costs one number for each node that makes dots ("Delta State Replicated Data Types",
//! Almeida, Shoker and Baquero).
//!
//! [`Borrow`](crate::Borrow) is built of these.

mod context;
mod pair;
mod store;

pub use context::{CausalContext, Dot, OutOfDots};
pub use pair::{Causal, Inconsistent};
pub use store::{DotFun, DotMap, DotStore};
