//! What comes by handoff: visits of edges and relays, and counting what they bring.

use std::collections::BTreeSet;

use quipu_crdt::{
    Overflow, Pn, Tally,
    bounded::Right,
    handoff::{Ledger, MergeError, Tiers, Token},
};

use super::{Shard, Ticket, passing::Luggage, room::usable, tally};
use crate::{
    Moment, Refusal, Reply, Rule,
    counter::{Counter, growth},
    counters::Index,
    coverage::{Branch, reached},
    handoff::{Answer, Deltas, Guest, HandoffStats, Key, Name, Opening, Reading, Readings, Visit},
};

/// How many slots are looked at, whether they are to be folded, each time.
const FOLD_LOOKS: usize = 4096;
/// Rights for what is parked are asked for, for so many milliseconds at a time.
const PARKED_WANT_MS: u64 = 1_000;

/// The rows of a shard, as the eight steps see them.
pub(super) struct Rows<'a> {
    shard: &'a mut Shard,
    now: Moment,
    /// A token was not taken.
    refused: bool,
    /// Whose tokens were.
    credited: Vec<Name>,
    /// The shard that something is handed over to, and how many there are.
    handing_to: Option<(u16, u16)>,
}

impl<'a> Rows<'a> {
    pub(super) fn taking(shard: &'a mut Shard, now: Moment) -> Self {
        Self { shard, now, refused: false, credited: Vec::new(), handing_to: None }
    }

    pub(super) fn handing_over(shard: &'a mut Shard, to: u16, shards: u16, now: Moment) -> Self {
        Self { shard, now, refused: false, credited: Vec::new(), handing_to: Some((to, shards)) }
    }

    /// Whose tokens were counted, also such as were kept here before. That their slots are closed is to be stored with what was
    /// counted.
    pub(super) fn credited(self) -> Vec<Name> {
        match self.shard.settings.rules.keep(Rule::CreditedIsNoted) {
            true => self.credited,
            false => Vec::new(),
        }
    }

    /// Counts these of a token's counters.
    pub(super) fn credit_some(
        &mut self,
        token: &Token<Name, Deltas>,
        deltas: &Deltas,
    ) -> Result<(), Overflow> {
        let rules = self.shard.settings.rules;
        // Should this be an old copy, its original may have counted the token, or count it yet.
        let is_heard = !self.shard.is_unheard() || !rules.keep(Rule::HeardTakesTokens);
        let credited = match is_heard && self.shard.has_room_to_note() || deltas.is_empty() {
            true => self.shard.credit(deltas, self.now),
            false => Err(Overflow),
        };
        match credited {
            Ok(()) => {
                self.shard.note_taken(token, deltas);
                self.credited.push(token.source);
            }
            Err(Overflow) => {
                reached(Branch::CreditRefused);
                self.refused = true;
            }
        }
        credited
    }
}

impl Ledger for Rows<'_> {
    type Id = Name;
    type Amount = Deltas;
    type Report = Readings;

    fn credit(&mut self, token: &Token<Name, Deltas>) -> Result<(), Overflow> {
        self.credit_some(token, &token.value)
    }

    fn withdraw(&mut self) -> Deltas {
        match self.handing_to {
            Some((shard, shards)) => self.shard.withdraw(shard, shards),
            None => Deltas::new(), // A site keeps what it has.
        }
    }

    fn merge_vectors(&mut self, _: Tiers, _: &Readings) {}

    fn aggregate(&mut self, tiers: Tiers, readings: &Readings) {
        if tiers.ours > tiers.theirs {
            self.shard.hear_readings(readings);
        }
    }
}

impl Shard {
    /// Takes in what an edge or a relay says. The answer comes out with the batch. A `leaf` is not trusted to speak for
    /// others.
    pub(crate) fn visit(&mut self, ticket: Ticket, shard: u16, visit: Visit, leaf: bool, now: Moment) {
        let reply = match self.answer_visit(shard, visit, leaf, now) {
            Ok(answer) => Reply::Visited(Box::new(answer)),
            Err(refusal) => Reply::refused(refusal),
        };
        self.outputs.replies.push((ticket, reply));
    }

    fn answer_visit(&mut self, shard: u16, visit: Visit, leaf: bool, now: Moment) -> Result<Answer, Refusal> {
        let Visit { mut view, opening, asks, notice, passed_on } = visit;
        if self.is_unheard() && self.settings.rules.keep(Rule::HeardOpensSlots) {
            // Should this be an old copy, its slots would have the clocks of others, which are closed by now.
            reached(Branch::SlotWaitsForPeer);
            view.want_no_slot();
        }
        if self.is_joining() {
            return Err(Refusal::Joining);
        }
        let (visitor, here) = (*view.id(), self.desk.name());
        if visitor.site().is_some() || view.tier() <= self.desk.tier() {
            return Err(Refusal::BadVisit("only those of a higher tier hand over".to_owned()));
        }
        if *view.to() != here {
            return Err(Refusal::OtherServer { asked: *view.to(), here });
        }
        if notice.as_ref().is_some_and(|notice| *notice.client() != visitor) {
            return Err(Refusal::BadVisit("last words of somebody else".to_owned()));
        }
        if !self.desk.handshake(shard).is_active() {
            return Err(Refusal::Leaving);
        }
        if self.desk.guest(shard, visitor).is_some_and(|guest| !opening.follows(guest.opening)) {
            return Err(Refusal::Copy { of: visitor });
        }
        let folded = self.folded_len(shard);
        let known_done = notice.as_ref().map(|notice| self.known_done(notice)).unwrap_or_default();
        let mut handshake = self.desk.take(shard);
        let mut rows = Rows::taking(self, now);
        let merged = handshake.merge(&mut rows, &view);
        let has_acted = match (&merged, &notice) {
            (Ok(()), Some(notice)) => handshake.keep_notice(&mut rows, notice),
            _ => false,
        };
        let (refused, credited) = (rows.refused, rows.credited());
        // An edge repeats its last words until they are confirmed: meanwhile others may have acted on them.
        known_done.iter().for_each(|done| handshake.notice_done(done));
        self.desk.put_back(shard, handshake);
        let since_s = now.unix_ms / 1000;
        // A relay's opening says nothing of those whose tokens it brings.
        let guest = Guest { since_s, opening: Opening::default() };
        self.desk.note(shard, credited, guest);
        match merged {
            Ok(()) => {}
            Err(MergeError::Twin(_)) => return Err(Refusal::Copy { of: visitor }),
            Err(MergeError::NotForUs) => return Err(Refusal::OtherServer { asked: *view.to(), here }),
        }
        let sources = view.tokens().iter().map(|token: &Token<Name, Deltas>| token.source);
        let others: Vec<Name> = sources.filter(|source| *source != visitor).collect();
        self.desk.note(shard, [visitor], Guest { since_s, opening });
        self.desk.note(shard, others, guest);
        if self.folded_len(shard) != folded {
            self.desk.note_archives(shard);
        }
        if let Some(passed_on) = passed_on.filter(|_| !leaf) {
            self.take_passed_on(shard, visitor, *passed_on, now);
        }
        self.decide_kept(shard, now);
        let readings = asks.into_iter().filter_map(|key| {
            let reading = self.reading(&key)?;
            Some((key, reading))
        });
        let readings = readings.collect();
        // What it has brought for others may have reached them another way.
        let closed = self.known_closed(view.tokens());
        let handshake = self.desk.handshake(shard);
        closed.iter().for_each(|name| _ = handshake.token_closed(name));
        let mut view = self.settings.rules.answer(handshake.reply_to(&view, readings, false));
        view.say_closed(closed);
        view.retain_closed(|name| self.may_say_closed(name));
        let mut luggage = Luggage::new();
        // An edge sees at which servers its tokens are; it has few.
        view.retain_copies(|token| leaf && token.source == visitor || luggage.admits(token));
        let keeps_notice = has_acted && notice.is_some_and(|notice| self.words_outlive_this_site(&notice));
        let passed_on = if leaf { None } else { self.answer_to_relay(visitor) };
        Ok(Answer { view, keeps_notice, refused, passed_on })
    }

    /// What is known of a counter. A relay that no site has told anything about it does not know.
    fn reading(&mut self, key: &Key) -> Option<Reading> {
        if self.settings.transient.is_some() {
            return self.transient_reading(key);
        }
        let Some(index) = self.find(key.bytes()) else { return Some(Reading::default()) };
        let site = self.settings.site;
        let counter = self.counters.get(index).counter.as_ref();
        Some(counter.map(|counter| counter.reading(site)).unwrap_or_default())
    }

    /// Counts what a token brings, all of it or nothing.
    fn credit(&mut self, deltas: &Deltas, now: Moment) -> Result<(), Overflow> {
        if !self.has_room_for(deltas) {
            return Err(Overflow);
        }
        let (site, alone) = (self.settings.site, self.links.is_alone());
        let mut after = Vec::with_capacity(deltas.len());
        for (version, (key, delta)) in (self.summary.changes + 1..).zip(deltas) {
            let found = self.find(key.bytes());
            if !self.links.membership.removed.is_empty()
                && let Some(index) = found
            {
                self.advance_creation(index); // Whoever has not agreed may have been removed.
            }
            let counter = found.and_then(|index| self.counters.get(index).counter.as_ref());
            if counter.and_then(|counter| self.reserved(counter)).is_some() {
                self.hasten_everywhere(key.bytes(), now.elapsed_ms);
                return Err(Overflow); // Not while it may become a bounded counter.
            }
            let mut counter = counter.cloned().unwrap_or(Counter::Plain(Pn::default()));
            counter.credit(site, version, delta, alone, self.settings.rules)?;
            after.push((key, counter));
        }
        let mut bounded = Vec::new();
        for (key, counter) in after {
            let index = self.counters.find(key.bytes()).unwrap_or_else(|| self.counters.insert(key.bytes()));
            let existed = self.counters.get(index).exists();
            let before = self.total_at(index);
            let is_bounded = matches!(counter, Counter::Bounded(_));
            self.counters.change(index, |entry| entry.counter = Some(counter));
            let grown = growth(before, self.total_at(index));
            tally(&mut self.books().issued, grown);
            self.touch(index, existed);
            self.note_credit(index);
            bounded.extend(is_bounded.then_some(index));
        }
        // Only now: each of these is a change with a number of its own, and those above were told theirs.
        bounded.into_iter().for_each(|index| self.count_parked(index, now));
        Ok(())
    }

    fn total_at(&self, index: Index) -> Pn {
        let site = self.settings.site;
        self.counters.get(index).counter.as_ref().map(|it| it.total(site, site)).unwrap_or_default()
    }

    /// Remembers whether something is parked under a counter.
    pub(super) fn note_parked(&mut self, index: Index) {
        let entry = self.counters.get(index);
        if let Some(Counter::Bounded(bounded)) = &entry.counter {
            self.desk.note_parked(&entry.key, !bounded.parked_in_all().is_zero());
        }
    }

    /// Counts what is parked, as far as there are rights for it by now.
    pub(super) fn count_all_parked(&mut self, now: Moment) {
        let keys: Vec<Box<[u8]>> = self.desk.parked().map(Into::into).collect();
        for index in keys.iter().filter_map(|key| self.counters.find(key)).collect::<Vec<_>>() {
            if !self.links.membership.removed.is_empty() {
                self.inherit(index);
            }
            self.count_parked(index, now);
        }
    }

    /// Counts of what is parked under a bounded counter as much as there are rights for, and asks for more.
    fn count_parked(&mut self, index: Index, now: Moment) {
        self.count_parked_here(index);
        let Some(Counter::Bounded(bounded)) = &self.counters.get(index).counter else { return };
        let lacking = bounded.parked();
        let key = self.counters.get(index).key.clone();
        let until_ms = now.elapsed_ms + PARKED_WANT_MS;
        for (right, amount) in [(Right::ToAdd, lacking.added), (Right::ToSubtract, lacking.subtracted)] {
            if amount > 0 {
                reached(Branch::ParkedWaits);
                self.want(&key, right, amount, until_ms);
            }
        }
    }

    /// The same with the rights that are here.
    pub(super) fn count_parked_here(&mut self, index: Index) {
        while self.count_some_parked(index) {} // What is added makes rights to subtract, and the other way round.
        self.note_parked(index);
    }

    /// Returns whether it was some.
    fn count_some_parked(&mut self, index: Index) -> bool {
        let entry = self.counters.get(index);
        let Some(Counter::Bounded(bounded)) = &entry.counter else { return false };
        let parked = bounded.parked();
        let (site, provisional) = (self.settings.site, self.waiting_rights(&entry.key));
        let room = |right, amount: u64| match usable(bounded, right, site, provisional) {
            Some(rights) => u64::try_from(rights).unwrap_or(u64::MAX).min(amount),
            None => amount,
        };
        let counts = Pn {
            added: room(Right::ToAdd, parked.added),
            subtracted: room(Right::ToSubtract, parked.subtracted),
        };
        let counted = !counts.is_zero()
            && self.counters.change(index, |entry| match &mut entry.counter {
                Some(Counter::Bounded(bounded)) => bounded.count_parked(&counts).is_ok(),
                _ => false,
            });
        if counted {
            reached(Branch::ParkedCounted);
            tally(&mut self.books().issued, counts);
            self.touch(index, true);
        }
        counted
    }

    /// The counters of tokens in last words kept here that are for desks here: something of them could not be counted.
    pub(crate) fn keys_of_refused(&self) -> Vec<Box<[u8]>> {
        let mut keys = Vec::new();
        for (_, handshake) in self.desk.handshakes() {
            let is_here = |server: &Name| {
                *server == self.desk.name() || handshake.inherited().any(|(name, _)| name == server)
            };
            // Also of those that are done here: a slot for one of their tokens may be open again.
            let tokens = handshake.notices().flat_map(|(notice, _)| notice.tokens());
            let here = tokens.filter(|token| is_here(&token.target));
            keys.extend(here.flat_map(|token| token.value.keys()).map(|key| Box::from(key.bytes())));
        }
        keys
    }

    /// Tries again what could not be counted of last words. Their edges are gone: nobody else would.
    pub(crate) fn try_last_words(&mut self, shard: u16, now: Moment) {
        let folded = self.folded_len(shard);
        let mut handshake = self.desk.take(shard);
        reached(Branch::LastWordsAgain);
        let clients = handshake.notices().map(|(notice, _)| *notice.client());
        let kept: BTreeSet<Name> = clients.chain(handshake.cached().map(|token| token.source)).collect();
        let before: Vec<_> = kept.into_iter().map(|name| (name, handshake.kept(&name))).collect();
        let mut rows = Rows::taking(self, now);
        handshake.deliver_cached(&mut rows);
        handshake.act_on_kept_notices(&mut rows);
        let changed = before.into_iter().filter(|(name, kept)| handshake.kept(name) != *kept);
        let changed: Vec<Name> = changed.map(|(name, _)| name).collect();
        self.desk.put_back(shard, handshake);
        if !changed.is_empty() {
            self.desk.note(shard, changed, Guest::default());
        }
        if self.folded_len(shard) != folded {
            self.desk.note_archives(shard);
        }
    }

    /// Numbers about handoffs.
    pub(crate) fn handoff_stats(&self) -> HandoffStats {
        self.desk.stats()
    }

    /// For whom tokens and last words of others are kept here.
    pub(crate) fn kept_for(&self) -> impl Iterator<Item = (u16, Name)> {
        self.desk.kept_for()
    }

    #[cfg(feature = "testing")]
    pub(crate) fn handshake(&self, shard: u16) -> Option<&quipu_crdt::handoff::Handshake<Name, Deltas>> {
        self.desk.handshakes().find(|(of, _)| *of == shard).map(|(_, handshake)| handshake)
    }

    /// Keeps of slots that were opened long ago only a bit, and counts what waits for rights. Returns whether anything has
    /// changed.
    pub(crate) fn tend(&mut self, now: Moment) -> bool {
        let ttl_s = self.settings.edge_ttl_s;
        self.desk.fold((now.unix_ms / 1000).saturating_sub(ttl_s), FOLD_LOOKS);
        self.count_all_parked(now);
        self.let_gone_servers_be();
        self.look_at_table();
        self.desk.is_changed() || self.closed.is_due() || !self.touched.is_empty() || self.has_moved()
    }
}
