//! Random lives of clusters: changes at several sites at once, notices that are lost, repeated and overtaken, crashes
//! before and after what is to be stored is stored, sites that are lost for ever and sites that are restored. In the end
//! everything is heard, and whoever is lost is removed.

use std::collections::{BTreeMap, BTreeSet};

use quipu_crdt::testing::Random;
use quipu_engine::{
    Council, SiteId,
    council::{Change, Flaw, Notice, Refused, Standing, Step},
};

use crate::{
    checks::{self, ALL_REFUSE, History, List, ONE_LIST, WRITERS_ARE_LISTED},
    cluster,
};

const STEPS: usize = 500;
/// Rounds in which everybody hears everybody until nothing changes.
const ROUNDS_MAX: usize = 100;

/// Most that are under way at a time.
const NOTICES_MAX: usize = 40;

struct Node {
    council: Council,
    stored: Council,
    is_lost: bool,
}

struct Packet {
    from: SiteId,
    to: SiteId,
    bytes: Vec<u8>,
}

struct World {
    random: Random,
    flaw: Option<Flaw>,
    nodes: BTreeMap<SiteId, Node>,
    packets: Vec<Packet>,
    history: History,
}

/// What has happened, in numbers.
#[derive(Debug, Default)]
struct Tally {
    in_force: u64,
    refused: usize,
    repaired: usize,
}

type Broken = String;

impl World {
    fn new(seed: u64, flaw: Option<Flaw>) -> Self {
        let mut random = Random::new(seed);
        let numbers: Vec<u16> =
            (1..=2 + random.below(4)).filter_map(|number| u16::try_from(number).ok()).collect();
        let mut world =
            Self { random, flaw, nodes: BTreeMap::new(), packets: Vec::new(), history: History::default() };
        cluster(&numbers).into_iter().for_each(|council| world.start(council));
        world
    }

    fn start(&mut self, council: Council) {
        let council = council.with_flaw(self.flaw);
        self.history.note(&council);
        let node = Node { stored: council.clone(), council, is_lost: false };
        self.nodes.entry(node.council.site()).or_insert(node);
    }

    fn councils(&self) -> impl Iterator<Item = &Council> + Clone {
        self.nodes.values().map(|node| &node.council)
    }

    fn live(&self) -> impl Iterator<Item = &Council> + Clone {
        self.nodes.values().filter(|node| !node.is_lost).map(|node| &node.council)
    }

    fn members(&self) -> usize {
        self.live().filter(|council| council.standing() >= Some(Standing::Member)).count()
    }

    /// An id that was never used, not even on a list that was left behind.
    fn new_id(&self, number: u16) -> SiteId {
        let used = self.nodes.keys().filter(|site| site.number == number).map(|site| site.incarnation).max();
        SiteId { number, incarnation: used.map_or(0, |used| used + 1) }
    }

    fn any_live(&mut self) -> SiteId {
        let live: Vec<SiteId> = self.live().map(Council::site).collect();
        *self.random.pick(&live)
    }

    fn council(&mut self, site: SiteId) -> &mut Council {
        &mut self.nodes.get_mut(&site).expect("a site").council
    }

    /// Stores and sends, unless there is a crash before or between.
    fn finish(&mut self, site: SiteId, step: Step, may_crash: bool) -> Result<(), Broken> {
        let (early, between) = (self.random.chance(0.05), self.random.chance(0.05));
        let flaw = self.flaw;
        let node = self.nodes.get_mut(&site).expect("a site");
        if may_crash && early {
            node.council = node.stored.clone();
            return Ok(());
        }
        if let Some(bytes) = step.persist {
            // (Wrong ones get into states that are refused when they are read.)
            if flaw.is_none() && Council::decode(&bytes).ok().as_ref() != Some(&node.council) {
                return Err("what is stored is read as something else".into());
            }
            node.stored = node.council.clone();
            self.history.note(&self.nodes[&site].council);
            self.check()?;
        } else if self.nodes[&site].council != self.nodes[&site].stored {
            return Err("a change is not stored".into());
        }
        if may_crash && between {
            return Ok(());
        }
        for to in step.tell {
            self.send(site, to);
        }
        Ok(())
    }

    fn send(&mut self, from: SiteId, to: SiteId) {
        let bytes = self.nodes[&from].stored.notice().encode();
        self.packets.push(Packet { from, to, bytes });
        if self.packets.len() > NOTICES_MAX {
            let lost = self.random.below(NOTICES_MAX);
            self.packets.swap_remove(lost);
        }
    }

    fn check(&self) -> Result<(), Broken> {
        let stored = || self.nodes.values().map(|node| &node.stored);
        let holds = [
            (ONE_LIST, self.history.one_list()),
            (ALL_REFUSE, self.history.all_refuse(&stored())),
            (WRITERS_ARE_LISTED, checks::writers_are_listed(&stored())),
        ];
        match holds.into_iter().find(|(_, holds)| !holds) {
            None => Ok(()),
            Some((broken, _)) => Err(format!("broken: {broken}")),
        }
    }

    /// One site hears another. Was it refused?
    fn hear(&mut self, from: SiteId, to: SiteId, bytes: &[u8], may_crash: bool) -> Result<bool, Broken> {
        if self.nodes.get(&to).is_none_or(|node| node.is_lost) {
            return Ok(false);
        }
        let notice = Notice::decode(bytes);
        let notice = match (notice, self.flaw) {
            (Ok(notice), _) => notice,
            (Err(_), Some(_)) => self.nodes[&from].stored.notice().clone(),
            (Err(error), None) => return Err(error.to_string()),
        };
        let before = self.nodes[&to].council.clone();
        match self.council(to).receive(from, &notice) {
            Ok(step) => {
                let after = self.nodes[&to].council.config().epoch;
                if let Some((own, _)) = before.waiting()
                    && after > before.config().epoch.max(notice.config().epoch)
                    && !checks::all_agreed(before.config(), own, self.nodes.values().map(|node| &node.stored))
                {
                    return Err("in force before all have agreed".into());
                }
                self.finish(to, step, may_crash)?;
                Ok(false)
            }
            Err(refused) => {
                if self.nodes[&to].council != before {
                    return Err("refused, and yet something has changed".into());
                }
                if matches!(refused, Refused::Removed { .. }) {
                    self.send(to, from);
                }
                Ok(true)
            }
        }
    }

    fn step(&mut self, tally: &mut Tally) -> Result<(), Broken> {
        let site = self.any_live();
        match self.random.below(100) {
            0..70 if !self.packets.is_empty() => {
                let at = self.random.below(self.packets.len());
                let Packet { from, to, bytes } = self.packets.swap_remove(at);
                if self.random.chance(0.3) {
                    self.packets.push(Packet { from, to, bytes: bytes.clone() });
                }
                if self.random.chance(0.8) {
                    tally.refused += usize::from(self.hear(from, to, &bytes, true)?);
                }
            }
            0..80 => {
                let known: Vec<SiteId> = self.nodes.keys().copied().filter(|other| *other != site).collect();
                known.into_iter().for_each(|to| self.send(site, to));
            }
            80..82 => {
                let step = self.council(site).withdraw();
                self.finish(site, step, true)?;
            }
            82..90 => {
                if self.nodes[&site].council.standing() == Some(Standing::Joining)
                    && let Ok(step) = self.council(site).joined()
                {
                    self.finish(site, step, true)?;
                }
            }
            90 if self.members() > 1 => {
                self.nodes.get_mut(&site).expect("a site").is_lost = true;
            }
            _ => {
                let change = self.any_change(site);
                if let Ok(step) = self.council(site).propose(change) {
                    self.finish(site, step, true)?;
                }
            }
        }
        Ok(())
    }

    /// What a person who knows little might want at this site.
    fn any_change(&mut self, at: SiteId) -> Change {
        let config = self.nodes[&at].council.config().clone();
        let listed: Vec<SiteId> = config.sites.keys().copied().collect();
        let other = if listed.is_empty() { at } else { *self.random.pick(&listed) };
        match self.random.below(8) {
            5 | 6 => Change::Leave { site: at },
            7 => Change::Stay { site: at },
            0 | 1 => {
                let number = u16::try_from(1 + self.random.below(7)).expect("small");
                let site = self.new_id(number);
                self.start(Council::newcomer(site));
                Change::Add { site, name: "new".into(), address: "somewhere:1".into() }
            }
            2 if other != at && self.members() > 2 && self.nodes[&at].council.agreed().is_empty() => {
                let new = self.new_id(other.number);
                self.nodes.get_mut(&other).expect("a listed site exists").is_lost = true;
                self.start(Council::newcomer(new));
                Change::Restore { old: other, new, address: "somewhere:2".into() }
            }
            _ => {
                let is_lost = |site: &SiteId| self.nodes.get(site).is_some_and(|node| node.is_lost);
                let mut sites: BTreeSet<SiteId> = config.sites.keys().copied().filter(is_lost).collect();
                if sites.is_empty() || self.random.chance(0.3) {
                    sites.insert(other);
                }
                // Who is lost may have said before that it leaves.
                let drained = sites.iter().all(|site| config.standing(*site) == Some(Standing::Leaving));
                Change::Remove { sites, heir: at, drained: drained && self.random.chance(0.8) }
            }
        }
    }

    /// Everybody hears everybody, until nothing changes.
    fn hear_everything(&mut self) -> Result<(), Broken> {
        self.packets.clear();
        for _ in 0..ROUNDS_MAX {
            let before: Vec<Council> = self.councils().cloned().collect();
            let live: Vec<SiteId> = self.live().map(Council::site).collect();
            for from in &live {
                for to in live.iter().filter(|to| *to != from) {
                    let bytes = self.nodes[from].stored.notice().encode();
                    self.hear(*from, *to, &bytes, false)?;
                }
            }
            self.packets.clear();
            if self.councils().eq(&before) {
                return self.is_settled();
            }
        }
        Err("it does not come to an end".into())
    }

    /// Who accepts each other has the same list, and where nobody is lost nothing is open.
    fn is_settled(&self) -> Result<(), Broken> {
        for one in self.live().filter(|one| one.standing().is_some()) {
            let accepts = |a: &Council, b: &Council| a.config().epoch > 0 && a.may_join(b.site()).is_ok();
            let mut friends = self.live().filter(|other| accepts(one, other) && accepts(other, one));
            if friends.any(|friend| List::of(friend.config()) != List::of(one.config())) {
                return Err(format!("others accept site {} and have another list", one.site()));
            }
            let is_here = |site: &SiteId| {
                self.live()
                    .any(|other| other.site() == *site && List::of(other.config()) == List::of(one.config()))
            };
            if one.config().sites.keys().all(is_here) && !one.agreed().is_empty() {
                return Err(format!("site {} waits, and nobody is lost", one.site()));
            }
        }
        Ok(())
    }

    /// Removes whoever is lost, and whom these were about to remove, from the list of one site.
    fn repair(&mut self, tally: &mut Tally) -> Result<(), Broken> {
        let live: Vec<SiteId> = self.live().map(Council::site).collect();
        for site in &live {
            let step = self.council(*site).withdraw();
            self.finish(*site, step, false)?;
        }
        self.hear_everything()?;
        let mut is_repairable = self.members() == 0;
        for one in live {
            let config = self.nodes[&one].council.config().clone();
            let is_member = config.standing(one) >= Some(Standing::Member);
            let gone = self.gone(&self.nodes[&one].council);
            if !is_member || gone.contains(&one) {
                continue;
            }
            is_repairable = true;
            if gone.is_empty() {
                continue;
            }
            let change = Change::Remove { sites: gone, heir: one, drained: false };
            let step =
                self.council(one).propose(change.clone()).map_err(|why| format!("no repair: {why}"))?;
            self.finish(one, step, false)?;
            self.hear_everything()?;
            let config = self.nodes[&one].council.config();
            if !change.is_in(config) {
                return Err(format!("site {one} cannot {change}"));
            }
            tally.repaired += 1;
        }
        if is_repairable { Ok(()) } else { Err("nobody is left who can go on".into()) }
    }

    /// Who on a site's list is lost or has gone another way; whom these were about to remove; if that is the site itself,
    /// who had agreed to it.
    fn gone(&self, one: &Council) -> BTreeSet<SiteId> {
        let with_us = |site: SiteId| {
            self.live().find(|other| {
                other.site() == site
                    && (other.config().epoch == 0 || List::of(other.config()) == List::of(one.config()))
            })
        };
        let listed = || one.config().sites.keys().copied();
        let mut gone: BTreeSet<SiteId> = listed().filter(|site| with_us(*site).is_none()).collect();
        loop {
            let staying = listed().filter(|site| !gone.contains(site)).filter_map(with_us);
            let mut more = BTreeSet::new();
            for (council, proposal) in
                staying.flat_map(|c| c.agreed().iter().map(move |proposal| (c, proposal)))
            {
                if gone.contains(&proposal.by) {
                    match proposal.change.removes() {
                        removed if removed.contains(&one.site()) => more.extend([council.site()]),
                        removed => more.extend(removed),
                    }
                }
            }
            if more.is_subset(&gone) {
                return gone;
            }
            gone.extend(more);
        }
    }
}

fn live(seed: u64, flaw: Option<Flaw>) -> Result<Tally, Broken> {
    let mut world = World::new(seed, flaw);
    let mut tally = Tally::default();
    for _ in 0..STEPS {
        world.step(&mut tally)?;
    }
    world.hear_everything()?;
    world.repair(&mut tally)?;
    tally.in_force = world.councils().map(|council| council.config().epoch).max().unwrap_or(0);
    Ok(tally)
}

#[test]
#[allow(clippy::disallowed_methods, reason = "the size of a test is not configuration of the engine")]
fn many_lives() {
    let seeds = std::env::var("QUIPU_SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(400);
    let mut sum = Tally::default();
    for seed in 0..seeds {
        let tally = live(seed, None).unwrap_or_else(|why| {
            panic!("seed {seed}: {why}\nreplay: QUIPU_SEEDS={} cargo test -p quipu-engine --test council many_lives", seed + 1)
        });
        sum.in_force += tally.in_force;
        sum.refused += tally.refused;
        sum.repaired += tally.repaired;
    }
    println!("{seeds} lives: {sum:?}");
    assert!(sum.in_force > 3 * seeds && sum.repaired > 0, "things happen: {sum:?}");
}

#[test]
fn wrong_lives_are_caught() {
    let flaws =
        [Flaw::Majority, Flaw::Revokes, Flaw::OverridesMore, Flaw::ForgetsUnderneath, Flaw::ListensToLeavers];
    for flaw in flaws {
        let caught = (0..2000).find_map(|seed| live(seed, Some(flaw)).err().map(|why| (seed, why)));
        println!("{flaw:?}: {caught:?}");
        assert!(caught.is_some(), "{flaw:?} is caught");
    }
}
