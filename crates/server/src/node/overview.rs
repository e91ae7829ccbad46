//! How it stands with the cluster, for people.

use std::collections::{BTreeMap, BTreeSet};

use quipu_engine::{
    SiteId,
    council::{Proposal, Standing},
};

use super::{
    Shared,
    council::{State, texts},
};
use crate::http::sites::{Cluster, DrainingFacts, OpenChange, SiteFacts};

impl Shared {
    /// How it stands with the cluster, for people.
    pub(crate) fn cluster(&self) -> Cluster {
        let differing = self.summary().differing;
        let state = self.council.lock();
        let (council, own) = (&state.council, state.council.site());
        let facts: BTreeMap<u16, _> = self.board.facts().into_iter().map(|it| (it.number, it)).collect();
        let addresses = self.council.addresses_of(council);
        let site = |(site, seat): (&SiteId, &quipu_engine::council::Seat)| {
            let facts = facts.get(&site.number);
            SiteFacts {
                site: site.to_string(),
                state: match seat.standing {
                    Standing::Joining => "joining",
                    Standing::Leaving => "leaving",
                    Standing::Member if self.is_draining(&state, *site) => "draining",
                    Standing::Member => "member",
                },
                address: addresses.get(&site.number).filter(|_| *site != own).cloned(),
                link: facts.map_or("self", |facts| if facts.is_up { "up" } else { "down" }),
                heard_seconds: facts.and_then(|facts| facts.heard_seconds),
                trouble: facts.and_then(|facts| facts.unreachable.clone().or_else(|| facts.trouble.clone())),
            }
        };
        let change = open_proposal(&state).map(|proposal| OpenChange {
            what: proposal.change.to_string(),
            by: proposal.by.to_string(),
            missing: texts(&who_is_missing(&state, &proposal)),
        });
        let draining = state.draining.iter().map(|(site, draining)| DrainingFacts::of(*site, draining));
        let removed = council.config().removed.iter();
        Cluster {
            cluster: self.board.identity().cluster.clone(),
            site: own.to_string(),
            epoch: council.config().epoch,
            sites: council.config().sites.iter().map(site).collect(),
            removed: removed.map(|(site, removed)| (site.to_string(), removed.heir.to_string())).collect(),
            change,
            draining: draining.collect(),
            waits_for: state.waits_for(),
            differing: differing.into_iter().map(|(of, at)| (of.to_string(), at.to_string())).collect(),
        }
    }

    fn is_draining(&self, state: &State, site: SiteId) -> bool {
        let own = state.council.site();
        state.draining.contains_key(&site) || (site == own && self.council.leaving.takes_no_writes())
    }
}

/// The change that is under way, as far as is known here: this site has agreed to it, or its proposer was heard.
pub(super) fn open_proposal(state: &State) -> Option<Proposal> {
    let council = &state.council;
    let heard = || {
        let now = state.heard.iter().filter(|(_, (epoch, _))| *epoch == council.config().epoch);
        now.filter_map(|(site, (_, agreed))| agreed.last().filter(|last| last.by == *site)).next()
    };
    council.agreed().last().or_else(heard).cloned()
}

/// Who has yet to agree to it, as far as is known here.
fn who_is_missing(state: &State, proposal: &Proposal) -> BTreeSet<SiteId> {
    let council = &state.council;
    if let Some((own, missing)) = council.waiting()
        && own == proposal
    {
        return missing;
    }
    let mut missing = council.config().stayers(&proposal.change);
    missing.retain(|site| {
        let agreed = match state.heard.get(site) {
            _ if *site == council.site() => council.agreed(),
            Some((_, agreed)) => agreed,
            None => &[],
        };
        *site != proposal.by && !agreed.contains(proposal)
    });
    missing
}
