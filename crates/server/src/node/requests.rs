//! What requests of the Redis protocol become: commands on keys, or jobs over all shards.

use std::time::Duration;

use quipu_engine::{Action, Add, Beyond, Command, Limits, Move, Spread};

use crate::CREATE_WAIT_MS;

use super::{
    acks::Writes,
    answer::Form,
    jobs::{Job, Scope},
    wait::{Patience, Wait},
    waiting::{Address, Part, Queue, Rest, Shape},
    worker::Worker,
};
use crate::resp::{Excess, Mode, Protocol, Queued, Reply, Request, SpreadWord, read_shares};

/// How a command has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Manner {
    /// By itself: it may wait for other sites.
    Alone,
    /// With others: what waited would leave them.
    InTransaction,
}

impl Manner {
    /// How long a command waits for other sites that does not say it.
    fn wait_ms(self) -> u64 {
        match self {
            Self::Alone => CREATE_WAIT_MS,
            Self::InTransaction => 0,
        }
    }
}

/// A client's requests on their way to the shards.
pub(super) struct Submit<'w> {
    pub(super) worker: &'w mut Worker,
    /// The client.
    pub(super) index: usize,
    pub(super) queue: &'w mut Queue,
    pub(super) writes: &'w mut Writes,
    pub(super) protocol: Protocol,
    pub(super) mode: Mode,
}

impl Submit<'_> {
    /// One request.
    pub(super) fn one(mut self, request: Request<'_>) {
        let shape = shape(&request);
        let sequence = match shape {
            Shape { form, parts: 1 } if form != Form::GetAll => self.queue.expect_one(form, self.protocol),
            shape => self.queue.expect_many(vec![shape], false, self.protocol),
        };
        let may_wait =
            matches!(request, Request::Create { wait_ms: None, .. } | Request::Move { wait_said: false, .. });
        let waits = request.waits_by().is_some() || may_wait;
        if waits {
            self.queue.hold_for(sequence);
        }
        self.submit(sequence, 0, request, Manner::Alone);
    }

    /// All requests of a transaction: into one batch, so that those on one shard are stored together or not at all.
    /// Only a job over all shards ends a batch: what comes after it waits until it is done.
    pub(super) fn transaction(self, requests: Vec<Queued>) {
        let shapes: Vec<Shape> = requests.iter().map(shape_of).collect();
        if shapes.iter().map(|shape| shape.parts).sum::<usize>() > 1 << 16 {
            let mut reply = Vec::new();
            let mut error = Reply::new(&mut reply, self.protocol);
            error.error(&"EXECABORT Transaction discarded because it names more than 65536 keys.");
            return self.queue.push_ready(reply);
        }
        let sequence = self.queue.expect_many(shapes, true, self.protocol);
        let (requests, protocol) = (requests.into_iter(), self.protocol);
        self.go_on(Rest { requests, sequence, part: 0, protocol });
    }

    /// Goes on with a transaction, up to its next job.
    pub(super) fn go_on(mut self, mut rest: Rest) {
        while let Some(queued) = rest.requests.next() {
            let part = rest.part;
            rest.part += shape_of(&queued).parts;
            match queued {
                Queued::Run(request) => {
                    self.submit(rest.sequence, part, request.get(), Manner::InTransaction);
                }
                Queued::Reply(bytes) => self.queue.deliver(rest.sequence, part, Part::Bytes(bytes)),
            }
            if self.queue.has_job() {
                return self.queue.keep(rest);
            }
        }
    }

    fn submit(&mut self, sequence: u32, first: usize, request: Request<'_>, manner: Manner) {
        let index = self.index;
        let ticket = |part: usize| Address::Connection { index, sequence, part: first + part }.ticket();
        let mut run = |part: usize, key: &[u8], action: Action<'_>| {
            let is_write = matches!(
                action,
                Action::Add { .. } | Action::Reset { .. } | Action::Create { .. } | Action::Move(_)
            );
            let shard = self.worker.submit(ticket(part), Command { key, action });
            if is_write {
                self.writes.note(shard);
            }
        };
        match request {
            Request::Add { key, amount, remote_ms, operation } => {
                let add = Add { remote_ms, ..Add::of(amount) };
                run(0, key, Action::Add { add, operation });
            }
            Request::AddWithin { key, amount, lower, upper, excess, remote_ms, operation } => {
                let beyond = match excess {
                    Excess::Skip => Beyond::Skip,
                    Excess::Saturate => Beyond::Saturate,
                };
                let add = Add { amount, lower, upper, beyond, remote_ms };
                run(0, key, Action::Add { add, operation });
            }
            Request::Get { key } | Request::Type { key } => run(0, key, Action::Get),
            Request::GetAll { keys } | Request::Exists { keys } => {
                keys.iter().enumerate().for_each(|(part, key)| run(part, key, Action::Get));
            }
            Request::Delete { keys } => {
                let reset = Action::Reset { to: None };
                keys.iter().enumerate().for_each(|(part, key)| run(part, key, reset));
            }
            Request::Set { key, value } => run(0, key, Action::Reset { to: Some(value) }),
            Request::Create { key, minimum, maximum, value, spread, wait_ms } => {
                let limits = Limits { minimum, maximum, initial: value };
                let wait_ms = wait_ms.unwrap_or(manner.wait_ms());
                let shares;
                let spread = match spread {
                    SpreadWord::Creator => Spread::Creator,
                    SpreadWord::Even => Spread::Even,
                    SpreadWord::Shares(text) => {
                        shares = read_shares(text).unwrap_or_default();
                        Spread::Shares(&shares)
                    }
                };
                run(0, key, Action::Create { limits, spread, wait_ms });
            }
            Request::Move { key, rights, wait_said } => {
                let wait_ms = if wait_said { rights.wait_ms } else { manner.wait_ms() };
                run(0, key, Action::Move(Move { wait_ms, ..rights }));
            }
            Request::Inspect { key } | Request::Rights { key } => run(0, key, Action::Inspect),
            Request::Outcome { key, operation } => run(0, key, Action::Outcome(operation)),
            Request::Scan { .. } | Request::Keys { .. } | Request::Count | Request::Flush => {
                self.queue.begin_job();
                // Clients of a cluster ask all nodes.
                let scope = match self.mode {
                    Mode::Alone => Scope::Site,
                    Mode::Cluster => Scope::Node,
                };
                self.worker.start_later(Job::of(&request, scope), ticket(0), self.protocol);
            }
            Request::Wait { sites, timeout_ms } => {
                self.queue.begin_job();
                let patience = match (manner, timeout_ms) {
                    (Manner::InTransaction, _) => Patience::None,
                    (Manner::Alone, 0) => Patience::Endless,
                    (Manner::Alone, timeout_ms) => Patience::For(Duration::from_millis(timeout_ms)),
                };
                let gone = self.queue.begin_wait();
                let wait = Wait { sites, patience, written: self.writes.all(), gone };
                self.worker.start_later(Job::Wait(wait), ticket(0), self.protocol);
            }
        }
    }
}

fn shape_of(queued: &Queued) -> Shape {
    match queued {
        Queued::Run(request) => shape(&request.get()),
        Queued::Reply(_) => Shape { form: Form::Bytes, parts: 1 },
    }
}

fn shape(request: &Request<'_>) -> Shape {
    let one = |form| Shape { form, parts: 1 };
    match request {
        Request::Add { .. } => one(Form::Add),
        Request::AddWithin { .. } => one(Form::AddWithin),
        Request::Get { .. } => one(Form::Get),
        Request::Type { .. } => one(Form::Type),
        Request::Set { .. } | Request::Create { .. } => one(Form::Done),
        Request::Move { .. } => one(Form::Moved),
        Request::Inspect { .. } => one(Form::Inspect),
        Request::Rights { .. } => one(Form::Rights),
        Request::Outcome { .. } => one(Form::Outcome),
        Request::GetAll { keys } => Shape { form: Form::GetAll, parts: keys.len() },
        Request::Exists { keys } => Shape { form: Form::Exists, parts: keys.len() },
        Request::Delete { keys } => Shape { form: Form::Delete, parts: keys.len() },
        Request::Scan { .. }
        | Request::Keys { .. }
        | Request::Count
        | Request::Flush
        | Request::Wait { .. } => one(Form::Bytes),
    }
}
