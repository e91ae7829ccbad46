//! Rules that tests leave out, to see that the checks notice. Without the feature `testing` there is nothing to choose.

use quipu_engine::{Rules, host::Discipline};

/// The rule that a run leaves out; none by default.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Wrong {
    /// When what leaves a process leaves it.
    pub discipline: Discipline,
    /// How sites treat each other.
    pub rules: Rules,
}
