//! Quipu in virtual time.
//!
//! Everything here runs the types of `quipu-crdt` themselves and is determined by its seed.
//!
//! - [`trace`]: long random traces of handoff replicas with every condition checked at every step.

pub mod trace;
