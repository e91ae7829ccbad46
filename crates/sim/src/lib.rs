//! Quipu in virtual time.
//!
//! Everything here runs the types of `quipu-crdt` and the engine themselves and is determined by its seed.
//!
//! - [`core`]: virtual time, and a network that misbehaves on demand. It knows nothing of what runs on it.
//! - [`handoff`]: the experiments of the handoff paper, on the core.
//! - [`borrow`]: borrowed identities against handoff, on the same clients that come and go.
//! - [`trace`]: long random traces of handoff replicas with every condition checked at every step.
//! - [`filters`]: the experiments with the forgetful Bloom filter.
//! - [`system`]: the whole system, the real engine at several sites with everything that can go wrong.
//! - [`nodes`]: one site of several nodes over a store that they share.
//! - `coverage`, with the feature `testing`: which rules, refusals and rare branches of the engine many runs have reached.
//! - [`report`]: all experiments in one go, as data, plots and a page that compares them with the papers.

pub mod borrow;
pub mod bounded;
pub mod core;
#[cfg(feature = "testing")]
pub mod coverage;
pub mod filters;
pub mod handoff;
pub mod nodes;
pub mod report;
mod run;
pub mod system;
pub mod trace;
mod violation;

pub use run::{Refused, RunError, Watch};
pub use violation::{Ended, Replayable, Violation};
