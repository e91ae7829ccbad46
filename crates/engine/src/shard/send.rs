//! What a shard has to say to others. Call it between batches: it speaks of what is in memory, and all of that must be
//! durable.

use std::collections::BTreeSet;

use foldhash::fast::FixedState;
use hashbrown::HashSet;

use super::Shard;
use crate::{
    EXCHANGE_BYTES_MAX, MESSAGE_BYTES_MAX, Message, Rule, SiteId,
    counter::Counter,
    counters::Index,
    coverage::{Branch, reached},
    entry::Entry,
    links::{
        AheadRow, Carried, CarriedEntry, Changed, Hearsay, Leaning, Links, Origin, PartAround, Received,
        Rows, SharedPart, StreamRuns, Sweep, Swept, WireRow,
    },
};

/// So many bytes of rows and entries go into one message, about. What does not fit comes later.
const PARTS_BYTES_MAX: usize = MESSAGE_BYTES_MAX / 8;
/// So many entries are carried with the rows of a message. (Of one counter alone there may be more: then the rest is left out, and if
/// all who have it are lost before it has come, the receiver has a row without some of its ids.)
const CARRIED_MAX: usize = MESSAGE_BYTES_MAX / 2 / CARRIED_BYTES;
/// So many of them with a piece of a sweep.
pub(super) const SWEEP_CARRIED_MAX: usize = CARRIED_MAX / 2;
/// What a carried entry takes, about.
const CARRIED_BYTES: usize = 48;
/// So many rows are fetched, and have memory set aside for them, before a part is written.
const ROWS_EXPECTED_MAX: usize = 1024;
/// A peer is told so many milliseconds later that operations are settled, and what others have said, if there is nothing
/// else to say.
const GOSSIP_DELAY_MS: u64 = 20;

/// Why a peer is to hear something although there is nothing new in the streams.
#[derive(Debug, Clone, Copy)]
struct Reasons {
    /// It waits to hear how far this site has got.
    owed: bool,
    /// It does not know yet that operations are settled, or what others have said,
    owes_settled: bool,
    /// and has waited long enough for something else to go with that.
    is_time_to_tell: bool,
    /// This site waits to hear how far it has got: an own operation is not settled, or somebody has to say something under
    /// the present membership.
    wants_answer: bool,
    /// That, or an operation of others of which the peer has to tell.
    has_open: bool,
    /// Nothing was sent for so long that it is time to ask.
    was_silent: bool,
}

impl Reasons {
    fn is_any(&self) -> bool {
        self.owed || (self.owes_settled && self.is_time_to_tell) || (self.has_open && self.was_silent)
    }
}

/// What a part was made for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct MadeFor {
    site: SiteId,
    from: u64,
    swept: u64,
    room: Room,
}

/// What is left for parts in a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Room {
    /// Bytes of rows and entries.
    bytes: usize,
    /// Entries that are carried with rows.
    carried: usize,
}

fn carried_entry(site: SiteId, entry: &Entry) -> CarriedEntry {
    CarriedEntry { site, number: entry.number, hash: entry.hash, what: entry.what.clone() }
}

/// A piece of a stream for a peer.
#[derive(Debug, Clone)]
struct MadePart {
    part: SharedPart,
    /// Counters whose rows in it may include entries that it does not have.
    ahead: Vec<Ahead>,
    /// Some of these are carried with the sender's parts of the stream after this position.
    leans: Option<u64>,
}

/// A counter whose row in a part may include entries that the part does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Ahead {
    index: Index,
    /// Entries of any site. If not, of the site whose stream it is.
    of_all: bool,
}

/// The part that was made last.
#[derive(Debug)]
pub(super) struct LastPart {
    made_for: MadeFor,
    made: MadePart,
    room_left: Room,
}

impl Shard {
    /// There is a link to this peer now, or none any more.
    pub(crate) fn connect(&mut self, peer: SiteId, connected: bool) {
        if let Some(it) = self.links.peers.get_mut(&peer) {
            it.begin(connected);
        }
        if !connected {
            // Nobody else may have as much of the stream as it had: others begin anew.
            self.links.sweeping.retain(|_, (by, swept)| *by != peer || swept.after.is_none());
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
        self.links.wake_ms = self.waiting.ask_ms(now_ms).into_iter().chain(self.passes_on_at_ms()).min();
        let connected = self.links.peers.iter_mut().filter(|(_, peer)| peer.connected);
        connected
            .map(|(site, peer)| {
                if peer.give_up_waiting(now_ms) {
                    reached(Branch::PartResent);
                }
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

    /// Which streams a peer has to hear from us: the own one first, and those of sites that it does not hear.
    pub(super) fn streams_for(&self, peer: SiteId) -> Vec<SiteId> {
        let Some(it) = self.links.peers.get(&peer) else { return Vec::new() };
        let own = self.settings.site;
        let others = self.links.origins.keys().copied().filter(|site| *site != own && *site != peer);
        [own].into_iter().chain(others.filter(|site| !it.hears(*site))).collect()
    }

    /// What is to be said to a peer now, with a piece of a sweep if it needs one.
    pub(crate) fn message_for(&mut self, site: SiteId, sweep: Option<Sweep>, now_ms: u64) -> Option<Message> {
        let is_unheard = self.is_unheard();
        let (asks, moves, passed_on, sweep) = match is_unheard {
            true => (Vec::new(), None, None, None),
            false => (self.asks(site, now_ms), self.moves(site, now_ms), self.pass_on(site, now_ms), sweep),
        };
        let whole = sweep.as_ref().filter(|sweep| sweep.is_whole()).map(|sweep| (sweep.origin, sweep.until));
        let peer = self.links.peers.get_mut(&site)?;
        if let Some((origin, _)) = whole {
            peer.begin_stream(origin);
        }
        let is_asked = !asks.is_empty() || moves.is_some();
        if !peer.may_send(now_ms) && !is_asked && passed_on.is_none() {
            let pace_ms = peer.pace_ms();
            self.wake(pace_ms);
            return None;
        }
        let mut carried = Vec::new();
        let swept_rows = sweep.iter().flat_map(|sweep| &sweep.rows);
        let with_sweep = swept_rows.map(|row| self.entries_of(&row.key)).sum::<usize>().min(CARRIED_MAX);
        let mut carried_left = CARRIED_MAX - with_sweep;
        let mut parts = match is_unheard {
            true => Vec::new(),
            false => self.parts_for(site, whole, (&mut carried, &mut carried_left), now_ms),
        };
        let has_part = |origin: SiteId| parts.iter().any(|made: &MadePart| made.part.origin() == origin);
        // All rows go with what follows them, if they fit into a message: nobody must be left with rows and without the
        // entries that they include, should this site be lost. Not now, if too much is under way.
        let is_held = whole.is_some_and(|(origin, _)| !has_part(origin));
        if is_held {
            reached(Branch::SweepHeld);
            if parts.is_empty() {
                // What was kept free for it may be what they need.
                carried_left = CARRIED_MAX;
                parts = self.parts_for(site, None, (&mut carried, &mut carried_left), now_ms);
            }
        }
        let sweep = sweep.filter(|_| !is_held);
        let has_news = !parts.is_empty() || is_asked || passed_on.is_some() || sweep.is_some();
        let reasons = self.reasons_to_speak(site, now_ms)?;
        if !has_news && !reasons.is_any() {
            self.wake_for(site, &reasons, is_held);
            return None;
        }
        if let Some(sweep) = &sweep {
            self.carry_with_sweep(site, sweep, &parts, (&mut carried, carried_left + with_sweep));
        }
        let streams = parts.iter().map(|made| made.part.origin());
        let runs = self.runs_of(streams.chain(sweep.iter().map(|sweep| sweep.origin)));
        let leaning = |made: &MadePart| Some(Leaning { stream: made.part.origin(), since: made.leans? });
        let leaning: Vec<_> = parts.iter().filter_map(leaning).collect();
        let tables = self.tables_in(parts.iter().map(|made| &made.part));
        let tells = sweep.is_some() || reasons.owes_settled || reasons.is_any();
        self.note_sent(site, sweep.as_ref(), tells, now_ms);
        self.wake_for(site, &Reasons { owes_settled: false, ..reasons }, is_held);
        let own = self.links.own();
        let connected = self.links.peers.iter().filter(|(_, peer)| peer.connected);
        Some(Message {
            position: own.position,
            settled: own.settled,
            received: if tells { self.received_by_us() } else { Vec::new() },
            hearsay: if tells { self.hearsay_for(site) } else { Vec::new() },
            direct: connected.filter(|_| tells).map(|(site, _)| *site).collect(),
            parts: parts.into_iter().map(|made| made.part).collect(),
            carried: (!carried.is_empty()).then_some(carried),
            runs: (!runs.is_empty()).then_some(runs),
            sweep,
            asks,
            passed_on,
            epoch: self.links.told_epoch,
            tables: (!tables.is_empty()).then_some(tables),
            answer: (is_unheard || (reasons.wants_answer && reasons.was_silent)).then_some(true),
            moves,
            leaning: (!leaning.is_empty()).then_some(leaning),
        })
    }

    /// The pieces of streams that a peer lacks, as far as they fit into a message. They are on their way from now on. With
    /// them go all rows of a stream up to a position, if these are `whole`.
    /// The entries that their rows include are `carried`, as many as are left.
    fn parts_for(
        &mut self,
        site: SiteId,
        whole: Option<(SiteId, u64)>,
        (carried, carried_left): (&mut Vec<Carried>, &mut usize),
        now_ms: u64,
    ) -> Vec<MadePart> {
        let mut parts = Vec::new();
        // Without the rule that is tried with less.
        let is_kept = self.settings.rules.keep(Rule::RowsBeforeEntries);
        let mut bytes = if is_kept { PARTS_BYTES_MAX } else { EXCHANGE_BYTES_MAX };
        for stream in self.streams_for(site) {
            let Some(origin) = self.links.origins.get(&stream) else { continue };
            let Some(peer) = self.links.peers.get_mut(&site) else { continue };
            let Some(from) = peer.next(stream, origin.position) else { continue };
            let swept =
                peer.swept(stream).filter(|swept| swept.after.is_none()).map_or(0, |swept| swept.until);
            let swept = whole.filter(|(origin, _)| *origin == stream).map_or(swept, |(_, until)| until);
            if from.max(swept) < origin.since() && swept <= from {
                // It needs a sweep first.
                continue;
            }
            let end = origin.position;
            let mut room = Room { bytes, carried: *carried_left };
            let mut made = self.shared_part(stream, from, swept, &mut room);
            let to = made.part.to();
            if to == from {
                // The ids that come with its first row do not fit any more.
                reached(Branch::CarriedLater);
                self.links.restless = true;
                break;
            }
            bytes = room.bytes;
            self.carry_with_part(site, &mut made, (carried, carried_left));
            if let Some(peer) = self.links.peers.get_mut(&site) {
                peer.send(stream, to, now_ms);
            }
            if stream != self.settings.site {
                reached(Branch::PartOfOther);
            }
            parts.push(made);
            if to != end || bytes == 0 {
                reached(Branch::PartCapped);
                self.links.restless = true;
                break;
            }
        }
        parts
    }

    /// Why a peer is to hear something although there is nothing new in the streams.
    fn reasons_to_speak(&self, site: SiteId, now_ms: u64) -> Option<Reasons> {
        let peer = self.links.peers.get(&site)?;
        let own = self.links.own();
        let wants_answer = !own.open.is_empty() || self.links.waits_for_word() || self.is_unheard();
        let owes_settled = peer.gossip || peer.settled_told < own.last_settled;
        Some(Reasons {
            owed: peer.owed,
            owes_settled,
            is_time_to_tell: now_ms >= peer.last_sent_ms() + GOSSIP_DELAY_MS,
            wants_answer,
            has_open: wants_answer || self.has_open_of(site),
            was_silent: now_ms >= peer.ask_again_ms(),
        })
    }

    fn note_sent(&mut self, site: SiteId, sweep: Option<&Sweep>, tells: bool, now_ms: u64) {
        let settled = self.links.own().settled;
        let Some(peer) = self.links.peers.get_mut(&site) else { return };
        peer.sent_at(now_ms, tells);
        peer.settled_told = settled;
        if let Some(Sweep { origin, until, after, .. }) = sweep {
            peer.sweep_sent = Some((*origin, Swept { until: *until, after: after.clone() }));
        }
    }

    /// Looks at a peer again when it may have to hear something; what is held waits for what is under way.
    fn wake_for(&mut self, site: SiteId, reasons: &Reasons, is_held: bool) {
        let is_swept = !is_held && self.next_sweep(site).is_some();
        let Some(peer) = self.links.peers.get(&site) else { return };
        let wake = [
            peer.wake_ms(),
            reasons.owes_settled.then_some(peer.last_sent_ms() + GOSSIP_DELAY_MS),
            (reasons.has_open || is_swept).then_some(peer.ask_again_ms()),
        ];
        wake.into_iter().flatten().for_each(|wake_ms| self.wake(wake_ms));
    }

    /// All peers have been served: what they were sent is not needed any more.
    pub(crate) fn forget_part(&mut self) {
        self.last_part = None;
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
            swept: self.links.sweeping.get(site).map(|(_, swept)| swept.clone()),
            writer: origin.runs.writer(origin.position),
        };
        others.map(received).collect()
    }

    fn runs_of(&self, streams: impl Iterator<Item = SiteId>) -> Vec<StreamRuns> {
        let streams: BTreeSet<SiteId> = streams.collect();
        let runs = streams.into_iter().filter_map(|site| {
            let runs = &self.links.origins.get(&site)?.runs;
            (!runs.is_empty()).then(|| StreamRuns { site, runs: runs.clone() })
        });
        runs.collect()
    }

    /// What others have said, for a peer that does not hear them.
    fn hearsay_for(&self, site: SiteId) -> Vec<Hearsay> {
        let Some(peer) = self.links.peers.get(&site) else { return Vec::new() };
        let others = self.links.peers.iter().filter(|(other, _)| **other != site && !peer.hears(**other));
        others.filter_map(|(other, said)| said.hearsay(*other)).collect()
    }

    /// The entries that the rows of a part for a peer include, and that it does not have by what it is sent.
    fn carry_with_part(
        &mut self,
        site: SiteId,
        made: &mut MadePart,
        (carried, left): (&mut Vec<Carried>, &mut usize),
    ) {
        let Links { peers, origins, .. } = &mut self.links;
        let Some(peer) = peers.get_mut(&site).filter(|_| self.settings.rules.keep(Rule::IdsWithRows)) else {
            return;
        };
        let (stream, from) = (made.part.origin(), made.part.after());
        let mut leans = false;
        for Ahead { index, of_all } in &made.ahead {
            let key = &self.counters.get(*index).key;
            let others =
                origins.iter().filter(|(other, _)| **other != site && (*of_all || **other == stream));
            let mut entries = Vec::new();
            for (other, origin) in others {
                let after = if *other == stream { made.part.to() } else { peer.received(*other) };
                let lacking = origin.entries_of(key, after);
                let lacking = lacking.filter(|entry| {
                    let carries = peer.carries(stream, from, *other, entry.number);
                    leans |= !carries;
                    carries
                });
                entries.extend(lacking.take(*left - entries.len()).map(|entry| carried_entry(*other, entry)));
            }
            *left -= entries.len();
            if !entries.is_empty() {
                carried.push(Carried { key: key.clone(), entries });
            }
        }
        made.leans = peer.leans(stream).filter(|_| leans);
    }

    /// The same of a piece of a sweep, which goes with these parts.
    fn carry_with_sweep(
        &self,
        site: SiteId,
        sweep: &Sweep,
        parts: &[MadePart],
        (carried, mut left): (&mut Vec<Carried>, usize),
    ) {
        let peer = self.links.peers.get(&site).filter(|_| self.settings.rules.keep(Rule::IdsWithRows));
        let Some(peer) = peer else { return };
        // What follows all rows comes in the same message.
        let part = parts.iter().find(|made| made.part.origin() == sweep.origin);
        let to = part.map_or_else(|| peer.received(sweep.origin), |made| made.part.to());
        for row in &sweep.rows {
            let mut entries = Vec::new();
            for (other, origin) in self.links.origins.iter().filter(|(other, _)| **other != site) {
                let after = if *other == sweep.origin { to } else { peer.received(*other) };
                let lacking = origin.entries_of(&row.key, after).take(left - entries.len());
                entries.extend(lacking.map(|entry| carried_entry(*other, entry)));
            }
            left -= entries.len();
            if !entries.is_empty() {
                carried.push(Carried { key: row.key.clone(), entries });
            }
        }
    }

    /// How many entries of any site there are of a counter.
    pub(super) fn entries_of(&self, key: &[u8]) -> usize {
        self.links.origins.values().map(|origin| origin.count_of(key)).sum()
    }

    /// How many entries are carried with a counter's row in a part of a stream, if the peer has none of them.
    fn carried_at_most(&self, index: Index, stream: SiteId) -> usize {
        let entry = self.counters.get(index);
        let has_others =
            matches!(entry.counter, Some(Counter::Bounded(_))) || !self.links.membership.removed.is_empty();
        match self.links.origins.get(&stream) {
            Some(origin) if !has_others => origin.count_of(&entry.key),
            _ => self.entries_of(&entry.key),
        }
    }

    /// As [`Self::part`]. Peers mostly lack the same, so it is made once for all of them.
    fn shared_part(&mut self, site: SiteId, from: u64, swept: u64, room: &mut Room) -> MadePart {
        let made_for = MadeFor { site, from, swept, room: *room };
        if let Some(LastPart { made, room_left, .. }) =
            self.last_part.as_ref().filter(|last| last.made_for == made_for)
        {
            *room = *room_left;
            return made.clone();
        }
        let made = self.part(site, from, swept, room);
        self.last_part = Some(LastPart { made_for, made: made.clone(), room_left: *room });
        made
    }

    /// Looks at counters and their keys before they are needed one after the other. Most have left the processor's caches
    /// since they were counted on, and while nothing else is done with them several are fetched at a time.
    fn fetch(&self, changes: impl Iterator<Item = Changed>) {
        let first_byte = |changed: Changed| self.counters.get(changed.index).key.first().copied();
        std::hint::black_box(changes.filter_map(first_byte).fold(0, u8::wrapping_add));
    }

    /// What comes after a position in a stream, for whoever has all rows up to `swept` too.
    fn part(&self, site: SiteId, from: u64, swept: u64, room: &mut Room) -> MadePart {
        let own = self.settings.site;
        let origin = &self.links.origins[&site];
        let rows_after = from.max(swept);
        debug_assert!(from < origin.position);
        // If rows after the sweep are not remembered one by one any more, the part ends with it, and another begins.
        let ends_with_sweep = swept > from && swept < origin.since();
        let end = if ends_with_sweep { swept } else { origin.position };
        if ends_with_sweep {
            reached(Branch::PartEndsWithSweep);
        }
        let changes = origin.changes_after(rows_after);
        let expected = changes.len().min(ROWS_EXPECTED_MAX);
        self.fetch(origin.changes_after(rows_after).take(expected));
        let mut seen = HashSet::with_capacity_and_hasher(expected, FixedState::default());
        // Counters of which rows of several sites travel together.
        let mut several = HashSet::with_hasher(FixedState::default());
        let has_open = self.links.origins.values().any(|origin| !origin.open.is_empty());
        let mut ends = self.links.removed_ends();
        ends.remove(&site);
        let mut rows = Rows::with_capacity(expected);
        let mut changes = changes.take_while(|changed| changed.number <= end).peekable();
        let mut open = origin.open.range(from + 1..=end).peekable();
        let mut entries: Vec<&Entry> = Vec::new();
        let mut to = from;
        loop {
            let number = match (changes.peek(), open.peek()) {
                (Some(changed), Some((number, _))) => changed.number.min(**number),
                (Some(changed), None) => changed.number,
                (None, Some((number, _))) => **number,
                (None, None) => {
                    to = end;
                    break;
                }
            };
            // All of one number go together.
            if room.bytes == 0 && number > to {
                break;
            }
            if has_open && number > to {
                let here = origin.changes_after(number - 1).take_while(|changed| changed.number == number);
                let new =
                    here.filter(|changed| changed.number > rows_after && !seen.contains(&changed.index));
                let carried = new.map(|changed| self.carried_at_most(changed.index, site)).sum::<usize>();
                // More than can go with any message go alone.
                if carried > room.carried && (to > from || room.carried < CARRIED_MAX) {
                    break;
                }
                room.carried = room.carried.saturating_sub(carried);
            }
            while let Some(Changed { index, .. }) = changes.next_if(|changed| changed.number == number) {
                if !seen.insert(index) {
                    continue;
                }
                let entry = self.counters.get(index);
                let row = entry.counter.as_ref().and_then(|it| it.wire(own, entry.version(), site));
                if let Some(row) = row.map(|row| self.settings.rules.apart(row, site)) {
                    let others = entry.counter.as_ref().map(|it| it.rows_ahead(&ends)).unwrap_or_default();
                    let others_bytes: usize = others.iter().map(AheadRow::bytes).sum();
                    room.bytes = room.bytes.saturating_sub(16 + entry.key.len() + row.bytes() + others_bytes);
                    rows.push(&entry.key, &row, &others);
                    if matches!(row, WireRow::Bounded(_)) || !others.is_empty() {
                        several.insert(index);
                    }
                }
            }
            while let Some((_, entry)) = open.next_if(|(other, _)| **other == number) {
                room.bytes = room.bytes.saturating_sub(entry.bytes());
                entries.push(entry);
            }
            to = number;
        }
        if !self.settings.rules.keep(Rule::RowsBeforeEntries) {
            entries.extend(open.map(|(_, entry)| entry));
            to = entries.last().map_or(to, |entry| to.max(entry.number));
        }
        let rows_after = (swept > from).then_some(swept);
        let part = rows.finish(&PartAround { origin: site, from, to, entries: &entries, rows_after });
        // Rows are as they are now, which may be later than where the part ends.
        let is_capped = to < origin.position;
        let ahead = seen.into_iter().map(|index| Ahead { index, of_all: several.contains(&index) });
        let mut ahead: Vec<Ahead> = ahead.filter(|ahead| is_capped || ahead.of_all).collect();
        ahead.sort_unstable();
        MadePart { part, ahead, leans: None }
    }
}
