//! What a simulation says when a condition does not hold.

use std::fmt::Display;

use crate::core::Millis;

/// What was to happen, drawn from a seed; it can be run again.
pub trait Replayable: Display {
    /// The seed.
    fn seed(&self) -> u64;
    /// The command that runs it.
    fn command(&self) -> String;
}

/// A condition that did not hold: the engine, or this simulation of it, is wrong.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("seed {}, {time_ms} ms: {what}", plan.seed())]
pub struct Violation<P: Replayable> {
    /// What was to happen.
    pub plan: Box<P>,
    /// When, in virtual milliseconds.
    pub time_ms: Millis,
    /// Which condition, and how.
    pub what: String,
    /// The last happenings.
    pub events: Vec<String>,
}

/// Why a run has no summary.
#[derive(Debug, Clone, PartialEq)]
pub enum Ended<P: Replayable> {
    /// A condition did not hold.
    Violated(Violation<P>),
    /// Its watcher did not want to go on.
    Stopped,
}

impl<P: Replayable> Ended<P> {
    /// The violation, of a run whose watcher always goes on.
    pub(crate) fn violation(self) -> Violation<P> {
        match self {
            Self::Violated(violation) => violation,
            Self::Stopped => unreachable!("nobody stops it"),
        }
    }
}

impl<P: Replayable> Violation<P> {
    /// All that helps to find out why: the plan, the last happenings, and the command that runs it again.
    pub fn in_full(&self) -> String {
        let Self { plan, events, .. } = self;
        let events = events.join("\n");
        format!("{self}\n\n{plan}\nlast happenings:\n{events}\n\n{self}\nreplay it with: {}", plan.command())
    }
}
