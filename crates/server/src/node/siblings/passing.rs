//! What is for a shard elsewhere goes to the node that has it, in one hop. While a shard moves it waits for a moment.

use std::{
    collections::{BTreeMap, BTreeSet},
    future::Future,
    sync::Arc,
    time::Duration,
};

use minicbor::bytes::ByteVec;
use quipu_engine::{
    Action, Command, Listing, Move, OwnedCommand, Refusal, Reply, ShardAudit, SiteId, Ticket, call,
    handoff::{
        Name, Visit,
        exchange::{self, Exchanged, Taken},
    },
    passed_on,
};
use quipu_storage::{NodeId, ShardId};
use tokio::time::{Instant, sleep, sleep_until};

use super::{
    About, Place, Siblings,
    question::{Question, Told, decode, encode},
};
use crate::{
    links::{Caller, Unanswered},
    node::{
        Node, Shared,
        acks::Written,
        deferred::Late,
        mail::{Cleared, ListShard, Mail},
    },
};

/// For so long a command waits while nobody has its shard.
const MOVE_WAIT: Duration = Duration::from_secs(2);
/// For so long it waits for the answer, besides what it may wait itself for other sites.
const ANSWER_MAX: Duration = Duration::from_secs(5);
/// How soon it is tried again, if nothing is known to have changed.
const AGAIN_AFTER: Duration = Duration::from_millis(50);
/// How long a dial and its greeting may take.
const DIAL_MAX: Duration = Duration::from_secs(3);

/// Why the owner of a shard has not answered.
#[derive(Debug)]
pub(super) enum NoAnswer {
    /// It was not asked, or has done nothing.
    NotAsked,
    /// It may have done it.
    InDoubt(String),
}

/// Where a shard is, and what its owner says.
#[derive(Debug)]
enum Asked {
    /// It is here: do it yourself.
    Here,
    Told(Told),
}

/// A command on its way.
#[derive(Debug)]
struct Passing {
    ticket: Ticket,
    command: OwnedCommand,
    /// Nobody waits longer for it.
    until: Instant,
    /// Why it may have been done already.
    doubt: Option<String>,
    /// Nobody waits for it any more.
    is_given_up: bool,
}

impl Passing {
    /// What is said of it if it comes to no end.
    fn refused(&self) -> (Ticket, Reply) {
        let refusal = passed_on(&self.command.get(), self.doubt.as_deref());
        (self.ticket, Reply::Refused(refusal))
    }
}

/// What became of commands that were to be passed on.
#[derive(Debug, Default)]
pub(in crate::node) struct Passed {
    pub(in crate::node) answers: Vec<(Ticket, Reply)>,
    /// The shard is here by now.
    pub(in crate::node) here: Vec<(Ticket, OwnedCommand)>,
}

/// Does it do no harm to do this twice?
fn is_repeatable(command: Command<'_>) -> bool {
    match command.action {
        Action::Add { operation, .. } => operation.is_some(),
        Action::Get | Action::Inspect | Action::Outcome(_) => true,
        Action::Reset { .. } | Action::Create { .. } | Action::Move(_) => false,
    }
}

/// How long a command may wait by itself, for other sites.
pub(in crate::node) fn own_wait(command: Command<'_>) -> Duration {
    Duration::from_millis(match command.action {
        Action::Add { add, .. } => add.remote_ms,
        Action::Create { wait_ms, .. } | Action::Move(Move { wait_ms, .. }) => wait_ms,
        _ => 0,
    })
}

impl Shared {
    /// Passes commands on, on the thread of the front ends; what became of them comes by mail.
    pub(in crate::node) fn pass_commands(
        self: &Arc<Self>,
        siblings: Arc<Siblings>,
        worker: usize,
        shard: ShardId,
        commands: Vec<Late>,
        in_lane: bool,
    ) {
        let node = Node { shared: Arc::clone(self) };
        self.metrics.nodes.passed_on.inc_by(commands.len() as u64);
        self.runtime.spawn(async move {
            let passed = node.pass(&siblings, worker, shard, commands).await;
            node.shared.post(worker, Mail::Passed { shard, passed, in_lane });
        });
    }
}

impl Node {
    async fn pass(&self, siblings: &Siblings, worker: usize, shard: ShardId, commands: Vec<Late>) -> Passed {
        let deadline = Duration::from_millis(self.shared.storage_deadline_ms);
        let started = Instant::from_std(self.shared.started);
        let passing = |Late { since_ms, ticket, command }| {
            let until = started + Duration::from_millis(since_ms) + deadline + own_wait(command.get());
            Passing { ticket, command, until, doubt: None, is_given_up: false }
        };
        let mut left: Vec<Passing> = commands.into_iter().map(passing).collect();
        let mut passed = Passed::default();
        let mut until = Instant::now() + MOVE_WAIT;
        loop {
            let within = left.iter().map(|it| own_wait(it.command.get())).max().unwrap_or_default();
            let commands = left.iter().map(|it| ByteVec::from(call::encode_command(it.command.get())));
            let question = Question::Commands { shard: shard.0, commands: commands.collect() };
            let asked = self.ask_owner(siblings, shard, &question, ANSWER_MAX + within);
            let Some(asked) = self.while_waited_for(worker, shard, &mut left, asked).await else {
                return passed;
            };
            match asked {
                Ok(Asked::Here) => {
                    let here = left.into_iter().filter(|it| !it.is_given_up);
                    passed.here.extend(here.map(|it| (it.ticket, it.command)));
                    return passed;
                }
                Ok(Asked::Told(Told::Replies(replies))) if replies.len() == left.len() => {
                    left = take_replies(left, &replies, &mut passed.answers);
                }
                Ok(Asked::Told(_)) | Err(NoAnswer::NotAsked) => {}
                Err(NoAnswer::InDoubt(why)) => {
                    left = doubt(left, &why, &mut passed.answers);
                    until = Instant::now() + MOVE_WAIT;
                }
            }
            left.retain(|it| !it.is_given_up);
            if left.is_empty() {
                return passed;
            }
            if Instant::now() >= until {
                passed.answers.extend(left.iter().map(Passing::refused));
                return passed;
            }
            siblings.wait_for_change().await;
        }
    }

    /// Waits for an answer about these commands. Those whose time is up meanwhile are told at once that it is not known what
    /// became of them. `None`: all of them are.
    async fn while_waited_for<T>(
        &self,
        worker: usize,
        shard: ShardId,
        passing: &mut [Passing],
        answer: impl Future<Output = T>,
    ) -> Option<T> {
        let mut answer = std::pin::pin!(answer);
        loop {
            let next = passing.iter().filter(|it| !it.is_given_up).map(|it| it.until).min()?;
            tokio::select! {
                answer = &mut answer => return Some(answer),
                () = sleep_until(next) => {}
            }
            let now = Instant::now();
            let after_ms = self.shared.storage_deadline_ms;
            let mut overdue = Passed::default();
            for it in passing.iter_mut().filter(|it| !it.is_given_up && it.until <= now) {
                it.is_given_up = true;
                it.doubt =
                    Some(format!("the node that it was passed on to has not answered for {after_ms} ms"));
                overdue.answers.push(it.refused());
            }
            self.shared.post(worker, Mail::Passed { shard, passed: overdue, in_lane: false });
        }
    }

    /// Asks the node that has a shard.
    async fn ask_owner(
        &self,
        siblings: &Siblings,
        shard: ShardId,
        question: &Question,
        within: Duration,
    ) -> Result<Asked, NoAnswer> {
        let there = match siblings.place(shard) {
            Place::Here => return Ok(Asked::Here),
            Place::There(node) => node,
            Place::Nowhere => return Err(NoAnswer::NotAsked),
        };
        // Whoever is believed gone, or has released the shard, is not waited for.
        let mut changed = siblings.changed.subscribe();
        let has_moved = async {
            while siblings.place(shard) == Place::There(there) && changed.changed().await.is_ok() {}
        };
        let mut has_moved = std::pin::pin!(has_moved);
        let caller = tokio::select! {
            caller = self.caller(siblings, there) => caller?,
            () = &mut has_moved => return Err(NoAnswer::NotAsked),
        };
        tokio::select! {
            told = put(&caller, question, within) => told.map(Asked::Told),
            () = has_moved => Err(NoAnswer::InDoubt("the node that it was passed on to has lost the shard".to_owned())),
        }
    }

    /// Asks another node.
    pub(super) async fn ask_node(
        &self,
        siblings: &Siblings,
        node: NodeId,
        question: &Question,
        within: Duration,
    ) -> Result<Told, NoAnswer> {
        put(&*self.caller(siblings, node).await?, question, within).await
    }

    /// A connection to another node.
    async fn caller(&self, siblings: &Siblings, node: NodeId) -> Result<Arc<Caller>, NoAnswer> {
        let caller = self.connection(siblings, node).await;
        caller.map_err(|why| {
            tracing::debug!(%node, "another node cannot be reached: {why}");
            NoAnswer::NotAsked
        })
    }

    async fn connection(&self, siblings: &Siblings, node: NodeId) -> Result<Arc<Caller>, String> {
        let view = siblings.view();
        let mut callers = siblings.callers.lock().await;
        callers.retain(|node, caller| view.nodes.contains_key(node) && !caller.is_over());
        if let Some(caller) = callers.get(&node) {
            return Ok(Arc::clone(caller));
        }
        let about = view.nodes.get(&node).ok_or("it has gone")?.about.clone();
        let this = self.clone();
        // Where all of them run.
        let dial = self.shared.runtime.spawn(async move { this.dial(&about).await });
        let caller = Arc::new(dial.await.map_err(|error| error.to_string())??);
        callers.insert(node, Arc::clone(&caller));
        Ok(caller)
    }

    async fn dial(&self, to: &About) -> Result<Caller, String> {
        let address = &to.link;
        let meet = async {
            let caller = Caller::dial(address).await.map_err(|error| error.to_string())?;
            let ours = self.shared.board().cluster();
            let answer = caller.greet(to.key).await.map_err(|error| error.to_string())?;
            let exchanged: Exchanged = exchange::decode(&answer).map_err(|error| error.to_string())?;
            let is_ours = exchanged.server.name == Name::of_site(self.shared.site());
            if ours.is_other(&exchanged.home()) || !is_ours {
                return Err(format!("{address} is no node of this site"));
            }
            Ok(caller)
        };
        tokio::time::timeout(DIAL_MAX, meet).await.unwrap_or_else(|_| Err("it does not answer".to_owned()))
    }

    /// Does something where a shard is: here, or by asking its owner, as often as it moves meanwhile. What is asked twice
    /// must do no harm.
    async fn where_it_is<T, H>(
        &self,
        shard: ShardId,
        question: &Question,
        here: impl Fn() -> H,
        told: impl Fn(Told) -> Result<T, Refusal>,
    ) -> Result<T, Refusal>
    where
        H: Future<Output = Result<T, Refusal>>,
    {
        let Some(siblings) = &self.shared.siblings else { return here().await };
        let until = Instant::now() + MOVE_WAIT;
        loop {
            let result = match self.ask_owner(siblings, shard, question, ANSWER_MAX).await {
                Ok(Asked::Here) => here().await,
                Ok(Asked::Told(Told::NotHere)) | Err(NoAnswer::NotAsked) => Err(Refusal::NotHere),
                Ok(Asked::Told(Told::Refused(refusal))) => Err(refusal),
                Ok(Asked::Told(answer)) => told(answer),
                Err(NoAnswer::InDoubt(why)) => Err(Refusal::InDoubt(why)),
            };
            match result {
                Err(Refusal::NotHere | Refusal::InDoubt(_)) if Instant::now() < until => {
                    siblings.wait_for_change().await;
                }
                result => return result,
            }
        }
    }

    /// A page of a shard's counters.
    pub(in crate::node) async fn list_page(&self, request: ListShard) -> Result<Listing, Refusal> {
        let worker = self.shared.owner(request.shard);
        let here = || async {
            let request = request.clone();
            self.ask(worker, |answer| Mail::List { request, answer }).await?
        };
        let told = |told| match told {
            Told::Listing { counters, next } => {
                let counters = counters.into_iter().map(|(key, value)| (key.into(), value)).collect();
                Ok(Listing { counters, next: next.map(Into::into) })
            }
            _ => Err(unexpected()),
        };
        self.where_it_is(request.shard, &page(&request, false), here, told).await
    }

    /// Deletes a page of a shard's counters.
    pub(in crate::node) async fn clear_page(&self, request: ListShard) -> Result<Cleared, Refusal> {
        let worker = self.shared.owner(request.shard);
        let here = || async {
            let request = request.clone();
            self.ask(worker, |answer| Mail::Clear { request, answer }).await?
        };
        let told = |told| match told {
            Told::Cleared { next, kept } => Ok(Cleared { next: next.map(Into::into), kept }),
            _ => Err(unexpected()),
        };
        self.where_it_is(request.shard, &page(&request, true), here, told).await
    }

    /// What an edge or a relay says to a shard.
    pub(in crate::node) async fn visit(&self, shard: ShardId, visit: Visit, leaf: bool) -> Reply {
        let worker = self.shared.owner(shard);
        let here = || async {
            let visit = Box::new(visit.clone());
            self.ask(worker, |answer| Mail::Visit { shard, visit, leaf, answer }).await.and_then(accept)
        };
        let told = |told| match told {
            Told::Visited(answer) => Ok(Reply::Visited(answer)),
            _ => Err(unexpected()),
        };
        let question = Question::Visit { shard: shard.0, leaf, visit: Box::new(visit.clone()) };
        self.where_it_is(shard, &question, here, told).await.unwrap_or_else(Reply::Refused)
    }

    /// What a relay leaves to a shard that may be elsewhere.
    pub(in crate::node) async fn adopt_where_it_is<H>(
        &self,
        shard: ShardId,
        bytes: &[u8],
        here: impl Fn() -> H,
    ) -> Vec<u8>
    where
        H: Future<Output = Result<Vec<u8>, Refusal>>,
    {
        let told = |told| match told {
            Told::Adopted(answer) => Ok(answer.into()),
            _ => Err(unexpected()),
        };
        let question = Question::Adopt { shard: shard.0, estate: bytes.to_vec().into() };
        let taken = self.where_it_is(shard, &question, here, told).await;
        taken.unwrap_or_else(|refusal| exchange::encode(&Taken::Refused(refusal.to_string())))
    }

    /// How many counters all nodes have, each shard counted once. Those of a shard that nobody has for a while are not known.
    pub(in crate::node) async fn count_everywhere(&self) -> u64 {
        let until = Instant::now() + MOVE_WAIT;
        loop {
            let mut counts: BTreeMap<ShardId, u64> = self.count_here().await.into_iter().collect();
            for told in self.ask_all(&Question::Count).await {
                if let Ok(Told::Count(more)) = told {
                    counts.extend(more.into_iter().map(|(shard, count)| (ShardId(shard), count)));
                }
            }
            let is_whole = counts.len() == usize::from(self.shared.shards.count());
            match &self.shared.siblings {
                Some(siblings) if !is_whole && Instant::now() < until => siblings.wait_for_change().await,
                _ => return counts.values().sum(),
            }
        }
    }

    /// The books of the other nodes.
    pub(in crate::node) async fn audit_elsewhere(&self) -> Result<Vec<ShardAudit>, Refusal> {
        let mut audits = Vec::new();
        for told in self.ask_all(&Question::Audit).await {
            match told {
                Ok(Told::Audit(more)) => audits.extend(more),
                Ok(_) => return Err(unexpected()),
                Err(_) => return Err(Refusal::NotHere),
            }
        }
        Ok(audits)
    }

    /// Tells the others that there is something to be taken.
    pub(in crate::node) async fn tell_to_look(&self) {
        // Whoever does not hear it looks before long.
        self.ask_all(&Question::Look).await;
    }

    /// Which other sites have what was written in a shard.
    pub(in crate::node) async fn acks(&self, written: Written) -> Result<(u64, BTreeSet<SiteId>), Refusal> {
        let told = |told| match told {
            Told::Acks { position, sites } => Ok((position, sites.into_iter().collect())),
            _ => Err(unexpected()),
        };
        let Written { shard, position } = written;
        let question = Question::Acks { shard: shard.0, position };
        self.where_it_is(shard, &question, || self.acks_here(written), told).await
    }

    pub(super) async fn ask_all(&self, question: &Question) -> Vec<Result<Told, NoAnswer>> {
        let Some(siblings) = &self.shared.siblings else { return Vec::new() };
        let view = siblings.view();
        let mut told = Vec::new();
        for node in view.nodes.keys().filter(|node| **node != siblings.own()) {
            told.push(self.ask_node(siblings, *node, question, ANSWER_MAX).await);
        }
        told
    }
}

impl Siblings {
    /// Waits until something has changed, or for a moment.
    async fn wait_for_change(&self) {
        let mut changed = self.changed.subscribe();
        tokio::select! {
            // The sender lives as long as the node.
            _ = changed.changed() => {}
            () = sleep(AGAIN_AFTER) => {}
        }
    }
}

/// Puts a question to another node.
async fn put(caller: &Caller, question: &Question, within: Duration) -> Result<Told, NoAnswer> {
    match caller.question(&encode(question), within).await {
        Ok(bytes) => decode(&bytes).map_err(NoAnswer::InDoubt),
        Err(Unanswered::NotSent(_)) => Err(NoAnswer::NotAsked),
        Err(Unanswered::NoAnswer(why) | Unanswered::Refused(why)) => {
            Err(NoAnswer::InDoubt(format!("it was passed on to another node: {why}")))
        }
    }
}

fn unexpected() -> Refusal {
    Refusal::InDoubt("another node has answered something else".to_owned())
}

fn accept(reply: Reply) -> Result<Reply, Refusal> {
    match reply {
        Reply::Refused(refusal) => Err(refusal),
        reply => Ok(reply),
    }
}

fn page(request: &ListShard, clear: bool) -> Question {
    let ListShard { shard, prefix, after, limit } = request.clone();
    let (prefix, after) = (prefix.into(), after.map(Into::into));
    Question::Page { shard: shard.0, prefix, after, limit: limit as u64, clear }
}

/// Takes in the answers. What was not done, because the shard has moved, is left.
fn take_replies(
    passing: Vec<Passing>,
    replies: &[ByteVec],
    answers: &mut Vec<(Ticket, Reply)>,
) -> Vec<Passing> {
    let mut left = Vec::new();
    for (it, reply) in passing.into_iter().zip(replies).filter(|(it, _)| !it.is_given_up) {
        match call::decode_reply(reply) {
            Ok(Reply::Refused(Refusal::NotHere)) => left.push(it),
            Ok(reply) => answers.push((it.ticket, reply)),
            Err(bad) => answers.push((it.ticket, Reply::Refused(Refusal::InDoubt(bad.to_string())))),
        }
    }
    left
}

/// There was no answer: what may be repeated is left, the rest is in doubt for good.
fn doubt(passing: Vec<Passing>, why: &str, answers: &mut Vec<(Ticket, Reply)>) -> Vec<Passing> {
    let waited_for = passing.into_iter().filter(|it| !it.is_given_up);
    let (mut left, lost): (Vec<_>, Vec<_>) = waited_for.partition(|it| is_repeatable(it.command.get()));
    let in_doubt = |it: Passing| (it.ticket, Reply::Refused(Refusal::InDoubt(why.to_owned())));
    answers.extend(lost.into_iter().map(in_doubt));
    left.iter_mut().for_each(|it| it.doubt = Some(why.to_owned()));
    left
}
