//! Giving a restored copy of a site a new incarnation.

use std::collections::BTreeMap;

use quipu_storage::{Log, Row, Scan, ShardId, Slice, StorageError, Table, Write};

use super::{Host, OpenError, Released, Running, load};
use crate::{
    Moment, Refusal, SiteId, Uncounted,
    record::{self, Before, Logged, row_key},
    shard::{ListFrom, Unreadable},
};

/// How many counters go into one batch.
const PAGE: usize = 1024;

impl<L: Log, T: Table> Host<L, T> {
    /// What an open shard has counted since its site was started, and nobody has heard of: an old copy undoes it when it
    /// becomes [another incarnation](Self::begin_incarnation). Nothing must have been done with the shard since it was
    /// opened.
    pub fn uncounted(&mut self, id: ShardId) -> Result<Vec<Uncounted>, OpenError> {
        let notes = self.notes(id)?;
        let table = self.store.table();
        let Some(running) = self.shards.get_mut(usize::from(id.0)).and_then(Option::as_deref_mut) else {
            return Err(StorageError::NotOpen(id).into());
        };
        let mut all = Vec::new();
        for (key, before) in &notes {
            load(table, running, key).map_err(|refusal| failed(&refusal))?;
            all.extend(running.shard.uncounted(before));
        }
        Ok(all)
    }

    /// Makes an open shard, of whose site this is a restored copy, one of another incarnation: what that site has counted
    /// stays counted, as the row of a site that is gone, except for what is [`uncounted`](Self::uncounted). The shard must
    /// not be used after that, but opened as the other site's. May be done again if it was interrupted.
    pub fn begin_incarnation(&mut self, id: ShardId, new: SiteId, now: Moment) -> Result<(), OpenError> {
        // What waits is not counted under the old name: others may know later changes of it than are in the copy.
        self.tended_ms = Some(now.elapsed_ms);
        let notes = self.notes(id)?;
        let mut undone = Vec::new();
        let mut after: Option<Vec<u8>> = None;
        loop {
            let (prefix, row_after) = (row_key(b""), after.as_deref().map(row_key));
            let scan =
                Scan { slice: Slice::KEPT, prefix: &prefix, after: row_after.as_deref(), rows_max: PAGE };
            let table = self.store.table();
            let page = table.scan(id, scan)?;
            let Some(running) = self.shards.get_mut(usize::from(id.0)).and_then(Option::as_deref_mut) else {
                return Err(StorageError::NotOpen(id).into());
            };
            let from = ListFrom { prefix: b"", after: after.as_deref(), limit: PAGE };
            let unreadable = |why| OpenError::Unreadable { shard: id.0, why };
            let (keys, next) = running.shard.keys(from, &page).map_err(unreadable)?;
            let undoes = running.shard.undoes();
            for (key, ()) in keys {
                load(table, running, &key).map_err(|refusal| failed(&refusal))?;
                running.shard.name_rows(&key, new, notes.get(&*key).filter(|_| undoes));
            }
            if next.is_none() {
                undone = running.shard.begin_incarnation(new);
            }
            self.mark_pending(id);
            self.commit(now, &mut Released::default());
            self.maintain(now, &mut Released::default());
            after = next;
            if after.is_none() {
                self.flush()?;
                let version = Logged::row_version(self.settings.site) + 1;
                let gone = |key| Write { slice: Slice::KEPT, key, row: Row { version, bytes: Vec::new() } };
                let gone: Vec<Write> = undone.into_iter().map(gone).collect();
                self.store.table().put(id, &gone)?;
                return match self.stats().shards_unavailable {
                    0 => Ok(()),
                    _ => Err(StorageError::Unsettled(id).into()),
                };
            }
        }
    }

    /// Counters as they were before what nobody has heard of.
    fn notes(&self, id: ShardId) -> Result<BTreeMap<Box<[u8]>, Before>, OpenError> {
        let running = self.shards.get(usize::from(id.0)).and_then(Option::as_deref);
        let running = running.ok_or(StorageError::NotOpen(id))?;
        let mut notes = BTreeMap::new();
        let Some(since) = running.shard.unheard_since() else { return Ok(notes) };
        let mut after: Option<Vec<u8>> = None;
        loop {
            let page = scan_notes(self.store.table(), id, after.as_deref())?;
            for (_, row) in &page.rows {
                let why =
                    |why| OpenError::Unreadable { shard: id.0, why: Unreadable { what: "a note", why } };
                let before: Before = record::decode_row(&row.bytes).map_err(why)?;
                notes.insert(before.key.clone(), before);
            }
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        notes
            .extend(running.shard.unsaved_before().iter().map(|before| (before.key.clone(), before.clone())));
        notes.retain(|_, before| before.since == since);
        Ok(notes)
    }
}

fn scan_notes<T: Table>(
    table: &T,
    id: ShardId,
    after: Option<&[u8]>,
) -> Result<quipu_storage::Page, StorageError> {
    table.scan(id, Scan { slice: Slice::KEPT, prefix: &[record::BEFORE], after, rows_max: PAGE })
}

/// Deletes notes that nobody needs, a page of them. That the site was heard must be stored.
pub(super) fn sweep_up<T: Table>(table: &T, running: &mut Running) {
    if !running.shard.has_old_notes() || running.shard.has_moved() || running.capturing.is_some() {
        return;
    }
    let Ok(page) = scan_notes(table, running.id, None) else { return };
    let is_last = page.next.is_none();
    let gone = page.rows.into_iter().map(|(key, row)| {
        let row = Row { version: row.version + 1, bytes: Vec::new() };
        Write { slice: Slice::KEPT, key, row }
    });
    let gone: Vec<Write> = gone.collect();
    // What fails is tried again.
    if (gone.is_empty() || table.put(running.id, &gone).is_ok()) && is_last {
        running.shard.old_notes_are_gone();
    }
}

fn failed(refusal: &Refusal) -> OpenError {
    StorageError::Table { doing: "reading a counter".to_owned(), why: refusal.to_string() }.into()
}
