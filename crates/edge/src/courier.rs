//! The thread that speaks to servers: when, to whom, and what to do when they do not answer.
//!
//! A round is an exchange with the chosen server, which is handed what was counted, and, where handoffs with others are
//! open, exchanges with those, which bring them to an end. When the chosen server fails, the next one of the list is
//! chosen. That needs no care at all: a handoff may be begun with one server and go on with any other.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::{Receiver, RecvTimeoutError, Sender},
    },
    time::{Duration, Instant},
};

use quipu_engine::{
    Refusal, Shards,
    handoff::{
        Answer, Name, Open, Server,
        exchange::{Exchange, Exchanged, ShardAnswer},
    },
};

use crate::{
    Address, NotHandedOver, RetireError, Status, SyncError,
    backoff::{BackOff, Waits},
    http::Http,
    identity::Identity,
    keeper::{Heard, Met, NotMet, Request},
    promise::{Promise, promise},
};

/// While somebody waits for everything to be handed over, and nothing moves, it is tried again after this time, then
/// after twice as much, and so on.
const PRESSED: Waits = Waits { first: Duration::from_millis(50), longest: Duration::from_secs(2) };

/// What the courier is told.
pub(crate) enum Order {
    /// There is something to hand over or to ask for.
    Wake,
    Sync {
        reply: Promise<Result<(), SyncError>>,
    },
    Flush {
        until: Instant,
        reply: Promise<Result<(), NotHandedOver>>,
    },
    Retire {
        until: Instant,
        reply: Promise<Result<(), RetireError>>,
    },
    Choose {
        server: Address,
        reply: Promise<()>,
    },
    Close,
}

/// Somebody waits for this, until then.
struct Goal {
    until: Instant,
    reply: GoalReply,
}

enum GoalReply {
    Flushed(Promise<Result<(), NotHandedOver>>),
    Retired(Promise<Result<(), RetireError>>),
}

impl GoalReply {
    fn fail(self, open: NotHandedOver) {
        match self {
            Self::Flushed(reply) => reply.keep(Err(open)),
            Self::Retired(reply) => reply.keep(Err(RetireError::NotHandedOver(open))),
        }
    }
}

/// What an exchange has come to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Outcome {
    /// Something has changed by it.
    has_moved: bool,
}

/// How long things take.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pace {
    pub(crate) sync_every: Duration,
    pub(crate) after_failure: Waits,
    /// Not only when somebody asks for it.
    pub(crate) in_background: bool,
}

pub(crate) struct Courier {
    keeper: Sender<Request>,
    http: Http,
    pace: Pace,
    servers: Vec<Address>,
    woken: Arc<AtomicBool>,
    /// Which of the servers is chosen.
    current: usize,
    name: Name,
    cluster: Option<String>,
    /// Who answers at which address, as far as they were asked since this opening.
    known: BTreeMap<Address, Server>,
    /// Where servers were seen in earlier openings.
    places: BTreeMap<Name, Address>,
    back_offs: BTreeMap<Address, BackOff>,
    /// After rounds that led to nothing, or failed.
    pause: BackOff,
    next_at: Option<Instant>,
    goals: Vec<Goal>,
    /// What was open after the last round.
    open: Open,
    trouble: Option<SyncError>,
    /// This state is used twice: nothing is said any more.
    copy: Option<SyncError>,
}

impl Courier {
    pub(crate) fn new(
        keeper: Sender<Request>,
        identity: &Identity,
        http: Http,
        pace: Pace,
        servers: Vec<Address>,
        woken: Arc<AtomicBool>,
    ) -> Self {
        let places = identity.servers.iter();
        Self {
            keeper,
            http,
            pace,
            servers,
            woken,
            current: 0,
            name: identity.name,
            cluster: identity.cluster.clone(),
            known: BTreeMap::new(),
            places: places.filter_map(|(name, address)| Some((*name, address.parse().ok()?))).collect(),
            back_offs: BTreeMap::new(),
            pause: BackOff::default(),
            next_at: None,
            goals: Vec::new(),
            open: Open::default(),
            trouble: None,
            copy: None,
        }
    }

    /// Goes on until it is told to end, or the keeper has.
    pub(crate) fn run(mut self, orders: &Receiver<Order>) {
        loop {
            let due = self.goals.iter().map(|goal| goal.until).chain(self.next_at).min();
            let order = match due.map(|due| due.saturating_duration_since(Instant::now())) {
                Some(wait) => orders.recv_timeout(wait),
                None => orders.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
            let mut orders_now = match order {
                Ok(order) => vec![order],
                Err(RecvTimeoutError::Timeout) => Vec::new(),
                Err(RecvTimeoutError::Disconnected) => return,
            };
            orders_now.extend(orders.try_iter());
            let mut waiting = Vec::new();
            for order in orders_now {
                if !self.take(order, &mut waiting) {
                    return;
                }
            }
            let is_due = self.next_at.is_some_and(|at| at <= Instant::now());
            if is_due || !waiting.is_empty() {
                let done = self.round();
                self.plan(&done);
                for reply in waiting {
                    reply.keep(done.clone().map(drop));
                }
                if !self.look_at_goals(Some(&done)) {
                    return;
                }
            } else if !self.look_at_goals(None) {
                return;
            }
        }
    }

    fn take(&mut self, order: Order, waiting: &mut Vec<Promise<Result<(), SyncError>>>) -> bool {
        let now = Instant::now();
        match order {
            Order::Wake => {
                let soon = now + self.pace.sync_every;
                self.next_at = Some(self.next_at.map_or(soon, |at| at.min(soon)));
            }
            Order::Sync { reply } => waiting.push(reply),
            Order::Flush { until, reply } => self.press(until, GoalReply::Flushed(reply)),
            Order::Retire { until, reply } => self.press(until, GoalReply::Retired(reply)),
            Order::Choose { server, reply } => {
                self.choose(server);
                reply.keep(());
            }
            Order::Close => return false,
        }
        true
    }

    fn press(&mut self, until: Instant, reply: GoalReply) {
        self.goals.push(Goal { until, reply });
        self.pause.reset();
        self.next_at = Some(Instant::now());
    }

    fn choose(&mut self, server: Address) {
        match self.servers.iter().position(|known| *known == server) {
            Some(at) => self.current = at,
            None => {
                self.current = self.servers.len();
                self.servers.push(server);
            }
        }
        self.pause.reset();
    }

    /// When is the next round?
    fn plan(&mut self, done: &Result<Outcome, SyncError>) {
        let now = Instant::now();
        let is_pressed = !self.goals.is_empty();
        let has_work = !self.open.is_empty() || self.open.last_words > 0;
        self.next_at = match done {
            Err(error) if error.is_final() => None,
            Err(_) if is_pressed => Some(now + self.pause.failed(PRESSED, now)),
            Err(_) => Some(now + self.pause.failed(self.pace.after_failure, now)),
            Ok(outcome) if has_work && outcome.has_moved => {
                self.pause.reset();
                Some(now)
            }
            Ok(_) if has_work && is_pressed => Some(now + self.pause.failed(PRESSED, now)),
            Ok(_) if has_work => {
                let longest = self.pace.after_failure.longest.max(self.pace.sync_every);
                Some(now + self.pause.failed(Waits { first: self.pace.sync_every, longest }, now))
            }
            Ok(_) => {
                self.pause.reset();
                let asks = self.status().is_some_and(|status| status.asks > 0);
                asks.then(|| now + self.pace.sync_every)
            }
        };
        if !is_pressed && !self.pace.in_background {
            self.next_at = None;
        }
    }

    /// Tells those who wait. Returns whether there is anything left to do.
    fn look_at_goals(&mut self, done: Option<&Result<Outcome, SyncError>>) -> bool {
        if self.goals.is_empty() {
            return true;
        }
        let Some(mut status) = self.status() else { return false };
        let mut goals = std::mem::take(&mut self.goals);
        let wants_to_retire = goals.iter().any(|goal| matches!(goal.reply, GoalReply::Retired(_)));
        let stands_still = matches!(done, Some(Ok(outcome)) if !outcome.has_moved);
        if wants_to_retire && !status.is_retiring && status.waiting == 0 {
            // If a server cannot be reached to end a handoff, another one that has a copy of it takes that over.
            if (status.in_flight.is_empty() || stands_still) && self.retire() {
                let Some(after) = self.status() else { return false };
                status = after;
                self.next_at = Some(Instant::now());
            }
        }
        let is_handed_over = status.waiting == 0 && status.in_flight.is_empty();
        let has_retired = status.is_retiring && status.last_words == 0;
        let is_final = matches!(done, Some(Err(error)) if error.is_final());
        let now = Instant::now();
        let mut retired = Vec::new();
        for Goal { until, reply } in goals.drain(..) {
            match reply {
                GoalReply::Flushed(reply) if is_handed_over => reply.keep(Ok(())),
                GoalReply::Retired(reply) if has_retired => retired.push(reply),
                reply if is_final || until <= now => reply.fail(self.what_is_open(&status)),
                reply => self.goals.push(Goal { until, reply }),
            }
        }
        if retired.is_empty() {
            return true;
        }
        let removed = self.ask(|reply| Request::Remove { reply });
        for reply in retired {
            reply.keep(match &removed {
                Some(Err(error)) => Err(RetireError::NotRemoved(error.clone())),
                _ => Ok(()),
            });
        }
        false
    }

    fn what_is_open(&self, status: &Status) -> NotHandedOver {
        NotHandedOver {
            waiting: status.waiting,
            in_flight: status.in_flight.clone(),
            last_words: status.last_words,
            why: self.trouble.clone(),
        }
    }

    /// Asks the keeper. `None`: it has ended.
    fn ask<T>(&self, request: impl FnOnce(Promise<T>) -> Request) -> Option<T> {
        let (reply, pending) = promise();
        self.keeper.send(request(reply)).ok()?;
        pending.wait()
    }

    fn status(&self) -> Option<Status> {
        self.ask(|reply| Request::Status { reply })
    }

    fn retire(&self) -> bool {
        matches!(self.ask(|reply| Request::Retire { reply }), Some(Ok(true)))
    }

    /// One exchange with the chosen server, or with the next that answers; then with those where something is open.
    fn round(&mut self) -> Result<Outcome, SyncError> {
        self.woken.store(!self.pace.in_background, Ordering::Release);
        if let Some(copy) = &self.copy {
            return Err(copy.clone());
        }
        let before = self.open.clone();
        self.trouble = None;
        let mut failed = SyncError::NoServers;
        for _ in 0..self.servers.len() {
            let server = self.servers[self.current].clone();
            match self.exchange(&server, true) {
                Ok(()) => {
                    self.back_offs.entry(server.clone()).or_default().reset();
                    self.clean(&server);
                    return Ok(Outcome { has_moved: self.open != before });
                }
                Err(error) => {
                    if matches!(error, SyncError::Copy { .. }) {
                        self.copy = Some(error.clone());
                    }
                    self.trouble = Some(error.clone());
                    if error.is_final() {
                        return Err(error);
                    }
                    failed = error;
                    self.current = (self.current + 1) % self.servers.len();
                }
            }
        }
        self.trouble = Some(failed.clone());
        Err(failed)
    }

    /// Speaks to the servers with which something is open, besides the chosen one. A failure is remembered, and no more:
    /// what was counted is with the chosen one.
    fn clean(&mut self, chosen: &Address) {
        let chosen_name = self.known.get(chosen).map(|server| server.name);
        let others = self.open.tokens.keys().chain(&self.open.servers).copied();
        let mut others: BTreeSet<Name> = others.filter(|name| Some(*name) != chosen_name).collect();
        if others.is_empty() {
            return;
        }
        // Where each of them is: those that were never asked may be it.
        for address in self.servers.clone() {
            let is_placed = self.places.values().any(|place| *place == address);
            if !self.known.contains_key(&address) && !is_placed && self.may_try(&address) {
                let met = self.meet(&address);
                self.note(&address, &met);
            }
        }
        let known = self.known.iter().map(|(address, server)| (server.name, address.clone()));
        let places: BTreeMap<Name, Address> = self.places.clone().into_iter().chain(known).collect();
        while let Some(name) = others.pop_first() {
            let Some(address) = places.get(&name).filter(|address| *address != chosen) else { continue };
            if self.may_try(address) {
                let exchanged = self.exchange(address, false);
                self.note(address, &exchanged);
            }
        }
    }

    fn may_try(&self, address: &Address) -> bool {
        self.back_offs.get(address).is_none_or(|back_off| back_off.is_over(Instant::now()))
    }

    fn note<T>(&mut self, address: &Address, done: &Result<T, SyncError>) {
        let waits = if self.goals.is_empty() { self.pace.after_failure } else { PRESSED };
        let back_off = self.back_offs.entry(address.clone()).or_default();
        match done {
            Ok(_) => back_off.reset(),
            Err(error) => {
                back_off.failed(waits, Instant::now());
                self.trouble = Some(error.clone());
            }
        }
    }

    /// Asks a server who it is.
    fn meet(&mut self, address: &Address) -> Result<Server, SyncError> {
        if let Some(server) = self.known.get(address) {
            return Ok(*server);
        }
        let hello = Exchange { cluster: self.cluster.clone(), visits: Vec::new() };
        let Exchanged { cluster, server, .. } = self.http.exchange(address, &hello)?;
        let nonsense = |why: String| Err(SyncError::Nonsense { server: address.clone(), why });
        if server.tier > 1 || Shards::new(server.shards).is_none() || server.name == self.name {
            return nonsense(format!("it says that it is {server:?}"));
        }
        let met = Met {
            cluster: cluster.clone(),
            name: server.name,
            shards: server.shards,
            address: address.to_string(),
        };
        match self.ask(|reply| Request::Met { server: met, reply }) {
            None => Err(SyncError::Closed),
            Some(Err(NotMet::NotStored(error))) => Err(SyncError::NotStored(error.to_string())),
            Some(Err(NotMet::OtherCluster { ours })) => {
                Err(SyncError::OtherCluster { server: address.clone(), found: cluster, ours })
            }
            Some(Err(NotMet::OtherShards { ours })) => {
                nonsense(format!("it has {} shards, and its cluster has {ours}", server.shards))
            }
            Some(Ok(())) => {
                self.cluster = Some(cluster);
                self.places.insert(server.name, address.clone());
                self.known.insert(address.clone(), server);
                Ok(server)
            }
        }
    }

    /// Says to a server what there is to be said, and takes in its answer.
    fn exchange(&mut self, address: &Address, chosen: bool) -> Result<(), SyncError> {
        let server = self.meet(address)?;
        let visits = self.ask(|reply| Request::Visits { server, chosen, reply });
        let visits =
            visits.ok_or(SyncError::Closed)?.map_err(|refusal| SyncError::NotStored(refusal.to_string()))?;
        if visits.is_empty() {
            return Ok(());
        }
        let asked: Vec<u16> = visits.iter().map(|(shard, _)| *shard).collect();
        let exchange = Exchange { cluster: self.cluster.clone(), visits };
        let exchanged = self.http.exchange(address, &exchange)?;
        let (visited, refused) = self.check(address, server, &asked, exchanged)?;
        let could_not_count = visited.iter().any(|(_, answer)| answer.refused);
        let heard = self.ask(|reply| Request::Answered { server, answers: visited, reply });
        let heard =
            heard.ok_or(SyncError::Closed)?.map_err(|refusal| SyncError::NotStored(refusal.to_string()))?;
        let Heard { open, bad } = heard;
        self.open = open;
        if let Some(bad) = bad {
            return Err(SyncError::bad_answer(address, bad));
        }
        let server = address.clone();
        match refused {
            Some(why) if why == (Refusal::Copy { of: self.name }).to_string() => {
                Err(SyncError::Copy { server, why: format!("{why}.") })
            }
            Some(why) => Err(SyncError::Refused { server, why }),
            None => {
                if could_not_count {
                    let why = "it cannot count some of this now; it stays here".to_owned();
                    self.trouble = Some(SyncError::Refused { server, why });
                }
                Ok(())
            }
        }
    }

    /// Is it an answer to what was asked? Gives what shards have answered, and the first refusal.
    #[allow(clippy::type_complexity, reason = "it is taken apart at once")]
    fn check(
        &mut self,
        address: &Address,
        server: Server,
        asked: &[u16],
        exchanged: Exchanged,
    ) -> Result<(Vec<(u16, Box<Answer>)>, Option<String>), SyncError> {
        let Exchanged { cluster, server: found, answers } = exchanged;
        if let Some(ours) = self.cluster.clone().filter(|ours| *ours != cluster) {
            return Err(SyncError::OtherCluster { server: address.clone(), found: cluster, ours });
        }
        if found != server {
            // Asked again the next time.
            self.known.remove(address);
            let why = format!("it was {}, and is {} now", server.name, found.name);
            return Err(SyncError::Nonsense { server: address.clone(), why });
        }
        if !answers.iter().map(|(shard, _)| shard).eq(asked) {
            let why = "it has not answered for the shards that were asked".to_owned();
            return Err(SyncError::Nonsense { server: address.clone(), why });
        }
        let (mut visited, mut refused) = (Vec::new(), None);
        for (shard, answer) in answers {
            match answer {
                ShardAnswer::Visited(answer) => visited.push((shard, answer)),
                ShardAnswer::Refused(why) => refused = refused.or(Some(why)),
            }
        }
        Ok((visited, refused))
    }
}
