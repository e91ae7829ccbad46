//! Whoever is far behind is sent all rows of a stream, piece by piece, in the order of their keys.

use quipu_storage::Page;

use super::{ListFrom, Shard, Unreadable, send::SWEEP_CARRIED_MAX};
use crate::{
    EXCHANGE_BYTES_MAX, Rule, SiteId,
    links::{AheadRow, KeyRow, Sweep, Swept},
};

/// So many rows are looked at for one piece of a sweep.
pub(crate) const SWEEP_ROWS_MAX: usize = 1024;

/// A peer needs all rows of a stream: the table's page after this key is needed for the next piece.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SweepWanted {
    origin: SiteId,
    /// Rows that are not newer than this are there already.
    from: u64,
    until: u64,
    pub(crate) after: Option<Vec<u8>>,
}

impl Shard {
    /// Does a peer need all rows of a stream?
    pub(crate) fn sweep_wanted(&self, peer: SiteId, now_ms: u64) -> Option<SweepWanted> {
        let it = self.links.peers.get(&peer)?;
        let wanted = self.next_sweep(peer)?;
        let was_sent = it.sweep_sent.as_ref().is_some_and(|(origin, sent)| {
            *origin == wanted.origin && sent.until == wanted.until && sent.after == wanted.after
        });
        (!was_sent || now_ms >= it.ask_again_ms()).then_some(wanted)
    }

    /// The next piece that a peer needs, whether or not it is on its way.
    pub(super) fn next_sweep(&self, peer: SiteId) -> Option<SweepWanted> {
        let it = self.links.peers.get(&peer)?;
        for site in self.streams_for(peer) {
            let origin = &self.links.origins[&site];
            let from = it.received(site);
            if from >= origin.since() || from >= origin.position {
                continue;
            }
            let (until, after) = match it.swept(site) {
                Some(Swept { until, after: None }) if *until > from => continue,
                // One that another site has begun, which has more of the stream, is that one's to go on with.
                Some(Swept { until, .. })
                    if *until > origin.position && self.settings.rules.keep(Rule::SweepsReachAsFar) =>
                {
                    continue;
                }
                Some(Swept { until, after }) if *until > from => (*until, after.clone()),
                _ => (origin.position, None),
            };
            return Some(SweepWanted { origin: site, from, until, after });
        }
        None
    }

    /// The next piece of a sweep.
    pub(crate) fn sweep(&mut self, wanted: SweepWanted, page: &Page) -> Result<Sweep, Unreadable> {
        let SweepWanted { origin, from, until, after } = wanted;
        let own = self.settings.site;
        let mut ends = self.links.removed_ends();
        ends.remove(&origin);
        let view = |counter: &crate::counter::Counter, version: u64| {
            let is_newer = counter.version_of(own, version, origin) > from;
            Some(is_newer.then(|| Some((counter.wire(own, version, origin)?, counter.rows_ahead(&ends)))))
        };
        let begin = ListFrom { prefix: b"", after: after.as_deref(), limit: SWEEP_ROWS_MAX };
        let (seen, mut next) = self.look_through(begin, page, view)?;
        let mut rows = Vec::new();
        let (mut bytes, mut carried) = (0, 0);
        for (key, row) in seen {
            let entries = if matches!(row, Some(Some(_))) { self.entries_of(&key) } else { 0 };
            let is_full = !rows.is_empty() && carried + entries > SWEEP_CARRIED_MAX;
            if bytes > EXCHANGE_BYTES_MAX || is_full {
                next = Some(rows.last().map_or_else(Vec::new, |row: &KeyRow| row.key.to_vec()));
                break;
            }
            if let Some((row, ahead)) = row.flatten() {
                bytes += 32 + key.len() + row.bytes() + ahead.iter().map(AheadRow::bytes).sum::<usize>();
                carried += entries;
                rows.push(KeyRow { key: key.into(), row, ahead: (!ahead.is_empty()).then_some(ahead) });
            }
        }
        Ok(Sweep { origin, until, after, next, rows })
    }
}
