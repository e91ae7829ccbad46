//! What other sites say of a counter.

use std::collections::BTreeMap;

use quipu_crdt::{Bounded, Overflow, Pn};

use super::{Counter, Row, Shared, pn};
use crate::{
    SiteId,
    links::{AheadRow, WireRow},
};

/// What a merge has changed.
#[derive(Debug, Default)]
pub(crate) struct Merged {
    /// Other parts of rows are set aside than before.
    pub(crate) marks: bool,
    /// What sites are newly known to have counted.
    pub(crate) grown: Vec<(SiteId, Pn)>,
}

/// What was counted between two states of a row. Totals only grow, but for one site alone they may begin anew.
pub(crate) fn growth(before: Pn, after: Pn) -> Pn {
    Pn {
        added: after.added.wrapping_sub(before.added),
        subtracted: after.subtracted.wrapping_sub(before.subtracted),
    }
}

impl Counter {
    /// What is sent of this counter in a site's stream; `version` is that of the last change. `None`: nothing.
    pub(crate) fn wire(&self, own: SiteId, version: u64, origin: SiteId) -> Option<WireRow> {
        match self {
            Self::Plain(counted) => {
                (origin == own).then_some(WireRow::Counted { version, counted: *counted })
            }
            Self::Shared(shared) => {
                let row = shared.rows.get(&origin)?;
                Some(if row.is_plain() {
                    WireRow::Counted { version: row.version, counted: row.counted }
                } else {
                    WireRow::Full(Box::new(row.clone()))
                })
            }
            Self::Bounded(bounded) => Some(WireRow::Bounded(bounded.clone())),
        }
    }

    /// The rows of these sites that are newer than what is known of their streams. Rows of a bounded counter travel together.
    pub(crate) fn rows_ahead(&self, ends: &BTreeMap<SiteId, u64>) -> Vec<AheadRow> {
        let Self::Shared(shared) = self else { return Vec::new() };
        if ends.is_empty() {
            return Vec::new();
        }
        let is_ahead = |(site, row): &(&SiteId, &Row)| ends.get(site).is_some_and(|end| row.version > *end);
        let ahead = shared.rows.iter().filter(is_ahead);
        ahead.map(|(site, row)| AheadRow { site: *site, row: row.clone() }).collect()
    }

    /// The number of the last change of a site's row, as far as that is known; the highest for a bounded counter.
    pub(crate) fn version_of(&self, own: SiteId, version: u64, origin: SiteId) -> u64 {
        match self {
            Self::Plain(_) if origin == own => version,
            Self::Plain(_) => 0,
            Self::Shared(shared) => shared.rows.get(&origin).map_or(0, |row| row.version),
            Self::Bounded(_) => u64::MAX,
        }
    }

    /// All that a site has added and subtracted, whatever was set aside of it.
    pub(crate) fn total(&self, own: SiteId, site: SiteId) -> Pn {
        match self {
            Self::Plain(counted) if site == own => *counted,
            Self::Plain(_) => Pn::default(),
            Self::Shared(shared) => shared.rows.get(&site).map(|row| row.counted).unwrap_or_default(),
            Self::Bounded(bounded) => bounded.rows().get(&site).map(|row| row.counted).unwrap_or_default(),
        }
    }

    /// All that was handed over to a site, and more: of a bounded counter all that was ever parked there.
    pub(crate) fn handed(&self, own: SiteId, site: SiteId) -> Pn {
        match self {
            Self::Bounded(bounded) => {
                let row = bounded.rows().get(&site).and_then(|row| row.parked);
                row.map(|parked| parked.taken).unwrap_or_default()
            }
            Self::Plain(_) | Self::Shared(_) => self.total(own, site),
        }
    }

    /// What is set aside of a site's row.
    pub(crate) fn mark(&self, site: SiteId) -> Pn {
        match self {
            Self::Shared(shared) => shared.mark(&site).counted,
            Self::Plain(_) | Self::Bounded(_) => Pn::default(),
        }
    }

    /// As rows by their sites; `version` is that of the last change. `None`: it is bounded.
    pub(crate) fn share(&mut self, own: SiteId, version: u64) -> Option<&mut Shared> {
        if let Self::Plain(counted) = self {
            *self = Self::Shared(Box::new(Shared::new(own, version, *counted)));
        }
        match self {
            Self::Shared(shared) => Some(shared),
            Self::Plain(_) | Self::Bounded(_) => None,
        }
    }

    /// Adds what no client has asked for: a count that is taken back. `before` is the version of the last change.
    pub(crate) fn take_back(
        &mut self,
        own: SiteId,
        before: u64,
        version: u64,
        amount: i64,
    ) -> Result<(), Overflow> {
        if let Self::Bounded(bounded) = self {
            let prepared = match amount {
                ..0 => bounded.prepare_subtract(amount.unsigned_abs()),
                0.. => bounded.prepare_add(amount.unsigned_abs()),
            };
            // The rights that the count had made are not spent, and those that it had used come back.
            bounded.apply(prepared.map_err(|_| Overflow)?);
            return Ok(());
        }
        let Some(shared) = self.share(own, before) else { return Ok(()) };
        let row = shared.rows.entry(own).or_default();
        quipu_crdt::Tally::try_add(&mut row.counted, &pn(amount))?;
        row.change_by_site(version);
        Ok(())
    }

    /// Takes in what another site says. `before` is the version of the last change. On an error nothing has changed.
    pub(crate) fn merge(
        counter: &mut Option<Self>,
        own: SiteId,
        before: u64,
        origin: SiteId,
        row: WireRow,
    ) -> Result<Merged, &'static str> {
        let row = match row {
            WireRow::Bounded(theirs) => return merge_bounded(counter, own, &theirs),
            WireRow::Counted { version, counted } => Row::counted(version, counted),
            WireRow::Full(row) => *row,
        };
        let here = counter.get_or_insert_with(|| Self::Shared(Box::default()));
        let Some(shared) = here.share(own, before) else {
            // Of the time before the definition took effect.
            let is_old = row.used_at() == 0;
            return if is_old {
                Ok(Merged::default())
            } else {
                Err("counts of a plain counter, which is bounded here")
            };
        };
        let ours = shared.rows.entry(origin).or_default();
        if row.version <= ours.version {
            return Ok(Merged::default());
        }
        let grown = growth(ours.counted, row.counted);
        let marks = ours.set_aside != row.set_aside;
        *ours = row;
        Ok(Merged { marks, grown: vec![(origin, grown)] })
    }
}

fn merge_bounded(
    counter: &mut Option<Counter>,
    own: SiteId,
    theirs: &Bounded<SiteId>,
) -> Result<Merged, &'static str> {
    if let Some(Counter::Plain(_)) = counter {
        return Err("a bounded counter, where a plain one has counted");
    }
    if let Some(Counter::Shared(shared)) = counter
        && shared.rows.values().any(|row| row.used_at() > 0)
    {
        return Err("a bounded counter, where a plain one has counted");
    }
    let mut ours = match counter {
        Some(Counter::Bounded(ours)) => ours.clone(),
        _ => Box::new(Bounded::new(own, theirs.definition().clone())),
    };
    let before = match counter {
        Some(Counter::Bounded(ours)) => Some(ours.clone()),
        _ => None,
    };
    ours.merge(theirs)
        .map_err(|_| "a bounded counter with another definition, or more of our row than we have")?;
    let total = |bounded: Option<&Bounded<SiteId>>, site: &SiteId| {
        bounded.and_then(|bounded| bounded.rows().get(site)).map(|row| row.counted).unwrap_or_default()
    };
    let grown =
        ours.rows().iter().map(|(site, row)| (*site, growth(total(before.as_deref(), site), row.counted)));
    let grown = grown.filter(|(_, grown)| *grown != Pn::default()).collect();
    *counter = Some(Counter::Bounded(ours));
    Ok(Merged { marks: false, grown })
}
