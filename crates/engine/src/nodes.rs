//! A site of many nodes: which of them should have which shard, and for how long a node may rely on what it has.
//!
//! What is decided here is advice. A shard changes hands by its fence alone, in the store that the nodes share, so that two
//! nodes that advise themselves differently, or do not know that they were believed dead, cannot both commit to it.
//!
//! - [`share_out`] gives every node as many shards as any other, or one less, and moves as few as possible.
//! - [`Keeper`] is one node's view of the others. It writes from time to time that its node is there, looks at what all have
//!   written, and says which shards to take and which to release. Nobody's clock is compared with another's: a node is
//!   silent when the number that it counts up has not changed for a while on the clock of whoever looks.
//! - One of them speaks for the site to other sites: whoever has the fence of a seat that is no shard. What it has agreed
//!   with them is in the seat's log, and every node reads it there. Whoever takes a shard acts under what stood there after
//!   its fence was seen, so that no shard goes back behind what an earlier owner has acted under. While a site joins or
//!   leaves, its shards are together at that node, and the rest stand by.
//! - [`Trust`] is what a node may rely on that has nothing to commit. Others take its shards when it has been silent; so
//!   what it has in memory is the newest as long as it has written lately that it is there. Whoever has lapsed commits
//!   first, even if there is nothing to store, and hears from the fence whether the shard is still its own.

mod seat;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

pub use seat::{NotKnown, NotStored, Seat};

use quipu_storage::{Fenced, Held, NodeId, Record, Registered, Registry, ShardId, StorageError};

/// A node that has said nothing for so long is gone, unless told otherwise: others take its shards.
pub const SILENCE_MS_DEFAULT: u64 = 5_000;

/// For so much of the time of silence a node relies on what it has; the rest is for clocks that do not run alike.
const TRUSTED_PERCENT: u64 = 80;

/// Whether what is in memory can be relied on without asking the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Trust {
    /// Rises whenever it had lapsed: then every shard is confirmed anew.
    pub epoch: u64,
    /// Until when, on this node's clock.
    pub until_ms: u64,
}

/// Who should have each shard: each node has as many as any other, or one less, and as few as possible change hands.
/// `None`: nobody is there.
pub fn share_out(owners: &[Option<NodeId>], nodes: &BTreeSet<NodeId>) -> Vec<Option<NodeId>> {
    let mut shares: BTreeMap<NodeId, usize> = nodes.iter().map(|node| (*node, 0)).collect();
    if shares.is_empty() {
        return vec![None; owners.len()];
    }
    let (least, more) = (owners.len() / nodes.len(), owners.len() % nodes.len());
    let mut held: BTreeMap<NodeId, usize> = BTreeMap::new();
    for owner in owners.iter().flatten().filter(|owner| nodes.contains(owner)) {
        *held.entry(*owner).or_default() += 1;
    }
    // Those who have the most keep one more than the others, if that does not come out even.
    let mut by_held: Vec<NodeId> = nodes.iter().copied().collect();
    by_held.sort_by_key(|node| (std::cmp::Reverse(held.get(node).copied().unwrap_or(0)), *node));
    let limits: BTreeMap<NodeId, usize> =
        by_held.iter().enumerate().map(|(at, node)| (*node, least + usize::from(at < more))).collect();
    let mut shared: Vec<Option<NodeId>> = vec![None; owners.len()];
    for (place, owner) in shared.iter_mut().zip(owners) {
        let Some(owner) = owner.filter(|owner| nodes.contains(owner)) else { continue };
        let share = shares.entry(owner).or_default();
        if *share < limits[&owner] {
            *share += 1;
            *place = Some(owner);
        }
    }
    let mut takers = by_held.iter().flat_map(|node| {
        let missing = limits[node] - shares[node];
        std::iter::repeat_n(*node, missing)
    });
    for place in shared.iter_mut().filter(|place| place.is_none()) {
        *place = takers.next();
    }
    shared
}

/// What a node is to do, and where the shards are.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Advice {
    /// Nobody has these, or somebody who is gone, and they are for this node; with their fences as they were seen.
    pub take: Vec<(ShardId, Option<Fenced>)>,
    /// This node has these, and they are for another one that is there.
    pub release: Vec<ShardId>,
    /// By their fences this node has these, and it has not: they were taken, or given back, without an answer. They are for
    /// another one, which waits for this one ([`crate::Host::free`]).
    pub free: Vec<(ShardId, Option<Fenced>)>,
    /// This node has these, and by their fences it has not: it is to ask them ([`crate::Host::confirm`]).
    pub doubtful: Vec<ShardId>,
    /// What is to be done about the seat of the one that speaks for the site.
    pub seat: SeatAdvice,
    /// Who has each shard, or is about to take it.
    pub routes: BTreeMap<ShardId, NodeId>,
    /// Who is there, this node included.
    pub present: BTreeMap<NodeId, Registered>,
    /// All of them are known to be alive: a node that has just started may see some that are not any more.
    pub is_certain: bool,
    /// Where each log stands, as far as any was ever taken.
    pub held: Vec<Held>,
    /// What the one that speaks for the site has stored last, if anybody ever did.
    pub agreed: Option<Record>,
}

/// What a node is to do about the seat of the one that speaks for the site.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SeatAdvice {
    /// Who has it, or is to have it.
    pub speaker: Option<NodeId>,
    /// It is for this node, and stands so.
    pub take: Option<Option<Fenced>>,
    /// This node has it, and it is for another.
    pub release: bool,
    /// This node has it, and by its fence it has not.
    pub doubtful: bool,
}

/// What a node has at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Holding {
    /// These shards are open.
    pub shards: BTreeSet<ShardId>,
    /// It speaks for the site.
    pub seat: bool,
    /// The shards of the site belong together: it joins others, or leaves them.
    pub together: bool,
}

/// One node's view of the others.
pub struct Keeper {
    registry: Arc<dyn Registry>,
    shards: Vec<ShardId>,
    /// No shard, and fenced like one.
    seat: ShardId,
    silence_ms: u64,
    /// What this node has written last.
    own: Registered,
    trust: Trust,
    heard: BTreeMap<NodeId, Heard>,
    flaw: Option<Flaw>,
}

/// What was last heard of another node.
#[derive(Debug, Clone, Copy)]
struct Heard {
    count: u64,
    /// When that was new here.
    at_ms: u64,
    /// It has counted since it was first seen.
    has_counted: bool,
}

/// Wrong ways, for tests that must catch them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flaw {
    /// Who is there is looked at before who has which shard.
    NodesBeforeFences,
    /// A node relies on what it has from when it was told that its words are written, and has never lapsed before.
    TrustsSlowBeats,
    /// What a node has by its fence alone is for anybody.
    OverlooksUnheard,
    /// A node is not told that others have taken what it has.
    NeverDoubts,
    /// What the one that speaks has stored is read before it is looked who has which shard.
    AgreedBeforeFences,
}

impl std::fmt::Debug for Keeper {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Keeper").field("own", &self.own).field("trust", &self.trust).finish_non_exhaustive()
    }
}

/// Another node has taken this one's place in the register: it started under the same address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "this node was taken out of the register of nodes, by another one that was started under the same address; it stops, and \
     has committed nothing since. Give each node a --link, and --advertise, of its own"
)]
pub struct Removed;

/// Why there is no advice.
#[derive(Debug, thiserror::Error)]
pub enum LookError {
    /// The store failed. It is looked again before long.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// This node must not go on.
    #[error(transparent)]
    Removed(#[from] Removed),
}

impl Holding {
    fn has(&self, shard: ShardId, seat: ShardId) -> bool {
        if shard == seat { self.seat } else { self.shards.contains(&shard) }
    }
}

impl Keeper {
    /// Of this node. Others are gone when they have been silent for so long. `about` is what others are told of it.
    pub fn new(
        registry: Arc<dyn Registry>,
        shards: Vec<ShardId>,
        seat: ShardId,
        silence_ms: u64,
        about: Vec<u8>,
    ) -> Self {
        let own = Registered { node: registry.own(), count: 0, drains: false, about };
        let trust = Trust { epoch: 0, until_ms: 0 };
        Self { registry, shards, seat, silence_ms, own, trust, heard: BTreeMap::new(), flaw: None }
    }

    /// Chooses a wrong way.
    #[cfg(feature = "testing")]
    pub fn with_flaw(mut self, flaw: Option<Flaw>) -> Self {
        self.flaw = flaw;
        self
    }

    /// Writes that this node is there, and whether it gives its shards away. `clock` tells this node's time.
    pub fn beat(&mut self, clock: impl Fn() -> u64, drains: bool) -> Result<Trust, StorageError> {
        let began_ms = clock();
        self.own.count += 1;
        self.own.drains = drains;
        self.registry.write(&self.own)?;
        if self.flaw == Some(Flaw::TrustsSlowBeats) {
            self.trust.until_ms = clock() + self.silence_ms * TRUSTED_PERCENT / 100;
            return Ok(self.trust);
        }
        // Whoever looked before this was seen may have found silence, if it came too late.
        if clock() >= self.trust.until_ms {
            crate::coverage::reached(crate::coverage::Branch::TrustLapsed);
            self.trust.epoch += 1;
        }
        self.trust.until_ms = began_ms + self.silence_ms * TRUSTED_PERCENT / 100;
        Ok(self.trust)
    }

    /// Looks at what is in the store. `holding` tells what this node has; it is asked after the store was.
    pub fn look(
        &mut self,
        clock: impl Fn() -> u64,
        holding: impl FnOnce() -> Holding,
    ) -> Result<Advice, LookError> {
        let began_ms = clock();
        let early = (self.flaw == Some(Flaw::AgreedBeforeFences)).then(|| self.registry.last(self.seat));
        // Fences first: one that was seen before its owner was found silent has changed if the owner is at work again.
        let (held, nodes) = if self.flaw == Some(Flaw::NodesBeforeFences) {
            let nodes = self.registry.nodes()?;
            (self.registry.held()?, nodes)
        } else {
            (self.registry.held()?, self.registry.nodes()?)
        };
        let seen_ms = clock();
        // After the fences: an owner that has acted under more has the shard no more as it was seen.
        let agreed = early.unwrap_or_else(|| self.registry.last(self.seat))?;
        let own = self.own.node;
        if self.own.count > 0 && !nodes.iter().any(|it| it.node == own) {
            return Err(Removed.into());
        }
        self.heard.retain(|node, _| nodes.iter().any(|it| it.node == *node));
        for it in nodes.iter().filter(|it| it.node != own) {
            match self.heard.get_mut(&it.node) {
                Some(heard) if heard.count == it.count => {}
                Some(heard) => *heard = Heard { count: it.count, at_ms: seen_ms, has_counted: true },
                None => {
                    let heard = Heard { count: it.count, at_ms: seen_ms, has_counted: false };
                    self.heard.insert(it.node, heard);
                }
            }
        }
        let is_silent = |node: NodeId| {
            let heard = self.heard.get(&node).map(|heard| began_ms.saturating_sub(heard.at_ms));
            node != own && heard.is_none_or(|ago_ms| ago_ms >= self.silence_ms)
        };
        let present = nodes.into_iter().filter(|it| !is_silent(it.node)).map(|it| (it.node, it)).collect();
        // What was taken after the fences were seen is not to be taken a second time.
        Ok(Advice { agreed, ..self.advise(held, present, &holding()) })
    }

    fn advise(&self, held: Vec<Held>, present: BTreeMap<NodeId, Registered>, holding: &Holding) -> Advice {
        let own = self.own.node;
        let is_draining = |it: &Registered| if it.node == own { self.own.drains } else { it.drains };
        let mut takers: BTreeSet<NodeId> =
            present.values().filter(|it| !is_draining(it)).map(|it| it.node).collect();
        if takers.is_empty() {
            // The last one keeps what it has.
            takers = present.keys().copied().collect();
        }
        let fences: BTreeMap<ShardId, &Held> = held.iter().map(|held| (held.shard, held)).collect();
        let owner = |shard: ShardId| match fences.get(&shard).and_then(|held| held.by) {
            _ if holding.has(shard, self.seat) => Some(own),
            Some(node) if node == own && self.flaw == Some(Flaw::OverlooksUnheard) => None,
            other => other.filter(|node| *node == own || present.contains_key(node)),
        };
        // Taken, or given back, by an attempt of which this node has not heard. For the others it is this one's, so that it
        // alone can go on with it, or give it away.
        let is_unheard =
            |owner: &Option<NodeId>, shard| *owner == Some(own) && !holding.has(shard, self.seat);
        let owners: Vec<Option<NodeId>> = self.shards.iter().map(|shard| owner(*shard)).collect();
        let sitting = owner(self.seat);
        // Whoever has it keeps it as long as it takes shards at all.
        let speaker = sitting.filter(|node| takers.contains(node)).or_else(|| takers.first().copied());
        let takers = if holding.together { speaker.into_iter().collect() } else { takers };
        let wanted = share_out(&owners, &takers);
        let fence = |shard: &ShardId| fences.get(shard).map(|held| held.fence);
        let is_doubtful = |shard: &ShardId| fences.get(shard).and_then(|held| held.by) != Some(own);
        let seat = SeatAdvice {
            speaker: sitting.or(speaker),
            take: ((sitting.is_none() && speaker == Some(own)) || is_unheard(&sitting, self.seat))
                .then(|| fence(&self.seat)),
            release: holding.seat && speaker != Some(own),
            doubtful: holding.seat && is_doubtful(&self.seat),
        };
        let mut advice = Advice { seat, ..Advice::default() };
        for ((shard, owner), wanted) in self.shards.iter().zip(&owners).zip(&wanted) {
            match (owner, *wanted == Some(own)) {
                (_, false) if is_unheard(owner, *shard) => advice.free.push((*shard, fence(shard))),
                (_, true) if is_unheard(owner, *shard) => advice.take.push((*shard, fence(shard))),
                (None, true) => advice.take.push((*shard, fence(shard))),
                (Some(owner), false) if *owner == own => advice.release.push(*shard),
                _ => {}
            }
            if *owner == Some(own) && is_doubtful(shard) && self.flaw != Some(Flaw::NeverDoubts) {
                advice.doubtful.push(*shard);
            }
            if let Some(node) = owner.or(*wanted) {
                advice.routes.insert(*shard, node);
            }
        }
        let is_alive = |node: &NodeId| *node == own || self.heard.get(node).is_some_and(|it| it.has_counted);
        Advice { is_certain: present.keys().all(is_alive), present, held, ..advice }
    }
}

#[cfg(test)]
mod tests;
