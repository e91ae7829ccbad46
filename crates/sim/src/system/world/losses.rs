//! What is lost with a disk, and who must be told.

use super::World;
use crate::system::calls::{Attempt, Kind};
use crate::system::check::Seen;
use crate::system::claims::{Acked, Claim, Fate, Forgotten};
use crate::system::history::Note;
use crate::system::site::{Site, Standing};
use quipu_engine::{Reply, SiteId};
use quipu_storage::ShardId;
use std::collections::BTreeSet;

impl World {
    /// Remembers what a site has acknowledged, and where that stands.
    pub(super) fn claim(&mut self, attempt: usize, reply: &Reply) {
        let Attempt { site, call, after, upto, .. } = self.attempts[attempt];
        let (at, site, call) = (site, &self.sites[site], &self.calls[call]);
        let shard = self.pool.keys[call.key].shard;
        let got_to = |of: SiteId| site.got_to(shard, of);
        let upto = if call.may_wait() { got_to(site.id) } else { upto };
        let got_to = |of: SiteId| (got_to(of), self.branch_of_claim(at, of, shard));
        let claim = Claim::of(attempt, call, reply, site.id, shard, (after, upto), got_to);
        claim.into_iter().for_each(|claim| self.claims.add(claim));
    }

    /// A site dies and its disk is lost.
    pub(super) fn die_for_good(&mut self, site: usize, standing: Standing) {
        if self.sites[site].is_up() {
            self.die(site);
        }
        self.sites[site].standing = standing;
        let state_of = self.sites[site].copy.as_ref().map_or(0, |copy| copy.state_ms);
        self.checks.iter_mut().for_each(|check| check.set_back(site, true, state_of));
        self.dead.insert(self.sites[site].id);
        self.look_at_links();
        let told = |origin: SiteId, shard: ShardId, branch: usize| {
            let others =
                (0..self.sites.len()).filter(|at| self.sites[*at].is_there() && self.sites[*at].id != origin);
            let told = |at| self.of_branch(at, origin, shard, branch, self.sites[at].told(shard, origin));
            others.map(told).max().unwrap_or(0)
        };
        for (attempt, origin, acked) in self.claims.unsure(&self.dead, told) {
            self.tell_checks(attempt, origin, acked, None);
        }
    }

    /// A site that acknowledges before it flushes has come back: what it does not know is lost.
    pub(super) fn comes_back_behind(&mut self, site: usize) {
        let it = &self.sites[site];
        let of = BTreeSet::from([it.id]);
        let is_forked = self.twin(site).is_some();
        let forgotten = self.claims.forget(&of, &self.dead, |origin, shard, branch| {
            if branch == site || !is_forked { it.got_to(shard, origin) } else { u64::MAX }
        });
        let state_of = it.flushed_ms;
        self.forget(forgotten);
        self.checks.iter_mut().for_each(|check| check.set_back(site, false, state_of));
    }

    /// A site goes on from a copy as if nothing had happened, which is wrong: nothing is said of what only its disk knew.
    pub(super) fn goes_on_as_before(&mut self, site: usize) {
        let sites = &self.sites;
        let of = BTreeSet::from([sites[site].id]);
        let known = |origin: SiteId, shard: ShardId, _: usize| {
            let told = sites.iter().map(|other| other.told(shard, origin)).max().unwrap_or(0);
            told.max(sites[site].got_to(shard, origin))
        };
        let mut forgotten = self.claims.forget(&of, &self.dead, known);
        forgotten.iter_mut().for_each(|forgotten| forgotten.fate = Fate::Doubt);
        self.forget(forgotten);
    }

    /// In the end it shows what the others know of sites that are gone.
    pub(in crate::system) fn count_losses(&mut self) {
        let Some(first) = self.members().first().copied() else { return };
        let mut claims = std::mem::take(&mut self.claims);
        let forgotten = claims.forget(&self.dead, &self.dead, |origin, shard, branch| {
            self.of_branch(first, origin, shard, branch, self.sites[first].got_to(shard, origin))
        });
        self.claims = claims;
        self.forget(forgotten);
    }

    /// Nobody has heard of one of two branches of a site's stream, after what they have in common by shard.
    pub(super) fn forget_branch(&mut self, id: SiteId, lost: usize, common: &[u64]) {
        let known = |_: SiteId, shard: ShardId, branch: usize| {
            if branch == lost { common[usize::from(shard.0)] } else { u64::MAX }
        };
        let forgotten = self.claims.forget(&BTreeSet::from([id]), &self.dead, known);
        self.claims.rename_branches(id);
        self.forget(forgotten);
    }

    fn forget(&mut self, all: Vec<Forgotten>) {
        for Forgotten { attempt, origin, acked, fate } in all {
            let call = &self.calls[self.attempts[attempt].call];
            let is_bounded = self.pool.keys[call.key].kind == Kind::Bounded;
            // The row may have come with that of another site, ahead of the stream that it belongs to.
            let may_be_ahead = fate == Fate::Lost && is_bounded;
            let fate = if may_be_ahead { Fate::Doubt } else { fate };
            self.note(Note::Forgotten { attempt, fate });
            self.tell_checks(attempt, origin, acked, Some(fate));
        }
    }

    /// Tells the checks what became of something acknowledged; no fate: that will turn out.
    fn tell_checks(&mut self, attempt: usize, id: SiteId, acked: Acked, fate: Option<Fate>) {
        let now = self.now();
        self.order += 1;
        let call = &self.calls[self.attempts[attempt].call];
        let key = &self.pool.keys[call.key];
        let seen = Seen { now, order: self.order, site: Site::index_of(id), id, key, call, attempt };
        for check in &mut self.checks {
            match fate {
                None => check.unsure(seen, acked),
                Some(fate) => check.forgotten(seen, acked, fate),
            }
        }
        if acked == Acked::Created {
            self.pool.ready[call.key] = false;
        }
    }
}
