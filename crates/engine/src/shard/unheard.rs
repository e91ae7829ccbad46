//! What was counted since this site was started, until another one has spoken to it: nobody else knows of it, and nobody
//! knows yet whether this site goes on from an old copy of its data.
//!
//! Until then nothing of it is sent, and every counter is noted as it was before its first change. So a copy that turns out
//! to be an old one can be put back to what it was when it was started, which is a beginning of what its peers have; and
//! what it has counted in between can be told exactly.

use quipu_crdt::Pn;
use quipu_storage::{Row, Slice, Write};

use super::{Shard, tally};
use crate::{
    Rule,
    counter::{Counter, growth},
    record::{self, Before, Unheard},
};

/// What a site has counted under a key, and nobody else knows of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Uncounted {
    /// The counter.
    pub key: Vec<u8>,
    /// What was counted without ids.
    pub counted: Pn,
    /// Operations, by what is stored of their ids, and what each has counted.
    pub operations: Vec<([u8; 16], i64)>,
    /// Was it set or deleted? Then this is what was counted after that, and what it was set to.
    pub was_reset: bool,
}

/// What a site has counted that is not set aside, whether or not there were rights for it.
fn counting(counter: Option<&Counter>, site: crate::SiteId) -> (Pn, Pn) {
    let Some(counter) = counter else { return Default::default() };
    let mut total = counter.total(site, site);
    if let Counter::Bounded(bounded) = counter {
        let parked = bounded.rows().get(&site).and_then(|row| row.parked).unwrap_or_default();
        tally(&mut total, growth(parked.counted, parked.taken));
    }
    (total, counter.mark(site))
}

impl Shard {
    /// This process begins. What an earlier one has counted and nobody has heard of stays so.
    pub(super) fn begin_unheard(&mut self) {
        let (changes, position) = (self.summary.changes, self.links.own().position);
        self.summary.unheard = match self.links.peers.is_empty() {
            true => None,
            false => Some(self.summary.unheard.unwrap_or(Unheard { changes, position })),
        };
        let since = self.unheard_since();
        self.counters.note_since(since);
        // The log may have notes that nobody needs any more.
        self.unsaved_before.retain(|before| Some(before.since) == since);
        if let Some(run) = self.settings.run {
            self.links.own_mut().runs.begin(run, position);
        }
    }

    /// Another site has spoken to this one, or there is none.
    pub(super) fn be_heard(&mut self) {
        if self.summary.unheard.take().is_some() {
            self.counters.note_since(None);
            self.unsaved_before.clear();
            self.saving_before = 0;
            self.has_old_notes = true;
            self.moved = true;
        }
    }

    /// Is nothing to be said yet of what was counted?
    pub(super) fn is_unheard(&self) -> bool {
        self.summary.unheard.is_some() && self.settings.rules.keep(Rule::AnswersFirst)
    }

    /// The rows that keep how counters were.
    pub(super) fn capture_before(&mut self) -> Vec<Write> {
        self.saving_before = self.unsaved_before.len();
        let write = |before: &Before| {
            let row = Row { version: before.since + 1, bytes: record::encode_row(before) };
            Write { slice: Slice::KEPT, key: record::before_key(&before.key), row }
        };
        self.unsaved_before.iter().map(write).collect()
    }

    /// The checkpoint is done.
    pub(super) fn before_saved(&mut self) {
        self.unsaved_before.drain(..std::mem::take(&mut self.saving_before));
    }

    /// May the table have rows of counters as they were, which nobody needs?
    pub(crate) fn has_old_notes(&self) -> bool {
        self.has_old_notes && self.summary.unheard.is_none()
    }

    /// They are gone.
    pub(crate) fn old_notes_are_gone(&mut self) {
        self.has_old_notes = false;
    }

    /// Since when nobody has heard of this site, as notes tell it.
    pub(crate) fn unheard_since(&self) -> Option<u64> {
        self.summary.unheard.map(|unheard| unheard.changes)
    }

    /// The number of the last own change before those that nobody has heard of.
    pub(crate) fn heard_position(&self) -> u64 {
        self.summary.unheard.map_or(self.position(), |unheard| unheard.position)
    }

    /// The notes that the table may not have.
    pub(crate) fn unsaved_before(&self) -> &[Before] {
        &self.unsaved_before
    }

    /// What was counted under a key since it was noted.
    pub(crate) fn uncounted(&self, before: &Before) -> Option<Uncounted> {
        let position = self.summary.unheard?.position;
        let own = self.settings.site;
        let (total, mark) = counting(self.counter(&before.key), own);
        let (total_then, mark_then) = counting(before.counter.as_ref(), own);
        let was_reset = mark != mark_then;
        let mut counted = if was_reset { growth(mark, total) } else { growth(total_then, total) };
        let open = self.links.own().open.range(position + 1..);
        let of_key = open.map(|(_, entry)| entry).filter(|entry| *entry.key == *before.key);
        let mut operations = Vec::new();
        for entry in of_key {
            let Some(count) = entry.count().filter(|count| count.applied != 0) else { continue };
            let set_aside = if count.applied < 0 { mark.subtracted } else { mark.added };
            if count.end > set_aside && !self.links.is_cancelled(entry.hash, own) {
                counted = growth(crate::counter::pn(count.applied), counted);
                operations.push((entry.hash.to_bytes(), count.applied));
            }
        }
        let is_nothing = counted == Pn::default() && operations.is_empty() && !was_reset;
        (!is_nothing).then(|| Uncounted { key: before.key.to_vec(), counted, operations, was_reset })
    }

    /// A counter is as it was before what nobody has heard of.
    pub(crate) fn undo(&mut self, before: &Before) {
        let Some(index) = self.counters.find(&before.key) else { return };
        let own = self.settings.site;
        let (existed, total) =
            (self.counters.get(index).exists(), self.counter(&before.key).map(|it| it.total(own, own)));
        let then = before.counter.as_ref().map(|it| it.total(own, own)).unwrap_or_default();
        self.counters.put(index, |entry| entry.counter.clone_from(&before.counter));
        self.touch_any(index, existed);
        self.note_parked(index);
        tally(&mut self.books().issued, growth(total.unwrap_or_default(), then));
    }
}
