//! Nobody waits for the store longer than `--storage-deadline`: what a worker does about those who have.

use std::time::Duration;

use quipu_engine::{Overdue, Reply as Answer, withdrawn};

use super::{deferred::Late, worker::Worker};

/// How often a worker looks who has waited long enough.
pub(super) const LOOK_EVERY: Duration = Duration::from_millis(20);
/// How often a store that refuses commits is tried.
const TRY_EVERY: Duration = Duration::from_secs(1);

impl Worker {
    /// What has waited until its shard can take it is the next batch.
    pub(super) fn take_deferred(&mut self) {
        if self.gathering.is_on() {
            self.gathering.look(self.present(), self.now);
        }
        let gathers = self.gathering.is_on();
        let must_ask = self.must_ask;
        for mail in self.deferred.take_mail(|shard| !gathers && !must_ask && !self.host.is_committing(shard))
        {
            self.open(mail);
            self.commit_large();
        }
        for ask in self.deferred.take_asks(|shard| !self.host.is_undecided(shard)) {
            self.open(ask);
        }
        self.deferred.forget_taken(|shard| !self.host.is_undecided(shard));
        let must_wait = gathers || must_ask || self.host.is_store_away();
        for (shard, late) in self.deferred.take(|shard| !must_wait && !self.host.is_undecided(shard)) {
            for late in late {
                if self.shared.is_elsewhere(shard) {
                    self.send_after(shard, late);
                    continue;
                }
                let Late { ticket, command, .. } = late;
                if let Some(refusal) = self.shared.forbids(&command.get().action) {
                    // It was not so when the command came.
                    self.released.replies.push((ticket, Answer::Refused(refusal)));
                } else {
                    // Its worker is this one.
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
        for Late { ticket, command, .. } in self.lanes.give_up(before_ms) {
            // One that was passed on before it may have the same id.
            let refusal = withdrawn(&command.get(), after_ms, true);
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

    /// A store that refuses commits, because the disk is full, for example, is tried again also if nobody counts: whoever
    /// looks at `/health/ready` may wait for that.
    pub(super) fn try_store_again(&mut self) {
        if self.host.refusing().is_some() && self.now.duration_since(self.tried) >= TRY_EVERY {
            self.tried = self.now;
            self.host.probe();
        }
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
