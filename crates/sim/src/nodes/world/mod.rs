//! The world of a run: nodes, the store that they share, clients and the networks between them, in virtual time.

mod clients;
mod commands;
mod processes;
mod store;
mod troubles;

use super::check::{Answers, Bounds, Reads};
use super::node::{Actor, Orders, Tender, Worker};
use super::plan::Plan;
use crate::core::{Backbone, Budget, Delay, Faults, Millis, Network, Node as Address, Queue, Watching};
use crate::system::calls::{Attempt, Call};
use crate::system::check::counting::Counting;
use crate::system::client::{Client, Pool};
use crate::system::history::{History, Note};
use quipu_crdt::testing::Random;
use quipu_engine::Reply;
use quipu_engine::nodes::Trust;
use quipu_storage::memory::{Answer, Memory};
use quipu_storage::{NodeId, Registered, ShardId, Write};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, Weak};

/// Something that is to happen.
#[derive(Debug, Clone)]
pub(super) enum Event {
    /// A node's host works.
    Work { place: usize, run: u32 },
    /// A node's keeper writes and looks.
    Tend { place: usize, run: u32 },
    /// A call of a client reaches a node.
    Request { attempt: usize },
    /// A call that another node has passed on reaches a node.
    PassedOn { attempt: usize, to: usize },
    /// An answer reaches the node that has passed the call on.
    PassedBack { attempt: usize, verdict: Verdict },
    /// Nobody waits any longer for the answer to a call that a node has passed on.
    Overdue { attempt: usize },
    /// An answer reaches a client.
    Answer { attempt: usize, verdict: Verdict },
    /// A client has thought or waited long enough.
    Wake { client: usize, turn: u32 },
    /// A planned trouble begins.
    Begin { trouble: usize },
    /// It is over.
    End { trouble: usize },
    /// A process starts.
    Start { place: usize },
    /// A commit reaches the store.
    Deliver { number: u64 },
    /// A log hears of a commit.
    Hear { place: usize, number: u64, answer: Answer },
    /// Commits that were issued again reach the store.
    Land,
    /// Rows reach the store late.
    LatePut { shard: ShardId, writes: Arc<Vec<Write>> },
    /// That a node is there reaches the store late.
    LateBeat { registered: Box<Registered> },
}

/// What an answer means to its client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The call is done, or refused for good.
    Done,
    /// Nothing was done. Try again.
    NotDone,
    /// Nobody knows. Try again if that is safe.
    Doubt,
}

/// A place at which there is a node, or not.
pub(super) struct Place {
    pub(super) id: NodeId,
    /// How many processes there were.
    pub(super) run: u32,
    pub(super) is_up: bool,
    worker: Option<Box<Worker>>,
    tender: Option<Box<Tender>>,
    /// When it started.
    started_ms: Millis,
    /// What its clock said then.
    offset_ms: u64,
    /// When the host works next.
    works_at: Option<Millis>,
    /// The host is wanted again, and is at work.
    is_wanted: bool,
    trust: Trust,
    pub(super) has: BTreeSet<ShardId>,
    /// Whom it believes to have each shard.
    pub(super) routes: BTreeMap<ShardId, usize>,
    pub(super) orders: Orders,
    /// It speaks for the site.
    pub(super) sits: bool,
    /// The number of what it knows to be agreed with other sites.
    agreed: u64,
    /// Whom it believes to speak.
    pub(super) speaker: Option<usize>,
    /// Calls that have reached it.
    inbox: VecDeque<usize>,
    /// Calls that its host has taken and not answered.
    open: Vec<usize>,
    /// The number of the last commit of each shard.
    sent: BTreeMap<ShardId, u64>,
    paused_until: Millis,
    /// It comes to a halt when it next asks this.
    armed: Option<(super::trouble::Call, Millis)>,
    /// These are answered slowly, when they are next asked.
    stalled: Vec<(super::trouble::Call, Millis)>,
    cut_until: Millis,
    slow_until: Millis,
    leaves: bool,
}

/// Numbers about a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Counts {
    pub(super) calls: u64,
    pub(super) acknowledged: u64,
    pub(super) taken: u64,
    pub(super) released: u64,
    pub(super) too_late: u64,
    pub(super) passed_on: u64,
    pub(super) halts: u64,
    pub(super) in_doubt: u64,
    pub(super) given_up: u64,
    pub(super) fenced: u64,
    pub(super) reads_alone: u64,
    pub(super) stored_late: u64,
    pub(super) refused_late: u64,
}

/// Everything.
pub(super) struct World {
    pub(super) plan: Plan,
    pub(super) stage: Weak<Mutex<World>>,
    pub(super) queue: Queue<Event>,
    due: VecDeque<Event>,
    pub(super) memory: Memory,
    pub(super) places: Vec<Place>,
    pub(super) pool: Pool,
    pub(super) calls: Vec<Call>,
    pub(super) attempts: Vec<Attempt>,
    /// How much had happened when each was sent.
    asked: Vec<u64>,
    /// Through which node each was passed on, and which process it was.
    via: BTreeMap<usize, (usize, u32)>,
    /// When each call has reached the node that has it, by the clock of that node.
    arrived_ms: BTreeMap<usize, u64>,
    /// Calls that were passed on and are answered, or given up.
    passed_back: BTreeSet<usize>,
    /// Calls that were passed on, and of which it was said that nothing was done.
    denied: BTreeSet<usize>,
    /// Calls that a node has said to be counted.
    counted: BTreeSet<usize>,
    /// Calls in a commit, by its number.
    batches: BTreeMap<u64, Vec<usize>>,
    /// The last commit that each call was in.
    batch_of: BTreeMap<usize, u64>,
    /// Commits that were stored.
    stored: BTreeSet<u64>,
    /// Commits that are not answered.
    unanswered: BTreeSet<u64>,
    /// Commits that were issued again, and not answered.
    reissued: BTreeSet<u64>,
    /// The highest number of what was agreed with other sites that an owner of each shard has acted under.
    acted_under: BTreeMap<ShardId, u64>,
    /// Attempts of which their clients know that nothing was done.
    not_done: BTreeSet<usize>,
    /// Calls that died with their process while their commit was under way, and its number.
    died: Vec<(usize, u64)>,
    pub(super) history: History,
    clients: Vec<Client>,
    to_nodes: Network<Backbone>,
    to_clients: Network<Backbone>,
    between: Network<Backbone>,
    counting: Counting,
    bounds: Bounds,
    reads: Reads,
    answers: Answers,
    /// How much may still happen.
    pub(super) budget: Budget,
    order: u64,
    chance: Random,
    pub(super) probed: BTreeMap<usize, Reply>,
    /// So many requests rest at the moment, each within the one before.
    resting: usize,
    /// How many requests the store does not answer, while a storm lasts.
    storm: Option<f64>,
    pub(super) closing: bool,
    healed: bool,
    /// What does not hold.
    pub(super) failure: Option<String>,
    pub(super) counts: Counts,
}

/// Between neighbours, some milliseconds apart.
fn network(loss: f64, late: f64, late_ms_max: Millis, seed: u64) -> Network<Backbone> {
    let delay = Delay::weibull(1, 1.5, 2.0);
    let faults = Faults { loss, duplication: 0.0, reordering: late, reordering_ms_max: late_ms_max };
    Network::new(Backbone::new(Address::MAX, delay.clone(), delay), faults, seed)
}

fn address(index: usize) -> Address {
    Address::try_from(index).expect("few nodes and clients")
}

impl World {
    pub(super) fn new(plan: Plan, watching: Watching) -> Self {
        let memory = Memory::new();
        memory.move_far_away();
        #[cfg(feature = "testing")]
        memory.set_flaw(plan.wrong.store);
        let work = plan.work;
        Self {
            stage: Weak::new(),
            queue: Queue::new(),
            due: VecDeque::new(),
            memory,
            places: (0..plan.places()).map(|_| Place::empty()).collect(),
            pool: Pool::new(&work, plan.shards, false),
            calls: Vec::new(),
            attempts: Vec::new(),
            asked: Vec::new(),
            via: BTreeMap::new(),
            arrived_ms: BTreeMap::new(),
            passed_back: BTreeSet::new(),
            denied: BTreeSet::new(),
            counted: BTreeSet::new(),
            batches: BTreeMap::new(),
            batch_of: BTreeMap::new(),
            stored: BTreeSet::new(),
            unanswered: BTreeSet::new(),
            reissued: BTreeSet::new(),
            acted_under: BTreeMap::new(),
            not_done: BTreeSet::new(),
            died: Vec::new(),
            history: History::of("node", watching.aloud),
            clients: (0..plan.clients)
                .map(|client| Client::new(client, client % plan.nodes, plan.seed))
                .collect(),
            to_nodes: network(work.loss, work.late, work.late_ms_max, plan.seed ^ 1),
            to_clients: network(work.loss, 0.0, 0, plan.seed ^ 2),
            between: network(plan.loss, 0.0, 0, plan.seed ^ 3),
            counting: Counting::default(),
            bounds: Bounds::default(),
            reads: Reads::default(),
            answers: Answers::default(),
            budget: Budget::new(plan.clients, plan.active_ms, watching),
            order: 0,
            chance: Random::stream(plan.seed, "nodes: chance"),
            probed: BTreeMap::new(),
            resting: 0,
            storm: None,
            closing: false,
            healed: false,
            failure: None,
            counts: Counts::default(),
            plan,
        }
    }

    pub(super) fn now(&self) -> Millis {
        self.queue.now()
    }

    pub(super) fn note(&mut self, note: Note) {
        self.history.note(self.queue.now(), note);
        if self.history.aloud {
            eprintln!("{}", self.history.newest(&self.pool.keys, &self.calls, &self.attempts));
        }
    }

    pub(super) fn say(&mut self, text: String) {
        self.note(Note::Text(text));
    }

    /// The last happenings in words.
    pub(super) fn last_events(&self) -> Vec<String> {
        self.history.lines(&self.pool.keys, &self.calls, &self.attempts)
    }

    /// Something does not hold: nothing happens any more.
    pub(super) fn fail(&mut self, what: String) {
        self.failure.get_or_insert(what);
    }

    fn holds(&mut self, held: Result<(), String>) {
        if let Err(what) = held {
            self.fail(what);
        }
    }

    /// All nodes start, clients begin, troubles are planned.
    pub(super) fn start(&mut self) {
        for place in 0..self.plan.nodes {
            self.start_node(place);
        }
        for client in 0..self.clients.len() {
            let wait = self.clients[client].think_ms(&self.plan.work);
            self.queue.push(wait, Event::Wake { client, turn: 0 });
        }
        for (trouble, planned) in self.plan.troubles.iter().enumerate() {
            self.queue.push(planned.at_ms, Event::Begin { trouble });
        }
    }

    /// What happens next, up to a time.
    pub(super) fn next_event(&mut self, until: Millis) -> Option<Event> {
        if self.failure.is_some() {
            return None;
        }
        if let Err(what) = self.budget.spend() {
            self.fail(what);
            return None;
        }
        if self.due.is_empty() {
            let mut batch = self.queue.next_batch(until)?;
            self.due.extend(batch.drain(..));
            self.queue.recycle(&mut batch);
            if self.now() > self.plan.active_ms {
                // Also while requests rest: if clients went on, what they ask could keep nodes at rest for ever.
                self.close();
            }
        }
        self.due.pop_front()
    }

    /// Lets something happen; what a node does by itself it is to do outside of the world.
    pub(super) fn happen(&mut self, event: Event) -> Option<Actor> {
        self.order += 1;
        match event {
            Event::Work { place, run } => return self.work(place, run),
            Event::Tend { place, run } => return self.tend(place, run),
            Event::Request { attempt } => self.requested(attempt, self.attempts[attempt].site),
            Event::PassedOn { attempt, to } => self.requested(attempt, to),
            Event::PassedBack { attempt, verdict } => self.passed_back(attempt, verdict),
            Event::Overdue { attempt } => self.overdue(attempt),
            Event::Answer { attempt, verdict } => self.answered(attempt, verdict),
            Event::Wake { client, turn } => {
                if self.clients[client].turn == turn {
                    self.wake(client);
                }
            }
            Event::Begin { trouble } => self.begin(trouble),
            Event::End { trouble } => self.end(trouble),
            Event::Start { place } => {
                if !self.places[place].is_up {
                    self.start_node(place);
                }
            }
            Event::Deliver { number } => self.deliver(number),
            Event::Hear { place, number, answer } => {
                self.memory.answer(number, answer);
                self.schedule(place, 0);
            }
            Event::Land => _ = self.memory.land(),
            Event::LatePut { shard, writes } => self.put_late(shard, &writes),
            Event::LateBeat { registered } => self.beat_late(&registered),
        }
        None
    }
}
