//! A memory that is far away: commits are under way to it until a test delivers them, and their logs hear of them when it
//! says so, whatever has become of the fence, the process or the next commit in between.

use super::{Attempt, Flaw, Inner, Memory};
use crate::{Outcome, StorageError};

/// What a log hears of a commit that was under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// What became of it.
    Told,
    /// Nothing: it may have been delivered, and may still be.
    Unanswered,
    /// That it was refused, and will not be delivered.
    Refused,
}

/// A commit that its log has not heard of.
#[derive(Debug, Clone)]
pub(super) struct Sent {
    attempt: Attempt,
    /// It has arrived, and was stored or not.
    stored: Option<bool>,
    answer: Option<Answer>,
}

impl Inner {
    /// Sends a commit. It is under way by this number.
    pub(super) fn send(&mut self, attempt: Attempt) -> u64 {
        self.sent += 1;
        self.under_way.insert(self.sent, Sent { attempt, stored: None, answer: None });
        self.sent
    }

    fn deliver(&mut self, number: u64) -> bool {
        let Some(sent) = self.under_way.get(&number) else { return false };
        let attempt = sent.attempt.clone();
        let was_stored = sent.stored == Some(true);
        let is_stored = !was_stored && self.try_store(&attempt);
        if is_stored {
            self.flush_shard(attempt.shard);
        }
        if let Some(sent) = self.under_way.get_mut(&number) {
            sent.stored = Some(was_stored || is_stored);
        }
        is_stored
    }

    /// What a log hears of a commit, if it is answered, with the attempt that stays unsettled.
    pub(super) fn hear(&mut self, number: u64) -> Option<(Attempt, Outcome)> {
        let Sent { attempt, stored, answer } = self.under_way.get(&number)?.clone();
        let position = attempt.record.position;
        let is_stored = stored == Some(true);
        let outcome = match answer? {
            Answer::Told if is_stored => Outcome::Committed { position },
            Answer::Told => Outcome::Fenced,
            Answer::Refused => Outcome::Failed(StorageError::Injected("the write was refused")),
            Answer::Unanswered if self.flaw == Some(Flaw::SettlesByReading) => match is_stored {
                true => Outcome::Committed { position },
                false => Outcome::Failed(StorageError::Injected("the record is not there")),
            },
            Answer::Unanswered => {
                Outcome::Unknown(StorageError::Injected("the store did not answer in time"))
            }
        };
        if answer != Some(Answer::Unanswered) {
            self.under_way.remove(&number);
        }
        Some((attempt, outcome))
    }
}

impl Memory {
    /// From now on commits are under way until [`Self::deliver`] and [`Self::answer`] say what becomes of them.
    pub fn move_far_away(&self) {
        self.lock().is_far = true;
    }

    /// A commit arrives. It is stored if its condition holds. Returns whether it was, and had not been before.
    pub fn deliver(&self, number: u64) -> bool {
        self.lock().deliver(number)
    }

    /// A log hears of its commit when it looks next, also if it was never delivered.
    pub fn answer(&self, number: u64, answer: Answer) {
        let mut inner = self.lock();
        if answer == Answer::Told {
            inner.deliver(number);
        }
        if let Some(sent) = inner.under_way.get_mut(&number) {
            sent.answer = Some(answer);
        }
    }
}
