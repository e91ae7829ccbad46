//! Tools to test replicated counters with, ours and yours: a seeded generator, an adversary for networks,
//! and the laws of the [algebra](crate::algebra) as checks.
//!
//! Behind the feature `testing`. Everything is determined by its seed.

mod adversary;
pub mod laws;
mod random;
pub mod trace;

pub use adversary::{Adversary, Partition};
pub use random::Random;
