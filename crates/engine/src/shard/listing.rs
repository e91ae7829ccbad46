//! The counters of a shard in the order of their keys: what the table has, brought up to date.

use quipu_storage::Page;

use super::{Shard, Unreadable, decode_counter, saturated};
use crate::{counter::Counter, record};

/// A page of counters.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Listing {
    /// Keys and values, in the order of the keys.
    pub counters: Vec<(Vec<u8>, i64)>,
    /// Go on after this key; `None`: that was all.
    pub next: Option<Vec<u8>>,
}

/// What is to be listed: counters after a key whose keys have the prefix.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ListFrom<'a> {
    pub(crate) prefix: &'a [u8],
    pub(crate) after: Option<&'a [u8]>,
    pub(crate) limit: usize,
}

/// Something of each counter with its key, and where to go on; `None`: that was all.
pub(crate) type Seen<R> = (Vec<(Vec<u8>, R)>, Option<Vec<u8>>);

impl Shard {
    /// The counters that exist.
    pub(crate) fn list(&mut self, from: ListFrom<'_>, page: &Page) -> Result<Listing, Unreadable> {
        let shown = |counter: &Counter, _| counter.exists().then(|| saturated(counter.value()));
        let (counters, next) = self.look_through(from, page, shown)?;
        Ok(Listing { counters, next })
    }

    /// What `view` makes of each counter and the number of its last change: `page` is what the table lists. All of it must
    /// be committed: call this between batches.
    pub(super) fn look_through<R>(
        &mut self,
        from: ListFrom<'_>,
        page: &Page,
        view: impl Fn(&Counter, u64) -> Option<R>,
    ) -> Result<Seen<R>, Unreadable> {
        let ListFrom { prefix, after, limit } = from;
        self.sort_unsaved();
        let limit = limit.max(1);
        let until = page.next.as_deref().map(|next| record::counter_key(next).unwrap_or(next));
        let mut seen = Vec::new();
        let entry_view = |entry: &crate::counters::Entry| view(entry.counter.as_ref()?, entry.version());
        for (row_key, row) in &page.rows {
            let Some(key) = record::counter_key(row_key) else { continue };
            let value = match self.counters.find(key) {
                Some(index) => entry_view(self.counters.get(index)),
                None => view(&decode_counter(row)?, row.version),
            };
            seen.extend(value.map(|value| (key.to_vec(), value)));
        }
        // The table may list some of these too; they are the same then.
        for indexes in [&self.fresh_saving, &self.unsaved] {
            let begin = indexes.partition_point(|index| {
                let key = &*self.counters.get(*index).key;
                key < prefix || after.is_some_and(|after| key <= after)
            });
            let entries = indexes[begin..].iter().map(|index| self.counters.get(*index));
            let entries = entries.take_while(|entry| {
                entry.key.starts_with(prefix) && until.is_none_or(|until| &*entry.key <= until)
            });
            let listed = entries.filter_map(|entry| Some((entry.key.to_vec(), entry_view(entry)?)));
            seen.extend(listed.take(limit + 1));
        }
        seen.sort_unstable_by(|one, other| one.0.cmp(&other.0));
        seen.dedup_by(|one, other| one.0 == other.0);
        let mut next = until.map(<[u8]>::to_vec);
        if seen.len() > limit {
            seen.truncate(limit);
            next = seen.last().map(|(key, _)| key.clone());
        }
        Ok((seen, next))
    }
}
