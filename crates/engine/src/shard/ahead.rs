//! Rows of removed sites that are ahead of their streams.
//!
//! A row may be newer than the piece of a stream that it came with. If its site is lost then, no position tells who has
//! which row. So whoever has such rows tells them once more, in its own stream, and speaks under the membership without
//! that site after that. Whoever has heard all peers speak under it, and has their streams as they were then, has all that
//! anybody knows of the removed site.

use std::collections::BTreeMap;

use quipu_crdt::Bounded;
use quipu_storage::Page;

use super::{ListFrom, Shard, Unreadable, listing::Seen, sweep::SWEEP_ROWS_MAX};
use crate::{
    Rule, SiteId,
    counter::Counter,
    coverage::{Branch, reached},
};

/// May a counter have a row that is ahead of one of these streams? Rows of bounded counters do not tell how new they are.
fn may_be_ahead(counter: &Counter, ends: &BTreeMap<SiteId, u64>) -> bool {
    match counter {
        Counter::Plain(_) => false,
        Counter::Shared(_) => !counter.rows_ahead(ends).is_empty(),
        Counter::Bounded(bounded) => {
            // That its definition has taken effect stands in no row.
            let creator = std::iter::once(bounded.definition().creator());
            Bounded::rows(bounded).keys().chain(creator).any(|site| ends.contains_key(site))
        }
    }
}

impl Shard {
    /// Are there rows of removed sites that this site has yet to tell? What it writes before another one has spoken to it
    /// may be undone, so it waits for that; and what becomes another incarnation writes nothing under its old name.
    pub(crate) fn has_to_tell(&self) -> bool {
        self.links.untold().next().is_some() && !self.is_unheard() && self.incarnation.is_none()
    }

    /// The counters after this key have yet to be looked at.
    pub(crate) fn told_up_to(&self) -> Option<&[u8]> {
        self.told_up_to.as_deref()
    }

    /// The counters in a page of the table that may have rows to tell, and where to go on.
    pub(crate) fn keys_ahead(&mut self, page: &Page) -> Result<Seen<()>, Unreadable> {
        let untold: Vec<SiteId> = self.links.untold().collect();
        let mut ends = self.links.removed_ends();
        ends.retain(|site, _| untold.contains(site));
        let after = self.told_up_to.clone();
        let from = ListFrom { prefix: b"", after: after.as_deref(), limit: SWEEP_ROWS_MAX };
        self.look_through(from, page, |counter, _| may_be_ahead(counter, &ends).then_some(()))
    }

    /// Tells a counter's rows: it changes, and goes to all with the own stream. It is in memory.
    pub(crate) fn tell_ahead(&mut self, key: &[u8]) {
        let Some(index) = self.counters.find(key) else { return };
        reached(Branch::AheadTold);
        let (own, version) = (self.settings.site, self.summary.changes + 1);
        let existed = self.counters.get(index).exists();
        self.counters.change(index, |entry| {
            if let Some(Counter::Shared(shared)) = &mut entry.counter {
                shared.rows.entry(own).or_default().change_by_site(version);
            }
        });
        self.touch(index, existed);
    }

    /// All counters up to this key have been looked at; `None`: all.
    pub(crate) fn has_told(&mut self, up_to: Option<Vec<u8>>) {
        self.told_up_to = up_to;
        if self.told_up_to.is_none() {
            let untold: Vec<SiteId> = self.links.untold().collect();
            untold.into_iter().for_each(|site| self.links.origins.entry(site).or_default().is_told = true);
            self.speak_up();
            self.moved = true;
        }
    }

    pub(crate) fn tells_ahead(&self) -> bool {
        self.settings.rules.keep(Rule::AheadIsTold)
    }
}
