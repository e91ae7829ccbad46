//! Those who wait until everything is handed over, or until the edge has retired.

use std::{sync::atomic::Ordering, time::Instant};

use super::{Courier, Outcome};
use crate::{InFlight, NotHandedOver, RetireError, Status, SyncError, keeper::Request, promise::Promise};

/// Somebody waits for this, until then.
pub(super) struct Goal {
    pub(super) until: Instant,
    pub(super) reply: GoalReply,
}

pub(super) enum GoalReply {
    Flushed(Promise<Result<(), NotHandedOver>>),
    Retired {
        /// When the time is over, what only a relay can confirm is given up.
        gives_up: bool,
        /// Told what was.
        reply: Promise<Result<Vec<InFlight>, RetireError>>,
    },
}

impl GoalReply {
    fn fail(self, open: NotHandedOver) {
        match self {
            Self::Flushed(reply) => reply.keep(Err(open)),
            Self::Retired { reply, .. } => reply.keep(Err(RetireError::NotHandedOver(open))),
        }
    }
}

impl Courier {
    /// Tells those who wait. Returns whether there is anything left to do.
    pub(super) fn look_at_goals(&mut self, done: Option<&Result<Outcome, SyncError>>) -> bool {
        if self.goals.is_empty() {
            return true;
        }
        let Some(mut status) = self.status() else { return false };
        let mut goals = std::mem::take(&mut self.goals);
        let wants_to_retire = goals.iter().any(|goal| matches!(goal.reply, GoalReply::Retired { .. }));
        if wants_to_retire && status.trouble.is_none() && !status.is_retiring && status.waiting == 0 {
            // What is on its way becomes part of the last words: the state has it until a second site has it, too, and a
            // server that cannot be reached hears it from others.
            if (status.in_flight.is_empty() || matches!(done, Some(Ok(_)))) && self.retire() {
                let Some(after) = self.status() else { return false };
                status = after;
                self.next_at = Some(Instant::now());
            }
        }
        let is_known = status.trouble.is_none();
        let is_handed_over = is_known && status.waiting == 0 && status.in_flight.is_empty();
        let has_spoken = is_known && status.is_retiring && status.last_words == 0;
        // A site that is lost has an heir, who knows what it has counted. A relay that has lost its disk has not.
        let for_relays: Vec<InFlight> =
            status.in_flight.iter().filter(|it| it.is_for_relay).cloned().collect();
        let has_retired = has_spoken && for_relays.is_empty();
        let is_final = matches!(done, Some(Err(error)) if error.is_final());
        let now = Instant::now();
        let (mut retired, mut failed) = (Vec::new(), Vec::new());
        for Goal { until, reply } in goals.drain(..) {
            match reply {
                GoalReply::Flushed(reply) if is_handed_over => reply.keep(Ok(())),
                GoalReply::Retired { reply, .. } if has_retired => retired.push(reply),
                GoalReply::Retired { gives_up: true, reply } if has_spoken && until <= now => {
                    retired.push(reply);
                }
                reply if is_final || until <= now => failed.push(reply),
                reply => self.goals.push(Goal { until, reply }),
            }
        }
        if retired.is_empty() {
            let waits = self.goals.iter().any(|goal| matches!(goal.reply, GoalReply::Retired { .. }));
            self.signals.is_leaving.store(waits, Ordering::Release);
            failed.into_iter().for_each(|reply| reply.fail(self.what_is_open(&status)));
            return true;
        }
        failed.into_iter().for_each(|reply| reply.fail(self.what_is_open(&status)));
        let removed = self.ask(|reply| Request::Remove { reply });
        for reply in retired {
            reply.keep(match &removed {
                Some(Err(error)) => Err(RetireError::NotRemoved(error.clone())),
                _ => Ok(for_relays.clone()),
            });
        }
        false
    }

    fn what_is_open(&self, status: &Status) -> NotHandedOver {
        let trouble = status.trouble.clone().map(SyncError::NotStored);
        NotHandedOver {
            waiting: status.waiting,
            in_flight: status.in_flight.clone(),
            last_words: status.last_words,
            why: trouble.or_else(|| self.trouble.clone()),
        }
    }

    fn retire(&self) -> bool {
        matches!(self.ask(|reply| Request::Retire { reply }), Some(Ok(true)))
    }
}
