//! What must hold of a cluster at every moment, whatever its sites have heard.

use std::collections::{BTreeMap, BTreeSet};

use quipu_engine::{
    Council, SiteId,
    council::{Config, Proposal, Removed, Standing},
};

pub(crate) const ONE_LIST: &str = "who is kept by a list never has another one of the same epoch";
pub(crate) const ALL_REFUSE: &str = "once a removal is in force, all who stay refuse whom it removes";
pub(crate) const WRITERS_ARE_LISTED: &str = "who takes writes is listed, or refused, by all who count";

pub(crate) const LEAVERS_ARE_SILENT: &str = "who is removed as planned takes no writes";

/// A list without names and addresses, which may differ.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct List {
    pub(crate) epoch: u64,
    pub(crate) sites: Vec<(SiteId, bool)>,
    pub(crate) removed: Vec<(SiteId, SiteId)>,
}

impl List {
    pub(crate) fn of(config: &Config) -> Self {
        let is_member = |standing| standing == Standing::Member;
        Self {
            epoch: config.epoch,
            sites: config.sites.iter().map(|(site, seat)| (*site, is_member(seat.standing))).collect(),
            removed: config.removed.iter().map(|(site, Removed { heir, .. })| (*site, *heir)).collect(),
        }
    }

    fn keeps(&self, site: SiteId) -> bool {
        self.sites.iter().any(|(kept, _)| *kept == site)
    }
}

/// Every list that was ever in force, and who has had it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(crate) struct History(pub(crate) BTreeMap<List, BTreeSet<SiteId>>);

impl History {
    pub(crate) fn note(&mut self, council: &Council) {
        if council.config().epoch > 0 {
            self.0.entry(List::of(council.config())).or_default().insert(council.site());
        }
    }

    /// Two lists of one epoch: one was decided by a site that the other removes, unheard by all whom that one keeps.
    pub(crate) fn one_list(&self) -> bool {
        let apart = |(a, holders_a): (&List, &BTreeSet<SiteId>),
                     (b, holders_b): (&List, &BTreeSet<SiteId>)| {
            !holders_a.iter().any(|holder| b.keeps(*holder))
                || !holders_b.iter().any(|holder| a.keeps(*holder))
        };
        let lists = || self.0.iter();
        lists().all(|a| lists().all(|b| a.0 == b.0 || a.0.epoch != b.0.epoch || apart(a, b)))
    }

    /// Where all removals are planned: nobody whom a list has removed takes writes, whether or not it has heard of it.
    pub(crate) fn leavers_are_silent<'a>(&self, mut councils: impl Iterator<Item = &'a Council>) -> bool {
        let is_removed =
            |site: SiteId| self.0.keys().any(|list| list.removed.iter().any(|(removed, _)| *removed == site));
        councils.all(|council| council.standing() != Some(Standing::Member) || !is_removed(council.site()))
    }

    pub(crate) fn all_refuse<'a>(&self, councils: &(impl Iterator<Item = &'a Council> + Clone)) -> bool {
        self.0.keys().all(|list| {
            // A newcomer has nobody to refuse before it has a list.
            let mut kept =
                councils.clone().filter(|council| list.keeps(council.site()) && council.config().epoch > 0);
            kept.all(|council| list.removed.iter().all(|(removed, _)| council.may_join(*removed).is_err()))
        })
    }
}

pub(crate) fn writers_are_listed<'a>(councils: &(impl Iterator<Item = &'a Council> + Clone)) -> bool {
    let mut writers = councils.clone().filter(|council| council.standing() == Some(Standing::Member));
    writers.all(|writer| {
        let knows = |council: &Council| {
            council.config().sites.contains_key(&writer.site())
                || council.config().removed.contains_key(&writer.site())
        };
        let counts = |council: &&Council| {
            council.config().epoch > 0 && writer.config().sites.contains_key(&council.site())
        };
        councils.clone().filter(counts).all(knows)
    })
}

/// At the moment when a proposal is decided: everybody who is asked has agreed, or has meanwhile gone a way without the
/// proposer.
pub(crate) fn all_agreed<'a>(
    base: &Config,
    proposal: &Proposal,
    councils: impl Iterator<Item = &'a Council>,
) -> bool {
    let asked = base.stayers(&proposal.change);
    councils.filter(|council| asked.contains(&council.site())).all(|council| {
        council.site() == proposal.by
            || council.agreed().contains(proposal)
            || council.config().epoch > base.epoch
    })
}

/// Once nothing that was said changes anything any more: those whom some list keeps have it, nothing is open among them,
/// and they refuse everybody else.
pub(crate) fn settled<'a>(councils: &(impl Iterator<Item = &'a Council> + Clone)) -> bool {
    councils.clone().any(|one| {
        one.standing().is_some()
            && councils.clone().all(|council| match one.config().standing(council.site()) {
                Some(_) => {
                    council.agreed().is_empty() && List::of(council.config()) == List::of(one.config())
                }
                None => one.may_join(council.site()).is_err(),
            })
    })
}
