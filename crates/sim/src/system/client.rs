//! Clients: what they ask for next, and what they do when no answer comes.

use super::calls::{Act, Call, Id, Key, Kind, SpreadWay, unix_ms};
use super::plan::{Mix, Work};
use crate::core::Millis;
use quipu_crdt::testing::Random;
use quipu_engine::{Beyond, Move, Right, SiteId};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// So many operations that a client is done with are kept to be tried again long after.
const STALE_MAX: usize = 8;

/// A curious client asks about so many of its last operations.
const RECENT_MAX: usize = 16;

/// A call that waits for its answer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Waiting {
    pub(crate) call: usize,
    pub(crate) attempt: usize,
    /// How often it was tried.
    pub(crate) tries: usize,
    pub(crate) site: usize,
}

/// A client. It has one call at a time.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) number: usize,
    /// The site that it asks first.
    pub(crate) home: usize,
    pub(crate) random: Random,
    /// For what it does with rights, besides.
    rights: Random,
    /// For its mistakes, and the limits that it names.
    pub(crate) whims: Random,
    /// Timers of an earlier turn mean nothing any more.
    pub(crate) turn: u32,
    pub(crate) waiting: Option<Waiting>,
    /// Its last operation with an id.
    last: Option<usize>,
    /// Its operations whose ids tell their age.
    stale: Vec<usize>,
    /// Its last operations, if it is curious.
    recent: VecDeque<usize>,
    /// How many operations it has made on each counter: the next one's id, which is that of others on other counters.
    made: BTreeMap<usize, u64>,
}

/// What clients know in common about the counters.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    pub(crate) keys: Vec<Key>,
    /// By kind, the counters in use.
    pub(crate) plain: Vec<usize>,
    ids: Vec<usize>,
    pub(crate) bounded: Vec<usize>,
    pub(crate) resets: Vec<usize>,
    /// Counters that only grow, for edges: those of clients, if they have any.
    for_edges: Vec<usize>,
    /// Counters that were created, or are there already.
    pub(crate) ready: Vec<bool>,
    operations: usize,
    /// Counters, and sites that have told that they have counted without bounds, or that there are bounds.
    pub(crate) used: BTreeSet<(usize, usize)>,
    /// The last operations that were counted, and where.
    pub(crate) counted: VecDeque<(usize, usize)>,
    /// Over which the counters are spread.
    shards: u16,
    room: i64,
}

impl Pool {
    /// The counters that this work is about; with some for edges, if there are any.
    pub(crate) fn new(work: &Work, shards: u16, edges: bool) -> Self {
        let mut pool = Self { shards, room: work.room, ..Self::default() };
        let Mix { plain, ids, bounded, resets } = work.mix;
        let kinds =
            [(Kind::Plain, plain), (Kind::Ids, ids), (Kind::Bounded, bounded), (Kind::Resets, resets)];
        for (kind, _) in kinds.into_iter().filter(|(_, weight)| *weight > 0) {
            for _ in 0..work.keys {
                let number = pool.add(kind);
                pool.of(kind).push(number);
            }
        }
        pool.for_edges.clone_from(&pool.plain);
        if pool.for_edges.is_empty() && edges {
            pool.for_edges = (0..work.keys).map(|_| pool.add(Kind::Plain)).collect();
        }
        pool
    }

    /// A counter that an edge or a relay may count on.
    pub(crate) fn for_fleet(&self, bounded: bool, random: &mut Random) -> Option<usize> {
        let bounded = self.bounded.iter().filter(|key| bounded && self.ready[**key]);
        let all: Vec<usize> = self.for_edges.iter().chain(&self.ids).chain(bounded).copied().collect();
        (!all.is_empty()).then(|| *random.pick(&all))
    }

    fn of(&mut self, kind: Kind) -> &mut Vec<usize> {
        match kind {
            Kind::Plain => &mut self.plain,
            Kind::Ids => &mut self.ids,
            Kind::Bounded => &mut self.bounded,
            Kind::Resets => &mut self.resets,
        }
    }

    fn add(&mut self, kind: Kind) -> usize {
        let number = self.keys.len();
        self.keys.push(Key::new(kind, number, self.shards, self.room));
        self.ready.push(false);
        number
    }

    /// The amount of the next call on one of the counters that are reset. One that has no digit left is replaced.
    fn next_amount(&mut self, place: usize) -> (usize, i64) {
        let key = self.resets[place];
        if let Some(amount) = self.keys[key].next_amount() {
            return (key, amount);
        }
        let key = self.add(Kind::Resets);
        self.resets[place] = key;
        (key, self.keys[key].next_amount().expect("a new counter has all its digits"))
    }
}

impl Client {
    pub(crate) fn new(number: usize, home: usize, seed: u64) -> Self {
        let random = Random::stream(seed, &format!("system: client {number}"));
        let rights = Random::stream(seed, &format!("system: rights of client {number}"));
        let whims = Random::stream(seed, &format!("system: whims of client {number}"));
        Self {
            number,
            home,
            random,
            rights,
            whims,
            turn: 0,
            waiting: None,
            last: None,
            stale: Vec::new(),
            recent: VecDeque::new(),
            made: BTreeMap::new(),
        }
    }

    /// How long it thinks before its next call.
    pub(crate) fn think_ms(&mut self, work: &Work) -> Millis {
        1 + self.random.bits() % (2 * work.think_ms)
    }

    /// Is done with a call.
    pub(crate) fn done(&mut self, number: usize, call: &Call) {
        self.waiting = None;
        let Some(id) = call.id.as_ref().filter(|_| matches!(call.act, Act::Add { .. })) else { return };
        self.last = Some(number);
        self.recent.push_front(number);
        self.recent.truncate(RECENT_MAX);
        if id.aged {
            if self.stale.len() < STALE_MAX {
                self.stale.push(number);
            } else {
                // Any of them, so that some become very old.
                let place = self.random.below(STALE_MAX);
                self.stale[place] = number;
            }
        }
    }

    /// An operation of long ago, to be tried again.
    pub(crate) fn stale(&mut self, work: &Work) -> Option<usize> {
        if work.stale == 0.0 || self.stale.is_empty() || !self.random.chance(work.stale) {
            return None;
        }
        Some(self.stale[self.random.below(self.stale.len())])
    }

    /// Its last operation, now and then, to ask what became of it.
    pub(crate) fn last_operation(&mut self) -> Option<usize> {
        let last = self.last.take()?;
        self.random.chance(0.05).then_some(last)
    }

    /// One of its last operations, to ask some site what became of it.
    pub(crate) fn wonders(&mut self, work: &Work) -> Option<usize> {
        if work.curious == 0.0 || self.recent.is_empty() || !self.random.chance(work.curious) {
            return None;
        }
        Some(self.recent[self.random.below(self.recent.len())])
    }

    /// May an operation be counted in part?
    fn beyond(&mut self, work: &Work) -> Beyond {
        if work.partial == 0.0 || !self.random.chance(work.partial) {
            return Beyond::Refuse;
        }
        *self.random.pick(&[Beyond::Skip, Beyond::Saturate])
    }

    /// The site for the next attempt, one of so many, after one at `site` had no answer.
    pub(crate) fn next_site(&mut self, site: usize, work: &Work, sites: usize) -> usize {
        if sites > 1 && self.random.chance(work.failover) {
            (site + 1 + self.random.below(sites - 1)) % sites
        } else {
            site
        }
    }

    /// Something new to ask for.
    pub(crate) fn next_call(&mut self, pool: &mut Pool, work: &Work, now: Millis) -> Call {
        let Mix { plain, ids, bounded, resets } = work.mix;
        let mut at = self.random.below(plain + ids + bounded + resets);
        let mut is = |weight: usize| {
            let hit = at < weight;
            at = at.wrapping_sub(weight);
            hit
        };
        if is(plain) {
            self.plain(pool, now)
        } else if is(ids) {
            self.with_id(pool, work, now)
        } else if is(bounded) {
            self.bounded(pool, work, now)
        } else {
            self.resets(pool, work, now)
        }
    }

    pub(crate) fn call(&self, key: usize, act: Act, id: Option<Id>, now: Millis) -> Call {
        let producer = u32::try_from(self.number).expect("few clients");
        Call { key, act, id, producer, since_ms: now }
    }

    fn id(&mut self, key: usize, pool: &mut Pool, work: &Work, now: Millis) -> Id {
        let number = pool.operations;
        pool.operations += 1;
        let aged = self.random.chance(work.uuids);
        let made = self.made.entry(key).or_default();
        *made += 1;
        let bytes = if aged { uuid(unix_ms(now), number as u64) } else { made.to_string() };
        Id { number, bytes: bytes.into_bytes().into(), aged }
    }

    fn plain(&mut self, pool: &Pool, now: Millis) -> Call {
        let key = *self.random.pick(&pool.plain);
        let act = if self.random.chance(0.8) { self.add(1, 9) } else { Act::Get };
        self.call(key, act, None, now)
    }

    fn add(&mut self, from: i64, to: i64) -> Act {
        let span = usize::try_from(to - from + 1).expect("a small span");
        let amount = from + i64::try_from(self.random.below(span)).expect("below the span");
        Act::Add { amount, limit: None, beyond: Beyond::Refuse, remote_ms: 0 }
    }

    /// The same add, now and then with a limit of its own, at which it is counted in part or not at all.
    fn within_limits(&mut self, add: Act, work: &Work) -> Act {
        let Act::Add { amount, remote_ms, .. } = add else { return add };
        if work.limits == 0.0 || amount == 0 || !self.whims.chance(work.limits) {
            return add;
        }
        let limit = Some(*self.whims.pick(&[0, 3, 10]) * amount.signum());
        let beyond = *self.whims.pick(&[Beyond::Skip, Beyond::Saturate, Beyond::Refuse]);
        Act::Add { amount, limit, beyond, remote_ms }
    }

    fn with_id(&mut self, pool: &mut Pool, work: &Work, now: Millis) -> Call {
        let key = *self.random.pick(&pool.ids);
        match self.random.below(20) {
            0 => self.call(key, Act::Get, None, now),
            1 => self.call(key, Act::Inspect, None, now),
            2 => {
                let add = self.add(-5, 9);
                self.call(key, add, None, now)
            }
            _ => {
                let add = self.add(-5, 9);
                let add = self.within_limits(add, work);
                let id = self.id(key, pool, work, now);
                self.call(key, add, Some(id), now)
            }
        }
    }

    fn bounded(&mut self, pool: &mut Pool, work: &Work, now: Millis) -> Call {
        let key = *self.random.pick(&pool.bounded);
        let hasty = work.hasty && self.random.chance(0.3);
        if !pool.ready[key] && !hasty {
            let act = match self.random.below(4) {
                0 => Act::Inspect,
                _ => Act::Create { wait_ms: work.remote_ms, spread: self.spread(work) },
            };
            return self.call(key, act, None, now);
        }
        if work.moves > 0.0 && self.rights.chance(work.moves) {
            let act = self.move_rights(&pool.keys[key], work);
            return self.call(key, act, None, now);
        }
        let remote_ms = if self.random.chance(0.5) { work.remote_ms } else { 0 };
        let size = self.random.below(5) + 1;
        let size = i64::try_from(size).expect("small").min(work.room);
        let amount = if self.random.chance(0.5) { size } else { -size };
        match self.random.below(10) {
            0 => self.call(key, Act::Get, None, now),
            1 => self.call(key, Act::Inspect, None, now),
            2 => self.call(
                key,
                Act::Add { amount, limit: None, beyond: Beyond::Saturate, remote_ms },
                None,
                now,
            ),
            3..6 => {
                self.call(key, Act::Add { amount, limit: None, beyond: Beyond::Refuse, remote_ms }, None, now)
            }
            _ => {
                let id = self.id(key, pool, work, now);
                let beyond = self.beyond(work);
                self.call(key, Act::Add { amount, limit: None, beyond, remote_ms }, Some(id), now)
            }
        }
    }

    fn spread(&mut self, work: &Work) -> SpreadWay {
        match work.moves > 0.0 {
            true => *self.rights.pick(&[SpreadWay::Creator, SpreadWay::Even, SpreadWay::Quarters]),
            false => SpreadWay::Creator,
        }
    }

    /// From one of the first sites to another, some of which may be gone, or are one and the same.
    fn move_rights(&mut self, key: &Key, work: &Work) -> Act {
        let mut site = || SiteId { number: *self.rights.pick(&[1, 2, 3, 4]), incarnation: 0 };
        let (from, to) = (site(), site());
        let right = match (key.limits.minimum, key.limits.maximum) {
            (Some(_), Some(_)) => Some(*self.rights.pick(&[Right::ToSubtract, Right::ToAdd])),
            _ => None,
        };
        let amount = 1 + self.rights.bits() % work.room.unsigned_abs();
        Act::Move(Move { amount, right, from, to, wait_ms: work.remote_ms })
    }

    fn resets(&mut self, pool: &mut Pool, work: &Work, now: Millis) -> Call {
        let place = self.random.below(pool.resets.len());
        let add = |amount| Act::Add { amount, limit: None, beyond: Beyond::Refuse, remote_ms: 0 };
        match self.random.below(20) {
            0..2 => self.call(pool.resets[place], Act::Get, None, now),
            2..5 => self.call(pool.resets[place], Act::Reset { to: None }, None, now),
            5..7 => {
                let (key, amount) = pool.next_amount(place);
                self.call(key, Act::Reset { to: Some(amount) }, None, now)
            }
            7..10 => {
                let (key, amount) = pool.next_amount(place);
                self.call(key, add(amount), None, now)
            }
            _ => {
                let (key, amount) = pool.next_amount(place);
                let id = self.id(key, pool, work, now);
                self.call(key, add(amount), Some(id), now)
            }
        }
    }
}

/// A UUID of version 7 that was made then.
fn uuid(unix_ms: u64, number: u64) -> String {
    format!("{:08x}-{:04x}-7000-8000-{:012x}", unix_ms >> 16, unix_ms & 0xffff, number & 0xffff_ffff_ffff)
}
