//! Counters whose values somebody wants to know.

use std::{
    sync::{Arc, Weak},
    time::{Duration, Instant},
};

use quipu_engine::{Action, Command, Recent, handoff::Key};
use quipu_storage::embedded::Disk;

use super::{EDGE, Keeper, Waiting};
use crate::{CountError, Reading, promise::Promise, watch::WatchCell};

/// Servers are asked for the value of a counter for so long after it was last read.
const ASKED_FOR: Duration = Duration::from_secs(60);
/// Of so many counters at once, at most, besides those that are watched: those that were read last. The engine has the same
/// limit.
const ASKED_MAX: usize = 16 * 1024;

/// A counter whose value somebody wants to know.
pub(super) struct Asked {
    read_at: Instant,
    pub(super) heard_at: Option<Instant>,
    pub(super) watchers: Vec<Weak<WatchCell>>,
}

/// Nothing is asked for yet. Counters that are watched are held.
pub(super) fn nothing() -> Recent<Vec<u8>, Asked> {
    Recent::new(ASKED_MAX)
}

impl<D: Disk> Keeper<D> {
    pub(super) fn read(&mut self, key: &[u8], reply: Promise<Result<Reading, CountError>>) {
        // What is no key is refused, and not asked for.
        if Key::new(key).is_some() {
            self.ask(key);
        }
        let heard = self.asked.get(key).and_then(|asked| asked.heard_at).map(|at| at.elapsed());
        self.submit(Command { key, action: Action::Get }, Waiting::Read { heard, reply });
    }

    /// From now on servers are asked for this counter.
    fn ask(&mut self, key: &[u8]) {
        self.host.ask(EDGE, key);
        let now = Instant::now();
        if let Some(asked) = self.asked.touch(key) {
            asked.read_at = now;
            return;
        }
        self.has_news = true;
        let new = || Asked { read_at: now, heard_at: None, watchers: Vec::new() };
        if let Some((oldest, _)) = self.asked.use_or_insert(key.to_vec(), new) {
            self.host.ask_no_more(EDGE, &oldest);
        }
    }

    pub(super) fn watch(&mut self, key: &[u8], cell: &Arc<WatchCell>) -> Result<(), CountError> {
        // Between batches: what it is shown is stored.
        self.commit();
        self.host.watch(EDGE, key)?;
        self.ask(key);
        self.asked.hold(key);
        if let Some(asked) = self.asked.get_mut(key) {
            asked.watchers.push(Arc::downgrade(cell));
        }
        self.show(key);
        Ok(())
    }

    /// Shows watchers what there is now. Call it between batches.
    pub(super) fn show(&mut self, key: &[u8]) {
        let Some(asked) = self.asked.get_mut(key) else { return };
        let value = self.host.ask(EDGE, key).unwrap_or(0);
        let reading = Reading { value, heard: asked.heard_at.map(|at| at.elapsed()) };
        asked.watchers.retain(|cell| {
            cell.upgrade().is_some_and(|cell| {
                cell.show(reading);
                true
            })
        });
        if asked.watchers.is_empty() {
            self.let_go(key);
        }
    }

    /// Nobody watches a counter any more.
    fn let_go(&mut self, key: &[u8]) {
        self.host.unwatch(EDGE, key);
        if let Some((oldest, _)) = self.asked.let_go(key) {
            self.host.ask_no_more(EDGE, &oldest);
        }
    }

    /// Counters that nobody reads any more are not asked for any more.
    pub(super) fn forget_asked(&mut self) {
        let now = Instant::now();
        let Self { asked, host, .. } = self;
        let mut unwatched = Vec::new();
        asked.retain(|key, asked| {
            let was_watched = !asked.watchers.is_empty();
            asked.watchers.retain(|cell| cell.strong_count() > 0);
            let is_watched = !asked.watchers.is_empty();
            let stays = is_watched || now.duration_since(asked.read_at) < ASKED_FOR;
            if !stays {
                host.unwatch(EDGE, key);
                host.ask_no_more(EDGE, key);
            } else if was_watched && !is_watched {
                unwatched.push(key.clone());
            }
            stays
        });
        unwatched.iter().for_each(|key| self.let_go(key));
    }
}
