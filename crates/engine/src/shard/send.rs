//! What a shard has to say to others. Call it between batches: it speaks of what is in memory, and all of that must be
//! durable.

use std::collections::BTreeSet;

use quipu_storage::Page;

use super::{ListFrom, Shard, Unreadable};
use crate::{
    EXCHANGE_BYTES_MAX, Message, Rule, SiteId,
    links::{Changed, Hearsay, KeyRow, Origin, Part, Received, Sweep, Swept},
};

/// So many rows are looked at for one piece of a sweep.
pub(crate) const SWEEP_ROWS_MAX: usize = 1024;
/// A peer is told so many milliseconds later that operations are settled, and what others have said, if there is nothing
/// else to say.
const GOSSIP_DELAY_MS: u64 = 20;

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
    /// There is a link to this peer now, or none any more.
    pub(crate) fn connect(&mut self, peer: SiteId, connected: bool) {
        if let Some(peer) = self.links.peers.get_mut(&peer) {
            peer.begin(connected);
        }
        // The others pass on what no link brings.
        self.links.peers.values_mut().for_each(|peer| peer.owed |= peer.connected);
        self.links.restless = true;
    }

    /// Is there something to send, as far as can be told without looking?
    pub(crate) fn is_restless(&self, now_ms: u64) -> bool {
        self.links.restless || self.links.wake_ms.is_some_and(|wake_ms| wake_ms <= now_ms)
    }

    /// When it will be, or a command will have waited long enough.
    pub(crate) fn wants_at_ms(&self, may_send: bool) -> Option<u64> {
        let wake_ms = self.links.wake_ms.filter(|_| may_send);
        [wake_ms, self.waiting.deadline_ms()].into_iter().flatten().min()
    }

    /// The peers that may be sent something now.
    pub(crate) fn peers_to_serve(&mut self, now_ms: u64) -> Vec<SiteId> {
        self.links.restless = false;
        self.links.wake_ms = self.waiting.ask_ms(now_ms).into_iter().chain(self.passing.wake_ms()).min();
        let connected = self.links.peers.iter_mut().filter(|(_, peer)| peer.connected);
        connected
            .map(|(site, peer)| {
                peer.give_up_waiting(now_ms);
                *site
            })
            .collect()
    }

    /// Are there operations here of which this peer has to tell that they are settled: its own, and those of sites that
    /// this one does not hear?
    fn has_open_of(&self, peer: SiteId) -> bool {
        let hears = |site: &SiteId| self.links.peers.get(site).is_some_and(|it| it.connected);
        let others = self.links.origins.iter().filter(|(site, _)| **site != self.settings.site);
        others.filter(|(site, _)| **site == peer || !hears(site)).any(|(_, origin)| !origin.open.is_empty())
    }

    /// Which streams a peer has to hear from us: the own one, and those of sites that it does not hear.
    fn streams_for(&self, peer: SiteId) -> Vec<SiteId> {
        let Some(it) = self.links.peers.get(&peer) else { return Vec::new() };
        let own = self.settings.site;
        let sites = self.links.origins.keys().copied();
        sites.filter(|site| *site == own || (*site != peer && !it.hears(*site))).collect()
    }

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
    fn next_sweep(&self, peer: SiteId) -> Option<SweepWanted> {
        let it = self.links.peers.get(&peer)?;
        for site in self.streams_for(peer) {
            let origin = &self.links.origins[&site];
            let from = it.received(site);
            if from >= origin.since() || from >= origin.position {
                continue;
            }
            let (until, after) = match it.swept(site) {
                Some(Swept { until, after: None }) if *until > from => continue,
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
        let view = |counter: &crate::counter::Counter, version: u64| {
            Some(
                (counter.version_of(own, version, origin) > from).then(|| counter.wire(own, version, origin)),
            )
        };
        let begin = ListFrom { prefix: b"", after: after.as_deref(), limit: SWEEP_ROWS_MAX };
        let (seen, mut next) = self.look_through(begin, page, view)?;
        let mut rows = Vec::new();
        let mut bytes = 0;
        for (key, row) in seen {
            if bytes > EXCHANGE_BYTES_MAX {
                next = Some(rows.last().map_or_else(Vec::new, |row: &KeyRow| row.key.to_vec()));
                break;
            }
            if let Some(row) = row.flatten() {
                bytes += 32 + key.len() + row.bytes();
                rows.push(KeyRow { key: key.into(), row });
            }
        }
        Ok(Sweep { origin, until, after, next, rows })
    }

    /// What is to be said to a peer now, with a piece of a sweep if it needs one.
    pub(crate) fn message_for(&mut self, site: SiteId, sweep: Option<Sweep>, now_ms: u64) -> Option<Message> {
        let own = self.settings.site;
        let asks = self.asks(site, now_ms);
        let passed_on = self.pass_on(site, now_ms);
        let Origin { settled, last_settled, .. } = *self.links.own();
        // Of those of others it is to hear that they are settled, of the own ones how far others have got.
        let answer = !self.links.own().open.is_empty();
        let has_open = answer || self.has_open_of(site);
        let streams = self.streams_for(site);
        let peer = self.links.peers.get_mut(&site)?;
        if !peer.may_send(now_ms) && asks.is_empty() && passed_on.is_none() {
            let pace_ms = peer.pace_ms();
            self.wake(pace_ms);
            return None;
        }
        let mut parts = Vec::new();
        let mut room = EXCHANGE_BYTES_MAX;
        for stream in streams {
            let Some(origin) = self.links.origins.get(&stream) else { continue };
            let Some(peer) = self.links.peers.get_mut(&site) else { continue };
            let Some(from) = peer.next(stream, origin.position) else { continue };
            let swept =
                peer.swept(stream).filter(|swept| swept.after.is_none()).map_or(0, |swept| swept.until);
            if from.max(swept) < origin.since() && swept <= from {
                // It needs a sweep first.
                continue;
            }
            let part = self.part(stream, from, swept, &mut room);
            let is_all = part.to == self.links.origins[&stream].position;
            if let Some(peer) = self.links.peers.get_mut(&site) {
                peer.send(stream, part.to, now_ms);
            }
            parts.push(part);
            if !is_all {
                self.links.restless = true;
                break;
            }
        }
        let is_swept = self.next_sweep(site).is_some();
        let peer = self.links.peers.get_mut(&site)?;
        let owes_settled = peer.gossip || peer.settled_told < last_settled;
        let is_silent = now_ms >= peer.ask_again_ms();
        let speaks = !parts.is_empty()
            || !asks.is_empty()
            || passed_on.is_some()
            || sweep.is_some()
            || peer.owed
            || (owes_settled && now_ms >= peer.last_sent_ms() + GOSSIP_DELAY_MS)
            || (has_open && is_silent);
        if speaks {
            peer.sent_at(now_ms);
            peer.settled_told = settled;
            if let Some(sweep) = &sweep {
                peer.sweep_sent =
                    Some((sweep.origin, Swept { until: sweep.until, after: sweep.after.clone() }));
            }
        }
        let wake = [
            peer.wake_ms(),
            (!speaks && owes_settled).then_some(peer.last_sent_ms() + GOSSIP_DELAY_MS),
            (has_open || is_swept).then_some(peer.ask_again_ms()),
        ];
        wake.into_iter().flatten().for_each(|wake_ms| self.wake(wake_ms));
        if !speaks {
            return None;
        }
        Some(Message {
            position: self.links.own().position,
            settled,
            received: self.received_by_us(),
            hearsay: self.hearsay_for(site),
            direct: self
                .links
                .peers
                .iter()
                .filter(|(_, peer)| peer.connected)
                .map(|(site, _)| *site)
                .collect(),
            parts,
            sweep,
            asks,
            passed_on,
            epoch: self.links.membership.epoch,
            answer: (answer && is_silent).then_some(true),
        })
        .filter(|_| own != site)
    }

    fn wake(&mut self, wake_ms: u64) {
        let sooner = self.links.wake_ms.is_none_or(|earlier| wake_ms < earlier);
        if sooner {
            self.links.wake_ms = Some(wake_ms);
        }
    }

    fn received_by_us(&self) -> Vec<Received> {
        let others = self.links.origins.iter().filter(|(site, _)| **site != self.settings.site);
        let received = |(site, origin): (&SiteId, &Origin)| Received {
            site: *site,
            position: origin.position,
            settled: origin.settled,
            swept: self.links.sweeping.get(site).cloned(),
        };
        others.map(received).collect()
    }

    /// What others have said, for a peer that does not hear them.
    fn hearsay_for(&self, site: SiteId) -> Vec<Hearsay> {
        let Some(peer) = self.links.peers.get(&site) else { return Vec::new() };
        let others = self.links.peers.iter().filter(|(other, _)| **other != site && !peer.hears(**other));
        others.filter_map(|(other, said)| said.hearsay(*other)).collect()
    }

    /// What comes after a position in a stream, for whoever has all rows up to `swept` too.
    fn part(&self, site: SiteId, from: u64, swept: u64, room: &mut usize) -> Part {
        let own = self.settings.site;
        let origin = &self.links.origins[&site];
        let rows_after = from.max(swept);
        let rows_left_out = (swept > from).then_some(swept);
        let mut part = Part {
            origin: site,
            from,
            to: from,
            rows: Vec::new(),
            entries: Vec::new(),
            rows_after: rows_left_out,
        };
        debug_assert!(from < origin.position);
        let mut seen = BTreeSet::new();
        // If rows after the sweep are not remembered one by one any more, the part ends with it, and another begins.
        let ends_with_sweep = swept > from && swept < origin.since();
        let end = if ends_with_sweep { swept } else { origin.position };
        let changes = origin.changes_after(rows_after).take_while(|changed| changed.number <= end);
        let mut changes = changes.peekable();
        let mut entries = origin.open.range(from + 1..=end).peekable();
        loop {
            let number = match (changes.peek(), entries.peek()) {
                (Some(changed), Some((number, _))) => changed.number.min(**number),
                (Some(changed), None) => changed.number,
                (None, Some((number, _))) => **number,
                (None, None) => {
                    part.to = end;
                    break;
                }
            };
            // All of one number go together.
            if *room == 0 && number > part.to {
                break;
            }
            while let Some(Changed { index, .. }) = changes.next_if(|changed| changed.number == number) {
                let entry = self.counters.get(index);
                let row = entry.counter.as_ref().and_then(|it| it.wire(own, entry.version(), site));
                let row = row.map(|row| self.settings.rules.apart(row, site));
                if let Some(row) = row.filter(|_| seen.insert(index)) {
                    *room = room.saturating_sub(16 + entry.key.len() + row.bytes());
                    part.rows.push(KeyRow { key: entry.key.clone(), row });
                }
            }
            while let Some((_, entry)) = entries.next_if(|(other, _)| **other == number) {
                *room = room.saturating_sub(entry.bytes());
                part.entries.push(entry.clone());
            }
            part.to = number;
        }
        if !self.settings.rules.keep(Rule::RowsBeforeEntries) {
            part.entries.extend(entries.map(|(_, entry)| entry.clone()));
            part.to = part.entries.last().map_or(part.to, |entry| part.to.max(entry.number));
        }
        part
    }
}
