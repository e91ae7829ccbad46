//! A restored copy goes on under another incarnation: what was its own row is from then on that of a site that is gone.

use quipu_storage::Page;

use super::{ListFrom, Shard, Unreadable, findings::Findings, listing::Seen};
use crate::{
    Rule, SiteId,
    counter::Counter,
    links::Origin,
    record::{Before, Books, Copied, Logged, Undone},
};

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

    /// Is what nobody has heard of undone?
    pub(crate) fn undoes(&self) -> bool {
        self.settings.rules.keep(Rule::UnheardIsUndone)
    }

    /// Writes down whose row is whose, for the next process, which is another site; of a counter that was noted, as it was
    /// then. May be done again.
    pub(crate) fn name_rows(&mut self, key: &[u8], new: SiteId, before: Option<&Before>) {
        if let Some(before) = before {
            self.undo(before);
        }
        let Some(index) = self.counters.find(key) else { return };
        let old = self.settings.site;
        let existed = self.counters.get(index).exists();
        let changed = self.counters.put(index, |entry| {
            let version = before.map_or(entry.version(), |before| before.version);
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
    /// Returns where the table may have entries that were undone.
    pub(crate) fn begin_incarnation(&mut self, new: SiteId) -> Vec<Vec<u8>> {
        crate::coverage::reached(crate::coverage::Branch::IncarnationBegun);
        let (old, counted) = (self.settings.site, self.counted_here());
        self.closed.begin_incarnation(old, self.own_closed());
        let unheard = self.summary.unheard.filter(|_| self.undoes());
        let origin = self.links.origins.entry(old).or_default();
        origin.counted = counted;
        if let Some(unheard) = unheard {
            // What comes after that is another stream than the one that others may have.
            origin.skip_to(unheard.position);
            origin.runs.cut(unheard.position);
        }
        self.summary.undone = unheard.map(|unheard| Undone { site: old, position: unheard.position });
        let stored = self.summary.undone.map(|undone| self.links.undo(undone)).unwrap_or_default();
        self.be_heard();
        // What the old one has told may be known to nobody.
        self.links.origins.values_mut().for_each(|origin| origin.is_told = false);
        let marks_copied = self.settings.rules.keep(Rule::CopiedMayBeTakenBack);
        let copied = |origin: &Origin| {
            let Origin { settled, position, .. } = *origin;
            marks_copied.then_some(Copied { settled, position })
        };
        self.links.origins.values_mut().for_each(|origin| origin.copied = copied(origin));
        self.links.origins.insert(new, Origin::at(self.summary.changes));
        self.summary.books = Some(Books::default());
        // Peers have theirs, and have heard what was taken back since this copy was made.
        self.findings = Findings::default();
        self.incarnation = Some(new);
        self.moved = true;
        stored.into_iter().map(|number| Logged::row_key(old, number)).collect()
    }
}
