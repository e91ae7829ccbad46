//! One process: the engine's host over the shared store, and the keeper that says which shards it should have. As in a
//! server the two do not wait for each other: each is an actor of its own.

use super::line::Line;
use super::plan::Plan;
use super::store::{FarLog, FarRegistry, FarTable};
use super::wrong::Wrong;
use crate::core::Millis;
use crate::system::calls::{Act, Call, Key};
use quipu_crdt::testing::Random;
use quipu_engine::host::{Overdue, Standing};
use quipu_engine::nodes::{Holding, Keeper, LookError, Seat, SeatAdvice};
use quipu_engine::{
    Action, Add, Command, Host, Membership, OperationId, Released, Settings, Shards, SiteId, Ticket, Window,
    WindowMode, withdrawn,
};
use quipu_storage::memory::Memory;
use quipu_storage::{Fenced, Flush, NodeId, Record, Registry as _, ShardId, Store};
use std::collections::BTreeSet;

/// A host looks after its store at least so often.
const MAINTAIN_MS: Millis = 50;

/// So long a node waits for the store before it says that it does not know.
const PATIENCE_MS: u64 = 1_500;

/// How likely whoever speaks for the site agrees on something new with other sites when it looks around.
const AGREES: f64 = 0.3;

/// The seat of the one that speaks for the site. It is fenced like a shard, and is none.
const SEAT: ShardId = ShardId(u16::MAX);

/// Something that runs by itself, at a place.
pub(super) enum Actor {
    Worker(Box<Worker>),
    Tender(Box<Tender>),
}

impl Actor {
    pub(super) fn act(&mut self) {
        match self {
            Self::Worker(worker) => worker.work(),
            Self::Tender(tender) => tender.tend(),
        }
    }

    pub(super) fn line(&self) -> &Line {
        match self {
            Self::Worker(worker) => &worker.line,
            Self::Tender(tender) => &tender.line,
        }
    }
}

/// A call as it is handed to the engine.
pub(super) struct Handed {
    pub(super) attempt: usize,
    pub(super) key: Key,
    pub(super) call: Call,
}

/// What a node is to do about its shards.
#[derive(Debug, Clone, Default)]
pub(super) struct Orders {
    pub(super) take: Vec<(ShardId, Option<Fenced>)>,
    pub(super) release: Vec<ShardId>,
    pub(super) free: Vec<(ShardId, Option<Fenced>)>,
    pub(super) doubtful: Vec<ShardId>,
}

/// Takes commands and commits.
pub(super) struct Worker {
    pub(super) line: Line,
    host: Host<FarLog, FarTable>,
    /// The shards that are open.
    has: BTreeSet<ShardId>,
    maintained_ms: Option<u64>,
    /// For how long anybody waits.
    deadline_ms: Option<u64>,
}

impl Worker {
    pub(super) fn new(line: Line, id: NodeId, memory: &Memory, plan: &Plan) -> Self {
        let window = Window::new(plan.window_ms, WindowMode::Exact, 1e-6).expect("a window that can be");
        let settings = Settings {
            site: SiteId::FIRST,
            window,
            memory_bytes: plan.memory_bytes,
            seed: plan.seed ^ u64::from(line.run),
            ..Settings::default()
        };
        let log = FarLog { line: line.clone(), memory: memory.clone(), log: memory.log_of(id) };
        let table = FarTable { line: line.clone(), table: memory.table() };
        let host = Host::new(Store::new(log, table), None, settings, Flush::Now);
        let mut host = with_discipline(host, plan.wrong);
        host.set_membership(&Membership::alone(SiteId::FIRST));
        Self { line, host, has: BTreeSet::new(), maintained_ms: None, deadline_ms: plan.deadline_ms }
    }

    fn work(&mut self) {
        let mut released = Released::default();
        self.host.collect(false, self.line.moment(), &mut released);
        self.leave(released);
        self.take_commands();
        self.commit();
        self.lose_patience();
        self.maintain();
        self.follow_orders();
        let mut released = Released::default();
        for lost in self.host.forget_lost(&mut released) {
            self.has.remove(&lost);
        }
        self.leave(released);
    }

    /// What may leave the process.
    fn leave(&mut self, released: Released) {
        let has = &self.has;
        self.line.with(|world| {
            world.has(self.line.place, has);
            released.replies.into_iter().for_each(|(ticket, reply)| {
                world.released(usize::try_from(ticket.0).expect("tickets are indices"), &reply);
            });
        });
    }

    fn take_commands(&mut self) {
        let place = self.line.place;
        let Some(inbox) = self.line.with(|world| world.read_inbox(place)) else { return };
        for handed in inbox {
            let shard = handed.key.shard;
            if !self.has.contains(&shard) {
                self.line.with(|world| world.pass_on(place, handed.attempt));
            } else if self.host.is_undecided(shard) {
                // It stays in the inbox until that has come to its end, or its time is up.
                self.withdraw(&handed);
            } else if self.line.with(|world| world.take(place, handed.attempt)).is_some() {
                self.submit(&handed);
            }
        }
    }

    /// A call whose time is up before its turn has come is withdrawn.
    fn withdraw(&mut self, handed: &Handed) {
        let (place, attempt) = (self.line.place, handed.attempt);
        let Some(after_ms) = self.deadline_ms else { return };
        let waited_ms = self.line.with(|world| world.waited_ms(place, attempt)).unwrap_or(0);
        if waited_ms >= after_ms {
            let refusal = with_command(handed, |command| withdrawn(&command, after_ms, true));
            self.line.with(|world| world.withdraw(place, attempt, refusal));
        }
    }

    fn submit(&mut self, handed: &Handed) {
        let (ticket, moment) = (Ticket(handed.attempt as u64), self.line.moment());
        with_command(handed, |command| self.host.submit(handed.key.shard, ticket, command, moment));
    }

    fn commit(&mut self) {
        let place = self.line.place;
        let Some(trust) = self.line.with(|world| world.offer(place)) else { return };
        // After everything was taken in that is spoken of.
        let holds = self.line.clock_ms() < trust.until_ms;
        self.host.set_standing(Standing { epoch: trust.epoch, holds });
        let speaking = self.has.iter().copied().filter(|shard| self.host.may_speak(*shard)).collect();
        self.line.with(|world| world.act(place, &speaking));
        let mut released = Released::default();
        self.host.commit(self.line.moment(), &mut released);
        self.leave(released);
    }

    /// Whoever has waited long enough for a commit hears that nobody knows what became of it.
    fn lose_patience(&mut self) {
        let mut released = Released::default();
        let place = self.line.place;
        let early = self.deadline_ms.and_then(|ms| self.line.with(|world| world.waited_for(place, ms)));
        let after_ms = self.deadline_ms.unwrap_or(PATIENCE_MS);
        let overdue = Overdue { after_ms, early: &early.unwrap_or_default() };
        self.host.lose_patience(overdue, self.line.moment(), &mut released);
        self.leave(released);
    }

    fn maintain(&mut self) {
        let now_ms = self.line.clock_ms();
        if self.maintained_ms.is_some_and(|then| now_ms.saturating_sub(then) < MAINTAIN_MS) {
            return;
        }
        self.maintained_ms = Some(now_ms);
        let mut released = Released::default();
        self.host.maintain(self.line.moment(), &mut released);
        self.leave(released);
    }

    /// Takes and releases shards as the keeper wants it.
    fn follow_orders(&mut self) {
        let place = self.line.place;
        let Some(orders) = self.line.with(|world| world.orders(place)) else { return };
        orders.doubtful.iter().for_each(|shard| self.host.confirm(*shard));
        if !orders.doubtful.is_empty() {
            self.commit();
        }
        for (shard, seen) in orders.free {
            // What fails now is advised again.
            if self.host.free(shard, seen).is_ok() {
                self.line.with(|world| world.moved(place, shard, "releases"));
            }
        }
        for shard in orders.release {
            let mut released = Released::default();
            if self.has.contains(&shard) && self.host.close(shard, &mut released).is_ok() {
                self.has.remove(&shard);
                self.line.with(|world| world.moved(place, shard, "releases"));
            }
            self.leave(released);
        }
        for (shard, seen) in orders.take {
            if self.has.contains(&shard) || !self.line.is_alive() {
                continue;
            }
            match self.host.open_seen(shard, seen, self.line.moment()) {
                Ok(true) => {
                    self.has.insert(shard);
                    self.line.with(|world| world.moved(place, shard, "has taken"));
                }
                Ok(false) => _ = self.line.with(|world| world.moved(place, shard, "was too late to take")),
                Err(error) => _ = self.line.with(|world| world.not_taken(place, shard, &error.to_string())),
            }
            self.leave(Released::default());
        }
    }
}

/// A call as a command of the engine.
pub(super) fn with_command<R>(handed: &Handed, does: impl FnOnce(Command<'_>) -> R) -> R {
    let Handed { key, call, .. } = handed;
    let producer = call.producer.to_be_bytes();
    let operation = call.id.as_ref().map(|id| OperationId { producer: &producer, id: &id.bytes });
    let action = match call.act {
        // One site has nobody to wait for.
        Act::Add { amount, beyond, .. } => Action::Add { add: Add { beyond, ..Add::of(amount) }, operation },
        _ => call.action(key, operation),
    };
    does(Command { key: &key.name, action })
}

/// Writes that the node is there, and looks what it should have.
pub(super) struct Tender {
    pub(super) line: Line,
    keeper: Keeper,
    registry: FarRegistry,
    seat: Seat<FarLog>,
    /// It speaks for the site, as far as it knows.
    sits: bool,
    together: bool,
    /// The number of what it acts under.
    agreed: u64,
    agrees: Random,
}

impl Tender {
    pub(super) fn new(line: Line, id: NodeId, memory: &Memory, plan: &Plan) -> Self {
        let registry = FarRegistry { line: line.clone(), registry: memory.registry(id) };
        let shards = Shards::new(plan.shards).expect("a power of two").all().collect();
        let about = vec![u8::try_from(line.place).expect("few places")];
        let keeper = Keeper::new(registry.shared(), shards, SEAT, plan.silence_ms, about);
        let log = FarLog { line: line.clone(), memory: memory.clone(), log: memory.log_of(id) };
        let keeper = with_flaw(keeper, plan.wrong);
        let agrees = Random::stream(plan.seed ^ u64::from(line.run), "nodes: what is agreed");
        let (sits, together, agreed) = (false, plan.together, 0);
        Self { line, keeper, registry, seat: Seat::new(log, SEAT), sits, together, agreed, agrees }
    }

    fn tend(&mut self) {
        let place = self.line.place;
        let clock = || self.line.clock_ms();
        let drains = self.registry.is_asked_to_drain().ok().flatten().unwrap_or(false);
        let Ok(trust) = self.keeper.beat(clock, drains) else { return };
        self.line.with(|world| world.trusts(place, trust));
        let shards = || self.line.with(|world| world.places[place].has.clone()).unwrap_or_default();
        let (seat, together) = (self.sits, self.together);
        let holding = || Holding { shards: shards(), seat, together };
        match self.keeper.look(clock, holding) {
            Ok(mut advice) => {
                self.follow_seat(advice.seat);
                if !self.follow_agreed(advice.agreed.as_ref()) {
                    advice.take.clear();
                }
                let (sits, agreed) = (self.sits, self.agreed);
                self.line.with(|world| world.sits(place, sits, agreed));
                let leaves = self.line.with(|world| world.advised(place, &advice)) == Some(true);
                if leaves && self.registry.remove(self.registry.own()).is_ok() {
                    self.line.with(|world| world.gone(place));
                }
            }
            Err(LookError::Removed(removed)) => {
                _ = self.line.with(|world| world.fail(format!("node {}: {removed}", place + 1)));
            }
            // It is looked again before long.
            Err(LookError::Storage(_)) => {}
        }
    }
}

impl Tender {
    /// Takes the seat, or gives it back, as is advised.
    fn follow_seat(&mut self, advice: SeatAdvice) {
        if let Some(seen) = advice.take {
            // What fails now is advised again.
            let Ok(Some(stands)) = self.seat.take(seen) else { return };
            self.agreed = stands.as_ref().map_or(self.agreed, read_agreed);
            self.sits = self.agree();
            return;
        }
        if self.sits && self.agrees.chance(AGREES) {
            // Whoever does not know what stands there takes the seat anew, and reads it.
            self.sits = self.agree();
        }
        let is_lost = advice.doubtful && self.seat.is_lost();
        if advice.release || is_lost {
            self.sits = false;
            self.seat.release();
        }
    }
}

impl Tender {
    /// Agrees on something new with other sites. Returns whether that is stored.
    fn agree(&mut self) -> bool {
        let number = self.agreed + 1;
        let is_stored = self.seat.store(number.to_be_bytes().to_vec()).is_ok();
        if is_stored {
            self.agreed = number;
        }
        is_stored
    }

    /// What was agreed last holds here, too. Returns whether it is known.
    fn follow_agreed(&mut self, agreed: Option<&Record>) -> bool {
        let Ok(news) = self.seat.news(self.sits, agreed) else { return false };
        if let Some(record) = news {
            self.agreed = read_agreed(record);
            self.seat.follow(record);
        }
        true
    }
}

fn read_agreed(record: &Record) -> u64 {
    u64::from_be_bytes(record.bytes.as_slice().try_into().expect("a number"))
}

#[cfg(feature = "testing")]
fn with_discipline(host: Host<FarLog, FarTable>, wrong: Wrong) -> Host<FarLog, FarTable> {
    host.with_discipline(wrong.discipline)
}

#[cfg(not(feature = "testing"))]
fn with_discipline(host: Host<FarLog, FarTable>, _: Wrong) -> Host<FarLog, FarTable> {
    host
}

#[cfg(feature = "testing")]
fn with_flaw(keeper: Keeper, wrong: Wrong) -> Keeper {
    keeper.with_flaw(wrong.keeper)
}

#[cfg(not(feature = "testing"))]
fn with_flaw(keeper: Keeper, _: Wrong) -> Keeper {
    keeper
}
