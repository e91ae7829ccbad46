//! How threads talk to a worker: they leave mail in its box and wake it up.

use std::{
    cell::RefCell,
    collections::BTreeSet,
    io,
    net::TcpStream,
    rc::Rc,
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

use mio::Waker;
use quipu_engine::{
    Listing, OwnedCommand, Refusal, Reply, ShardAudit, SiteId, Ticket, Unfinished, WaitsFor,
    handoff::{Adoption, Answer, Estate, Name, Round, Server, Visit},
};
use quipu_storage::{Fenced, ShardId};
use tokio::sync::{oneshot, watch};

use super::{
    acks::AskAcks,
    jobs::Rendered,
    links::{LinkMail, Positions},
    relay::Leaving,
    siblings::Passed,
};
use crate::resp::Mode;

/// What a worker is asked or told.
#[derive(Debug)]
pub(super) enum Mail {
    /// A client has connected and is this worker's from now on.
    Client { stream: TcpStream, id: u64, mode: Mode },
    /// Commands of another worker's clients, for shards of this one. They go into one batch.
    Commands { from: usize, commands: Vec<(Ticket, OwnedCommand)> },
    /// Answers to commands that this worker has sent on.
    Answers(Vec<(Ticket, Reply)>),
    /// The answer of a site to a command that a relay has passed on.
    FromSite { ticket: Ticket, answer: Reply },
    /// An answer that was made elsewhere.
    Rendered { ticket: Ticket, rendered: Rendered },
    /// A command of a front end.
    Call { command: OwnedCommand, answer: oneshot::Sender<Reply> },
    /// Commands that another node has passed on, into one batch. Their answers come together.
    Group { shard: ShardId, commands: Vec<OwnedCommand>, answer: oneshot::Sender<Vec<Reply>> },
    /// What became of commands that were passed on to another node.
    Passed { shard: ShardId, passed: Passed, in_lane: bool },
    /// Take a shard, if its fence stands so.
    Take { shard: ShardId, seen: Option<Fenced> },
    /// Give back a shard that is this node's by its fence alone, if that stands so.
    Free { shard: ShardId, seen: Option<Fenced> },
    /// Ask a shard's fence whether it is still this node's.
    Confirm { shard: ShardId },
    /// Give a shard back, for another node.
    Release { shard: ShardId },
    /// What an edge says to a shard.
    Visit { shard: ShardId, visit: Box<Visit>, leaf: bool, answer: oneshot::Sender<Reply> },
    /// What does a relay's shard have to say to a parent?
    Speak { shard: ShardId, server: Server, round: Round, answer: oneshot::Sender<Reply> },
    /// What a shard of a parent has answered.
    Answered { shard: ShardId, server: Server, answer: Box<Answer> },
    /// The relay takes nothing any more in the shards of this worker. How does it stand with them?
    StopRelay { answer: oneshot::Sender<Vec<Leaving>> },
    /// What does a relay's shard leave to this heir?
    Bequeath { shard: ShardId, heir: Name, answer: oneshot::Sender<Reply> },
    /// What the heir has answered.
    Adopted { shard: ShardId, adoption: Box<Adoption> },
    /// What a relay leaves, for a shard.
    Adopt { shard: ShardId, estate: Box<Estate>, answer: oneshot::Sender<Reply> },
    /// A page of a shard's counters.
    List { request: ListShard, answer: oneshot::Sender<Result<Listing, Refusal>> },
    /// Deletes a page of a shard's counters.
    Clear { request: ListShard, answer: oneshot::Sender<Result<Cleared, Refusal>> },
    /// How many counters exist, by shard.
    Count { answer: oneshot::Sender<Vec<(ShardId, u64)>> },
    /// Tell every change of a counter.
    Watch { key: Box<[u8]>, values: watch::Sender<Option<i64>> },
    /// What has come over a link, or of one.
    Link(LinkMail),
    /// How much of a site's stream is in each shard of this worker.
    Positions { of: SiteId, answer: oneshot::Sender<Positions> },
    /// What other sites have of what was written.
    Acks(AskAcks),
    /// The books.
    Audit { answer: oneshot::Sender<Vec<ShardAudit>> },
    /// What does this site, which joins, lack in the shards of this worker?
    WaitsFor { answer: oneshot::Sender<BTreeSet<WaitsFor>> },
    /// What of this site's own has yet to come to its end in the shards of this worker; `None`: one is not available.
    Unfinished { answer: oneshot::Sender<Option<Unfinished>> },
    /// Finish what is begun, and end.
    Stop,
}

impl Mail {
    /// The shard that it is for, if it is for one and changes something there.
    pub(super) fn shard(&self) -> Option<ShardId> {
        match self {
            Self::Confirm { shard }
            | Self::Visit { shard, .. }
            | Self::Speak { shard, .. }
            | Self::Answered { shard, .. }
            | Self::Bequeath { shard, .. }
            | Self::Adopted { shard, .. }
            | Self::Adopt { shard, .. }
            | Self::Link(LinkMail::Message { shard, .. }) => Some(*shard),
            _ => None,
        }
    }
}

impl Mail {
    /// Is something counted here that whoever asks forgets then?
    pub(super) fn counts(&self) -> bool {
        matches!(self, Self::Visit { .. } | Self::Adopt { .. })
    }

    /// Refuses a question about what a shard holds.
    pub(super) fn refuse(self, why: String) {
        // Whoever has asked may have gone.
        match self {
            Self::List { answer, .. } => drop(answer.send(Err(Refusal::NotStored(why)))),
            Self::Clear { answer, .. } => drop(answer.send(Err(Refusal::NotStored(why)))),
            _ => {}
        }
    }
}

/// Which counters of a shard.
#[derive(Debug, Clone)]
pub(super) struct ListShard {
    pub(super) shard: ShardId,
    pub(super) prefix: Vec<u8>,
    pub(super) after: Option<Vec<u8>>,
    pub(super) limit: usize,
}

/// What became of a page of counters that was to be deleted.
#[derive(Debug, Default)]
pub(super) struct Cleared {
    /// Go on after this key.
    pub(super) next: Option<Vec<u8>>,
    /// Bounded counters are not deleted.
    pub(super) kept: u64,
}

/// A page that is being deleted.
#[derive(Debug)]
pub(super) struct Clearing {
    pub(super) cleared: Cleared,
    pub(super) missing: usize,
    pub(super) failed: Option<Refusal>,
    pub(super) answer: Option<oneshot::Sender<Result<Cleared, Refusal>>>,
}

/// Commands that another node has passed on.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) replies: Vec<Reply>,
    pub(super) missing: usize,
    pub(super) answer: Option<oneshot::Sender<Vec<Reply>>>,
}

impl Group {
    /// One of them is answered.
    pub(super) fn note(&mut self, at: usize, reply: Reply) {
        self.replies[at] = reply;
        self.missing -= 1;
        if self.missing == 0
            && let Some(answer) = self.answer.take()
        {
            // Whoever asked may have gone.
            let _ = answer.send(std::mem::take(&mut self.replies));
        }
    }
}

/// Where the answer to a command goes that no connection of this worker has sent.
#[derive(Debug)]
pub(super) enum Return {
    Worker { index: usize, ticket: Ticket },
    Caller(oneshot::Sender<Reply>),
    Group { group: Rc<RefCell<Group>>, at: usize },
    Clearing(Rc<RefCell<Clearing>>),
}

/// A worker's mail.
#[derive(Debug)]
pub(super) struct Mailbox {
    mail: Mutex<Vec<Mail>>,
    /// Set while the worker is known to look soon.
    woken: AtomicBool,
    waker: Waker,
}

impl Mailbox {
    pub(super) fn new(waker: Waker) -> Self {
        Self { mail: Mutex::new(Vec::new()), woken: AtomicBool::new(false), waker }
    }

    /// Leaves mail. The error is that the worker could not be woken; it will find it later.
    pub(super) fn post(&self, mail: Mail) -> io::Result<()> {
        self.lock().push(mail);
        self.wake()
    }

    /// Wakes the worker although there is no mail.
    pub(super) fn wake(&self) -> io::Result<()> {
        if self.woken.swap(true, Ordering::AcqRel) { Ok(()) } else { self.waker.wake() }
    }

    /// Takes all mail.
    pub(super) fn take(&self, into: &mut Vec<Mail>) {
        // Before the look: what comes after it wakes up again.
        self.woken.store(false, Ordering::Release);
        into.append(&mut self.lock());
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Mail>> {
        self.mail.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}
