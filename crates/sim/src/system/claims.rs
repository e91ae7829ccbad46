//! What sites have acknowledged, and where that stands in their streams: when a site is lost, put back from a copy, or
//! comes back without what it had not flushed, this tells exactly what is lost with it.

use super::calls::{Act, Call};
use quipu_engine::{Reply, SiteId};
use quipu_storage::ShardId;
use std::collections::{BTreeMap, BTreeSet};

/// What was acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Acked {
    Added { applied: i64 },
    Reset,
    Created,
}

/// A change that a site has acknowledged, or has said to be another one's.
#[derive(Debug, Clone, Copy)]
pub(super) struct Claim {
    pub(super) attempt: usize,
    pub(super) acked: Acked,
    /// Of the operation, if it has an id.
    operation: Option<usize>,
    /// Whose change it is.
    pub(super) origin: SiteId,
    pub(super) shard: ShardId,
    /// Of a stream that has two branches: whose.
    branch: usize,
    /// Its numbers in that one's stream come after this one,
    after: u64,
    /// and go up to this one.
    pub(super) upto: u64,
    stands: bool,
}

/// What became of a change that a site has acknowledged and does not know any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// Nobody knows it.
    Lost,
    /// That cannot be told.
    Doubt,
    /// Another site has counted the same operation.
    Elsewhere,
}

/// A claim and its fate.
pub(super) struct Forgotten {
    pub(super) attempt: usize,
    pub(super) origin: SiteId,
    pub(super) acked: Acked,
    pub(super) fate: Fate,
}

/// All claims.
#[derive(Debug, Default)]
pub(super) struct Claims {
    all: Vec<Claim>,
    by_operation: BTreeMap<usize, Vec<usize>>,
}

impl Claim {
    /// What an answer claims that was given at a site for a call; its numbers lie after `after`, up to `upto`. `got_to` tells
    /// how far the site has got with a stream, and with which branch of it.
    pub(super) fn of(
        attempt: usize,
        call: &Call,
        reply: &Reply,
        own: SiteId,
        shard: ShardId,
        (after, upto): (u64, u64),
        got_to: impl Fn(SiteId) -> (u64, usize),
    ) -> Option<Self> {
        let operation = call.id.as_ref().map(|id| id.number);
        let claim = |acked, origin, (after, upto)| {
            let (_, branch) = got_to(origin);
            Some(Self { attempt, acked, operation, origin, shard, branch, after, upto, stands: true })
        };
        match (reply, call.act) {
            // An attempt that counted nothing is no outcome: it says nothing of whoever else has counted the operation.
            (Reply::Added(added), Act::Add { amount, .. }) if added.applied == 0 && amount != 0 => None,
            (Reply::Added(added), _) if added.repeated => {
                // Somebody has counted it before; when is not known.
                claim(Acked::Added { applied: added.applied }, added.site, (0, got_to(added.site).0))
            }
            (Reply::Added(added), _) => claim(Acked::Added { applied: added.applied }, own, (after, upto)),
            (Reply::Reset { .. }, Act::Reset { .. }) => claim(Acked::Reset, own, (after, upto)),
            (Reply::Created, _) => claim(Acked::Created, own, (after, upto)),
            _ => None,
        }
    }

    /// Is something known up to a position, and nothing after it, still known?
    fn fate(&self, position: u64) -> Option<Fate> {
        match position {
            _ if self.upto <= position => None,
            _ if self.after >= position => Some(Fate::Lost),
            _ => Some(Fate::Doubt),
        }
    }
}

impl Claims {
    pub(super) fn add(&mut self, claim: Claim) {
        if let Some(operation) = claim.operation {
            let of_operation = self.by_operation.entry(operation).or_default();
            let is_known = |at: &usize| {
                let it = &self.all[*at];
                it.stands && (it.origin, it.branch) == (claim.origin, claim.branch)
            };
            if of_operation.iter().any(is_known) {
                // The first tells best where it stands.
                return;
            }
            of_operation.push(self.all.len());
        }
        self.all.push(claim);
    }

    /// A site's stream has one branch again.
    pub(super) fn rename_branches(&mut self, of: SiteId) {
        let theirs = self.all.iter_mut().filter(|claim| claim.origin == of);
        theirs.for_each(|claim| claim.branch = usize::from(of.number) - 1);
    }

    /// Those of these sites that may not be known any more: after what `known` tells.
    pub(super) fn unsure(
        &self,
        of: &BTreeSet<SiteId>,
        known: impl Fn(SiteId, ShardId, usize) -> u64,
    ) -> Vec<(usize, SiteId, Acked)> {
        let known: BTreeMap<(SiteId, ShardId, usize), u64> = self
            .places(of)
            .into_iter()
            .map(|place @ (origin, shard, branch)| (place, known(origin, shard, branch)))
            .collect();
        let is_unsure = |claim: &&Claim| {
            let known = known.get(&(claim.origin, claim.shard, claim.branch));
            claim.stands && known.is_some_and(|known| claim.upto > *known)
        };
        self.all.iter().filter(is_unsure).map(|claim| (claim.attempt, claim.origin, claim.acked)).collect()
    }

    fn places(&self, of: &BTreeSet<SiteId>) -> BTreeSet<(SiteId, ShardId, usize)> {
        let all = self.all.iter().filter(|claim| of.contains(&claim.origin));
        all.map(|claim| (claim.origin, claim.shard, claim.branch)).collect()
    }

    /// Nobody knows more of these sites than `known` tells; `dead` are those of all sites that will not come back.
    pub(super) fn forget(
        &mut self,
        of: &BTreeSet<SiteId>,
        dead: &BTreeSet<SiteId>,
        known: impl Fn(SiteId, ShardId, usize) -> u64,
    ) -> Vec<Forgotten> {
        let known: BTreeMap<(SiteId, ShardId, usize), u64> = self
            .places(of)
            .into_iter()
            .map(|place @ (origin, shard, branch)| (place, known(origin, shard, branch)))
            .collect();
        let mut gone = Vec::new();
        for (at, claim) in self.all.iter_mut().enumerate().filter(|(_, claim)| claim.stands) {
            let Some(known) = known.get(&(claim.origin, claim.shard, claim.branch)) else { continue };
            if let Some(fate) = claim.fate(*known) {
                claim.stands = false;
                gone.push((at, fate));
            }
        }
        let fates: BTreeMap<usize, Fate> = gone.iter().copied().collect();
        let forgotten = |(at, fate): (usize, Fate)| {
            let Claim { attempt, origin, acked, operation, .. } = self.all[at];
            let fate = operation.map_or(fate, |operation| self.fate_of(operation, &fates, dead));
            Forgotten { attempt, origin, acked, fate }
        };
        gone.into_iter().map(forgotten).collect()
    }

    /// What becomes of an operation of whose counts some are forgotten.
    fn fate_of(&self, operation: usize, fates: &BTreeMap<usize, Fate>, dead: &BTreeSet<SiteId>) -> Fate {
        let counts = self.by_operation.get(&operation).into_iter().flatten();
        let mut fate = Fate::Lost;
        for at in counts {
            let claim = &self.all[*at];
            match fates.get(at) {
                None if claim.stands && !dead.contains(&claim.origin) => return Fate::Elsewhere,
                // A dead site may have taken its count back for the sake of one that is lost.
                None if claim.stands => fate = Fate::Doubt,
                Some(Fate::Doubt) => fate = Fate::Doubt,
                _ => {}
            }
        }
        fate
    }
}
