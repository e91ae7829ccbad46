//! Questions apart from all clients, for the checks.

use super::World;
use crate::system::calls::{Act, Attempt, Call, Key, Stage};
use crate::system::check::Final;
use quipu_engine::Reply;

/// The producer of probes.
const PROBE: u32 = u32::MAX;
/// So many of the newest operations are asked for,
const NEWEST_MAX: usize = 12;
/// and one of so many of those before,
const OLDER_STEP: usize = 25;
/// as far back as this.
const OLDER_MAX: usize = 300;

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

    /// Asks all sites what became of the newest operations, and of some older ones.
    pub(super) fn ask_outcomes(&mut self) -> Result<(), String> {
        let is_operation = |call: &&Call| call.id.is_some() && matches!(call.act, Act::Add { .. });
        let newest: Vec<Call> =
            self.calls.iter().rev().filter(is_operation).take(OLDER_MAX).cloned().collect();
        let (first, older) = newest.split_at(newest.len().min(NEWEST_MAX));
        let asked = first.iter().chain(older.iter().step_by(OLDER_STEP));
        let outcome = |call: &Call| Call { act: Act::Outcome, ..call.clone() };
        let sites = self.members();
        let questions = asked.flat_map(|call| sites.iter().map(move |site| (*site, outcome(call)))).collect();
        self.ask_all(questions).map(drop)
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
