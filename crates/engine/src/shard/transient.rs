//! A shard of a replica that hands over what it counts: a relay, or an edge, which is one shard.
//!
//! Its counters are what it has counted and not handed over; a token takes them out. Of the values of counters it knows
//! what servers have told, for those that somebody asks for.

use std::collections::{BTreeMap, BTreeSet};

use quipu_crdt::{
    Merge, Pn, Tally,
    handoff::{Addressee, RetireError},
};

use super::{Shard, saturated};
use crate::{
    Action, Add, Added, Command, EXCHANGE_BYTES_MAX, Moment, Recent, Refusal, Reply, Rule, SLOTS,
    counter::Counter,
    counters::Index,
    handoff::{
        Answer, BadAnswer, Deltas, Guest, Key, Name, Open, Opening, RELAY_TIER, Reading, Readings, Server,
        Token, Transient, Visit,
    },
    slot_of,
};

/// A visit to all shards aims at this size, in bytes; what is left comes with the next one.
const VISITS_BYTES_MAX: usize = 4 * EXCHANGE_BYTES_MAX;
/// Servers are asked for the values of so many counters of a shard: those that were read last, and all that are watched.
const SEEN_MAX: usize = 16 * 1024;
/// What a counter costs in a token besides its key, in bytes, at most.
const DELTA_BYTES: usize = 24;
/// What a value costs in an answer besides its key, in bytes, at most.
const READING_BYTES: usize = 48;

/// What a transient replica has besides its counters.
#[derive(Debug)]
pub(super) struct Pending {
    /// Counters that have not been handed over, by their hash slots.
    by_slot: BTreeSet<(u16, Index)>,
    /// Counters whose values somebody wants to know. Those that are watched are held.
    seen: Recent<Key, Seen>,
    /// What was safe to report of those that the batch has changed, before it.
    before: BTreeMap<Key, Pn>,
    /// Shards that have heard the last words.
    said: BTreeSet<u16>,
    /// Where the next round of visits goes on.
    next_shard: u16,
    /// And where asking for values does, by shard: each has keys of its own.
    next_ask: BTreeMap<u16, usize>,
}

impl Default for Pending {
    fn default() -> Self {
        Self {
            by_slot: BTreeSet::new(),
            seen: Recent::new(SEEN_MAX),
            before: BTreeMap::new(),
            said: BTreeSet::new(),
            next_shard: 0,
            next_ask: BTreeMap::new(),
        }
    }
}

impl Pending {
    /// The counter as it is seen, to be changed by the batch that is being made.
    fn seen(&mut self, key: &[u8]) -> Option<&mut Seen> {
        let val = self.seen.get(key)?.val;
        if !self.before.contains_key(key) {
            self.before.insert(Key::new(key)?, val);
        }
        self.seen.get_mut(key)
    }

    /// The batch is stored.
    pub(super) fn committed(&mut self) {
        self.before.clear();
    }
}

/// What is known of the value of a counter.
#[derive(Debug, Clone, Copy, Default)]
struct Seen {
    /// A server has told.
    is_heard: bool,
    /// A lower bound of what lower tiers have counted.
    below: Pn,
    /// What is safe to report.
    val: Pn,
    set_aside: Pn,
}

/// As many of the keys as should be asked for at once, and where to go on the next time.
fn in_turn(keys: &[&Key], from: usize) -> (Vec<Key>, usize) {
    let start = if from < keys.len() { from } else { 0 };
    let (mut asks, mut bytes) = (Vec::new(), 0);
    for key in keys[start..].iter().chain(&keys[..start]) {
        bytes += key.bytes().len() + READING_BYTES;
        if bytes > EXCHANGE_BYTES_MAX && !asks.is_empty() {
            break;
        }
        asks.push((*key).clone());
    }
    let next = (start + asks.len()) % keys.len().max(1);
    (asks, next)
}

/// The hash slots of a shard.
fn slots_of(shard: u16, shards: u16) -> std::ops::RangeInclusive<(u16, Index)> {
    let each = SLOTS / shards;
    (shard * each, 0)..=(shard * each + (each - 1), Index::MAX)
}

impl Shard {
    fn transient(&self) -> Option<Transient> {
        self.settings.transient
    }

    pub(super) fn is_relay(&self) -> bool {
        self.settings.transient.is_some_and(|transient| transient.tier == RELAY_TIER)
    }

    /// May so much wait here besides what does? At a site nothing waits.
    pub(super) fn has_room_for(&self, deltas: &Deltas) -> bool {
        let Some(Transient { pending_max, .. }) = self.transient() else { return true };
        self.pending.by_slot.len() + deltas.len() <= pending_max
    }

    /// Is something here that no token carries?
    pub(super) fn has_own(&self) -> bool {
        !self.pending.by_slot.is_empty()
    }

    /// Is something here that this server can be handed, or that it has not confirmed?
    pub(crate) fn has_pending(&self, server: Option<Name>) -> bool {
        let mut tokens = self.desk.handshakes().flat_map(|(_, handshake)| handshake.tokens());
        self.has_own() || tokens.any(|token| Some(token.target) == server)
    }

    /// All counters of a transient replica are in memory; those that are not handed over are listed.
    pub(crate) fn all_in_memory(&mut self) {
        self.complete = true;
        let indexes: Vec<Index> = self.counters.indexes().collect();
        for index in indexes {
            self.note_pending(index);
        }
    }

    pub(super) fn note_pending(&mut self, index: Index) {
        if self.transient().is_none() {
            return;
        }
        let entry = self.counters.get(index);
        let at = (slot_of(&entry.key), index);
        if entry.counter.is_some() {
            self.pending.by_slot.insert(at)
        } else {
            self.pending.by_slot.remove(&at)
        };
    }

    /// Does what a command says, at a transient replica.
    pub(super) fn run_transient(&mut self, command: Command<'_>, now: Moment) -> Result<Reply, Refusal> {
        let Command { key, action } = command;
        match action {
            Action::Add { add, operation: None } if add == Add::of(add.amount) => {
                self.add_transient(key, add, now).map(Reply::Added)
            }
            // Who reads at a relay may read again: its parents are asked from now on.
            Action::Get if self.is_relay() => Ok(Reply::Value(self.ask(key))),
            Action::Get => Ok(Reply::Value(self.transient_value(key))),
            _ => Err(Refusal::OnlyAtSites),
        }
    }

    fn add_transient(&mut self, key: &[u8], add: Add, now: Moment) -> Result<Added, Refusal> {
        let max = self.transient().map_or(0, |transient| transient.pending_max);
        let is_new = self.counters.find(key).is_none_or(|index| self.counters.get(index).counter.is_none());
        if is_new && self.pending.by_slot.len() >= max {
            return Err(Refusal::TooManyPending { max });
        }
        if self.is_leaving() {
            return Err(Refusal::Leaving);
        }
        let added = self.add(key, add, now)?;
        let Some(added) = added else { return Err(Refusal::OnlyAtSites) };
        if let Some(seen) = self.pending.seen(key) {
            seen.val.saturating_add(&super::pn(added.applied));
        }
        let value = self.transient_value(key).unwrap_or(0);
        Ok(Added { value, ..added })
    }

    fn is_leaving(&self) -> bool {
        self.desk.handshakes().any(|(_, handshake)| !handshake.is_active())
    }

    /// What is safe to say: what was heard, and what was counted here.
    pub(super) fn transient_value(&self, key: &[u8]) -> Option<i64> {
        if let Some(seen) = self.pending.seen.get(key) {
            let Seen { val, set_aside, is_heard, .. } = seen;
            let is_known = *is_heard || !val.is_zero();
            return is_known.then(|| saturated(val.value() - set_aside.value()));
        }
        let here = self.counted_or_in_flight(key);
        (!here.is_zero()).then(|| saturated(here.value()))
    }

    /// What was counted here and is not known to have arrived.
    fn counted_or_in_flight(&self, key: &[u8]) -> Pn {
        let mut sum = self.own_pending(key);
        for (_, handshake) in self.desk.handshakes() {
            let deltas = handshake.tokens().iter().filter_map(|token| token.value.get(key));
            deltas.for_each(|delta| sum.saturating_add(delta));
        }
        sum
    }

    fn own_pending(&self, key: &[u8]) -> Pn {
        match self.counter(key) {
            Some(Counter::Plain(counted)) => *counted,
            _ => Pn::default(),
        }
    }

    /// From now on servers are asked for the value of this counter. Returns what is known; `None`: nothing.
    pub fn ask(&mut self, key: &[u8]) -> Option<i64> {
        if self.pending.seen.touch(key).is_none() {
            let name = Key::new(key)?;
            let val = self.counted_or_in_flight(key);
            self.pending.seen.use_or_insert(name, || Seen { val, ..Seen::default() });
        }
        self.transient_value(key)
    }

    /// The same of a counter that is watched: it is not forgotten for others that are read.
    pub(super) fn ask_always(&mut self, key: &[u8]) -> Option<i64> {
        let value = self.ask(key);
        self.pending.seen.hold(key);
        value
    }

    /// It is not watched any more.
    pub(super) fn ask_for_a_while(&mut self, key: &[u8]) {
        self.pending.seen.let_go(key);
    }

    /// No more.
    pub fn ask_no_more(&mut self, key: &[u8]) {
        self.pending.seen.remove(key);
    }

    /// Has a server told the value of this counter?
    pub fn is_heard(&self, key: &[u8]) -> bool {
        self.pending.seen.get(key).is_some_and(|seen| seen.is_heard)
    }

    /// After a batch that was not stored: what servers have told is true whatever became of it, and what was reported
    /// before it stays so.
    pub(super) fn carry_on_seen(&mut self, before: &mut Self) {
        let mut seen = before.pending.seen.take();
        for (key, val) in std::mem::take(&mut before.pending.before) {
            if let Some(seen) = seen.get_mut(&key) {
                seen.val = val;
            }
        }
        for (key, seen) in seen.iter_mut() {
            let mut known = seen.below;
            known.saturating_add(&self.own_pending(key.bytes()));
            seen.val.merge(&known);
        }
        self.pending.seen = seen;
    }

    /// A relay was handed counts.
    pub(super) fn note_credit(&mut self, index: Index) {
        self.note_pending(index);
        let key = self.counters.get(index).key.clone();
        let own = self.own_pending(&key);
        if let Some(seen) = self.pending.seen(&key) {
            let mut known = seen.below;
            known.saturating_add(&own);
            seen.val.merge(&known);
        }
    }

    /// What a relay tells an edge.
    pub(super) fn transient_reading(&mut self, key: &Key) -> Option<Reading> {
        self.ask(key.bytes());
        let seen = self.pending.seen.get(key.bytes()).filter(|seen| seen.is_heard)?;
        Some(Reading { counted: seen.val, set_aside: seen.set_aside })
    }

    /// Step 5 of a merge with a server's view.
    pub(super) fn hear_readings(&mut self, readings: &Readings) {
        for (key, reading) in readings {
            let own = self.own_pending(key.bytes());
            let Some(seen) = self.pending.seen(key.bytes()) else { continue };
            seen.is_heard = true;
            seen.below.merge(&reading.counted);
            seen.set_aside.merge(&reading.set_aside);
            let mut known = seen.below;
            known.saturating_add(&own);
            seen.val.merge(&known);
            self.events_of(key.bytes());
        }
    }

    fn events_of(&mut self, key: &[u8]) {
        if self.watched.contains(key) {
            let value = self.transient_value(key);
            self.outputs.events.push(super::Event { key: key.into(), value });
        }
    }

    /// Takes out what was counted under the keys of a shard, as much as a token should carry.
    pub(super) fn withdraw(&mut self, shard: u16, shards: u16) -> Deltas {
        let mut deltas = Deltas::new();
        let mut bytes = 0;
        let indexes: Vec<Index> =
            self.pending.by_slot.range(slots_of(shard, shards)).map(|(_, index)| *index).collect();
        for index in indexes {
            let entry = self.counters.get(index);
            let (Some(key), Some(Counter::Plain(counted))) = (Key::new(&entry.key), &entry.counter) else {
                continue;
            };
            bytes += key.bytes().len() + DELTA_BYTES;
            if bytes > EXCHANGE_BYTES_MAX && !deltas.is_empty() {
                break;
            }
            if !counted.is_zero() {
                deltas.insert(key, *counted);
            }
            self.counters.change(index, |entry| entry.counter = None);
            self.touch(index, true);
            self.note_pending(index);
        }
        deltas
    }

    /// What to say to a server now, shard by shard. Make it durable before it is sent. A `chosen` server is handed what was
    /// counted; to others is said what they must know to close their slots.
    pub fn visits(&mut self, server: Server, chosen: bool) -> Vec<(u16, Visit)> {
        let Some(Transient { opening, .. }) = self.transient() else { return Vec::new() };
        let due = self.shards_to_visit(server, chosen);
        // What did not fit the last time comes first.
        let next = self.pending.next_shard;
        let (later, sooner): (Vec<u16>, Vec<u16>) = due.into_iter().partition(|shard| *shard < next);
        let (mut visits, mut bytes) = (Vec::new(), 0);
        self.pending.next_shard = 0;
        for shard in sooner.into_iter().chain(later) {
            if bytes > VISITS_BYTES_MAX {
                self.pending.next_shard = shard;
                break;
            }
            let visit = self.visit_to(shard, server, chosen, opening);
            let tokens = visit.view.tokens().iter().flat_map(|token| token.value.keys());
            let keys = visit.keys().chain(tokens.map(Key::bytes));
            bytes += 64 + keys.map(|key| key.len() + DELTA_BYTES).sum::<usize>();
            visits.push((shard, visit));
        }
        visits
    }

    pub(super) fn shards_to_visit(&self, server: Server, chosen: bool) -> BTreeSet<u16> {
        let each = SLOTS / server.shards.max(1);
        let mut due = BTreeSet::new();
        for (shard, handshake) in self.desk.handshakes() {
            let has_slot = self.desk.has_slot_at(shard, server.name);
            let mut targets = handshake.tokens().iter().map(|token| token.target);
            let has_token = if chosen { targets.len() > 0 } else { targets.any(|name| name == server.name) };
            let has_words = chosen && handshake.last_words().is_some();
            // What is for a relay only that one can confirm: if its disk is lost, nobody else knows.
            let waits_for_relay = chosen && handshake.tokens().iter().any(|it| it.target.site().is_none());
            if waits_for_relay || (has_slot || has_token || has_words) && !self.pending.said.contains(&shard)
            {
                due.insert(shard);
            }
        }
        if chosen {
            due.extend(self.pending.by_slot.iter().map(|(slot, _)| slot / each));
            due.extend(self.pending.seen.keys().map(|key| slot_of(key.bytes()) / each));
        }
        due
    }

    pub(super) fn visit_to(&mut self, shard: u16, server: Server, chosen: bool, opening: Opening) -> Visit {
        let Server { name, tier, shards } = server;
        let wants_slot = chosen && self.pending.by_slot.range(slots_of(shard, shards)).next().is_some();
        self.desk.visit_server(shard, name, wants_slot);
        let each = SLOTS / shards.max(1);
        let is_here = |key: &&Key| slot_of(key.bytes()) / each == shard;
        let asked: Vec<&Key> =
            if chosen { self.pending.seen.keys().filter(is_here).collect() } else { Vec::new() };
        let from = self.pending.next_ask.get(&shard).copied().unwrap_or(0);
        let (mut asks, mut next_ask) = in_turn(&asked, from);
        if asks.len() < asked.len() {
            // What no server has told of yet does not wait for its turn.
            let is_new = |key: &&Key| self.pending.seen.get(key.bytes()).is_some_and(|seen| !seen.is_heard);
            let new: Vec<&Key> = asked.into_iter().filter(is_new).collect();
            if !new.is_empty() {
                (asks, next_ask) = (in_turn(&new, 0).0, from);
            }
        }
        if chosen {
            self.pending.next_ask.insert(shard, next_ask);
        }
        let handshake = self.desk.handshake(shard);
        let view =
            handshake.view(&Addressee { id: &name, tier, stands_for: &[] }, Readings::new(), wants_slot);
        let is_said = self.pending.said.contains(&shard);
        let notice = handshake.last_words().filter(|_| chosen && !is_said).cloned();
        Visit { view, opening, asks, notice, passed_on: None }
    }

    /// Takes in a server's answer.
    pub fn answered(
        &mut self,
        shard: u16,
        server: Server,
        answer: &Answer,
        now: Moment,
    ) -> Result<(), BadAnswer> {
        if *answer.view.id() != server.name || answer.view.tier() != server.tier {
            return Err(BadAnswer::OtherServer);
        }
        let folded = self.folded_len(shard);
        let mut handshake = self.desk.take(shard);
        let mut rows = super::handoff::Rows::handing_over(self, shard, server.shards, now);
        let merged = handshake.merge(&mut rows, &answer.view);
        let credited = rows.credited();
        let has_token = handshake.tokens().iter().any(|token| token.target == server.name);
        let is_done = answer.keeps_notice && handshake.last_words().is_some();
        if !self.settings.rules.keep(Rule::CopiesUntilClosed) {
            let copies: Vec<_> = handshake.cached().filter(|copy| copy.target == server.name).collect();
            let names: Vec<_> = copies.into_iter().map(Token::name).collect();
            names.iter().for_each(|name| _ = handshake.token_closed(name));
        }
        self.desk.put_back(shard, handshake);
        self.desk.note(shard, credited, Guest::default());
        merged?;
        if self.folded_len(shard) != folded {
            self.desk.note_archives(shard);
        }
        if is_done {
            self.pending.said.insert(shard);
        }
        let own_name = self.desk.name();
        let keeps_slot = answer.view.has_slot_for(&own_name) || has_token;
        self.desk.hear_of_slot(shard, server.name, keeps_slot);
        self.desk.note_own(shard);
        if self.is_relay() {
            self.hear_parent(shard, server.name, answer, now);
        }
        Ok(())
    }

    /// What tokens carry of which it is not known that they were taken.
    pub(crate) fn in_flight(&self) -> impl Iterator<Item = &Token> {
        self.desk.handshakes().flat_map(|(_, handshake)| handshake.tokens())
    }

    /// What has not been handed over.
    pub fn open(&self) -> Open {
        let mut open = Open { pending: self.pending.by_slot.len(), ..Open::default() };
        for (shard, handshake) in self.desk.handshakes() {
            for token in handshake.tokens() {
                *open.tokens.entry(token.target).or_default() += token.value.len();
            }
            open.servers.extend(self.desk.servers(shard));
            let says = handshake.last_words().is_some() && !self.pending.said.contains(&shard);
            open.last_words += usize::from(says);
        }
        open
    }

    /// Ends counting here. What servers must know to forget this replica goes out with the next visits.
    pub fn retire_edge(&mut self) -> Result<(), RetireError> {
        if !self.pending.by_slot.is_empty() {
            return Err(RetireError::NotHandedOver);
        }
        let shards: Vec<u16> = self.desk.handshakes().map(|(shard, _)| shard).collect();
        for shard in shards {
            let servers: Vec<Name> = self.desk.servers(shard).collect();
            let handshake = self.desk.handshake(shard);
            let notice = handshake.retire(true, servers)?;
            if notice.servers().is_empty() {
                self.pending.said.insert(shard);
            }
            self.desk.note_own(shard);
        }
        Ok(())
    }
}
