//! Counters that count in many places at once, as pure values.
//!
//! Every type here is data with laws: no clock, no randomness, no threads, no I/O. Time, identities and
//! messages come in as arguments, so the same code runs in a server, at the edge, in a simulation and in a
//! model checker.
//!
//! Start with [`algebra`], the two traits on which everything stands.

pub mod algebra;
pub mod borrow;
pub mod causal;
pub mod codec;
#[cfg(any(test, feature = "testing"))]
pub mod testing;

pub use algebra::{Id, Merge, Overflow, Pn, Tally};
pub use borrow::{Borrow, BorrowError, BorrowState};
