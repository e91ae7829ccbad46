//! How edges and relays leave, and how it stands with all of them in the end.

use super::{Happening, Station};
use crate::core::Millis;
use crate::system::calls::Kind;
use crate::system::fleet::{Balance, Ended, Replica, Stage, TargetStanding};
use crate::system::world::{Event, World};
use quipu_engine::handoff::{HandoffStats, Name, Retirement, Server};
use quipu_storage::ShardId;
use std::collections::BTreeMap;

/// When an edge has retired, another one comes after this time.
const NEXT_EDGE_MS: Millis = 50;

impl World {
    /// A relay that is to leave takes nothing any more, and leaves to a parent what it keeps for others.
    pub(super) fn relay_may_leave(&mut self, at: usize, station: Station, server: Server) {
        let replica = &mut self.fleet.replicas[at];
        if !matches!(replica.stage, Stage::Leaving { .. }) || replica.stop_relay().is_err() {
            return;
        }
        for (shard, Retirement { is_stopped, named, heir, .. }) in replica.retirement() {
            if is_stopped && heir.is_none() && named.is_none_or(|named| named == server.name) {
                replica.bequeath(station, server, shard);
            }
        }
    }

    /// Everything is elsewhere: it is gone.
    pub(super) fn leaves_if_it_may(&mut self, at: usize) {
        let replica = &mut self.fleet.replicas[at];
        if !replica.is_up() || !matches!(replica.stage, Stage::Leaving { .. }) {
            return;
        }
        if replica.is_edge() {
            if replica.has_retired && replica.has_spoken() {
                self.end_replica(at, Ended::Retired);
                self.queue.push(NEXT_EDGE_MS, Event::Fleet(Happening::Come { replica: at }));
            }
            return;
        }
        let retirement = replica.retirement();
        if !retirement.is_empty() && retirement.iter().all(|(_, retirement)| retirement.may_leave) {
            let heirs = retirement.into_iter().filter_map(|(shard, it)| Some((shard, it.heir?)));
            let name = replica.name;
            // Relays have no last words: a parent may keep a slot for it.
            let servers = replica.open().servers;
            servers.into_iter().for_each(|server| self.fleet.ledger.leaves_slots_at(server, name));
            self.fleet.heirs.insert(name, heirs.collect());
            self.end_replica(at, Ended::Retired);
        }
    }

    /// All edges are to leave; relays when these have, if they do.
    pub(in crate::system) fn disperse(&mut self) {
        self.fleet.is_closing = true;
        for at in 0..self.fleet.replicas.len() {
            let replica = &mut self.fleet.replicas[at];
            if replica.is_edge() && replica.stage == Stage::Active {
                replica.stage = Stage::Leaving { early: false };
            }
        }
    }

    /// Is everything handed over? If not, what is not. Relays leave when all edges have.
    pub(in crate::system) fn not_handed_over(&mut self) -> Option<String> {
        for at in 0..self.fleet.replicas.len() {
            let replica = &mut self.fleet.replicas[at];
            if replica.is_edge() && replica.stage != Stage::Gone {
                let open = replica.open();
                return Some(format!("{} has not retired: {open:?}", replica.who));
            }
        }
        for at in self.plan.fleet.edges..self.fleet.replicas.len() {
            let replica = &mut self.fleet.replicas[at];
            if replica.stage != Stage::Gone && !replica.is_up() {
                // It died in the commit after everything had healed, and comes back with what it has.
                return Some(format!("{} is away", replica.who));
            }
            if replica.stage == Stage::Active && self.plan.fleet.relays_retire {
                replica.stage = Stage::Leaving { early: false };
            }
            let is_leaving = matches!(replica.stage, Stage::Leaving { .. });
            let (who, open, retirement) = (replica.who, replica.open(), replica.retirement());
            let is_gone = |name: &Name| self.standing_of(*name, 0) != TargetStanding::There;
            if open.pending > 0 || !open.tokens.is_empty() {
                return Some(format!("{who} has not handed over {open:?}"));
            }
            // Whose heir is gone before it has answered waits for ever.
            let waits = |retirement: &Retirement| {
                retirement.may_leave || retirement.named.as_ref().is_some_and(is_gone)
            };
            if is_leaving && !retirement.iter().all(|(_, retirement)| waits(retirement)) {
                return Some(format!("{who} has not left: {retirement:?}"));
            }
        }
        None
    }

    /// How it stands with a target of tokens.
    fn standing_of(&self, name: Name, shard: u16) -> TargetStanding {
        if let Some(id) = name.site() {
            if self.membership.members.contains(&id) && !self.dead.contains(&id) {
                return TargetStanding::There;
            }
            let first = self.members().first().copied();
            let known = first.map_or(0, |first| self.sites[first].got_to(ShardId(shard), id));
            let heir = self.membership.removed.get(&id);
            let is_heir_gone = heir.is_some_and(|heir| !self.membership.members.contains(heir));
            return TargetStanding::Gone { known, is_heir_gone };
        }
        let heir = match self.fleet.heirs.get(&name) {
            Some(heirs) => heirs.get(&shard).copied(),
            None => {
                let relay = self.fleet.replicas.iter().find(|replica| replica.name == name);
                let retirement = relay.into_iter().flat_map(Replica::retirement);
                let of_shard = retirement.filter(|(of, _)| *of == shard).map(|(_, it)| it);
                of_shard.filter_map(|it| it.heir.or(it.named)).next()
            }
        };
        match heir.map(|heir| self.standing_of(heir, shard)) {
            None | Some(TargetStanding::There) => TargetStanding::There,
            Some(_) => TargetStanding::Orphaned { has_left: self.fleet.heirs.contains_key(&name) },
        }
    }

    /// What edges and relays have brought to each counter.
    pub(in crate::system) fn brought(&self) -> BTreeMap<usize, Balance> {
        let is_bounded = |key: usize| self.pool.keys[key].kind == Kind::Bounded;
        let lost = self.dead.len();
        self.fleet.ledger.balance(|name, shard| self.standing_of(name, shard), is_bounded, lost)
    }

    /// What is kept for those who hand over, and must not be any more. Who is patient waits for what perhaps nobody takes, too.
    pub(in crate::system) fn kept_too_long(&self, is_patient: bool) -> Option<String> {
        let mut sum = HandoffStats::default();
        let sites = self.members().into_iter().map(|site| self.sites[site].handoff_stats());
        let there = self.fleet.replicas.iter().filter(|replica| replica.stage != Stage::Gone);
        for stats in sites.chain(there.map(Replica::stats)) {
            sum.add(&stats);
        }
        let ledger = &self.fleet.ledger;
        let has_orphans = self.has_orphans();
        let slots_max = if has_orphans { u64::MAX } else { ledger.leftovers() };
        // Slots that are folded while they are in use are not used any more.
        let is_too_much = !self.folds_soon() && sum.slots + sum.folded > slots_max
            || self.folds_soon() && sum.slots > 0 && !has_orphans
            // Perhaps nobody answers for a relay whose heir is gone.
            || !has_orphans && (sum.cached > 0 || sum.notices > 0 || sum.tokens > 0);
        let too_much = is_too_much.then(|| format!("servers keep {sum:?}; {slots_max} slots may stay"));
        too_much.or_else(|| self.kept_for_one_who_is_answered_for(is_patient))
    }

    /// What is kept for one whom somebody answers for, although a relay's heir is gone: the heir of a lost site has yet to decide
    /// about its tokens, say. For a relay that waits for an heir which is gone perhaps nobody ever answers. For one that has left,
    /// the heir of its heir does, unless all who knew of that are gone, too: for these only the patient wait.
    fn kept_for_one_who_is_answered_for(&self, is_patient: bool) -> Option<String> {
        let sites = self.members().into_iter().map(|site| self.sites[site].kept_for());
        let there = self.fleet.replicas.iter().filter(|replica| replica.stage != Stage::Gone);
        // What a relay keeps that waits for ever, it keeps for ever.
        let relays = there.map(|replica| {
            let mut kept = replica.kept_for();
            kept.retain(|(shard, _)| self.standing_of(replica.name, *shard) == TargetStanding::There);
            kept
        });
        let is_awaited = |(shard, name): &(u16, Name)| match self.standing_of(*name, *shard) {
            TargetStanding::There | TargetStanding::Gone { .. } => true,
            TargetStanding::Orphaned { has_left } => has_left && is_patient,
        };
        let (shard, name) = sites.chain(relays).flatten().find(is_awaited)?;
        Some(format!("something is kept for {name} in shard {shard}, for whom somebody answers"))
    }

    /// How many relays have left, or may have begun to.
    pub(in crate::system) fn relays_leaving(&self) -> usize {
        let there = self.fleet.replicas.iter().filter(|replica| !replica.is_edge()).count();
        self.fleet.heirs.len() + there
    }

    /// Of how many edges and relays something may be kept for ever.
    pub(in crate::system) fn may_be_kept(&self) -> u64 {
        self.fleet.ledger.leftovers()
    }

    /// Does a relay wait for an heir that is gone, or was its heir lost, perhaps before others knew of it?
    pub(in crate::system) fn has_orphans(&self) -> bool {
        let relays = self.fleet.replicas.iter().filter(|replica| !replica.is_edge());
        let shards = 0..self.plan.shards;
        let orphaned =
            |name: Name, shard: u16| matches!(self.standing_of(name, shard), TargetStanding::Orphaned { .. });
        relays.into_iter().any(|relay| shards.clone().any(|shard| orphaned(relay.name, shard)))
    }

    /// Are slots folded before long?
    pub(in crate::system) fn folds_soon(&self) -> bool {
        self.plan.fleet.ttl_s < 60
    }
}
