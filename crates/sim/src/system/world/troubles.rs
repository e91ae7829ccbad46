//! What goes wrong, and how it ends.

use super::{Event, World};
use crate::system::history::Note;
use crate::system::trouble::Trouble;
use quipu_storage::ShardId;

impl World {
    /// Everything that goes wrong ends: stores work, sites are up, links carry.
    pub(in crate::system) fn heal(&mut self) -> Result<(), String> {
        self.note(Note::Text("everything heals".to_owned()));
        self.healed = true;
        self.links.heal();
        self.let_through();
        for site in 0..self.sites.len() {
            self.sites[site].memory.heal();
            let has_noticed = self.fork.as_ref().is_some_and(|fork| fork.has_noticed(site));
            if !self.sites[site].is_up() && self.sites[site].is_there() && !has_noticed {
                self.start_site(site)?;
            }
        }
        self.look_at_links();
        self.heal_fleet()
    }

    pub(super) fn begin(&mut self, number: usize) -> Result<(), String> {
        if self.healed {
            return Ok(());
        }
        let trouble = self.plan.troubles[number].trouble;
        self.note(Note::Text(format!("trouble {number} begins: {trouble:?}")));
        match trouble {
            Trouble::Crash { site, away_ms } => {
                if self.sites[site].is_up() {
                    self.crash(site, away_ms);
                }
            }
            Trouble::CrashInCommit { site, when, away_ms } => {
                if self.sites[site].is_up() && self.sites[site].dying.is_none() {
                    self.sites[site].memory.crash_in_next_commit(when);
                    self.sites[site].dying = Some(away_ms);
                }
            }
            Trouble::Cut { for_ms, .. } | Trouble::Split { for_ms, .. } => {
                for (from, to, noticed) in self.cuts(trouble) {
                    self.links.cut(from, to, noticed);
                }
                self.look_at_links();
                self.queue.push(for_ms, Event::Mend { trouble: number });
            }
            Trouble::Stall { from, to, for_ms } => {
                self.links.stall(from, to);
                self.queue.push(for_ms, Event::Mend { trouble: number });
            }
            Trouble::AskOutcomes => self.ask_outcomes()?,
            Trouble::Disk { site, shard, fault, times } => {
                (0..times).for_each(|_| self.sites[site].memory.inject(ShardId(shard), fault));
            }
            Trouble::Table { site, rows } => self.sites[site].memory.fail_next_put_after(rows),
            Trouble::Checkpoint { site } => {
                if self.sites[site].is_up() && self.commit(site)? {
                    let now = self.now();
                    self.sites[site].checkpoint(now);
                }
            }
            Trouble::Leave { .. }
            | Trouble::Join { .. }
            | Trouble::Lose { .. }
            | Trouble::LoseTwo { .. }
            | Trouble::Restore { .. }
            | Trouble::Beside { .. } => self.begin_change(trouble)?,
            Trouble::Clock { site, by_ms } => self.sites[site].skew_ms += by_ms,
            Trouble::Befalls { who, mishap } => self.befall(who, mishap),
        }
        Ok(())
    }

    pub(super) fn mend(&mut self, number: usize) {
        if self.healed {
            return;
        }
        self.note(Note::Text(format!("trouble {number} is over")));
        let trouble = self.plan.troubles[number].trouble;
        for (from, to, noticed) in self.cuts(trouble) {
            self.links.mend(from, to, noticed);
        }
        if let Trouble::Stall { from, to, .. } = trouble {
            self.links.go_on(from, to);
            self.let_through();
        }
        self.look_at_links();
    }

    /// The directions that a trouble cuts.
    fn cuts(&self, trouble: Trouble) -> Vec<(usize, usize, bool)> {
        let cut = |from: usize, to: usize| match trouble {
            Trouble::Cut { from: a, to: b, both, .. } => (from, to) == (a, b) || both && (from, to) == (b, a),
            Trouble::Split { group, .. } => (group >> from ^ group >> to) & 1 == 1,
            _ => false,
        };
        let noticed = match trouble {
            Trouble::Cut { noticed, .. } | Trouble::Split { noticed, .. } => noticed,
            _ => false,
        };
        self.links.all().filter(|&(from, to)| cut(from, to)).map(|(from, to)| (from, to, noticed)).collect()
    }
}
