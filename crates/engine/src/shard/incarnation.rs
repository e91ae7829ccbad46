//! A restored copy goes on under another incarnation: what was its own row is from then on that of a site that is gone.

use quipu_storage::Page;

use super::{ListFrom, Shard, Unreadable, listing::Seen};
use crate::{SiteId, counter::Counter, links::Origin, record::Books};

impl Shard {
    /// Whose rows are those that do not say it, for the summary: only if it is not the first site.
    pub(super) fn written_by(&self) -> Option<SiteId> {
        let site = self.incarnation.unwrap_or(self.settings.site);
        (site != SiteId::FIRST).then_some(site)
    }

    /// Whose rows are those that do not say it.
    pub(crate) fn stored_site(&self) -> Option<SiteId> {
        (self.summary.changes > 0).then(|| self.summary.site.unwrap_or(SiteId::FIRST))
    }

    /// A page of keys.
    pub(crate) fn keys(&mut self, from: ListFrom<'_>, page: &Page) -> Result<Seen<()>, Unreadable> {
        self.look_through(from, page, |_, _| Some(()))
    }

    /// Writes down whose row is whose, for the next process, which is another site. May be done again.
    pub(crate) fn name_rows(&mut self, key: &[u8], new: SiteId) {
        let Some(index) = self.counters.find(key) else { return };
        let old = self.settings.site;
        let existed = self.counters.get(index).exists();
        let changed = self.counters.change(index, |entry| {
            let version = entry.version();
            match entry.counter.take() {
                Some(Counter::Bounded(bounded)) => {
                    entry.counter = Some(Counter::Bounded(Box::new(bounded.known_at(new))));
                    true
                }
                Some(mut counter) => {
                    let is_plain = matches!(counter, Counter::Plain(_));
                    counter.share(old, version);
                    entry.counter = Some(counter);
                    is_plain
                }
                None => false,
            }
        });
        if changed {
            self.touch_any(index, existed);
        }
    }

    /// All rows are named: from the next process on this is another site.
    pub(crate) fn begin_incarnation(&mut self, new: SiteId) {
        let (old, counted) = (self.settings.site, self.counted_here());
        self.links.origins.entry(old).or_default().counted = counted;
        self.links.origins.insert(new, Origin::at(self.summary.changes));
        self.summary.books = Some(Books::default());
        self.incarnation = Some(new);
        self.moved = true;
    }
}
