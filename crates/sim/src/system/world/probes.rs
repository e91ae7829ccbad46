//! Questions apart from all clients, for the checks.

use super::World;
use crate::system::calls::{Act, Attempt, Call, Key, Stage};
use crate::system::check::Final;
use quipu_engine::Reply;

impl World {
    /// Asks sites now, apart from all clients. No answer: the site is away, or its store is in trouble.
    pub(in crate::system) fn ask(
        &mut self,
        questions: &[(usize, usize, Act)],
    ) -> Result<Vec<Option<Reply>>, String> {
        let first = self.attempts.len();
        let since_ms = self.now();
        for &(site, key, act) in questions {
            self.calls.push(Call { key, act, id: None, producer: u32::MAX, since_ms });
            let stage = if self.sites[site].is_up() { Stage::Sent } else { Stage::Done };
            self.attempts.push(Attempt { call: self.calls.len() - 1, client: None, site, stage });
            if stage == Stage::Sent {
                self.submit(self.attempts.len() - 1);
            }
        }
        for site in 0..self.sites.len() {
            if self.sites[site].is_up() {
                self.commit(site)?;
            }
        }
        let answers = (first..first + questions.len()).map(|attempt| self.probed.remove(&attempt)).collect();
        Ok(answers)
    }

    /// What the checks say in the end.
    pub(in crate::system) fn finish(
        &mut self,
        values: &[Vec<Option<i64>>],
        bounded: &[bool],
    ) -> Result<(), String> {
        let keys: &[Key] = &self.pool.keys;
        let last = Final { keys, values, bounded };
        self.checks.iter_mut().try_for_each(|check| check.finished(&last))
    }
}
