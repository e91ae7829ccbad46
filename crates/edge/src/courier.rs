//! The thread that speaks to servers: when, to whom, and what to do when they do not answer.
//!
//! A round is an exchange with the chosen server, which is handed what was counted, and, where handoffs with others are
//! open, exchanges with those, which bring them to an end. When the chosen server fails, the next one of the list is
//! chosen. That needs no care at all: a handoff may be begun with one server and go on with any other.

mod goals;
mod rounds;

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::{Receiver, RecvTimeoutError, Sender},
    },
    time::{Duration, Instant},
};

use quipu_engine::handoff::{Cluster, Name, Open, Server};

use self::goals::{Goal, GoalReply};

use crate::{
    Address, InFlight, NotHandedOver, RetireError, Status, SyncError,
    backoff::{BackOff, Waits},
    http::Http,
    identity::Identity,
    keeper::Request,
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
        gives_up: bool,
        reply: Promise<Result<Vec<InFlight>, RetireError>>,
    },
    Choose {
        server: Address,
        reply: Promise<()>,
    },
    Close,
}

/// What an exchange has come to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Outcome {
    /// Something has changed by it.
    has_moved: bool,
}

/// What the two threads tell each other without a message.
#[derive(Debug, Default)]
pub(crate) struct Signals {
    /// The courier was told that there is something to do.
    pub(crate) is_woken: AtomicBool,
    /// Somebody waits for the edge to retire: it does not count meanwhile.
    is_leaving: AtomicBool,
}

impl Signals {
    pub(crate) fn is_leaving(&self) -> bool {
        self.is_leaving.load(Ordering::Acquire)
    }
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
    signals: Arc<Signals>,
    /// Which of the servers is chosen.
    current: usize,
    name: Name,
    cluster: Option<Cluster>,
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
        signals: Arc<Signals>,
    ) -> Self {
        let places = identity.servers.iter();
        Self {
            keeper,
            http,
            pace,
            servers,
            signals,
            current: 0,
            name: identity.name,
            cluster: identity.home(),
            known: BTreeMap::new(),
            places: places.filter_map(|(name, address)| Some((*name, address.parse().ok()?))).collect(),
            back_offs: BTreeMap::new(),
            pause: BackOff::default(),
            next_at: None,
            goals: Vec::new(),
            open: Open::default(),
            trouble: None,
            copy: identity.copy.clone().map(|why| SyncError::KnownCopy { why }),
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
            Order::Retire { until, gives_up, reply } => {
                // Else whoever counts without a pause would keep it from ever leaving.
                self.signals.is_leaving.store(true, Ordering::Release);
                self.press(until, GoalReply::Retired { gives_up, reply });
            }
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

    /// Asks the keeper. `None`: it has ended.
    fn ask<T>(&self, request: impl FnOnce(Promise<T>) -> Request) -> Option<T> {
        let (reply, pending) = promise();
        self.keeper.send(request(reply)).ok()?;
        pending.wait()
    }

    fn status(&self) -> Option<Status> {
        self.ask(|reply| Request::Status { reply })
    }
}
