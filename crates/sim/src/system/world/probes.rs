//! Questions apart from all clients, for the checks.

use super::World;
use crate::system::calls::{Act, Attempt, Call, Key, Stage};
use crate::system::check::Final;
use quipu_engine::Reply;

/// The producer of probes.
const PROBE: u32 = u32::MAX;
/// A site that dies and comes back is asked of so many operations,
const ASKED_AGAIN_MAX: usize = 12;
/// from among so many of the last calls.
const LOOKED_AT_MAX: usize = 100;

impl World {
    /// Asks sites now, apart from all clients. No answer: the site is away, or its store is in trouble.
    pub(in crate::system) fn ask(
        &mut self,
        questions: &[(usize, usize, Act)],
    ) -> Result<Vec<Option<Reply>>, String> {
        let since_ms = self.now();
        let call = |&(site, key, act): &(usize, usize, Act)| {
            (site, Call { key, act, id: None, producer: PROBE, since_ms })
        };
        self.ask_all(questions.iter().map(call).collect())
    }

    /// Asks all sites what became of an operation.
    pub(in crate::system) fn ask_outcome(&mut self, number: usize) -> Result<Vec<Option<Reply>>, String> {
        let call = Call { act: Act::Outcome, ..self.calls[number].clone() };
        self.ask_all(self.members().into_iter().map(|site| (site, call.clone())).collect())
    }

    /// Asks a site what became of the last operations of clients.
    pub(super) fn ask_again(&mut self, site: usize) -> Result<(), String> {
        if !self.plan.asks_again || !self.sites[site].is_up() {
            return Ok(());
        }
        let is_operation = |call: &&Call| call.id.is_some() && matches!(call.act, Act::Add { .. });
        let operations = self.calls.iter().rev().take(LOOKED_AT_MAX).filter(is_operation);
        let calls = operations.take(ASKED_AGAIN_MAX).map(|call| Call { act: Act::Outcome, ..call.clone() });
        let asked = calls.collect::<Vec<_>>();
        for call in asked {
            self.calls.push(call);
            self.attempts.push(Attempt::new(self.calls.len() - 1, None, site));
            self.submit(self.attempts.len() - 1);
        }
        self.commit(site)?;
        self.probed.clear();
        Ok(())
    }

    fn ask_all(&mut self, calls: Vec<(usize, Call)>) -> Result<Vec<Option<Reply>>, String> {
        let first = self.attempts.len();
        let asked = calls.len();
        for (site, call) in calls {
            self.calls.push(call);
            let stage = if self.sites[site].is_up() { Stage::Sent } else { Stage::Done };
            self.attempts.push(Attempt { stage, ..Attempt::new(self.calls.len() - 1, None, site) });
            if stage == Stage::Sent {
                self.submit(self.attempts.len() - 1);
            }
        }
        for site in 0..self.sites.len() {
            if self.sites[site].is_up() {
                self.commit(site)?;
            }
        }
        let answers = (first..first + asked).map(|attempt| self.probed.remove(&attempt)).collect();
        Ok(answers)
    }

    /// What the checks say in the end.
    pub(in crate::system) fn finish(
        &mut self,
        values: &[Vec<Option<i64>>],
        bounded: &[bool],
        parked: &[i128],
    ) -> Result<(), String> {
        let keys: &[Key] = &self.pool.keys;
        let sites = &self.members();
        let brought = &self.brought();
        let last = Final { keys, sites, values, bounded, parked, brought };
        self.checks.iter_mut().try_for_each(|check| check.finished(&last))
    }
}
