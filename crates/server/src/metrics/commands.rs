//! Commands by name and outcome.

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family},
    registry::Registry,
};
use quipu_engine::{Action, Refusal, Reply};

/// What was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommandName {
    /// Count.
    Add,
    /// Read.
    Get,
    /// Reset or delete.
    Reset,
    /// Define a bounded counter.
    Create,
    /// Read everything.
    Inspect,
    /// Ask what became of an operation.
    Outcome,
    /// Move rights from one site to another.
    Move,
}

/// Their names, in the order of [`CommandName`].
pub const COMMAND_NAMES: [&str; 7] = ["add", "get", "reset", "create", "inspect", "outcome", "move"];

impl CommandName {
    /// All of them, in their order.
    pub(crate) const ALL: [Self; 7] =
        [Self::Add, Self::Get, Self::Reset, Self::Create, Self::Inspect, Self::Outcome, Self::Move];

    /// The name of an action.
    pub fn of(action: &Action<'_>) -> Self {
        match action {
            Action::Add { .. } => Self::Add,
            Action::Get => Self::Get,
            Action::Reset { .. } => Self::Reset,
            Action::Create { .. } => Self::Create,
            Action::Inspect => Self::Inspect,
            Action::Outcome(_) => Self::Outcome,
            Action::Move(_) => Self::Move,
        }
    }
}

/// What became of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommandOutcome {
    /// Done.
    Done,
    /// Done before; the first answer was given again.
    Repeated,
    /// Not allowed: bounds, ids, definitions.
    Refused,
    /// The store failed.
    Failed,
}

/// Their names, in the order of [`CommandOutcome`].
pub const COMMAND_OUTCOMES: [&str; 4] = ["done", "repeated", "refused", "failed"];

impl CommandOutcome {
    /// What a reply says.
    pub fn of(reply: &Reply) -> Self {
        match reply {
            Reply::Added(added) if added.repeated => Self::Repeated,
            Reply::Refused(Refusal::NotStored(_) | Refusal::InDoubt(_)) => Self::Failed,
            Reply::Refused(_) => Self::Refused,
            _ => Self::Done,
        }
    }
}

/// How often each name met each outcome.
type Table<T> = [[T; COMMAND_OUTCOMES.len()]; COMMAND_NAMES.len()];

/// Commands counted by one thread, until they are reported.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CommandTally(Table<u64>);

impl CommandTally {
    /// Counts a command.
    pub fn count(&mut self, name: CommandName, outcome: CommandOutcome) {
        self.0[name as usize][outcome as usize] += 1;
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Labels {
    command: &'static str,
    outcome: &'static str,
}

/// One handle for each name and outcome, so that nothing is looked up later.
#[derive(Debug, Clone)]
pub(super) struct Counters(Table<Counter>);

impl Counters {
    pub(super) fn new(registry: &mut Registry) -> Self {
        let family = Family::<Labels, Counter>::default();
        registry.register("commands", "Commands on counters, by what became of them", family.clone());
        Self(COMMAND_NAMES.map(|command| {
            COMMAND_OUTCOMES.map(|outcome| family.get_or_create_owned(&Labels { command, outcome }))
        }))
    }

    /// Adds a tally and empties it.
    pub(super) fn report(&self, tally: &mut CommandTally) {
        let counts = std::mem::take(tally).0;
        for (counters, counts) in self.0.iter().zip(counts) {
            for (counter, count) in counters.iter().zip(counts) {
                if count > 0 {
                    counter.inc_by(count);
                }
            }
        }
    }
}
