//! Tokens for desks of sites that are gone: exactly one site decides, from what all have, whether each was counted.
//!
//! A site notes every token that it takes ([`Shard::note_taken`]). When it is removed, its heir knows which of its slots
//! are closed, and counts a token for any other one: a desk opens a slot for one token only, so each is counted once.

use std::collections::BTreeSet;

use super::{Shard, handoff::Rows};
use crate::{
    Moment, OperationId, Rule, SiteId,
    coverage::{Branch, reached},
    entry::{Taken, What},
    handoff::{Clocks, Deltas, DeskTable, Guest, Key, Name, Notice, NoticeDone, Token, TokenName},
    links::{Peer, SharedPart},
    operations::OperationHash,
};

impl Taken {
    fn hash(desk: Name, clock: u64) -> OperationHash {
        // No counter has an empty name, so no operation of a client has this one.
        OperationHash::of(b"", OperationId { producer: &desk.bytes(), id: &clock.to_be_bytes() })
    }
}

impl Shard {
    /// Is there room to note that a token was taken? Notes wait for absent peers, as operations do.
    pub(super) fn has_room_to_note(&self) -> bool {
        self.links.is_alone() || self.links.own().open.len() < self.settings.unsettled_max
    }

    /// A token was counted: other sites are to know, should this one be lost.
    pub(super) fn note_taken(&mut self, token: &Token, counted: &Deltas) {
        if self.settings.transient.is_some() || self.links.is_alone() {
            return;
        }
        if !self.settings.rules.keep(Rule::TakenIsTold) {
            return;
        }
        let (own, desk, clock) = (self.settings.site, token.target, token.slot.target_clock);
        let hash = Taken::hash(desk, clock);
        let counters = token.value.len() as u64;
        for key in counted.keys() {
            let end = self.counter(key.bytes()).map(|it| it.handed(own, own)).unwrap_or_default();
            self.log(hash, key.bytes(), What::Taken(Taken { desk, clock, counters, end }));
        }
    }

    /// That a token was taken is settled.
    pub(super) fn close_slot(&mut self, Taken { desk, clock, .. }: Taken) {
        if !self.has_desk(&desk) {
            self.closed.close(desk, clock);
        }
    }

    /// Are all counters of a token noted, by whichever sites? If not, the rest of it is yet to be counted, and that is
    /// to be remembered.
    pub(super) fn is_wholly_taken(&self, hash: OperationHash, taken: &Taken) -> bool {
        self.closed.is_closed(&taken.desk, taken.clock) || {
            let keys = self.taken_keys(hash);
            keys.len() as u64 >= taken.counters
        }
    }

    fn taken_keys(&self, hash: OperationHash) -> BTreeSet<&[u8]> {
        let entries = self.links.entries(hash).map(|(_, entry)| entry);
        entries.filter(|entry| matches!(entry.what, What::Taken(_))).map(|entry| &*entry.key).collect()
    }

    /// Is this the own desk, or one of a retired relay that has left it to this site?
    fn has_desk(&self, name: &Name) -> bool {
        let mut inherited = self.desk.handshakes().flat_map(|(_, handshake)| handshake.inherited());
        *name == self.desk.name() || inherited.any(|(desk, _)| desk == name)
    }

    /// The site of a desk that has never told anything: nobody knows of a slot that is closed there.
    fn unheard_site(&self, desk: &Name) -> Option<SiteId> {
        desk.site().filter(|site| self.links.origins.get(site).is_some_and(|origin| origin.position == 0))
    }

    /// Does this site decide about tokens for a desk? It does if it is the heir of the site that answered for the desk,
    /// and has all that anybody knows of that one.
    pub(super) fn decides_for(&self, desk: &Name) -> bool {
        let Some(site) = self.closed.site_of(desk).or_else(|| self.unheard_site(desk)) else { return false };
        let own = self.settings.site;
        let has_all = || {
            !self.settings.rules.keep(Rule::HeirKnowsAll)
                || (self.links.answers_for(site) && self.links.all_removed_are_closed())
        };
        site != own
            && self.settings.transient.is_none()
            && self.links.membership.holder(site) == own
            && !self.is_joining()
            && !self.has_desk(desk)
            && has_all()
    }

    /// The site that tokens and last words for this desk are to be passed on to.
    pub(super) fn site_for(&self, desk: Name) -> Option<SiteId> {
        Some(self.links.membership.holder(desk.site()?))
    }

    /// The counters of what is kept here and this site has to decide about: they must be in memory before. `None`: there is
    /// nothing.
    pub(crate) fn keys_to_decide(&self) -> Option<Vec<Box<[u8]>>> {
        let (tokens, notices) = self.kept_to_decide();
        if tokens.is_empty() && notices.is_empty() {
            return None;
        }
        let last = notices.iter().flat_map(|(notice, _)| notice.tokens());
        let keys = tokens.iter().chain(last).flat_map(|token| token.value.keys());
        Some(keys.map(|key| key.bytes().into()).collect())
    }

    fn kept_to_decide(&self) -> (Vec<Token>, Vec<(Notice, Vec<Name>)>) {
        if self.links.membership.removed.is_empty() || !self.desk.keeps_for_others() {
            return Default::default();
        }
        let (mut tokens, mut notices) = (Vec::new(), Vec::new());
        for (_, handshake) in self.desk.handshakes() {
            tokens.extend(handshake.cached().filter(|token| self.decides_for(&token.target)).cloned());
            for (notice, pending) in handshake.notices() {
                let servers: Vec<Name> =
                    pending.iter().filter(|server| self.decides_for(server)).copied().collect();
                if !servers.is_empty() {
                    notices.push((notice.clone(), servers));
                }
            }
        }
        (tokens, notices)
    }

    /// Decides about tokens that are kept here for desks of sites that are gone. Their counters are in memory.
    pub(crate) fn decide_kept(&mut self, shard: u16, now: Moment) {
        let (tokens, notices) = self.kept_to_decide();
        let (mut closed, mut done) = (Vec::new(), Vec::new());
        for token in &tokens {
            if self.decide(token, now) {
                closed.push(token.name());
            }
        }
        for (notice, servers) in &notices {
            for server in servers {
                let mut for_it = notice.tokens().iter().filter(|token| token.target == *server);
                if for_it.all(|token| self.decide(token, now)) {
                    done.push(NoticeDone { client: *notice.client(), server: *server });
                }
            }
        }
        self.are_decided(shard, &closed, &done);
    }

    fn are_decided(&mut self, shard: u16, closed: &[TokenName], done: &[NoticeDone]) {
        if closed.is_empty() && done.is_empty() {
            return;
        }
        let names = closed.iter().map(|name| name.source).chain(done.iter().map(|done| done.client));
        let names: BTreeSet<Name> = names.collect();
        let handshake = self.desk.handshake(shard);
        closed.iter().for_each(|name| _ = handshake.token_closed(name));
        done.iter().for_each(|done| handshake.notice_done(done));
        self.desk.note(shard, names, Guest::default());
        self.is_heard_of(self.desk.name(), closed, done);
    }

    /// Counts of a token what was not counted, if anything. Returns whether its slot is closed then.
    fn decide(&mut self, token: &Token, now: Moment) -> bool {
        let (desk, clock) = (token.target, token.slot.target_clock);
        if self.closed.is_closed(&desk, clock) {
            reached(Branch::DecidedClosed);
            return true;
        }
        if !self.tells_of(&desk) {
            return false;
        }
        let is_closed = |shard: &Self| shard.may_say_closed(&token.name());
        let known = self.taken_keys(Taken::hash(desk, clock));
        let rest = token.value.iter().filter(|(key, _)| !known.contains(key.bytes()));
        let rest: Deltas = rest.map(|(key, delta): (&Key, _)| (key.clone(), *delta)).collect();
        if rest.is_empty() {
            reached(Branch::DecidedTaken);
            return is_closed(self);
        }
        reached(if known.is_empty() { Branch::DecidedOpen } else { Branch::DecidedInPart });
        Rows::taking(self, now).credit_some(token, &rest).is_ok() && is_closed(self)
    }

    /// Has this site told others that it answers for a desk? If not, it does so with this batch. What it decides about the
    /// desk after that is told to a site that comes later, or again from a copy, by its table alone, once it is settled.
    fn tells_of(&mut self, desk: &Name) -> bool {
        let is_told = self.closed.own_desks().any(|own| own == *desk);
        if !is_told && self.settings.rules.keep(Rule::DecidesAsTold) {
            if let Some(site) = self.unheard_site(desk) {
                self.closed.belongs_to(*desk, site);
            }
            self.look_at_table();
            return false;
        }
        true
    }

    /// May whoever has a copy of a token be told that it is closed? Once another site knows that the token was taken: should
    /// this one be lost before, copies are needed.
    pub(super) fn may_say_closed(&self, name: &TokenName) -> bool {
        let own = self.settings.site;
        let hash = Taken::hash(name.target, name.target_clock);
        let numbers =
            self.links.entries(hash).filter(|(site, _)| *site == own).map(|(_, entry)| entry.number);
        let Some(last) = numbers.max().filter(|_| self.settings.rules.keep(Rule::CopiesUntilTold)) else {
            return true;
        };
        let peers = &self.links.peers;
        peers.is_empty() || peers.values().any(|peer| peer.received(own) >= last)
    }

    /// The same of last words: of all tokens in them for this server.
    pub(super) fn may_say_done(&self, notice: &Notice, done: &NoticeDone) -> bool {
        let mut for_it = notice.tokens().iter().filter(|token| token.target == done.server);
        for_it.all(|token| self.may_say_closed(&token.name()))
    }

    /// Looks whether the table of this site has to be told anew, because desks have come to it, or others belong to the
    /// cluster. If not, nothing may be left to tell: after a restart a site does not know yet that it decides for desks
    /// whose table it has told.
    pub(super) fn look_at_table(&mut self) {
        // What becomes another incarnation tells nothing more under its old name.
        if self.settings.transient.is_some() || self.links.is_alone() || self.incarnation.is_some() {
            return;
        }
        let inherited = self.desk.handshakes().flat_map(|(_, handshake)| handshake.inherited());
        let relays: BTreeSet<Name> = inherited.map(|(name, _)| *name).collect();
        let told: BTreeSet<Name> = self.closed.own_desks().collect();
        let membership = &self.links.membership;
        // What this site has decided is settled, and in its table alone: it goes on telling while it waits for others.
        let goes_on = |name: &Name, site| {
            told.contains(name)
                && membership.holder(site) == self.settings.site
                && self.settings.rules.keep(Rule::ToldDesksStay)
        };
        let decided =
            self.closed.desks().filter(|(name, site)| goes_on(name, *site) || self.decides_for(name));
        let decided = decided.map(|(name, _)| name);
        let desks = relays.into_iter().chain(decided).chain([self.desk.name()]).collect();
        self.closed.look(desks, self.links.membership.epoch);
        self.speak_up();
    }

    /// Tells the table anew, if it has to be: that is a change of the own stream.
    pub(super) fn renew_table(&mut self) {
        if self.closed.is_due() {
            let number = self.next_number();
            self.closed.renew(number);
            self.speak_up();
        }
    }

    /// Speaks under the present membership, if nothing has to be told before.
    pub(super) fn speak_up(&mut self) {
        if !self.closed.is_due() {
            self.links.speak_up();
        }
    }

    /// The peers that are to have the present table of this site, and lack it: those with a link to it, or all, if none has
    /// it. Of those without a link it is not heard what they have received.
    pub(super) fn who_lack_table(&self) -> Vec<SiteId> {
        let version = self.closed.own_version().filter(|_| !self.closed.is_due()).unwrap_or(u64::MAX);
        let lacks = |peer: &Peer| peer.received(self.settings.site) < version;
        let peers = &self.links.peers;
        let has_one = peers.values().any(|peer| !lacks(peer));
        let lacking = peers.iter().filter(|(_, peer)| lacks(peer) && (peer.connected || !has_one));
        lacking.map(|(site, _)| *site).collect()
    }

    /// The own table: all slots that are closed, but those of tokens that not everybody knows to be taken.
    fn own_table(&self) -> Option<DeskTable> {
        let (site, version) = (self.settings.site, self.closed.own_version()?);
        let desks = self.closed.own_desks().map(|name| (name, self.closed_at(&name)));
        Some(DeskTable { site, version, desks: desks.collect() })
    }

    /// What is closed at the desks here.
    pub(super) fn own_closed(&self) -> Vec<(Name, Clocks)> {
        let inherited = self.desk.handshakes().flat_map(|(_, handshake)| handshake.inherited());
        let desks = inherited.map(|(name, _)| *name).chain([self.desk.name()]);
        desks.map(|name| (name, self.closed_at(&name))).collect()
    }

    fn closed_at(&self, name: &Name) -> Clocks {
        let mut handshakes = self.desk.handshakes();
        let desk = handshakes.find_map(|(_, handshake)| match *name == self.desk.name() {
            true => Some(handshake.desk()),
            false => handshake.inherited().find(|(desk, _)| *desk == name).map(|(_, desk)| desk),
        });
        let Some(desk) = desk else { return self.closed.clocks(name) };
        let unsettled = self.links.own().open.values().filter_map(|entry| match &entry.what {
            What::Taken(taken) if taken.desk == *name => Some(taken.clock),
            _ => None,
        });
        Clocks::below_without(desk.target_clock(), desk.open_clocks().chain(unsettled))
    }

    /// The tables that are changes of these pieces of streams.
    pub(super) fn tables_in<'a>(&self, parts: impl Iterator<Item = &'a SharedPart>) -> Vec<DeskTable> {
        if !self.settings.rules.keep(Rule::TablesAreTold) {
            return Vec::new();
        }
        let table = |part: &SharedPart| {
            let table = match part.origin() == self.settings.site {
                true => self.own_table()?,
                false => self.closed.table(part.origin())?,
            };
            // A site that was removed tells no new one, to those who come later or were put back from a copy.
            let is_removed = self.links.membership.removed.contains_key(&table.site);
            (is_removed || part.after() < table.version && table.version <= part.to()).then_some(table)
        };
        parts.filter_map(table).collect()
    }

    /// Takes in what others say of closed slots.
    pub(super) fn take_tables(&mut self, tables: Vec<DeskTable>) {
        let own = self.settings.site;
        let stay = self.settings.rules.keep(Rule::DesksStayWithHeirs);
        for table in tables.into_iter().filter(|table| table.site != own) {
            let here: Vec<Name> =
                table.desks.iter().map(|(name, _)| *name).filter(|name| self.has_desk(name)).collect();
            if self.links.origins.contains_key(&table.site) {
                reached(Branch::TableTaken);
                let (from, membership) = (table.site, &self.links.membership);
                let is_heir = |site| stay && membership.has_left_to(from, site);
                self.closed.take_in(table, |name| here.contains(name), is_heir);
            }
        }
    }
}
