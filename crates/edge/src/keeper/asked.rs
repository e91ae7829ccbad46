//! Counters whose values somebody wants to know.

use std::{
    sync::{Arc, Weak},
    time::{Duration, Instant},
};

use quipu_engine::{Action, Command, handoff::Key};
use quipu_storage::embedded::Disk;

use super::{EDGE, Keeper, Waiting};
use crate::{CountError, Reading, promise::Promise, watch::WatchCell};

/// Servers are asked for the value of a counter for so long after it was last read.
const ASKED_FOR: Duration = Duration::from_secs(60);
/// Of so many counters at once, at most.
const ASKED_MAX: usize = 16 * 1024;

/// A counter whose value somebody wants to know.
pub(super) struct Asked {
    read_at: Instant,
    pub(super) heard_at: Option<Instant>,
    pub(super) watchers: Vec<Weak<WatchCell>>,
}

impl<D: Disk> Keeper<D> {
    pub(super) fn read(&mut self, key: &[u8], reply: Promise<Result<Reading, CountError>>) {
        // What is no key is refused, and not asked for.
        let heard = match Key::new(key) {
            Some(_) => self.ask(key).heard_at.map(|at| at.elapsed()),
            None => None,
        };
        self.submit(Command { key, action: Action::Get }, Waiting::Read { heard, reply });
    }

    /// From now on servers are asked for this counter.
    fn ask(&mut self, key: &[u8]) -> &mut Asked {
        self.host.ask(EDGE, key);
        if !self.asked.contains_key(key) {
            self.has_news = true;
            if self.asked.len() >= ASKED_MAX {
                self.forget_asked();
            }
            if self.asked.len() >= ASKED_MAX {
                self.forget_answered();
            }
            if self.asked.len() >= ASKED_MAX {
                self.asked.pop_first();
            }
        }
        let now = Instant::now();
        let new = || Asked { read_at: now, heard_at: None, watchers: Vec::new() };
        let asked = self.asked.entry(key.to_vec()).or_insert_with(new);
        asked.read_at = now;
        asked
    }

    pub(super) fn watch(&mut self, key: &[u8], cell: &Arc<WatchCell>) -> Result<(), CountError> {
        // Between batches: what it is shown is stored.
        self.commit();
        self.host.watch(EDGE, key)?;
        self.ask(key).watchers.push(Arc::downgrade(cell));
        self.show(key);
        Ok(())
    }

    /// Shows watchers what there is now. Call it between batches.
    pub(super) fn show(&mut self, key: &[u8]) {
        let value = self.host.ask(EDGE, key).unwrap_or(0);
        let Some(asked) = self.asked.get_mut(key) else { return };
        let reading = Reading { value, heard: asked.heard_at.map(|at| at.elapsed()) };
        asked.watchers.retain(|cell| {
            cell.upgrade().is_some_and(|cell| {
                cell.show(reading);
                true
            })
        });
        if asked.watchers.is_empty() {
            self.host.unwatch(EDGE, key);
        }
    }

    /// Counters that nobody reads any more are not asked for any more.
    pub(super) fn forget_asked(&mut self) {
        let now = Instant::now();
        self.keep_asked(|asked| now.duration_since(asked.read_at) < ASKED_FOR);
    }

    /// There are too many: those that a server has told of make room for others.
    fn forget_answered(&mut self) {
        self.keep_asked(|asked| asked.heard_at.is_none());
    }

    fn keep_asked(&mut self, is_kept: impl Fn(&Asked) -> bool) {
        let Self { asked, host, .. } = self;
        asked.retain(|key, asked| {
            asked.watchers.retain(|cell| cell.strong_count() > 0);
            let stays = !asked.watchers.is_empty() || is_kept(asked);
            if !stays {
                host.unwatch(EDGE, key);
                host.ask_no_more(EDGE, key);
            }
            stays
        });
    }
}
