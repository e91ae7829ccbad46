//! Rules that tests leave out, to see that the checks notice. Without the feature `testing` there is nothing to choose.

use quipu_engine::{host::Discipline, nodes};
use quipu_storage::memory;

/// What a run does wrong; nothing by default.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Wrong {
    /// What a node says of its shards, and in which order it stores.
    pub discipline: Discipline,
    /// What the nodes believe of each other.
    pub keeper: Option<nodes::Flaw>,
    /// What the store does that they share, or how they use it.
    pub store: Option<memory::Flaw>,
    /// A node whose time is up says of what it has passed on that nothing was done.
    pub denies_passed_on: bool,
}
