//! Making a bounded counter: its definition takes effect when all sites have agreed to it and none has counted under its
//! key. [`Creation`](crate::counter::Creation) says why that is safe.

use quipu_crdt::{
    Bounded,
    bounded::{Definition, Right},
};

use super::Shard;
use crate::{
    Limits, Moment, Refusal, Reply, Rule, SiteId, Spread,
    counter::{Counter, Proposal, Shared},
    counters::Index,
    coverage::{Branch, reached},
    links::Ask,
};

/// Others are asked to go on with a counter that is being made, for so many milliseconds after it was in somebody's way.
const GO_ON_MS: u64 = 1_000;

impl Shard {
    /// `None`: not all sites have agreed yet, and whoever asked is willing to wait.
    pub(super) fn create(
        &mut self,
        key: &[u8],
        limits: Limits,
        spread: Spread<'_>,
        wait_ms: u64,
    ) -> Result<Option<Reply>, Refusal> {
        let own = self.settings.site;
        let definition = self.definition(limits, spread)?;
        let found = self.find(key);
        let counter = found.and_then(|index| self.counters.get(index).counter.as_ref());
        if counter.is_some_and(Counter::exists) {
            return Err(Refusal::Exists);
        }
        let alone = self.links.is_alone() || !self.settings.rules.keep(Rule::DefinitionsWait);
        let is_used = |counter: &Counter| matches!(counter, Counter::Shared(shared) if shared.is_used());
        if !alone && counter.is_some_and(is_used) {
            return Err(Refusal::UsedBefore);
        }
        let index = found.unwrap_or_else(|| self.counters.insert(key));
        if alone {
            let bounded = Box::new(Bounded::new(own, definition));
            self.counters.change(index, |entry| entry.counter = Some(Counter::Bounded(bounded)));
            self.touch(index, false);
            return Ok(Some(Reply::Created));
        }
        match self.proposal_here(index) {
            None => {
                let counter = self.counters.get(index).counter.as_ref();
                if let Some(by) = counter.and_then(|counter| self.reserved(counter)) {
                    return Err(Refusal::Reserved { by });
                }
                self.propose(index, definition);
            }
            Some(proposed) if proposed.definition == definition => {}
            Some(_) => return Err(Refusal::Reserved { by: own }),
        }
        match self.created(key)? {
            None if wait_ms == 0 => Err(Refusal::Creating { missing: self.without_counter(key) }),
            reply => Ok(reply),
        }
    }

    fn definition(&self, limits: Limits, spread: Spread<'_>) -> Result<Definition<SiteId>, Refusal> {
        let bad = |error: quipu_crdt::bounded::BadDefinition| Refusal::BadDefinition(error.to_string());
        let members = &self.links.membership.members;
        let Limits { minimum, maximum, initial } = limits;
        let definition = Definition::new(minimum, maximum, initial, self.settings.site).map_err(bad)?;
        match spread {
            Spread::Creator => Ok(definition),
            Spread::Even => definition.spread(members.iter().map(|site| (*site, 1))).map_err(bad),
            Spread::Shares(shares) => {
                let member = |(site, share): &(SiteId, u64)| Ok((self.member(*site)?, *share));
                let shares: Result<Vec<_>, String> = shares.iter().map(member).collect();
                let shares = shares
                    .map_err(|stranger| Refusal::BadDefinition(format!("{stranger}; nothing was created")))?;
                definition.spread(shares).map_err(bad)
            }
        }
    }

    /// Asked again: is it made, and do all sites take it? One that has only agreed answers that the key is reserved.
    pub(super) fn created(&mut self, key: &[u8]) -> Result<Option<Reply>, Refusal> {
        let Some(index) = self.counters.find(key) else { return Err(Refusal::Exists) };
        // Whoever had not agreed may have been removed.
        self.advance_creation(index);
        match (&self.counters.get(index).counter, self.proposal_here(index)) {
            (Some(Counter::Bounded(bounded)), _) if *bounded.definition().creator() == self.settings.site => {
                // If that is not remembered, it was stored before: at the end of the stream at the latest.
                let end = self.links.own().position;
                self.waiting.effects.entry(key.into()).or_insert(end);
                let is_everywhere = self.without_counter(key).is_empty();
                if is_everywhere || !self.settings.rules.keep(Rule::CreatedEverywhere) {
                    self.waiting.effects.remove(key);
                    return Ok(Some(Reply::Created));
                }
                Ok(None)
            }
            (_, Some(_)) => Ok(None),
            // Withdrawn: somebody has counted, or a lower site makes it.
            _ => Err(Refusal::Exists),
        }
    }

    /// Which sites do not take a counter yet that is being made here: they have not agreed, or do not know that all have.
    pub(super) fn without_counter(&self, key: &[u8]) -> Vec<SiteId> {
        let Some(index) = self.counters.find(key) else { return Vec::new() };
        let Some(effect) = self.waiting.effects.get(key) else { return self.not_agreed(index) };
        let peers = self.links.peers.iter();
        peers.filter(|(_, peer)| peer.received(self.settings.site) < *effect).map(|(site, _)| *site).collect()
    }

    fn shared(&self, index: Index) -> Option<&Shared> {
        match &self.counters.get(index).counter {
            Some(Counter::Shared(shared)) => Some(shared),
            _ => None,
        }
    }

    fn proposal_here(&self, index: Index) -> Option<Proposal> {
        self.shared(index)?.rows.get(&self.settings.site)?.proposal().cloned()
    }

    /// Which sites have not agreed to this site's proposal.
    fn not_agreed(&self, index: Index) -> Vec<SiteId> {
        let own = self.settings.site;
        let (Some(shared), Some(proposal)) = (self.shared(index), self.proposal_here(index)) else {
            return Vec::new();
        };
        let agrees = |site: &SiteId| shared.rows.get(site).is_some_and(|row| row.agrees_to(own, proposal.at));
        self.links.peers.keys().copied().filter(|site| !agrees(site)).collect()
    }

    /// Who wants to make a bounded counter of it. A proposal of a removed site is void once all that anybody knows of that
    /// site is here: had it taken effect, that would be known, or is lost with it.
    pub(super) fn reserved(&self, counter: &Counter) -> Option<SiteId> {
        counter.reserved(|site| self.links.is_closed(site))
    }

    fn propose(&mut self, index: Index, definition: Definition<SiteId>) {
        reached(Branch::CreationProposed);
        let at = self.summary.changes + 1;
        self.change_creation(index, |creation| creation.proposes = Some(Proposal { definition, at }));
    }

    fn change_creation(&mut self, index: Index, change: impl FnOnce(&mut crate::counter::Creation)) {
        let (own, version) = (self.settings.site, self.summary.changes + 1);
        self.counters.change(index, |entry| {
            let before = entry.version();
            let counter = entry.counter.get_or_insert_with(|| Counter::Shared(Box::default()));
            if let Some(shared) = counter.share(own, before) {
                let row = shared.rows.entry(own).or_default();
                change(row.creation.get_or_insert_default());
                row.change_by_site(version);
            }
        });
        self.touch(index, false);
    }

    /// Does what is to be done about the proposals for a key: withdraw, agree, put into effect.
    pub(super) fn advance_creation(&mut self, index: Index) {
        let own = self.settings.site;
        let Some(shared) = self.shared(index) else { return };
        let proposals = shared.proposals().filter(|(site, _)| !self.links.is_closed(*site));
        let proposals: Vec<(SiteId, u64)> = proposals.map(|(site, it)| (site, it.at)).collect();
        let Some((lowest, _)) = proposals.first().copied() else { return };
        let is_used = shared.is_used();
        let ours = shared.rows.get(&own);
        let mine = ours.and_then(|row| row.proposal()).cloned();
        let open: Vec<_> = proposals
            .iter()
            .copied()
            .filter(|(site, at)| *site != own && !ours.is_some_and(|row| row.agrees_to(*site, *at)))
            .collect();
        match mine {
            Some(_) if is_used || lowest < own => {
                reached(Branch::CreationWithdrawn);
                self.change_creation(index, |creation| creation.proposes = None);
                self.advance_creation(index);
            }
            // The lowest agrees to nobody's.
            Some(mine) if self.not_agreed(index).is_empty() && self.links.all_removed_are_closed() => {
                reached(Branch::CreationTakesEffect);
                let bounded = Box::new(Bounded::new(own, mine.definition));
                self.counters.change(index, |entry| entry.counter = Some(Counter::Bounded(bounded)));
                self.touch(index, false);
                let key = self.counters.get(index).key.clone();
                self.waiting.note_effect(&key, self.summary.changes);
            }
            None if !is_used && !open.is_empty() => {
                reached(Branch::CreationAgreed);
                self.change_creation(index, |creation| creation.agrees.extend(open));
            }
            Some(_) | None => {}
        }
    }

    /// A counter that is being made is in somebody's way. Who has not agreed may have been removed since, and who has joined
    /// or was restored since may not have been asked: they are asked to look again, over so many links.
    pub(super) fn hasten(&mut self, key: &[u8], links: u64, now_ms: u64) {
        if !self.settings.rules.keep(Rule::CreationsGoOn) {
            return;
        }
        let want = self.waiting.unmade.entry(key.into()).or_default();
        want.amount = want.amount.max(links);
        want.until_ms = now_ms + GO_ON_MS;
        self.links.restless = true;
    }

    /// The same over as many links as there can be.
    pub(super) fn hasten_everywhere(&mut self, key: &[u8], now_ms: u64) {
        self.hasten(key, self.links.membership.members.len() as u64, now_ms);
    }

    /// What a peer is to look at again.
    pub(super) fn asks_to_go_on(&mut self, peer: SiteId, now_ms: u64) -> Vec<Ask> {
        let mut unmade = std::mem::take(&mut self.waiting.unmade);
        let is_unmade = |key: &[u8]| self.counter(key).is_some_and(|it| self.reserved(it).is_some());
        unmade.retain(|key, want| want.until_ms > now_ms && is_unmade(key));
        let mut asks = Vec::new();
        for (key, want) in &mut unmade {
            if want.asks(peer, now_ms) {
                // No rights are meant: there is no counter yet that could have any.
                asks.push(Ask { key: key.clone(), right: Right::ToAdd, amount: want.amount, passed_on: 0 });
            }
        }
        self.waiting.unmade = unmade;
        asks
    }

    /// A peer has asked for something of a counter that is being made.
    pub(super) fn go_on(&mut self, ask: &Ask, now: Moment) {
        let Some(index) = self.counters.find(&ask.key).filter(|index| self.shared(*index).is_some()) else {
            return;
        };
        self.advance_creation(index);
        let is_unmade =
            self.counters.get(index).counter.as_ref().is_some_and(|it| self.reserved(it).is_some());
        if is_unmade && ask.amount > 1 {
            self.hasten(&ask.key, ask.amount - 1, now.elapsed_ms);
        }
    }
}
