//! What many runs have come by: how often each rule, refusal and rare branch of the engine was reached, in how many runs,
//! and what never was. That is a hole in the plans, or a branch that nothing can reach.
//!
//! A rule is reached when the engine consults it, whether or not it makes a difference there: that it does is shown by tests
//! that leave it out.

use quipu_engine::coverage::{Counts, take};
use std::fmt;

/// One name of the engine's list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reached {
    /// What it is: a rule, a refusal, a message that is refused, a branch.
    pub kind: &'static str,
    /// Its name.
    pub name: &'static str,
    /// How often it was reached.
    pub times: u64,
    /// In how many runs.
    pub runs: u64,
}

/// A report over many runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Coverage {
    /// Everything that can be reached.
    pub all: Vec<Reached>,
    runs: u64,
}

impl Default for Coverage {
    fn default() -> Self {
        let new = |(kind, name, _)| Reached { kind, name, times: 0, runs: 0 };
        Self { all: Counts::NONE.all().map(new).collect(), runs: 0 }
    }
}

impl Coverage {
    /// Takes in what this thread has come by since it was last asked: one run.
    pub fn add_run(&mut self) {
        self.runs += 1;
        for (reached, (_, _, times)) in self.all.iter_mut().zip(take().all()) {
            reached.times += times;
            reached.runs += u64::from(times > 0);
        }
    }

    /// What no run has come by.
    pub fn never(&self) -> impl Iterator<Item = &Reached> {
        self.all.iter().filter(|reached| reached.times == 0)
    }
}

impl fmt::Display for Coverage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "reached in {} runs, how often and in how many of them (a rule: consulted, whether or not it made a difference):",
            self.runs
        )?;
        for Reached { kind, name, times, runs } in self.all.iter().filter(|reached| reached.times > 0) {
            writeln!(f, "  {times:>12} {runs:>8}   {kind:<8} {name}")?;
        }
        writeln!(f, "never reached: {} of {}", self.never().count(), self.all.len())?;
        for Reached { kind, name, .. } in self.never() {
            writeln!(f, "  {kind:<8} {name}")?;
        }
        Ok(())
    }
}
