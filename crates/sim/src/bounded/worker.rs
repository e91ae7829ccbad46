//! A worker of a site: a host of the engine, what waits for it, and how long it is busy with a batch.

use super::client::{Answer, Request};
use super::setup::Costs;
use quipu_engine::{
    Action, Add, Command, Envelope, Host, Limits, Membership, Message, Moment, Refusal, Released, Reply,
    Settings, SiteId, Spread, Ticket,
};
use quipu_storage::memory::{Memory, MemoryLog, MemoryTable};
use quipu_storage::{Flush, ShardId, Store};
use std::collections::VecDeque;

/// How long an operation waits for rights of other sites, in milliseconds.
const REMOTE_MS: u64 = 1_000;
/// How long the making of a counter waits for the other sites, in milliseconds.
const CREATE_MS: u64 = 5_000;
/// The host looks after its memory and its table so often.
const MAINTAIN_EVERY_US: u64 = 10_000;
/// A ticket names who asks, and above these bits the batch in which the command came.
const ASKER_BITS: u32 = 32;

/// What a worker is asked to do.
#[derive(Debug, Clone)]
pub(super) struct Order {
    /// Who asks.
    pub(super) asker: usize,
    /// The counter.
    pub(super) key: Vec<u8>,
    pub(super) shard: ShardId,
    pub(super) request: Request,
}

/// A message of the same worker at another site.
#[derive(Debug, Clone)]
pub(super) struct Letter {
    pub(super) from: SiteId,
    pub(super) shard: ShardId,
    pub(super) message: Box<Message>,
}

/// Something that was counted in a batch.
#[derive(Debug, Clone, Copy)]
pub(super) struct Counted {
    pub(super) asker: usize,
    pub(super) applied: i64,
    /// The value that the site reports.
    pub(super) value: i64,
}

/// A batch that has begun.
#[derive(Debug, Default)]
pub(super) struct Begun {
    /// It is over after so long.
    pub(super) busy_us: u64,
    pub(super) counted: Vec<Counted>,
}

#[derive(Debug)]
pub(super) struct Worker {
    host: Host<MemoryLog, MemoryTable>,
    costs: Costs,
    /// Do all commands that wait share a commit?
    batches: bool,
    orders: VecDeque<Order>,
    letters: Vec<Letter>,
    /// A batch is under way: what it answers leaves when it is over.
    busy: Option<Vec<(usize, Answer)>>,
    batch: u64,
    maintained_us: u64,
    /// When it has asked to be woken.
    wake_us: Option<u64>,
    /// Conditional writes that came too late.
    pub(super) conflicts: u64,
}

impl Worker {
    pub(super) fn new(
        membership: &Membership,
        site: SiteId,
        shards: impl Iterator<Item = ShardId>,
        costs: Costs,
        batches: bool,
    ) -> Result<Self, String> {
        let memory = Memory::new();
        let store = Store::new(memory.log(), memory.table());
        let settings = Settings { site, ..Settings::default() };
        let mut host = Host::new(store, None, settings, Flush::Now);
        host.set_membership(membership);
        for shard in shards {
            host.open(shard, moment(0)).map_err(|error| error.to_string())?;
        }
        membership.members.iter().filter(|peer| **peer != site).for_each(|peer| host.connected(*peer));
        Ok(Worker {
            host,
            costs,
            batches,
            orders: VecDeque::new(),
            letters: Vec::new(),
            busy: None,
            batch: 0,
            maintained_us: 0,
            wake_us: None,
            conflicts: 0,
        })
    }

    pub(super) fn is_idle(&self) -> bool {
        self.busy.is_none()
    }

    pub(super) fn has_work(&self) -> bool {
        !self.orders.is_empty() || !self.letters.is_empty()
    }

    pub(super) fn order(&mut self, order: Order) {
        self.orders.push_back(order);
    }

    pub(super) fn deliver(&mut self, letter: Letter) {
        self.letters.push(letter);
    }

    /// Begins a batch: all messages, and all commands or one of them. Nothing of it is known to anybody until
    /// [`Self::finish`].
    pub(super) fn begin(&mut self, now_us: u64) -> Result<Begun, String> {
        let now = moment(now_us);
        self.batch += 1;
        let mut taken = 0;
        for Letter { from, shard, message } in std::mem::take(&mut self.letters) {
            taken += 1;
            self.host.receive(shard, from, *message, now).map_err(|bad| bad.to_string())?;
        }
        let orders = if self.batches { self.orders.len() } else { self.orders.len().min(1) };
        let mut answers = Vec::with_capacity(orders);
        for order in self.orders.drain(..orders).collect::<Vec<_>>() {
            taken += 1;
            self.submit(&order, now, &mut answers);
        }
        let mut released = Released::default();
        let is_written = self.host.commit(now, &mut released).is_some();
        let mut counted = Vec::new();
        for (ticket, reply) in released.replies {
            let (asker, waited) = self.asker(ticket);
            if let Reply::Added(added) = &reply {
                counted.push(Counted { asker, applied: added.applied, value: added.value });
            }
            answers.push((asker, answer(reply, waited)?));
        }
        self.busy = Some(answers);
        let commit_us = if is_written { self.costs.commit_us } else { 0 };
        Ok(Begun { busy_us: taken * self.costs.command_us + commit_us, counted })
    }

    fn submit(&mut self, order: &Order, now: Moment, answers: &mut Vec<(usize, Answer)>) {
        let Order { asker, key, shard, request } = order;
        let action = match *request {
            Request::Read => Action::Get,
            Request::ReadVersion => Action::Inspect,
            Request::Create { initial } => {
                let limits = Limits { minimum: Some(super::books::MINIMUM), maximum: None, initial };
                Action::Create { limits, spread: Spread::Creator, wait_ms: CREATE_MS }
            }
            Request::AddIf { version, .. } if self.version(key, *shard, now) != Some(version) => {
                self.conflicts += 1;
                return answers.push((*asker, Answer::Conflict));
            }
            Request::Add { amount } | Request::AddIf { amount, .. } => {
                Action::Add { add: Add { remote_ms: REMOTE_MS, ..Add::of(amount) }, operation: None }
            }
        };
        let ticket = Ticket(self.batch << ASKER_BITS | *asker as u64);
        self.host.submit(*shard, ticket, Command { key, action }, now);
    }

    /// The last change of a counter. Nothing comes between this and the command that follows: a worker does one thing
    /// after the other.
    fn version(&mut self, key: &[u8], shard: ShardId, now: Moment) -> Option<u64> {
        match self.ask(key, shard, Action::Inspect, now)? {
            Reply::Inspected(inspection) => inspection.map(|inspection| inspection.version),
            _ => None,
        }
    }

    /// The value that this site reports.
    pub(super) fn value(&mut self, key: &[u8], shard: ShardId, now_us: u64) -> Option<i64> {
        match self.ask(key, shard, Action::Get, moment(now_us))? {
            Reply::Value(value) => value,
            _ => None,
        }
    }

    /// Asks something that changes nothing, and costs nothing here.
    fn ask(&mut self, key: &[u8], shard: ShardId, action: Action<'_>, now: Moment) -> Option<Reply> {
        let mut released = Released::default();
        self.host.submit(shard, Ticket(u64::MAX), Command { key, action }, now);
        self.host.commit(now, &mut released);
        released.replies.into_iter().find(|(ticket, _)| *ticket == Ticket(u64::MAX)).map(|(_, reply)| reply)
    }

    /// Who asked, and whether it was in an earlier batch.
    fn asker(&self, Ticket(ticket): Ticket) -> (usize, bool) {
        let asker = ticket & ((1 << ASKER_BITS) - 1);
        (usize::try_from(asker).expect("fewer than 2^32"), ticket >> ASKER_BITS != self.batch)
    }

    /// The batch is durable: what it answers, and what is to be sent to other sites.
    pub(super) fn finish(&mut self, now_us: u64, envelopes: &mut Vec<Envelope>) -> Vec<(usize, Answer)> {
        let now = moment(now_us);
        if now_us >= self.maintained_us + MAINTAIN_EVERY_US {
            self.maintained_us = now_us;
            // Nothing of this store is ever unknown, so nothing is released.
            self.host.maintain(now, &mut Released::default());
        }
        self.host.outgoing(now, envelopes);
        self.busy.take().unwrap_or_default()
    }

    /// When it is to be woken, if it has not asked for that already: there may be something to send or to refuse.
    pub(super) fn wake_us(&mut self, now_us: u64) -> Option<u64> {
        let wake_us = (self.host.wants_at()? * 1_000).max(now_us + 1_000);
        let is_asked = self.wake_us.is_some_and(|asked_us| asked_us > now_us && asked_us <= wake_us);
        if is_asked {
            return None;
        }
        self.wake_us = Some(wake_us);
        Some(wake_us)
    }
}

/// The engine's time.
fn moment(now_us: u64) -> Moment {
    Moment { elapsed_ms: now_us / 1_000, unix_ms: now_us / 1_000 }
}

fn answer(reply: Reply, waited: bool) -> Result<Answer, String> {
    Ok(match reply {
        Reply::Added(_) => Answer::Counted { waited },
        Reply::Refused(Refusal::OutOfBounds { .. }) => Answer::Refused { waited },
        Reply::Value(value) => Answer::Value { value: value.unwrap_or(0), version: 0 },
        Reply::Inspected(Some(inspection)) => {
            Answer::Value { value: inspection.value, version: inspection.version }
        }
        Reply::Created => Answer::Created,
        other => return Err(format!("the engine answers {other:?}")),
    })
}
