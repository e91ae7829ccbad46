//! Giving a restored copy of a site a new incarnation.

use quipu_storage::{Log, Scan, ShardId, Slice, StorageError, Table};

use super::{Host, OpenError, Released, load};
use crate::{Moment, Refusal, SiteId, record::row_key, shard::ListFrom};

/// How many counters go into one batch.
const PAGE: usize = 1024;

impl<L: Log, T: Table> Host<L, T> {
    /// Makes an open shard, of whose site this is a restored copy, one of another incarnation: what that site has counted
    /// stays counted, as the row of a site that is gone. The shard must not be used after that, but opened as the other
    /// site's. May be done again if it was interrupted.
    pub fn begin_incarnation(&mut self, id: ShardId, new: SiteId, now: Moment) -> Result<(), OpenError> {
        // What waits is not counted under the old name: others may know later changes of it than are in the copy.
        self.tended_ms = Some(now.elapsed_ms);
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
            for (key, ()) in keys {
                load(table, running, &key).map_err(|refusal| failed(&refusal))?;
                running.shard.name_rows(&key, new);
            }
            if next.is_none() {
                running.shard.begin_incarnation(new);
            }
            self.mark_pending(id);
            self.commit(now, &mut Released::default());
            self.maintain(now, &mut Released::default());
            after = next;
            if after.is_none() {
                self.flush()?;
                return match self.stats().shards_unavailable {
                    0 => Ok(()),
                    _ => Err(StorageError::Unsettled(id).into()),
                };
            }
        }
    }
}

fn failed(refusal: &Refusal) -> OpenError {
    StorageError::Table { doing: "reading a counter".to_owned(), why: refusal.to_string() }.into()
}
