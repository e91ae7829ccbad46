//! A shard of a relay: it takes handoffs as a site does and hands over as an edge does, to the same shard of a site; and
//! how it retires. The other half of that, adopting what a relay leaves, is here too.

use std::collections::BTreeSet;

use quipu_crdt::handoff::RetireError;

use super::{Shard, Ticket, handoff::Rows, passing::Luggage};
use crate::{
    Moment, Refusal, Reply, Rule,
    handoff::{Adoption, Estate, Guest, Key, Name, Notice, Opening, Retirement, Round, Server},
};

impl Shard {
    /// What a relay has to say to a server. It comes out with the batch, as the reply to `ticket`.
    pub(crate) fn speak(&mut self, ticket: Ticket, shard: u16, server: Server, round: Round, now: Moment) {
        let Round { chosen, all } = round;
        let mut due = self.shards_to_visit(server, chosen).contains(&shard);
        due |= all || self.has_word_for(server.name, chosen, now.elapsed_ms);
        let mut visits = Vec::new();
        if let Some(transient) = self.settings.transient.filter(|_| due) {
            let mut visit = self.visit_to(shard, server, chosen, transient.opening);
            let mut luggage = Luggage::new();
            visit.view.retain_copies(|token| luggage.admits(token));
            visit.passed_on = self.pass_to_parent(server.name, chosen, now.elapsed_ms);
            visits.push((shard, visit));
        }
        self.outputs.replies.push((ticket, Reply::Visits(visits)));
    }

    /// From now on a relay takes nothing from others, and counts nothing. What it has counted is still handed over.
    pub(crate) fn stop_relay(&mut self, shard: u16) -> Result<(), RetireError> {
        let handshake = self.desk.handshake(shard);
        if handshake.is_active() {
            handshake.stop()?;
            self.desk.note_own(shard);
        }
        Ok(())
    }

    /// What a stopped relay keeps for others, for this heir alone. It comes out with the batch.
    pub(crate) fn bequeath(&mut self, ticket: Ticket, shard: u16, heir: Name) {
        let reply = match self.desk.handshake(shard).bequeath(&heir) {
            Ok(estate) => {
                self.desk.note_own(shard);
                Reply::Estate(Box::new(estate))
            }
            Err(error) => Reply::refused(Refusal::CannotRetire(error.to_string())),
        };
        self.outputs.replies.push((ticket, reply));
    }

    /// Takes over what a relay leaves, once. The answer comes out with the batch.
    pub(crate) fn adopt(&mut self, ticket: Ticket, shard: u16, estate: &Estate, now: Moment) {
        let reply = match self.take_estate(shard, estate, now) {
            Ok(adoption) => Reply::Adopted(Box::new(adoption)),
            Err(refusal) => Reply::refused(refusal),
        };
        self.outputs.replies.push((ticket, reply));
    }

    fn take_estate(&mut self, shard: u16, estate: &Estate, now: Moment) -> Result<Adoption, Refusal> {
        if self.is_joining() {
            return Err(Refusal::Joining);
        }
        if estate.from().site().is_some() {
            return Err(Refusal::BadVisit("an estate of a site".to_owned()));
        }
        let mut names: BTreeSet<Name> = estate.sources();
        let mut handshake = self.desk.take(shard);
        // What was kept here for the relay is delivered, too.
        names.extend(handshake.cached().map(|token| token.source));
        names.extend(handshake.notices().map(|(notice, _)| *notice.client()));
        let adoption = handshake.adopt(&mut Rows::taking(self, now), estate);
        self.desk.put_back(shard, handshake);
        let adoption =
            adoption.ok_or(Refusal::OtherServer { asked: *estate.heir(), here: self.desk.name() })?;
        let guest = Guest { since_s: now.unix_ms / 1000, opening: Opening::default() };
        self.desk.note(shard, names, guest);
        self.desk.note_archives(shard);
        self.look_at_table();
        let missing = self.who_lack_table();
        let is_here = adoption.adopted_by == Some(self.desk.name());
        if is_here && !missing.is_empty() && self.settings.rules.keep(Rule::TablesAreTold) {
            // Should this site be lost, another one is to answer for the relay.
            return Err(Refusal::NotTold { missing });
        }
        Ok(adoption)
    }

    /// The heir has answered.
    pub(crate) fn adopted(&mut self, shard: u16, adoption: &Adoption) {
        let handshake = self.desk.handshake(shard);
        let names = handshake.sources(..);
        handshake.adopted(adoption);
        self.desk.note(shard, names, Guest::default());
        self.desk.note_archives(shard);
    }

    /// How it stands with a relay's retirement.
    pub(crate) fn retirement(&self, shard: u16) -> Retirement {
        let handshake = self.desk.handshakes().find(|(of, _)| *of == shard);
        let Some((_, handshake)) = handshake else { return Retirement::default() };
        Retirement {
            is_stopped: !handshake.is_active(),
            named: handshake.named_heir().copied(),
            heir: handshake.heir().copied(),
            may_leave: handshake.may_leave(!self.has_own()),
        }
    }

    /// The counters that tokens and last words speak of that are kept here: they may be counted when an estate is adopted.
    pub(crate) fn kept_keys(&self) -> Vec<Box<[u8]>> {
        let kept = self.desk.handshakes().flat_map(|(_, handshake)| {
            let last = handshake.notices().flat_map(|(notice, _)| Notice::tokens(notice));
            handshake.cached().chain(last).flat_map(|token| token.value.keys())
        });
        kept.map(|key: &Key| key.bytes().into()).collect()
    }

    /// The same of tokens for desks here, the own one and those of relays whose heir this is: a relay has left them, or they
    /// could not be counted when they came.
    pub(crate) fn keys_kept_for_desks_here(&self) -> Vec<Box<[u8]>> {
        let own = self.desk.name();
        let kept = self.desk.handshakes().flat_map(|(_, handshake)| {
            let is_here =
                move |target: &Name| *target == own || handshake.inherited().any(|(name, _)| name == target);
            let tokens = handshake.cached().filter(move |token| is_here(&token.target));
            tokens.flat_map(|token| token.value.keys())
        });
        kept.map(|key: &Key| key.bytes().into()).collect()
    }
}
