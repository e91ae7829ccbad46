//! Counters that count in many places at once, as pure values.
//!
//! Every type here is data with laws: no clock, no randomness, no threads, no I/O. Time, identities and
//! messages come in as arguments, so the same code runs in a server, at the edge, in a simulation and in a
//! model checker.
//!
//! Start with [`algebra`], the two traits on which everything stands; then
//! - [`handoff`]: exact counting by replicas that come and go,
//! - [`bounded`]: limits that hold without coordination,
//! - [`borrow`]: identities that are lent to transient replicas, over [`causal`] building blocks,
//! - [`classic`]: the counters that everybody knows, and what they cannot do,
//! - [`bloom`]: retries that count once, in little memory,
//! - [`codec`]: the binary form of all of them.

pub mod algebra;
pub mod bloom;
pub mod borrow;
pub mod bounded;
pub mod causal;
pub mod classic;
pub mod codec;
pub mod handoff;
#[cfg(any(test, feature = "testing"))]
pub mod testing;

pub use algebra::{Id, Merge, Overflow, Pn, Tally, Twin};
pub use bloom::Forgetful;
pub use borrow::{Borrow, BorrowError, BorrowState};
pub use bounded::{Bounded, CompactBounded};
pub use classic::{DeltaPnCounter, Escrow, GCounter, OpCounter, PnCounter, ShardedCounter};
pub use handoff::Handoff;
