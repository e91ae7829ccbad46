//! The thread that has the state. It takes requests, makes what they change durable in one go, and then answers: nothing
//! leaves it before it is stored.

mod asked;
mod servers;

use std::{
    collections::BTreeMap,
    mem,
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, Ordering},
        mpsc::{Receiver, RecvTimeoutError, Sender},
    },
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use quipu_engine::{
    Action, Add, Command, Host, Moment, Recent, Refusal, Released, Reply, Settings, Ticket,
    handoff::{Answer, BadAnswer, Cluster, Name, Open, Opening, Server, Transient, Visit},
};
use quipu_storage::{
    Flush, ShardId, StorageError, Store,
    embedded::Disk,
    file::{FileLog, FileTable, StateFile},
};

use self::asked::Asked;
use crate::{
    CountError, OpenError, Reading, Status,
    courier::{Order, Signals},
    identity::Identity,
    promise::Promise,
    random::random,
    watch::WatchCell,
};

/// An edge is one shard.
const EDGE: ShardId = ShardId(0);
/// Edges are of this tier: sites are of tier 0, relays of tier 1.
const TIER: u8 = 2;
/// So many requests go into one batch at most.
const BATCH_MAX: usize = 1024;
/// And about so many bytes.
const BATCH_BYTES_MAX: usize = 1024 * 1024;
/// When so many bytes were written since the last checkpoint, there is another.
const UNSAVED_BYTES_MAX: usize = 256 * 1024;
/// A checkpoint that has failed is tried again after so long.
const CHECKPOINT_AGAIN: Duration = Duration::from_secs(1);
/// While storage is in trouble it is looked after so often.
const TROUBLED_EVERY: Duration = Duration::from_millis(50);
/// Whoever waits for storage to say what became of a batch waits so long.
const IN_DOUBT_MAX: Duration = Duration::from_secs(10);
/// Reading it shows whether the batch was stored.
const ANY_KEY: &[u8] = b"-";

/// What the keeper is asked for.
pub(crate) enum Request {
    Count {
        key: Vec<u8>,
        amount: i64,
        reply: Promise<Result<(), CountError>>,
    },
    Read {
        key: Vec<u8>,
        reply: Promise<Result<Reading, CountError>>,
    },
    Watch {
        key: Vec<u8>,
        cell: Arc<WatchCell>,
        reply: Promise<Result<(), CountError>>,
    },
    Status {
        reply: Promise<Status>,
    },
    /// A server was met: durable before anything is said to it.
    Met {
        server: Met,
        reply: Promise<Result<(), NotMet>>,
    },
    /// What to say to a server; durable when it is answered.
    Visits {
        server: Server,
        chosen: bool,
        reply: Promise<Result<Said, Refusal>>,
    },
    /// What a server has answered.
    Answered {
        server: Server,
        answers: Vec<(u16, Box<Answer>)>,
        reply: Promise<Result<Heard, Refusal>>,
    },
    /// This state is used twice.
    Copied {
        why: String,
        reply: Promise<Result<(), StorageError>>,
    },
    Retire {
        reply: Promise<Result<bool, Refusal>>,
    },
    /// Ends the keeper, and the file too.
    Remove {
        reply: Promise<Result<(), StorageError>>,
    },
    Close,
}

/// A server that was met.
#[derive(Debug, Clone)]
pub(crate) struct Met {
    pub(crate) cluster: Cluster,
    pub(crate) name: Name,
    pub(crate) shards: u16,
    pub(crate) address: String,
}

/// Why a server is not spoken to.
#[derive(Debug)]
pub(crate) enum NotMet {
    OtherCluster { ours: Cluster },
    OtherShards { ours: u16 },
    NotStored(StorageError),
}

/// What there is to say to a server, and how it stands before that.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) visits: Vec<(u16, Visit)>,
    pub(crate) open: Open,
}

/// How it stands after an answer.
#[derive(Debug, Clone, Default)]
pub(crate) struct Heard {
    pub(crate) open: Open,
    /// The first answer that was none.
    pub(crate) bad: Option<BadAnswer>,
}

/// Whoever waits for the batch.
enum Waiting {
    Count(Promise<Result<(), CountError>>),
    Read {
        heard: Option<Duration>,
        reply: Promise<Result<Reading, CountError>>,
    },
    /// Anything else: it is told whether the batch was stored.
    Other(Box<dyn FnOnce(Result<(), Refusal>) + Send>),
}

pub(crate) struct Keeper<D: Disk> {
    file: StateFile<D>,
    table: FileTable<D>,
    host: Host<FileLog<D>, FileTable<D>>,
    identity: Identity,
    /// This opening is counted, durably.
    is_counted: bool,
    /// It counts no more. False again if that could not be stored.
    is_retiring: Arc<AtomicBool>,
    began: Instant,
    ticket: u64,
    waiting: BTreeMap<Ticket, (Instant, Waiting)>,
    asked: Recent<Vec<u8>, Asked>,
    /// The courier has something to do.
    has_news: bool,
    is_troubled: bool,
    checkpoint_at: Option<Instant>,
    courier: Sender<Order>,
    signals: Arc<Signals>,
}

impl<D: Disk> Keeper<D> {
    pub(crate) fn open(
        file: StateFile<D>,
        pending_max: usize,
        courier: Sender<Order>,
        signals: Arc<Signals>,
    ) -> Result<Self, OpenError> {
        let table = file.table();
        let identity = Identity::read(&table)?;
        let opening = Opening { count: identity.openings.saturating_add(1), drawn: random() };
        let transient = Transient { name: identity.name, tier: TIER, opening, pending_max };
        let settings = Settings { seed: random(), transient: Some(transient), ..Settings::default() };
        let mut host = Host::new(Store::new(file.log(), file.table()), None, settings, Flush::Now);
        let began = Instant::now();
        host.open(EDGE, moment(began))?;
        let is_retiring =
            Arc::new(AtomicBool::new(host.not_handed_over(EDGE).is_some_and(|open| open.last_words > 0)));
        Ok(Self {
            file,
            table,
            host,
            identity,
            is_counted: false,
            is_retiring,
            began,
            ticket: 0,
            waiting: BTreeMap::new(),
            asked: asked::nothing(),
            has_news: false,
            is_troubled: false,
            checkpoint_at: None,
            courier,
            signals,
        })
    }

    /// Is there anything to say to servers?
    pub(crate) fn is_open(&mut self) -> bool {
        let open = self.host.not_handed_over(EDGE);
        open.is_none_or(|open| !open.is_empty() || !open.servers.is_empty())
    }

    /// Remembers, durably, why nothing is handed over from this state; `None`: it is.
    pub(crate) fn set_copy(&mut self, why: Option<String>) -> Result<(), StorageError> {
        self.identity.set_copy(&self.table, why)
    }

    pub(crate) fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Takes requests until it is closed.
    pub(crate) fn run(mut self, requests: &Receiver<Request>) {
        loop {
            let first = if self.is_troubled {
                requests.recv_timeout(TROUBLED_EVERY)
            } else {
                requests.recv().map_err(|_| RecvTimeoutError::Disconnected)
            };
            let mut end = match first {
                Ok(request) => self.take(request),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => Some(End::Closed),
            };
            for _ in 1..BATCH_MAX {
                if end.is_some() || self.host.record_bytes() > BATCH_BYTES_MAX {
                    break;
                }
                let Ok(request) = requests.try_recv() else { break };
                end = self.take(request);
            }
            self.commit();
            match end {
                None => self.look_after(),
                Some(end) => return self.end(end),
            }
        }
    }

    fn end(mut self, end: End) {
        self.give_up(|_| true);
        for cell in self.asked.values().flat_map(|asked| &asked.watchers).filter_map(Weak::upgrade) {
            cell.end();
        }
        if let End::Removed(reply) = end {
            let Self { file, .. } = self;
            reply.keep(file.remove());
        }
    }

    fn take(&mut self, request: Request) -> Option<End> {
        match request {
            Request::Count { reply, .. } if self.is_retiring() || self.signals.is_leaving() => {
                reply.keep(Err(CountError::Refused(Refusal::Leaving)));
            }
            Request::Count { key, amount, reply } => {
                self.has_news = true;
                let action = Action::Add { add: Add::of(amount), operation: None };
                self.submit(Command { key: &key, action }, Waiting::Count(reply));
            }
            Request::Read { key, reply } => self.read(&key, reply),
            Request::Watch { key, cell, reply } => reply.keep(self.watch(&key, &cell)),
            Request::Status { reply } => {
                let status = self.status();
                self.after_batch(move |stored| {
                    let trouble = stored.err().map(|refusal| refusal.to_string());
                    reply.keep(Status { trouble: status.trouble.clone().or(trouble), ..status });
                });
            }
            Request::Met { server, reply } => reply.keep(self.meet(server)),
            Request::Visits { server, chosen, reply } => self.visits(server, chosen, reply),
            Request::Answered { server, answers, reply } => self.answered(server, &answers, reply),
            Request::Copied { why, reply } => reply.keep(self.set_copy(Some(why))),
            Request::Retire { reply } => self.retire(reply),
            Request::Remove { reply } => return Some(End::Removed(reply)),
            Request::Close => return Some(End::Closed),
        }
        None
    }

    fn is_retiring(&self) -> bool {
        self.is_retiring.load(Ordering::Relaxed)
    }

    /// Counts no more, if all is handed over or on its way; from here on, so that nothing comes in after it.
    fn retire(&mut self, reply: Promise<Result<bool, Refusal>>) {
        let retires = self.host.retire_edge(EDGE).is_ok();
        if !retires {
            return reply.keep(Ok(false));
        }
        self.is_retiring.store(true, Ordering::Relaxed);
        let is_retiring = Arc::clone(&self.is_retiring);
        self.after_batch(move |stored| {
            is_retiring.store(stored.is_ok(), Ordering::Relaxed);
            reply.keep(stored.map(|()| true));
        });
    }

    fn submit(&mut self, command: Command<'_>, waiting: Waiting) {
        self.ticket += 1;
        let ticket = Ticket(self.ticket);
        self.waiting.insert(ticket, (Instant::now(), waiting));
        self.host.submit(EDGE, ticket, command, moment(self.began));
    }

    /// Does something when the batch is stored, or was not.
    fn after_batch(&mut self, then: impl FnOnce(Result<(), Refusal>) + Send + 'static) {
        let command = Command { key: ANY_KEY, action: Action::Get };
        self.submit(command, Waiting::Other(Box::new(then)));
    }

    fn commit(&mut self) {
        let mut released = Released::default();
        self.host.commit(moment(self.began), &mut released);
        self.release(released);
    }

    fn release(&mut self, released: Released) {
        let mut was_lost = false;
        for (ticket, reply) in released.replies {
            was_lost |= matches!(&reply, Reply::Refused(Refusal::NotStored(_) | Refusal::InDoubt(_)));
            let Some((_, waiting)) = self.waiting.remove(&ticket) else { continue };
            answer(waiting, &reply);
        }
        self.is_troubled = was_lost || !self.waiting.is_empty();
        for event in released.events {
            self.show(&event.key);
        }
        if mem::take(&mut self.has_news) && !self.signals.is_woken.swap(true, Ordering::AcqRel) {
            // If it is gone, everything is about to be.
            let _ = self.courier.send(Order::Wake);
        }
    }

    /// Between batches: settles what is unknown, and keeps the file short.
    fn look_after(&mut self) {
        let now = Instant::now();
        if mem::take(&mut self.is_troubled) && self.host.stats().shards_unavailable > 0 {
            let mut released = Released::default();
            self.host.maintain(moment(self.began), &mut released);
            self.release(released);
            self.is_troubled = self.host.stats().shards_unavailable > 0;
            self.give_up(|since| now.duration_since(since) > IN_DOUBT_MAX);
        }
        let is_due = self.checkpoint_at.is_none_or(|at| at <= now);
        if is_due && self.file.unsaved_bytes() > UNSAVED_BYTES_MAX {
            self.host.checkpoint(EDGE, moment(self.began));
            let failed = self.file.unsaved_bytes() > UNSAVED_BYTES_MAX;
            self.checkpoint_at = failed.then(|| now + CHECKPOINT_AGAIN);
        }
    }

    /// Nobody waits for ever.
    fn give_up(&mut self, is_late: impl Fn(Instant) -> bool) {
        for (ticket, (since, waiting)) in mem::take(&mut self.waiting) {
            if is_late(since) {
                let why = Refusal::InDoubt("the disk has failed half-way".to_owned());
                answer(waiting, &Reply::Refused(why));
            } else {
                self.waiting.insert(ticket, (since, waiting));
            }
        }
    }
}

/// How a keeper ends.
enum End {
    Closed,
    Removed(Promise<Result<(), StorageError>>),
}

fn answer(waiting: Waiting, reply: &Reply) {
    let refused = match reply {
        Reply::Refused(refusal) => Err(refusal.clone()),
        _ => Ok(()),
    };
    match waiting {
        Waiting::Count(promise) => promise.keep(refused.map_err(CountError::from)),
        Waiting::Read { heard, reply: promise } => {
            let value = if let Reply::Value(Some(value)) = reply { *value } else { 0 };
            promise.keep(refused.map(|()| Reading { value, heard }).map_err(CountError::from));
        }
        Waiting::Other(then) => then(refused),
    }
}

fn moment(began: Instant) -> Moment {
    let ms = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Moment { elapsed_ms: ms(began.elapsed()), unix_ms: ms(unix) }
}
