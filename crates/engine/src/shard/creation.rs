//! Making a bounded counter: its definition takes effect when all sites have agreed to it and none has counted under its
//! key. [`Creation`](crate::counter::Creation) says why that is safe.

use quipu_crdt::{Bounded, bounded::Definition};

use super::Shard;
use crate::{
    Limits, Moment, Refusal, Reply, Rule, SiteId,
    counter::{Counter, Proposal, Shared},
    counters::Index,
};

impl Shard {
    /// `None`: not all sites have agreed yet, and whoever asked is willing to wait.
    pub(super) fn create(
        &mut self,
        key: &[u8],
        limits: Limits,
        wait_ms: u64,
        _now: Moment,
    ) -> Result<Option<Reply>, Refusal> {
        let own = self.settings.site;
        let Limits { minimum, maximum, initial } = limits;
        let definition = Definition::new(minimum, maximum, initial, own)
            .map_err(|error| Refusal::BadDefinition(error.to_string()))?;
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
                self.advance_creation(index);
            }
            // Whoever has not agreed may have been removed.
            Some(proposed) if proposed.definition == definition => self.advance_creation(index),
            Some(_) => return Err(Refusal::Reserved { by: own }),
        }
        if matches!(self.counters.get(index).counter, Some(Counter::Bounded(_))) {
            return Ok(Some(Reply::Created));
        }
        if wait_ms > 0 { Ok(None) } else { Err(Refusal::Creating { missing: self.not_agreed(index) }) }
    }

    /// Asked again: is it made?
    pub(super) fn created(&self, key: &[u8]) -> Result<Option<Reply>, Refusal> {
        let Some(index) = self.counters.find(key) else { return Err(Refusal::Exists) };
        match (&self.counters.get(index).counter, self.proposal_here(index)) {
            (Some(Counter::Bounded(bounded)), _) if *bounded.definition().creator() == self.settings.site => {
                Ok(Some(Reply::Created))
            }
            (_, Some(_)) => Ok(None),
            // Withdrawn: somebody has counted, or a lower site makes it.
            _ => Err(Refusal::Exists),
        }
    }

    pub(super) fn missing_agreement(&self, key: &[u8]) -> Vec<SiteId> {
        self.counters.find(key).map_or_else(Vec::new, |index| self.not_agreed(index))
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
                self.change_creation(index, |creation| creation.proposes = None);
                self.advance_creation(index);
            }
            // The lowest agrees to nobody's.
            Some(mine) if self.not_agreed(index).is_empty() && self.links.all_removed_are_closed() => {
                let bounded = Box::new(Bounded::new(own, mine.definition));
                self.counters.change(index, |entry| entry.counter = Some(Counter::Bounded(bounded)));
                self.touch(index, false);
            }
            None if !is_used && !open.is_empty() => {
                self.change_creation(index, |creation| creation.agrees.extend(open));
            }
            Some(_) | None => {}
        }
    }
}
