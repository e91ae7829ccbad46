//! Which slots of other desks are closed: those of peers, of sites that were removed, and of retired relays that another
//! site answers for.
//!
//! A site that takes a token tells so in its stream, together with the rows that the token was counted in
//! ([`What::Taken`](crate::entry::What)). When that is settled, what is left of it is a bit in the set of the desk, at every
//! site. So the heir of a site that is lost can tell a token which was counted from one which was not. What was settled
//! before a site joined comes to it as a whole ([`DeskTable`]), and so do the desks that a site inherits.

use std::{
    collections::{BTreeMap, BTreeSet},
    mem,
};

use minicbor::{Decode, Encode};
use quipu_storage::{Row, Slice, Write};

use super::{Name, clocks::Clocks};
use crate::{
    SiteId,
    record::{CLOSED_KEY, closed_key, encode_row},
};

/// A token in the order of its desk: the desk and the target clock.
type SlotName = (Name, u64);

/// The closed slots of all desks that a site answers for, as another one knows them.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub(crate) struct DeskTable {
    #[n(0)]
    pub(crate) site: SiteId,
    /// The number of the change in the stream of the site by which it tells the table, or a newer one.
    #[n(1)]
    pub(crate) version: u64,
    #[n(2)]
    pub(crate) desks: Vec<(Name, Clocks)>,
}

/// One desk.
#[derive(Debug, Clone, PartialEq, Eq, Default, Encode, Decode)]
pub(crate) struct ClosedDesk {
    /// Who answers for it and has told which slots were closed before; `None`: nobody has.
    #[n(0)]
    pub(crate) site: Option<SiteId>,
    #[n(1)]
    pub(crate) clocks: Clocks,
}

/// What a batch has changed.
#[derive(Debug, Clone, PartialEq, Eq, Default, Encode, Decode)]
pub(crate) struct ClosedChange {
    /// Slots that were closed.
    #[n(0)]
    slots: Vec<SlotName>,
    /// Desks of which more than that has changed.
    #[n(1)]
    desks: Vec<(Name, ClosedDesk)>,
    /// Tables that were told.
    #[n(2)]
    told: Vec<(SiteId, u64)>,
    /// No table counts as told any more.
    #[n(3)]
    is_anew: bool,
    /// The table of this site.
    #[n(4)]
    own: Option<OwnTable>,
}

impl ClosedChange {
    pub(crate) fn is_empty(&self) -> bool {
        let Self { slots, desks, told, is_anew, own } = self;
        slots.is_empty() && desks.is_empty() && told.is_empty() && !is_anew && own.is_none()
    }

    /// Bytes in a record, roughly.
    pub(crate) fn len(&self) -> usize {
        self.slots.len() + self.desks.len() + self.told.len()
    }
}

/// The table of this site: its version and what it was made for.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
struct OwnTable {
    #[n(0)]
    version: u64,
    /// The membership.
    #[n(1)]
    epoch: u64,
    /// The desks that this site answers for.
    #[n(2)]
    desks: BTreeSet<Name>,
}

/// Which tables are known.
#[derive(Debug, Clone, Default, Encode, Decode)]
pub(crate) struct Tables {
    /// Their versions.
    #[n(0)]
    told: BTreeMap<SiteId, u64>,
    #[n(1)]
    own: Option<OwnTable>,
}

/// What is stored.
#[derive(Debug, Clone, Default)]
pub(crate) struct StoredClosed {
    pub(crate) desks: BTreeMap<Name, ClosedDesk>,
    pub(crate) tables: Tables,
}

/// The closed slots of desks elsewhere.
#[derive(Debug, Default)]
pub(crate) struct ClosedSlots {
    known: StoredClosed,
    /// The table of this site has to be told anew, for this membership and these desks.
    due: Option<(u64, BTreeSet<Name>)>,
    /// In the batch that is being made.
    changed: ClosedChange,
    /// Desks that no checkpoint has.
    unsaved: BTreeSet<Name>,
    are_tables_unsaved: bool,
}

impl ClosedSlots {
    pub(crate) fn new(known: StoredClosed) -> Self {
        Self { known, ..Self::default() }
    }

    /// A slot is closed, and all sites know it.
    pub(crate) fn close(&mut self, desk: Name, clock: u64) {
        if self.known.desks.entry(desk).or_default().clocks.insert(clock) {
            self.changed.slots.push((desk, clock));
            self.unsaved.insert(desk);
        }
    }

    pub(crate) fn is_closed(&self, desk: &Name, clock: u64) -> bool {
        self.known.desks.get(desk).is_some_and(|it| it.clocks.contains(clock))
    }

    /// The site that answers for a desk, or did so last; `None`: nobody has told which of its slots are closed.
    pub(crate) fn site_of(&self, desk: &Name) -> Option<SiteId> {
        self.known.desks.get(desk)?.site
    }

    /// The desks that were told of, and who answers for each.
    pub(crate) fn desks(&self) -> impl Iterator<Item = (Name, SiteId)> {
        self.known.desks.iter().filter_map(|(name, desk)| Some((*name, desk.site?)))
    }

    pub(crate) fn clocks(&self, desk: &Name) -> Clocks {
        self.known.desks.get(desk).map(|desk| desk.clocks.clone()).unwrap_or_default()
    }

    /// Which table of a site is known here.
    pub(crate) fn told(&self, site: SiteId) -> Option<u64> {
        self.known.tables.told.get(&site).copied()
    }

    /// The table of a site, as far as it is known here.
    pub(crate) fn table(&self, site: SiteId) -> Option<DeskTable> {
        let version = self.told(site)?;
        // Its heir may have told of its desk since.
        let is_of_site = |(name, desk): &(&Name, &ClosedDesk)| {
            desk.site == Some(site) || desk.site.is_some() && name.site() == Some(site)
        };
        let of_site = self.known.desks.iter().filter(is_of_site);
        let desks = of_site.map(|(name, desk)| (*name, desk.clocks.clone())).collect();
        Some(DeskTable { site, version, desks })
    }

    /// Takes in a table. Of what was told once all stays true. A desk that the site of the table has left to an heir, which
    /// has told of it, stays the heir's.
    pub(crate) fn take_in(
        &mut self,
        table: DeskTable,
        is_here: impl Fn(&Name) -> bool,
        is_heir: impl Fn(SiteId) -> bool,
    ) {
        let DeskTable { site, version, desks } = table;
        for (name, clocks) in desks.into_iter().filter(|(name, _)| !is_here(name)) {
            let heir = self.site_of(&name).filter(|last| is_heir(*last));
            self.set(name, heir.unwrap_or(site), &clocks);
        }
        let told = self.known.tables.told.entry(site).or_default();
        if *told < version {
            *told = version;
            self.changed.told.push((site, version));
            self.are_tables_unsaved = true;
        }
    }

    /// This site becomes another incarnation, and its desks are those of a site that is gone. More slots may be closed than
    /// it knows: tables are to be told again.
    pub(crate) fn begin_incarnation(&mut self, old: SiteId, desks: Vec<(Name, Clocks)>) {
        for (name, clocks) in desks {
            self.set(name, old, &clocks);
        }
        self.known.tables = Tables::default();
        self.due = None;
        self.are_tables_unsaved = true;
        self.changed.is_anew = true;
    }

    fn set(&mut self, name: Name, site: SiteId, clocks: &Clocks) {
        let desk = self.known.desks.entry(name).or_default();
        let before = desk.clone();
        desk.site = Some(site);
        desk.clocks.merge(clocks);
        if *desk != before {
            self.changed.desks.push((name, desk.clone()));
            self.unsaved.insert(name);
        }
    }

    /// This site answered for a desk of which nobody has told anything.
    pub(crate) fn belongs_to(&mut self, desk: Name, site: SiteId) {
        self.set(desk, site, &Clocks::default());
    }

    /// This site answers for these desks under this membership: was that told?
    pub(crate) fn look(&mut self, desks: BTreeSet<Name>, epoch: u64) {
        let is_told = |own: &OwnTable| own.epoch == epoch && own.desks == desks;
        let is_known = self.known.tables.own.as_ref().is_some_and(is_told);
        self.due = (!is_known).then_some((epoch, desks));
    }

    /// Has the table of this site to be told anew?
    pub(crate) fn is_due(&self) -> bool {
        self.due.is_some()
    }

    /// It is told with this change.
    pub(crate) fn renew(&mut self, version: u64) {
        let Some((epoch, desks)) = self.due.take() else { return };
        self.known.tables.own = Some(OwnTable { version, epoch, desks });
        self.changed.own.clone_from(&self.known.tables.own);
        self.are_tables_unsaved = true;
    }

    pub(crate) fn own_version(&self) -> Option<u64> {
        self.known.tables.own.as_ref().map(|own| own.version)
    }

    pub(crate) fn own_desks(&self) -> impl Iterator<Item = Name> {
        self.known.tables.own.iter().flat_map(|own| &own.desks).copied()
    }

    pub(crate) fn is_changed(&self) -> bool {
        !self.changed.is_empty()
    }

    /// What the batch has changed.
    pub(crate) fn seal(&mut self) -> Option<ClosedChange> {
        let changed = mem::take(&mut self.changed);
        (!changed.is_empty()).then_some(changed)
    }

    /// A record came after the rows.
    pub(crate) fn replay(&mut self, change: ClosedChange) {
        let ClosedChange { slots, desks, told, is_anew, own } = change;
        self.are_tables_unsaved |= is_anew || !told.is_empty() || own.is_some();
        if is_anew {
            self.known.tables = Tables::default();
        }
        for (desk, clock) in slots {
            self.close(desk, clock);
        }
        for (name, ClosedDesk { site, clocks }) in desks {
            // Slots may have been closed after it, in the same batch.
            let desk = self.known.desks.entry(name).or_default();
            desk.site = site;
            desk.clocks.merge(&clocks);
            self.unsaved.insert(name);
        }
        self.known.tables.told.extend(told);
        if own.is_some() {
            self.known.tables.own = own;
        }
        self.changed = ClosedChange::default();
    }

    pub(crate) fn is_unsaved(&self) -> bool {
        !self.unsaved.is_empty() || self.are_tables_unsaved
    }

    /// The rows of what has changed since the last checkpoint.
    pub(crate) fn capture(&mut self, version: u64) -> Vec<Write> {
        let write = |key, bytes| Write { slice: Slice::KEPT, key, row: Row { version, bytes } };
        let unsaved = mem::take(&mut self.unsaved).into_iter();
        let row = |name: &Name| self.known.desks.get(name).map_or_else(Vec::new, encode_row);
        let mut writes: Vec<Write> = unsaved.map(|name| write(closed_key(name), row(&name))).collect();
        if mem::take(&mut self.are_tables_unsaved) {
            writes.push(write(CLOSED_KEY.to_vec(), encode_row(&self.known.tables)));
        }
        writes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DESK: SiteId = SiteId { number: 3, incarnation: 0 };

    /// A message brings a table, and settles that a token of one of its desks was taken.
    #[test]
    fn a_slot_closed_in_the_batch_that_hears_a_table_is_closed_after_a_restart() {
        let name = Name::of_site(DESK);
        let mut closed = ClosedSlots::default();
        let clocks = Clocks::below_without(2, [1].into_iter());
        closed.take_in(
            DeskTable { site: DESK, version: 7, desks: vec![(name, clocks)] },
            |_| false,
            |_| false,
        );
        closed.close(name, 4);
        let mut again = ClosedSlots::default();
        again.replay(closed.seal().expect("something has changed"));
        assert_eq!(
            [0, 1, 2, 3, 4].map(|clock| again.is_closed(&name, clock)),
            [true, false, false, false, true]
        );
        assert_eq!((again.site_of(&name), again.told(DESK)), (Some(DESK), Some(7)));
    }
}
