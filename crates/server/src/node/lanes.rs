//! A worker of one of several nodes: shards come and go, and commands for shards elsewhere are passed on.

use std::{cell::RefCell, collections::BTreeMap, mem, rc::Rc, sync::Arc, time::Duration};

use quipu_engine::{OwnedCommand, Refusal, Released, Reply};
use quipu_storage::{Fenced, ShardId};
use tokio::sync::oneshot;

use super::{
    deferred::Late,
    mail::{Group, Return},
    siblings::{Passed, own_wait},
    worker::Worker,
};

/// So many commands are passed on together.
const COMMANDS_MAX: usize = 4096;

/// Commands for shards elsewhere. Those for one shard go one group after the other, so that they arrive in the order in
/// which they came; what comes meanwhile is the next group.
#[derive(Debug, Default)]
pub(super) struct Lanes {
    lanes: BTreeMap<ShardId, Lane>,
    /// Those that may wait for other sites go by themselves, so that nobody waits for them.
    slow: Vec<(ShardId, Late)>,
}

#[derive(Debug, Default)]
struct Lane {
    is_busy: bool,
    waiting: Vec<Late>,
}

impl Lanes {
    pub(super) fn push(&mut self, shard: ShardId, late: Late) {
        if own_wait(late.command.get()) > Duration::ZERO {
            self.slow.push((shard, late));
        } else {
            self.lanes.entry(shard).or_default().waiting.push(late);
        }
    }

    /// Commands that have come before then and were not sent: they wait no longer.
    pub(super) fn give_up(&mut self, before_ms: u64) -> Vec<Late> {
        let lanes = self.lanes.values_mut();
        lanes.flat_map(|lane| lane.waiting.extract_if(.., |late| late.since_ms <= before_ms)).collect()
    }

    /// The next groups that can go.
    fn next(&mut self) -> Vec<(ShardId, Vec<Late>)> {
        let mut groups = Vec::new();
        for (shard, lane) in &mut self.lanes {
            if !lane.is_busy && !lane.waiting.is_empty() {
                lane.is_busy = true;
                let rest = lane.waiting.split_off(lane.waiting.len().min(COMMANDS_MAX));
                groups.push((*shard, mem::replace(&mut lane.waiting, rest)));
            }
        }
        groups
    }

    /// A group has come to its end.
    fn is_back(&mut self, shard: ShardId) {
        if let Some(lane) = self.lanes.get_mut(&shard) {
            lane.is_busy = false;
            if lane.waiting.is_empty() {
                self.lanes.remove(&shard);
            }
        }
    }
}

impl Worker {
    /// What is in memory may be another node's by now: how far can it be relied on, at this moment?
    pub(super) fn tell_standing(&mut self) {
        if let Some(siblings) = &self.shared.siblings {
            self.host.set_standing(siblings.standing());
        }
    }

    /// Sends on what is for other nodes.
    pub(super) fn send_lanes(&mut self) {
        let Some(siblings) = &self.shared.siblings else { return };
        for (shard, commands) in self.lanes.next() {
            self.shared.pass_commands(Arc::clone(siblings), self.index, shard, commands, true);
        }
        for (shard, late) in self.lanes.slow.drain(..) {
            self.shared.pass_commands(Arc::clone(siblings), self.index, shard, vec![late], false);
        }
    }

    /// What became of commands that were passed on.
    pub(super) fn take_passed(&mut self, shard: ShardId, passed: Passed, in_lane: bool) {
        let Passed { answers, here } = passed;
        for (ticket, answer) in answers {
            self.answered_elsewhere(ticket, answer);
        }
        if in_lane {
            self.lanes.is_back(shard);
        }
        for (ticket, command) in here {
            self.submit(ticket, command.get());
        }
    }

    /// A command that has waited here for a shard which another node has by now follows it there.
    pub(super) fn send_after(&mut self, shard: ShardId, late: Late) {
        if self.is_of_a_group(late.ticket) {
            // Whoever has passed it on knows where to: nothing makes a second hop.
            self.released.replies.push((late.ticket, Reply::Refused(Refusal::NotHere)));
        } else {
            self.lanes.push(shard, late);
        }
    }

    /// Commands that another node has passed on.
    pub(super) fn open_group(
        &mut self,
        shard: ShardId,
        commands: &[OwnedCommand],
        answer: oneshot::Sender<Vec<Reply>>,
    ) {
        if commands.is_empty() {
            // Whoever asked may have gone.
            return drop(answer.send(Vec::new()));
        }
        let replies = vec![Reply::Refused(Refusal::NotHere); commands.len()];
        let group = Group { replies, missing: commands.len(), answer: Some(answer) };
        let group = Rc::new(RefCell::new(group));
        for (at, command) in commands.iter().enumerate() {
            let guest = self.guest(Return::Group { group: Rc::clone(&group), at });
            self.submit_here(shard, guest, command.get());
        }
        self.commit_large();
    }

    /// Takes a shard that nobody has, or somebody who is gone.
    pub(super) fn take_shard(&mut self, shard: ShardId, seen: Option<Fenced>) {
        let Some(siblings) = self.shared.siblings.clone() else { return };
        if self.host.is_open(shard) {
            return siblings.took(shard, Ok(true));
        }
        self.tell_standing();
        let began = std::time::Instant::now();
        let taken = self.host.open_seen(shard, seen, self.moment);
        if matches!(taken, Ok(true)) {
            let ms = super::millis(began.elapsed());
            tracing::info!(shard = shard.0, ms, "taken");
            self.shared.metrics.nodes.taken.inc();
        }
        siblings.took(shard, taken);
    }

    /// From now on what comes for a shard goes to its next owner.
    pub(super) fn stand_aside(&self, shard: ShardId) {
        if let Some(siblings) = &self.shared.siblings {
            siblings.left(shard);
        }
    }

    /// Gives a shard back. Nothing of it is uncommitted at this moment.
    pub(super) fn release_shard(&mut self, shard: ShardId) {
        let Some(siblings) = self.shared.siblings.clone() else { return };
        let mut released = Released::default();
        let closed = self.host.close(shard, &mut released);
        match &closed {
            Ok(()) => {
                tracing::info!(shard = shard.0, "released");
                self.shared.metrics.nodes.released.inc();
            }
            Err(why) => tracing::debug!(shard = shard.0, "not released yet: {why}"),
        }
        self.pass_on(&mut released);
        // One that was not open here is gone too.
        siblings.released(shard, !self.host.is_open(shard));
        self.shared.tell_others_to_look();
    }

    /// Gives back a shard that this node has taken, or given back, without having heard of it.
    pub(super) fn free_shard(&mut self, shard: ShardId, seen: Option<Fenced>) {
        let Some(siblings) = self.shared.siblings.clone() else { return };
        if let Err(why) = self.host.free(shard, seen) {
            tracing::debug!(shard = shard.0, "not given back yet: {why}");
        }
        siblings.took(shard, Ok(false));
        self.shared.tell_others_to_look();
    }

    /// Shards that other nodes have taken are theirs.
    pub(super) fn forget_lost(&mut self) {
        let Some(siblings) = self.shared.siblings.clone() else { return };
        let mut released = Released::default();
        for shard in self.host.forget_lost(&mut released) {
            tracing::warn!(shard = shard.0, "another node has taken it");
            self.shared.metrics.nodes.lost.inc();
            siblings.left(shard);
        }
        self.pass_on(&mut released);
    }

    /// The last thing that a worker does: others need not wait for what it had.
    pub(super) fn release_all(&mut self) {
        if self.shared.siblings.is_none() {
            return;
        }
        let mut released = Released::default();
        for shard in self.mine().collect::<Vec<_>>() {
            // What is not open, or not settled, is taken by others when this node has been silent.
            let _ = self.host.close(shard, &mut released);
        }
    }
}
