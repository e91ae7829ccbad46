//! The world of a run: sites, clients and the networks between them, in virtual time.

mod beside;
mod clients;
mod fleet;
mod losses;
mod members;
mod messages;
mod mistakes;
mod probes;
mod sites;
mod troubles;

pub(super) use self::fleet::Station;
use self::{
    beside::Fork,
    fleet::{Band, Happening},
    members::UnderWay,
    messages::Letter,
};
use super::calls::{Attempt, Call};
use super::check::{self, Check};
use super::claims::Claims;
use super::client::{Client, Pool};
use super::history::{History, Note};
use super::links::Links;
use super::plan::Plan;
use super::site::Site;
use crate::core::{Backbone, Budget, Delay, Faults, Millis, Network, Node, Queue, Watching};
use quipu_crdt::testing::Random;
use quipu_engine::{Envelope, Membership, Reply, SiteId};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// A site looks after itself at least so often.
const TICK_MS: Millis = 50;

/// When no client asks for anything, so often.
const IDLE_TICK_MS: Millis = 1_000;

/// Something that is to happen.
#[derive(Debug, Clone)]
pub(super) enum Event {
    /// A site commits, sends, and looks after its store.
    Work { site: usize, run: u32 },
    /// A call reaches a site.
    Request { attempt: usize },
    /// An answer, or that there will be none, reaches a client.
    Answer { attempt: usize, verdict: Verdict },
    /// A client has thought or waited long enough.
    Wake { client: usize, turn: u32 },
    /// A planned trouble begins.
    Begin { trouble: usize },
    /// A cut or split is over.
    Mend { trouble: usize },
    /// A site's process starts again.
    Restart { site: usize },
    /// A message of another site arrives.
    Message(Box<Letter>),
    /// It is looked how far the change of who belongs to the cluster has come.
    Council,
    /// A site hears who belongs to the cluster now.
    Follow { site: usize, membership: Rc<Membership> },
    /// Two sites try to connect.
    Connect { a: usize, b: usize },
    /// Something happens to edges and relays.
    Fleet(Happening),
}

/// What an answer means to its client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The call is done, or refused for good.
    Done,
    /// It was not done, or nobody knows. Try again if that is safe.
    Again,
}

/// Everything.
pub(super) struct World {
    pub(super) plan: Plan,
    pub(super) queue: Queue<Event>,
    pub(super) sites: Vec<Site>,
    pub(super) links: Links,
    pub(super) pool: Pool,
    pub(super) calls: Vec<Call>,
    pub(super) attempts: Vec<Attempt>,
    pub(super) history: History,
    clients: Vec<Client>,
    to_sites: Network<Backbone>,
    to_clients: Network<Backbone>,
    pub(super) between: Network<Backbone>,
    /// Messages that a stall holds back, by direction.
    held: BTreeMap<(usize, usize), Vec<Letter>>,
    envelopes: Vec<Envelope>,
    checks: Vec<Box<dyn Check>>,
    /// How much may still happen.
    pub(super) budget: Budget,
    order: u64,
    chance: Random,
    /// Answers to probes.
    probed: BTreeMap<usize, Reply>,
    /// Clients begin nothing new.
    closing: bool,
    /// Nothing goes wrong any more.
    healed: bool,
    /// Who belongs to the cluster: what was last decided. Sites hear of it one after the other.
    pub(super) membership: Rc<Membership>,
    /// The change of that which is under way.
    change: Option<UnderWay>,
    /// A site that is lost too, and is removed next, and who answers for it then.
    also_lost: Option<(usize, usize)>,
    /// May a site come back without something that it has acknowledged, or not at all?
    forgets: bool,
    claims: Claims,
    /// Both copies of a site were heard, and nobody can say what is right: the run ends.
    pub(super) is_undecided: bool,
    /// A copy of a site that runs, or ran, beside it.
    fork: Option<Fork>,
    /// Sites that are lost, were put back from a copy, or have left.
    pub(super) dead: BTreeSet<SiteId>,
    /// Edges and relays.
    pub(super) fleet: Band,
    pub(super) acknowledged: u64,
    /// Calls that clients have made.
    pub(super) client_calls: u64,
}

/// Between clients and sites: near ones, and a request may come late.
fn client_network(plan: &Plan, to_sites: bool, seed: u64) -> Network<Backbone> {
    let delay = Delay::weibull(1, 1.5, 2.0);
    let late = if to_sites { plan.work.late } else { 0.0 };
    let faults = Faults {
        loss: plan.work.loss,
        duplication: 0.0,
        reordering: late,
        reordering_ms_max: plan.work.late_ms_max,
    };
    Network::new(Backbone::new(Node::MAX, delay.clone(), delay), faults, seed)
}

fn between_sites(plan: &Plan) -> Network<Backbone> {
    let delay = Delay::weibull(plan.latency_ms, 1.5, plan.latency_spread_ms);
    Network::new(Backbone::new(Node::MAX, delay.clone(), delay), plan.faults, plan.seed)
}

fn node(index: usize) -> Node {
    Node::try_from(index).expect("few nodes")
}

impl World {
    pub(super) fn new(plan: Plan, watching: Watching) -> Self {
        let slots = plan.places();
        let sites: Vec<Site> = (0..slots).map(|site| Site::new(site, &plan)).collect();
        let membership = Rc::new(sites[0].membership().clone());
        Self {
            queue: Queue::new(),
            sites,
            membership,
            change: None,
            also_lost: None,
            forgets: plan.forgets(),
            claims: Claims::default(),
            is_undecided: false,
            fork: None,
            dead: BTreeSet::new(),
            links: Links::new(plan.topology, slots, plan.beside().map(|site| (slots - 1, site))),
            pool: Pool::new(&plan.work, plan.shards, !plan.fleet.is_empty()),
            calls: Vec::new(),
            attempts: Vec::new(),
            history: History::of("site", watching.aloud),
            clients: (0..plan.clients)
                .map(|client| Client::new(client, client % plan.sites, plan.seed))
                .collect(),
            to_sites: client_network(&plan, true, plan.seed ^ 1),
            to_clients: client_network(&plan, false, plan.seed ^ 2),
            between: between_sites(&plan),
            held: BTreeMap::new(),
            envelopes: Vec::new(),
            checks: check::all(&plan),
            budget: Budget::new(plan.clients + plan.fleet.edges, plan.active_ms, watching),
            order: 0,
            chance: Random::stream(plan.seed, "system: chance"),
            probed: BTreeMap::new(),
            closing: false,
            healed: false,
            fleet: Band::new(&plan),
            acknowledged: 0,
            client_calls: 0,
            plan,
        }
    }

    pub(super) fn now(&self) -> Millis {
        self.queue.now()
    }

    /// The sites that are there.
    pub(super) fn members(&self) -> Vec<usize> {
        (0..self.sites.len()).filter(|&site| self.sites[site].is_there()).collect()
    }

    pub(super) fn note(&mut self, note: Note) {
        self.history.note(self.queue.now(), note);
        if self.history.aloud {
            eprintln!("{}", self.history.newest(&self.pool.keys, &self.calls, &self.attempts));
        }
    }

    /// The last happenings in words.
    pub(super) fn last_events(&self) -> Vec<String> {
        self.history.lines(&self.pool.keys, &self.calls, &self.attempts)
    }

    /// All sites start, clients begin, troubles are planned.
    pub(super) fn start(&mut self) -> Result<(), String> {
        for site in self.members() {
            self.start_site(site)?;
        }
        for client in 0..self.clients.len() {
            let wait = self.clients[client].think_ms(&self.plan.work);
            self.queue.push(wait, Event::Wake { client, turn: 0 });
        }
        for (trouble, planned) in self.plan.troubles.iter().enumerate() {
            self.queue.push(planned.at_ms, Event::Begin { trouble });
        }
        self.start_fleet()
    }

    pub(super) fn run_until(&mut self, until: Millis) -> Result<(), String> {
        while let Some(mut batch) = self.queue.next_batch(until).filter(|_| !self.is_undecided) {
            for event in batch.drain(..) {
                self.budget.spend()?;
                self.happen(event)?;
            }
            self.queue.recycle(&mut batch);
        }
        Ok(())
    }

    fn happen(&mut self, event: Event) -> Result<(), String> {
        match event {
            Event::Work { site, run } => {
                let due = self.sites[site].run_of_process().number == run
                    && self.sites[site].works_at == Some(self.now());
                if due { self.work(site) } else { Ok(()) }
            }
            Event::Request { attempt } => {
                self.take(attempt);
                Ok(())
            }
            Event::Answer { attempt, verdict } => {
                self.answered(attempt, verdict);
                Ok(())
            }
            Event::Wake { client, turn } => {
                if self.clients[client].turn == turn {
                    self.wake(client);
                }
                Ok(())
            }
            Event::Begin { trouble } => self.begin(trouble),
            Event::Mend { trouble } => {
                self.mend(trouble);
                Ok(())
            }
            Event::Message(letter) => self.receive(*letter),
            Event::Council => self.advance(),
            Event::Follow { site, membership } => {
                self.follow(site, membership);
                Ok(())
            }
            Event::Connect { a, b } => {
                self.connect(a, b);
                Ok(())
            }
            Event::Fleet(happening) => self.happen_to_fleet(happening),
            Event::Restart { site } => {
                let has_noticed = self.fork.as_ref().is_some_and(|fork| fork.has_noticed(site));
                if self.sites[site].is_up() || !self.sites[site].is_there() || has_noticed {
                    return Ok(());
                }
                self.start_site(site)
            }
        }
    }

    /// Lets a site work after a while, unless it does sooner.
    pub(super) fn schedule(&mut self, site: usize, delay: Millis) {
        let at = self.now() + delay;
        let run = self.sites[site].run_of_process().number;
        let works_at = &mut self.sites[site].works_at;
        if works_at.is_none_or(|planned| at < planned) {
            *works_at = Some(at);
            self.queue.push(delay, Event::Work { site, run });
        }
    }
}
