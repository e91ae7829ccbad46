//! A store that does not answer: which commands wait for it, and what those are told who have waited long enough.

use std::collections::BTreeSet;

use quipu_storage::{Log, ShardId, Table};

use super::{Commit, Host, Released, Running, State, is_key};
use crate::{
    Action, Command, Moment, Outputs, Refusal, Reply, Ticket,
    coverage::{Branch, reached},
};

/// Who has waited long enough.
#[derive(Debug, Clone, Copy)]
pub struct Overdue<'a> {
    /// For how long anybody waits.
    pub after_ms: u64,
    /// Those who came before their commit began, and whose time is up although the commit's is not.
    pub early: &'a BTreeSet<Ticket>,
}

impl<L: Log, T: Table> Host<L, T> {
    /// Is it not known yet what became of the last commit of this shard?
    pub fn is_undecided(&self, id: ShardId) -> bool {
        self.find(id).is_some_and(Running::is_undecided)
    }

    /// Does the store not answer at the moment?
    pub fn is_store_away(&self) -> bool {
        self.store.table().is_away()
    }

    /// Must a command wait before it is [submitted](Self::submit): for the end of a commit, or for the store, which does
    /// not answer and without which it can only be refused?
    pub fn must_wait(&self, id: ShardId, command: &Command<'_>) -> bool {
        let Some(running) = self.find(id) else { return false };
        match running.state {
            State::Committing(_) | State::Unsettled { .. } => true,
            State::Live => self.is_store_away() && needs_the_store(running, command),
            State::Broken { .. } | State::Lost => false,
        }
    }

    /// Those who have waited long enough for the end of a commit are told that it is not known what became of their
    /// commands; the commit itself goes on. Commands that wait for other sites beyond their own time are taken back.
    pub fn lose_patience(&mut self, overdue: Overdue<'_>, now: Moment, released: &mut Released) {
        for running in self.shards.iter_mut().flatten().filter(|running| running.is_undecided()) {
            let here = running.clock.at(now).elapsed_ms;
            for (ticket, command) in running.shard.take_back(here.saturating_sub(overdue.after_ms)) {
                let refusal = withdrawn(&command.get(), overdue.after_ms, true);
                released.replies.push((ticket, Reply::refused(refusal)));
            }
            let is_late = now.elapsed_ms.saturating_sub(running.begun_ms) >= overdue.after_ms;
            let (State::Committing(Commit { outputs, .. })
            | State::Unsettled { commit: Commit { outputs, .. }, .. }) = &mut running.state
            else {
                continue;
            };
            if is_late || !overdue.early.is_empty() {
                tell(
                    outputs,
                    |ticket| is_late || overdue.early.contains(&ticket),
                    overdue.after_ms,
                    released,
                );
            }
        }
    }

    fn find(&self, id: ShardId) -> Option<&Running> {
        self.shards.get(usize::from(id.0))?.as_deref()
    }
}

impl Running {
    fn is_undecided(&self) -> bool {
        matches!(self.state, State::Committing(_) | State::Unsettled { .. })
    }
}

/// What is said of a command that has waited for so long, and was in no commit. It is taken back, and counts nothing; but
/// an earlier attempt with the same id may be in the commit that is not decided.
pub fn withdrawn(command: &Command<'_>, after_ms: u64, is_undecided: bool) -> Refusal {
    let has_id = matches!(command.action, Action::Add { operation: Some(_), .. });
    // Creating goes on by itself once it has begun, and another site may have been asked to pass rights on.
    let may_go_on = matches!(command.action, Action::Create { .. } | Action::Move(_));
    if is_undecided && (has_id || may_go_on) {
        return Refusal::InDoubt(format!(
            "the store has not answered for {after_ms} ms, and an earlier attempt may be under way"
        ));
    }
    Refusal::NotStored(format!(
        "the store has not answered for {after_ms} ms; this was taken back and nothing was counted. Try again"
    ))
}

/// What is said of a command that was passed on to another node, and came to no end. `doubt` is why that one may have done
/// it, if it was asked: only what changes nothing may then be denied.
pub fn passed_on(command: &Command<'_>, doubt: Option<&str>) -> Refusal {
    let reads = matches!(command.action, Action::Get | Action::Inspect | Action::Outcome(_));
    match doubt {
        Some(why) if !reads => Refusal::InDoubt(why.to_owned()),
        _ => Refusal::NotHere,
    }
}

/// Without the store a write cannot be stored, and nothing be read that is not in memory.
fn needs_the_store(running: &Running, command: &Command<'_>) -> bool {
    match command.action {
        Action::Get | Action::Inspect => is_key(command.key) && running.shard.lacks(command.key),
        Action::Add { .. }
        | Action::Reset { .. }
        | Action::Create { .. }
        | Action::Outcome(_)
        | Action::Move(_) => true,
    }
}

fn tell(outputs: &mut Outputs, is_overdue: impl Fn(Ticket) -> bool, after_ms: u64, released: &mut Released) {
    let overdue = outputs.replies.extract_if(.., |(ticket, _)| is_overdue(*ticket));
    for (ticket, reply) in overdue {
        let refusal = match reply {
            // It has changed nothing, and what it has seen may not be known yet.
            Reply::Value(_) | Reply::Inspected(_) | Reply::Outcome(_) => {
                reached(Branch::ReadWithdrawn);
                Refusal::NotStored(format!(
                    "the store has not answered for {after_ms} ms, and the value depends on it. Try again"
                ))
            }
            _ => {
                reached(Branch::DoubtTold);
                Refusal::InDoubt(format!("the store has not answered for {after_ms} ms"))
            }
        };
        released.replies.push((ticket, Reply::refused(refusal)));
    }
}
