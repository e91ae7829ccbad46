//! A copy of a site that runs beside its original. Both take themselves for the same site, and number what they count alike:
//! from where the copy was made on there are two streams, two *branches* of one.
//!
//! A site reaches one of the two at a time, now this one, now that one. None may take in both branches; and whichever of the
//! two is told of the other's branch must notice that, and count no more. Which branch a site has is kept here, apart from
//! what the engine says.
//!
//! If nobody has heard of the copy when it notices, the end is exact: the copy is thrown away, or goes on as another incarnation
//! in the place of its original. If both were heard, others have different branches, or rely on what one of the two has told
//! them and the other does not have: the run ends there, and nothing is compared.

use super::World;
use super::members::{Step, UnderWay};
use crate::core::Millis;
use crate::system::history::Note;
use crate::system::links::Links;
use crate::system::site::{Run, Site, Standing};
use quipu_engine::{BadMessage, SiteId};
use quipu_storage::ShardId;

/// The other sites turn to the other one of the two so often when everything has healed.
const TURN_MS: Millis = 2_000;
/// And each of the two has met everybody after this time.
const MET_MS: Millis = 12_000;
/// How likely somebody turns to the other one each time that it is looked at, before that.
const TURNS: f64 = 0.1;

/// Two that take themselves for the same site.
pub(in crate::system) struct Fork {
    /// As which both go.
    id: SiteId,
    /// The places of the original and of the copy.
    pub(super) both: [usize; 2],
    /// Up to here, by shard, what they have written is the same.
    common: Vec<u64>,
    /// By place and shard: whose branch is known there.
    known: Vec<Vec<Option<usize>>>,
    /// By place: the latest run of the two that has introduced itself there. That is remembered for good.
    seen: Vec<Run>,
    /// Those of them that have noticed that there are two.
    noticed: Vec<usize>,
    /// When the copy has noticed it, nobody had heard of what it has counted: it can go on as another incarnation.
    is_unheard: bool,
    /// Both run, or may.
    pub(super) is_open: bool,
    /// Everything has healed since this time.
    healed_ms: Option<Millis>,
}

impl Fork {
    /// Has this one noticed that there are two? It counts no more.
    pub(super) fn has_noticed(&self, at: usize) -> bool {
        self.is_open && self.noticed.contains(&at)
    }

    /// The other one, if this is one of the two.
    fn other(&self, at: usize) -> Option<usize> {
        let [original, copy] = self.both;
        [(original, copy), (copy, original)].into_iter().find_map(|(one, other)| (one == at).then_some(other))
    }

    /// Whose branch a place has, if more than what is common.
    fn branch(&self, at: usize, shard: ShardId) -> Option<usize> {
        match self.other(at) {
            Some(_) if self.is_open => Some(at),
            _ => self.known[at][usize::from(shard.0)],
        }
    }
}

impl World {
    /// The place at which somebody reaches a site: of two that go as the same one, the one that it has a link to.
    pub(super) fn reached(&self, from: usize, to: SiteId) -> usize {
        let first = Site::index_of(to);
        match &self.fork {
            Some(Fork { is_open: true, both: [original, copy], .. })
                if *original == first && self.links.is_connected(from, *copy) =>
            {
                *copy
            }
            _ => first,
        }
    }

    /// The other one of two that go as the same site.
    pub(super) fn twin(&self, at: usize) -> Option<usize> {
        self.fork.as_ref().filter(|fork| fork.is_open).and_then(|fork| fork.other(at))
    }

    /// Whose branch a place has of a stream, if there are two and it has more than what is common.
    pub(super) fn branch(&self, at: usize, shard: ShardId) -> Option<usize> {
        self.fork.as_ref()?.branch(at, shard)
    }

    /// Of a position in a site's stream that a place has: as far as it is one of this branch.
    pub(super) fn of_branch(&self, at: usize, of: SiteId, shard: ShardId, branch: usize, got_to: u64) -> u64 {
        match &self.fork {
            Some(fork) if fork.id == of && fork.both.contains(&branch) => match fork.branch(at, shard) {
                Some(known) if known != branch => got_to.min(fork.common[usize::from(shard.0)]),
                _ => got_to,
            },
            _ => got_to,
        }
    }

    /// In which branch of its stream an own change of a place, or what that tells of another site's, stands.
    pub(super) fn branch_of_claim(&self, at: usize, of: SiteId, shard: ShardId) -> usize {
        match &self.fork {
            Some(fork) if fork.id == of => fork.branch(at, shard).unwrap_or(fork.both[0]),
            _ => Site::index_of(of),
        }
    }

    /// The copy of a site is started beside it.
    pub(super) fn start_beside(&mut self, site: usize, away_ms: Millis) -> Result<(), String> {
        let copy = self.sites.len() - 1;
        if self.sites[site].standing != Standing::Member || self.healed {
            self.change = None;
            return Ok(());
        }
        let now = self.now();
        let twin = self.sites[site].started_copy();
        let Some(twin) = twin else {
            self.change = None;
            return Ok(());
        };
        self.sites[copy] = twin;
        let id = self.sites[site].id;
        self.note(Note::Text(format!("a copy of site {id} runs beside it, as {}", copy + 1)));
        self.sites[copy].start(now)?;
        let shards: Vec<ShardId> = (0..self.plan.shards).map(ShardId).collect();
        let common: Vec<u64> = shards.iter().map(|shard| self.sites[copy].got_to(*shard, id)).collect();
        let known = self.sites.iter().map(|it| {
            let branch = |shard: &ShardId| {
                (it.told(*shard, id).max(it.got_to(*shard, id)) > common[usize::from(shard.0)])
                    .then_some(site)
            };
            shards.iter().map(branch).collect()
        });
        let known = known.collect();
        let (both, noticed) = ([site, copy], Vec::new());
        let (is_open, healed_ms) = (true, None);
        let seen = vec![self.sites[site].run_of_process(); self.sites.len()];
        self.fork =
            Some(Fork { id, both, common, known, seen, noticed, is_unheard: false, is_open, healed_ms });
        let half = |number: usize| number.is_multiple_of(2);
        let theirs = self.clients.iter_mut().filter(|client| client.home == site && half(client.number));
        theirs.for_each(|client| client.home = copy);
        self.schedule(copy, self.plan.commit_ms);
        self.look_at_links();
        self.next(UnderWay { site, step: Step::Beside { away_ms } }, 0);
        Ok(())
    }

    /// Are these two the ones that go as the same site? They do not speak with each other.
    pub(super) fn is_kept_apart(&self, a: usize, b: usize) -> bool {
        self.twin(a) == Some(b)
    }

    /// Is one of these two one that has another one beside it?
    pub(super) fn is_beside(&self, a: usize, b: usize) -> bool {
        self.twin(a).is_some() || self.twin(b).is_some()
    }

    /// After everything has healed, two that go as the same site find out about each other.
    pub(in crate::system) fn part_copies(&mut self) -> Result<(), String> {
        let until = self.now() + 2 * MET_MS;
        while self.fork.as_ref().is_some_and(|fork| fork.is_open) && !self.is_undecided && self.now() < until
        {
            self.run_until(self.now() + TURN_MS)?;
        }
        Ok(())
    }

    /// A process has started again, perhaps with less than before.
    pub(super) fn starts_behind(&mut self, at: usize) {
        let Some(fork) = &mut self.fork else { return };
        for (shard, known) in fork.known[at].iter_mut().enumerate() {
            let got_to = self.sites[at].got_to(ShardId(u16::try_from(shard).expect("few shards")), fork.id);
            if got_to <= fork.common[shard] {
                *known = None;
            }
        }
    }

    /// Two that go as the same site are looked after.
    pub(super) fn look_beside(&mut self, site: usize, away_ms: Millis) -> Result<Option<()>, String> {
        let (now, healed) = (self.now(), self.healed);
        let turns = self.chance.chance(TURNS);
        let Some(fork) = &mut self.fork else { return Ok(Some(())) };
        let healed_ms = healed.then(|| *fork.healed_ms.get_or_insert(now));
        let has_noticed = fork.has_noticed(fork.both[1]);
        let both = fork.both;
        match healed_ms {
            // Both meet everybody, one after the other.
            Some(since) if !has_noticed && now - since < MET_MS => {
                let at = both[usize::try_from((now - since) / TURN_MS).unwrap_or(0) % 2];
                let peers: Vec<usize> = self.links.of(at).filter(|peer| !both.contains(peer)).collect();
                for peer in peers {
                    self.connect(peer.min(at), peer.max(at));
                }
                Ok(None)
            }
            None if !has_noticed => {
                if turns {
                    self.look_at_links();
                }
                Ok(None)
            }
            _ => self.end_beside(site, away_ms).map(Some),
        }
    }

    /// One of the two goes on as another incarnation, and the other one is gone.
    fn end_beside(&mut self, site: usize, away_ms: Millis) -> Result<(), String> {
        let Some(fork) = &self.fork else { return Ok(()) };
        let (id, [original, copy]) = (fork.id, fork.both);
        let has_written = |at: &usize| {
            let shards = fork.common.iter().enumerate();
            let mut ends =
                shards.map(|(shard, common)| (ShardId(u16::try_from(shard).expect("few shards")), common));
            self.sites[*at].is_up() && ends.any(|(shard, common)| self.sites[*at].got_to(shard, id) > *common)
        };
        let others = self.members().into_iter().any(|other| other != original);
        if fork.noticed.is_empty() && others && has_written(&original) && has_written(&copy) {
            return Err(format!("site {id} and its copy have met everybody, and both still count"));
        }
        // Nobody has heard of what the copy has counted, nor that it has heard anything: either of the two can go on.
        if fork.noticed != [copy] || !fork.is_unheard {
            self.note(Note::Text(format!("both copies of site {id} were heard: people must decide")));
            self.is_undecided = true;
            return Ok(());
        }
        // One that is told of runs which are not its own cannot go on as it is.
        let is_seen = |run: &Run| !self.sites[original].has_run(*run);
        let must_rename = fork.seen.iter().any(is_seen);
        let (loser, renames) = (copy, self.chance.chance(0.5) || must_rename);
        let how = if renames { "goes on as another incarnation" } else { "is thrown away" };
        self.note(Note::Text(format!("of site {id} and its copy the one at {} {how}", loser + 1)));
        for at in [original, copy] {
            if self.sites[at].is_up() {
                self.die(at);
            }
            self.checks.iter_mut().for_each(|check| check.set_back(at, true, 0));
        }
        self.clients_move(copy, site);
        if renames {
            self.rename_beside(site, loser, away_ms);
        } else {
            self.drop_beside(site, loser);
        }
        Ok(())
    }

    /// One of the two goes on as another incarnation, and the other one's disk is lost.
    fn rename_beside(&mut self, site: usize, goes_on: usize, away_ms: Millis) {
        let now = self.now();
        self.sites[goes_on].make_copy(now);
        let taken = self.sites[goes_on].copy.take();
        let copy = self.sites.len() - 1;
        self.sites[copy].standing = Standing::Outside;
        self.sites[site].copy = taken;
        if let Some(fork) = &mut self.fork {
            fork.is_open = false;
            // It undoes what it has counted beside its original: nobody had heard of that.
            fork.known[site] = vec![None; fork.common.len()];
        }
        self.die_for_good(site, Standing::Away);
        self.next(UnderWay { site, step: Step::PutBack }, away_ms);
    }

    /// The disk of one of the two is thrown away, and the other one goes on.
    fn drop_beside(&mut self, site: usize, loser: usize) {
        let Some(fork) = self.fork.take() else { return };
        let copy = self.sites.len() - 1;
        self.sites[site].standing = Standing::Member;
        self.sites[copy].standing = Standing::Outside;
        self.forget_branch(fork.id, loser, &fork.common);
        self.change = None;
        self.queue.push(0, super::Event::Restart { site });
    }

    /// How far a place has got with the stream that has two branches.
    pub(super) fn known_of_fork(&self, at: usize, shard: ShardId) -> u64 {
        self.fork.as_ref().map_or(0, |fork| self.sites[at].got_to(shard, fork.id))
    }

    /// A message was taken in. `branch` is what its sender has of the stream of which there are two.
    pub(super) fn heard_beside(
        &mut self,
        at: usize,
        shard: ShardId,
        branch: Option<usize>,
        before: u64,
    ) -> Result<(), String> {
        let Some(fork) = &mut self.fork else { return Ok(()) };
        if let (Some(_), Some(branch)) =
            (fork.other(at).filter(|_| fork.is_open), branch.filter(|it| *it != at))
        {
            return Err(format!(
                "site {} is told in shard {} what {} has counted beside it, and goes on",
                at + 1,
                shard.0,
                branch + 1
            ));
        }
        let got_to = self.sites[at].got_to(shard, fork.id);
        let is_one = fork.is_open && fork.both.contains(&at);
        if is_one || got_to <= before || got_to <= fork.common[usize::from(shard.0)] {
            return Ok(());
        }
        let known = &mut fork.known[at][usize::from(shard.0)];
        if let (Some(known), Some(branch)) = (*known, branch)
            && known != branch
        {
            return Err(format!(
                "site {} has changes of site {} in shard {} as {} has made them, and takes in those of {}",
                at + 1,
                fork.id,
                shard.0,
                known + 1,
                branch + 1
            ));
        }
        // What was sent before the copy was started is the original's.
        *known = known.or(branch).or(Some(fork.both[0]));
        Ok(())
    }

    /// A message was refused: because there are two that go as the same site?
    pub(super) fn refused_beside(&mut self, from: usize, at: usize, bad: &BadMessage) -> bool {
        let Some(fork) = &mut self.fork else { return false };
        let own = self.sites[at].id;
        let is_own = match bad {
            BadMessage::OldCopy { .. } => true,
            BadMessage::Branched { of, .. } => *of == own,
            _ => return false,
        };
        if !fork.is_open {
            return false;
        }
        if is_own && fork.other(at).is_some() {
            self.notices(at, &bad.to_string());
            return true;
        }
        if !is_own && fork.other(from).is_some() {
            self.note(Note::Text(format!("site {} ends the link to {}: {bad}", at + 1, from + 1)));
            self.disconnect(from, at);
            return true;
        }
        false
    }

    /// One of the two notices that there are two, and counts no more.
    fn notices(&mut self, at: usize, why: &str) {
        let Some(fork) = &mut self.fork else { return };
        fork.noticed.push(at);
        let heard = |(shard, common): (usize, &u64)| self.sites[at].heard_to(shard) > *common;
        fork.is_unheard = at == fork.both[1] && !fork.common.iter().enumerate().any(heard);
        self.note(Note::Text(format!("{} counts no more: {why}", at + 1)));
        self.die(at);
    }

    /// Two introduce themselves to each other. One that runs from an old copy, or beside a copy, is told so: the other has
    /// more of its stream, or has seen a run of its site that this folder has not had, or a later one.
    pub(super) fn greet(&mut self, a: usize, b: usize) -> bool {
        for (at, peer) in [(a, b), (b, a)] {
            let Some(fork) = self.fork.as_mut().filter(|fork| fork.is_open && fork.other(at).is_some())
            else {
                continue;
            };
            let (run, seen) = (self.sites[at].run_of_process(), fork.seen[peer]);
            let is_short = |(shard, _): (usize, &u64)| {
                let shard = ShardId(u16::try_from(shard).expect("few shards"));
                self.sites[at].got_to(shard, fork.id) < self.sites[peer].got_to(shard, fork.id)
            };
            if fork.common.iter().enumerate().any(is_short) {
                self.notices(at, "it has less of its own stream than others have");
                return false;
            }
            let is_later = run.number > seen.number;
            if run != seen && !(is_later && self.sites[at].has_run(seen)) {
                self.notices(at, "a run that is none of its own has introduced itself, or a later one");
                return false;
            }
            fork.seen[peer] = run;
        }
        true
    }

    /// A link takes the place of the one to the other of two that go as the same site.
    pub(super) fn replace_links(&mut self, a: usize, b: usize) {
        for (at, peer) in [(a, b), (b, a)] {
            if let Some(twin) = self.twin(at) {
                self.disconnect(twin, peer);
            }
        }
    }

    fn disconnect(&mut self, a: usize, b: usize) {
        let (a, b) = (a.min(b), a.max(b));
        if self.links.set_connected(a, b, false) {
            self.tell_both(a, b, false);
        }
    }
}

impl Links {
    /// Whom a place has links to when nothing is cut.
    fn of(&self, at: usize) -> impl Iterator<Item = usize> {
        self.all().filter(move |(a, _)| *a == at).map(|(_, b)| b)
    }
}
