//! Nobody waits for the store longer than `--storage-deadline`: what a worker does about those who have.

use std::time::Duration;

use quipu_engine::{Overdue, Reply as Answer, withdrawn};

use super::{deferred::Late, worker::Worker};

/// How often a worker looks who has waited long enough.
pub(super) const LOOK_EVERY: Duration = Duration::from_millis(20);

impl Worker {
    /// What has waited until its shard can take it is the next batch.
    pub(super) fn take_deferred(&mut self) {
        if self.gathering.is_on() {
            self.gathering.look(self.present(), self.now);
        }
        let gathers = self.gathering.is_on();
        for mail in self.deferred.take_mail(|shard| !gathers && !self.host.is_committing(shard)) {
            self.open(mail);
            self.commit_large();
        }
        for ask in self.deferred.take_asks(|shard| !self.host.is_undecided(shard)) {
            self.open(ask);
        }
        self.deferred.forget_taken(|shard| !self.host.is_undecided(shard));
        let must_wait = gathers || self.host.is_store_away();
        for (shard, late) in self.deferred.take(|shard| !must_wait && !self.host.is_undecided(shard)) {
            for Late { ticket, command, .. } in late {
                if self.shared.is_elsewhere(shard) {
                    self.send_after(shard, ticket, command);
                } else {
                    // Its worker is this one, and whether it is allowed was seen before.
                    self.host.submit(shard, ticket, command.get(), self.moment);
                }
            }
            self.commit_large();
        }
    }

    /// Lets those go who have waited long enough. What was in no commit is taken back and counts nothing; of the rest it
    /// is not known yet.
    pub(super) fn lose_patience(&mut self) {
        let after_ms = self.shared.storage_deadline_ms;
        self.notice_store(after_ms);
        let Some(before_ms) = self.moment.elapsed_ms.checked_sub(after_ms) else { return };
        for (shard, Late { ticket, command, .. }) in self.deferred.give_up(before_ms) {
            let refusal = withdrawn(&command.get(), after_ms, self.host.is_undecided(shard));
            self.released.replies.push((ticket, Answer::Refused(refusal)));
        }
        for ask in self.deferred.give_up_asks(before_ms) {
            ask.refuse(format!("the store has not answered for {after_ms} ms. Try again"));
        }
        let early = self.deferred.taken_before(before_ms);
        let overdue = Overdue { after_ms, early: &early };
        self.host.lose_patience(overdue, self.moment, &mut self.released);
        self.pass_on_released();
    }

    /// Says when the store goes away and comes back; one worker speaks for all.
    fn notice_store(&mut self, after_ms: u64) {
        let is_away = self.host.is_store_away();
        if self.index != 0 || is_away == self.was_away {
            return;
        }
        self.was_away = is_away;
        if is_away {
            tracing::warn!("the store does not answer; commands wait for it, up to {after_ms} ms each");
        } else {
            tracing::info!("the store answers again");
        }
    }
}
