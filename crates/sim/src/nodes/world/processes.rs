//! Processes: they start, work, stop and die, and time passes for them.

use super::{Actor, Event, Orders, Place, Tender, Worker, World};
use crate::core::Millis;
use crate::nodes::line::Line;
use crate::nodes::trouble::Call;
use crate::system::calls::{Stage, unix_ms};
use crate::system::history::Note;
use quipu_engine::Moment;
use quipu_engine::nodes::{Advice, Trust};
use quipu_storage::{NodeId, Registry as _, ShardId};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// A host works at least so often.
const TICK_MS: Millis = 50;
/// When no client asks for anything, so often.
const IDLE_TICK_MS: Millis = 500;
/// Clocks of nodes begin anywhere below this.
const OFFSET_MS_MAX: u64 = 1_000_000;

impl Place {
    pub(super) fn empty() -> Self {
        Self {
            id: NodeId(0),
            run: 0,
            is_up: false,
            worker: None,
            tender: None,
            started_ms: 0,
            offset_ms: 0,
            works_at: None,
            is_wanted: false,
            trust: Trust { epoch: 0, until_ms: 0 },
            has: BTreeSet::new(),
            routes: BTreeMap::new(),
            orders: Orders::default(),
            sits: false,
            agreed: 0,
            speaker: None,
            inbox: VecDeque::new(),
            open: Vec::new(),
            sent: BTreeMap::new(),
            paused_until: 0,
            armed: None,
            stalled: Vec::new(),
            cut_until: 0,
            slow_until: 0,
            leaves: false,
        }
    }
}

impl World {
    /// A node starts at a place, under a name of its own. The one that was there before is dead.
    pub(super) fn start_node(&mut self, at: usize) {
        let run = self.places[at].run + 1;
        let former = self.places[at].id;
        let id = NodeId((1 + at as u128) << 64 | u128::from(run));
        // It has nothing to say that could be wrong: whoever was here is dead.
        let _ = self.memory.registry(id).remove(former);
        let offset_ms = self.chance.bits() % OFFSET_MS_MAX;
        let (place, plan) = (&mut self.places[at], &self.plan);
        *place = Place { id, run, is_up: true, started_ms: self.queue.now(), offset_ms, ..Place::empty() };
        let line = Line::new(self.stage.clone(), at, run);
        place.worker = Some(Box::new(Worker::new(line.clone(), id, &self.memory, plan)));
        place.tender = Some(Box::new(Tender::new(line, id, &self.memory, plan)));
        self.say(format!("node {} starts", at + 1));
        self.queue.push(self.chance.bits() % 20, Event::Tend { place: at, run });
        self.schedule(at, TICK_MS);
    }

    /// Is the process still there, and the run not over?
    pub(in crate::nodes) fn is_alive(&self, place: usize, run: u32) -> bool {
        self.places[place].is_up && self.places[place].run == run && self.failure.is_none()
    }

    /// The time of a node's own clock.
    pub(in crate::nodes) fn clock_ms(&self, at: usize) -> u64 {
        let place = &self.places[at];
        place.offset_ms + (self.now() - place.started_ms) * self.plan.rates[at] / 1_000
    }

    pub(in crate::nodes) fn moment(&self, at: usize) -> Moment {
        let unix_ms = unix_ms(self.now()).saturating_add_signed(self.plan.skews_ms[at]);
        Moment { elapsed_ms: self.clock_ms(at) - self.places[at].offset_ms, unix_ms }
    }

    /// Lets a host work after a while, unless it does sooner.
    pub(super) fn schedule(&mut self, at: usize, delay: Millis) {
        let works_at = self.now() + delay;
        let place = &mut self.places[at];
        if !place.is_up || place.works_at.is_some_and(|planned| planned <= works_at) {
            return;
        }
        place.works_at = Some(works_at);
        self.queue.push(delay, Event::Work { place: at, run: place.run });
    }

    pub(super) fn work(&mut self, at: usize, run: u32) -> Option<Actor> {
        let now = self.now();
        let place = &mut self.places[at];
        if !place.is_up || place.run != run || place.works_at != Some(now) {
            return None;
        }
        place.works_at = None;
        if place.paused_until > now {
            let wait = place.paused_until - now;
            self.schedule(at, wait);
            return None;
        }
        let worker = place.worker.take();
        // Somebody who is at work is told that more has come.
        place.is_wanted = worker.is_none();
        worker.map(Actor::Worker)
    }

    pub(super) fn tend(&mut self, at: usize, run: u32) -> Option<Actor> {
        let now = self.now();
        let place = &mut self.places[at];
        if !place.is_up || place.run != run {
            return None;
        }
        if place.paused_until > now {
            let wait = place.paused_until - now;
            self.queue.push(wait, Event::Tend { place: at, run });
            return None;
        }
        place.tender.take().map(Actor::Tender)
    }

    /// An actor has done its work.
    pub(in crate::nodes) fn put_back(&mut self, actor: Actor) {
        let (at, run) = (actor.line().place, actor.line().run);
        if !self.is_alive(at, run) {
            return;
        }
        match actor {
            Actor::Worker(worker) => {
                self.places[at].worker = Some(worker);
                let is_wanted = std::mem::take(&mut self.places[at].is_wanted);
                let tick_ms = if self.is_quiet() { IDLE_TICK_MS } else { TICK_MS };
                self.schedule(at, if is_wanted { 1 } else { tick_ms });
            }
            Actor::Tender(tender) => {
                self.places[at].tender = Some(tender);
                let wait = self.plan.beat_ms * 1_000 / self.plan.rates[at];
                self.queue.push(wait, Event::Tend { place: at, run });
            }
        }
    }

    /// For how long a node comes to a halt before it asks the store for something.
    pub(in crate::nodes) fn halt(&mut self, at: usize, call: Call) -> Millis {
        let now = self.now();
        let place = &mut self.places[at];
        if let Some((_, for_ms)) = place.armed.filter(|(armed, _)| *armed == call && self.resting == 0) {
            place.armed = None;
            place.paused_until = now + for_ms;
            self.counts.halts += 1;
            self.say(format!("node {} comes to a halt before {call:?} for {for_ms} ms", at + 1));
            return for_ms;
        }
        if place.paused_until > now {
            return place.paused_until - now;
        }
        let stalled = place.stalled.iter().position(|(stalled, _)| *stalled == call && self.resting == 0);
        if let Some(stalled) = stalled {
            return place.stalled.swap_remove(stalled).1;
        }
        if self.healed {
            return 0;
        }
        let is_slow = place.slow_until > now && self.chance.chance(0.3);
        if is_slow || self.chance.chance(self.plan.weather.slow) {
            return self.chance.bits() % (self.plan.weather.slow_ms_max.max(20) + 1);
        }
        0
    }

    /// A request rests for so long. Returns until when.
    pub(in crate::nodes) fn rest(&mut self, wait_ms: Millis) -> Millis {
        self.resting += 1;
        self.now() + wait_ms
    }

    pub(in crate::nodes) fn rested(&mut self) {
        self.resting -= 1;
    }

    pub(in crate::nodes) fn paused_until(&self, at: usize) -> Option<Millis> {
        Some(self.places[at].paused_until).filter(|until| *until > self.now() && self.failure.is_none())
    }

    /// A node has these shards.
    pub(in crate::nodes) fn has(&mut self, at: usize, has: &BTreeSet<ShardId>) {
        if self.places[at].has != *has {
            self.places[at].has = has.clone();
        }
    }

    /// What a node is to do about its shards, once.
    pub(in crate::nodes) fn orders(&mut self, at: usize) -> Orders {
        std::mem::take(&mut self.places[at].orders)
    }

    /// A node has taken or released a shard, or not.
    pub(in crate::nodes) fn moved(&mut self, at: usize, shard: ShardId, how: &str) {
        match how {
            "releases" => self.counts.released += 1,
            "has taken" => self.counts.taken += 1,
            _ => self.counts.too_late += 1,
        }
        self.say(format!("node {} {how} shard {}", at + 1, shard.0));
    }

    pub(in crate::nodes) fn not_taken(&mut self, at: usize, shard: ShardId, why: &str) {
        self.say(format!("node {} cannot take shard {}: {why}", at + 1, shard.0));
    }

    /// A node may rely on what it has for so long.
    pub(in crate::nodes) fn trusts(&mut self, at: usize, trust: Trust) {
        if self.places[at].trust.epoch != trust.epoch {
            self.say(format!("node {} had lapsed", at + 1));
        }
        self.places[at].trust = trust;
    }

    /// A node has looked around. Returns whether it has nothing left and goes.
    pub(in crate::nodes) fn advised(&mut self, at: usize, advice: &Advice) -> bool {
        let place = &mut self.places[at];
        let address = |node: &NodeId| advice.present.get(node)?.about.first().copied().map(usize::from);
        place.routes =
            advice.routes.iter().filter_map(|(shard, node)| Some((*shard, address(node)?))).collect();
        place.speaker = advice.seat.speaker.as_ref().and_then(address);
        place.orders = Orders {
            take: advice.take.clone(),
            release: advice.release.clone(),
            free: advice.free.clone(),
            doubtful: advice.doubtful.clone(),
        };
        let id = place.id;
        let has_nothing = place.has.is_empty() && advice.held.iter().all(|held| held.by != Some(id));
        let leaves = place.leaves && has_nothing;
        self.schedule(at, 1);
        leaves
    }

    /// A node speaks for these shards, under what it knows to be agreed with other sites.
    pub(in crate::nodes) fn act(&mut self, at: usize, shards: &BTreeSet<ShardId>) {
        let agreed = self.places[at].agreed;
        for shard in shards {
            let before = self.acted_under.insert(*shard, agreed).unwrap_or_default();
            if before > agreed {
                self.fail(format!(
                    "node {} acts for shard {} under what was agreed as number {agreed}, and number {before} was acted under \
                     before",
                    at + 1,
                    shard.0
                ));
            }
        }
    }

    /// A node speaks for the site, or does not. What was agreed with other sites last, as far as it knows, has this number.
    pub(in crate::nodes) fn sits(&mut self, at: usize, sits: bool, agreed: u64) {
        self.places[at].agreed = agreed;
        if std::mem::replace(&mut self.places[at].sits, sits) != sits {
            let how = if sits { "speaks" } else { "does not speak any more" };
            self.say(format!("node {} {how} for the site", at + 1));
        }
    }

    /// A node has gone in good order.
    pub(in crate::nodes) fn gone(&mut self, at: usize) {
        self.say(format!("node {} leaves", at + 1));
        self.stop(at);
    }

    /// A process is not there any more; what it had in memory is lost.
    pub(super) fn stop(&mut self, at: usize) {
        let place = &mut self.places[at];
        place.is_up = false;
        place.works_at = None;
        (place.worker, place.tender) = (None, None);
        place.has.clear();
        place.sits = false;
        place.agreed = 0;
        let inbox = std::mem::take(&mut place.inbox);
        let open = std::mem::take(&mut place.open);
        for attempt in inbox.into_iter().chain(open) {
            let stage = std::mem::replace(&mut self.attempts[attempt].stage, Stage::Done);
            let number = self.number_of(attempt);
            self.note(Note::Lost { attempt, doubt: stage == Stage::Offered });
            if let (Stage::Offered, Some(number)) = (stage, number) {
                self.died.push((attempt, number));
            }
        }
    }
}
