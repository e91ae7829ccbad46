//! Sites, clients and the network between them, in virtual time.

use super::SITES;
use super::books::Books;
use super::client::{Answer, Client, Next, Request, Sample};
use super::setup::{Rights, Setup, THINK_US, TICK_US};
use super::worker::{Letter, Order, Worker};
use crate::core::{Faults, Network, Node, Queue, Sites};
use quipu_engine::{Envelope, Membership, Shards, SiteId};
use quipu_storage::ShardId;

/// How long a message takes from site to site, in ticks: as in the paper, and a quarter of a millisecond within a site.
const DELAYS_TICKS: [&[u64]; 3] = [&[25, 8_000, 9_600], &[8_000, 25, 16_000], &[9_600, 16_000, 25]];

/// So long things are left to themselves after each step of the preparation.
const PREPARATION_US: u64 = 2_000_000;
/// When clients have stopped, everything must be accounted for after this time.
const SETTLE_US: u64 = 10_000_000;

pub(super) const SECOND_US: u64 = 1_000_000;

#[derive(Debug, Clone)]
enum Event {
    /// A client begins its next operation.
    Begin { client: usize },
    /// It is at the site that has the counter, from where it is done.
    Start { client: usize, request: Request },
    /// It is over, and the client knows.
    Over { client: usize, counted: bool, waited: bool },
    /// A command reaches a worker.
    Order { site: usize, worker: usize, order: Order },
    /// A message of another site reaches a worker.
    Letter { site: usize, worker: usize, letter: Letter },
    /// A batch of a worker is durable.
    Finish { site: usize, worker: usize },
    /// A worker has asked to be woken.
    Wake { site: usize, worker: usize },
    /// An answer reaches whoever asked.
    Answer { asker: usize, answer: Answer },
}

struct Counter {
    key: Vec<u8>,
    shard: ShardId,
    worker: usize,
}

type Sink<'a> = dyn FnMut(&Sample) + 'a;

pub(super) struct World {
    setup: Setup,
    queue: Queue<Event>,
    network: Network<Sites>,
    /// The workers of each site that has the counters.
    sites: Vec<Vec<Worker>>,
    counters: Vec<Counter>,
    clients: Vec<Client>,
    books: Books,
    /// Clients go on with another operation.
    is_open: bool,
    /// When the clients began.
    begun_us: u64,
    envelopes: Vec<Envelope>,
}

impl World {
    /// Everything is there, and clients begin.
    pub(super) fn new(setup: Setup) -> Result<Self, String> {
        let Setup { configuration, costs, seed, .. } = setup;
        let shards = Shards::DEFAULT;
        let servers = configuration.servers();
        let membership = Membership::of((0..servers).map(site_id));
        let worker = |site: usize, number: usize| {
            let own = shards.all().filter(|shard| usize::from(shard.0) % costs.workers == number);
            let batches = configuration == super::Configuration::Ours;
            Worker::new(&membership, site_id(site), own, costs, batches)
        };
        let sites = (0..servers).map(|site| (0..costs.workers).map(|it| worker(site, it)).collect());
        let counters = (0..setup.counters).map(|number| {
            let key = format!("counter:{number}").into_bytes();
            let shard = shards.of(&key);
            Counter { worker: usize::from(shard.0) % costs.workers, key, shard }
        });
        let clients = (0..setup.clients).map(|number| Client::new(number, number % SITES.len(), seed));
        let latency = Sites::constant((0..SITES.len()).collect(), &DELAYS_TICKS);
        let mut world = World {
            queue: Queue::new(),
            network: Network::new(latency, Faults::NONE, seed),
            sites: sites.collect::<Result<_, String>>()?,
            counters: counters.collect(),
            clients: clients.collect(),
            books: Books::new(configuration, setup.counters),
            is_open: true,
            begun_us: 0,
            envelopes: Vec::new(),
            setup,
        };
        world.prepare()?;
        world.open();
        Ok(world)
    }

    /// Makes the counters; every site knows them before clients begin.
    fn prepare(&mut self) -> Result<(), String> {
        let Setup { configuration, initial, rights, .. } = self.setup;
        for site in 0..self.sites.len() {
            for worker in 0..self.sites[site].len() {
                self.queue.push(0, Event::Wake { site, worker });
            }
        }
        let make = if configuration.is_bounded() {
            Request::Create { initial }
        } else {
            Request::Add { amount: initial }
        };
        self.ask_for_all(0, make);
        self.pass(PREPARATION_US)?;
        if configuration.is_bounded() {
            (0..self.counters.len()).try_for_each(|counter| self.books.count(counter, initial, initial))?;
        }
        if configuration.is_bounded() && rights == Rights::Shared {
            // Who has used some gets a share.
            for amount in [-1, 1] {
                (0..self.sites.len()).for_each(|site| self.ask_for_all(site, Request::Add { amount }));
                self.pass(PREPARATION_US)?;
            }
        }
        self.check_reports()
    }

    fn ask_for_all(&mut self, site: usize, request: Request) {
        for counter in 0..self.counters.len() {
            self.ask(site, self.clients.len() + counter, counter, request);
        }
    }

    fn open(&mut self) {
        self.begun_us = self.now_us();
        for client in 0..self.clients.len() {
            let delay_us = self.clients[client].draw_us(THINK_US);
            self.after(delay_us, Event::Begin { client });
        }
    }

    fn now_us(&self) -> u64 {
        self.queue.now() * TICK_US
    }

    fn after(&mut self, us: u64, event: Event) {
        self.queue.push(us / TICK_US, event);
    }

    /// The true values.
    pub(super) fn books(&self) -> &Books {
        &self.books
    }

    /// Conditional writes that came too late, so far.
    pub(super) fn conflicts(&self) -> u64 {
        self.sites.iter().flatten().map(|worker| worker.conflicts).sum()
    }

    /// Lets time pass until so long after the clients began. Samples carry the time since then.
    pub(super) fn run_until(&mut self, us: u64, sink: &mut Sink<'_>) -> Result<(), String> {
        let until_us = self.begun_us + us;
        while let Some(mut batch) = self.queue.next_batch(until_us / TICK_US) {
            for event in batch.drain(..) {
                self.happen(event, sink).map_err(|what| self.say(&what))?;
            }
            self.queue.recycle(&mut batch);
        }
        Ok(())
    }

    fn pass(&mut self, us: u64) -> Result<(), String> {
        let until_us = self.now_us() - self.begun_us + us;
        self.run_until(until_us, &mut |_| {})
    }

    /// No client begins another operation; when the last ones are over, every site must report the truth.
    pub(super) fn close(mut self) -> Result<(), String> {
        self.is_open = false;
        self.pass(SETTLE_US)?;
        self.check_reports()
    }

    fn check_reports(&mut self) -> Result<(), String> {
        let now_us = self.now_us();
        for (number, Counter { key, shard, worker }) in self.counters.iter().enumerate() {
            let truth = self.books.value(number);
            for (site, workers) in self.sites.iter_mut().enumerate() {
                let report = workers[*worker].value(key, *shard, now_us).unwrap_or(0);
                if report != truth {
                    let name = SITES[site];
                    return Err(self.say(&format!(
                        "{name} reports {report} for counter {number}, and {truth} were counted"
                    )));
                }
            }
        }
        Ok(())
    }

    /// With all that is needed to see it again.
    fn say(&self, what: &str) -> String {
        let Setup { configuration, clients, seed, .. } = self.setup;
        let at_ms = self.now_us().saturating_sub(self.begun_us) / 1_000;
        format!("{}, {clients} clients, seed {seed}, {at_ms} ms: {what}", configuration.name())
    }

    fn happen(&mut self, event: Event, sink: &mut Sink<'_>) -> Result<(), String> {
        match event {
            Event::Begin { client } => self.begin_operation(client),
            Event::Start { client, request } => self.ask_as(client, request),
            Event::Over { client, counted, waited } => self.end_operation(client, counted, waited, sink),
            Event::Order { site, worker, order } => {
                self.sites[site][worker].order(order);
                self.begin(site, worker)?;
            }
            Event::Letter { site, worker, letter } => {
                self.sites[site][worker].deliver(letter);
                self.begin(site, worker)?;
            }
            Event::Wake { site, worker } => self.begin(site, worker)?,
            Event::Finish { site, worker } => self.finish(site, worker)?,
            Event::Answer { asker, answer } => self.hear(asker, answer),
        }
        Ok(())
    }

    /// The site that serves a client: its own, if that has the counters.
    fn server_of(&self, client: usize) -> usize {
        if self.sites.len() == 1 { 0 } else { self.clients[client].site }
    }

    fn begin_operation(&mut self, client: usize) {
        if !self.is_open {
            return;
        }
        let (now_us, site, server) = (self.now_us(), self.clients[client].site, self.server_of(client));
        let request = self.clients[client].begin(&self.setup, now_us);
        self.travel(site, server, Event::Start { client, request });
    }

    fn end_operation(&mut self, client: usize, counted: bool, waited: bool, sink: &mut Sink<'_>) {
        let now_us = self.now_us();
        let Client { site, begun_us, .. } = self.clients[client];
        sink(&Sample { at_us: now_us - self.begun_us, site, latency_us: now_us - begun_us, counted, waited });
        self.after(THINK_US, Event::Begin { client });
    }

    /// An operation goes to the site that has the counter, or comes back from there. Where it is there already, that
    /// takes no time.
    fn travel(&mut self, from: usize, to: usize, event: Event) {
        if from == to {
            self.queue.push(0, event);
        } else {
            self.network.send(&mut self.queue, node(from), node(to), event);
        }
    }

    /// At the client's server, an operation asks.
    fn ask_as(&mut self, client: usize, request: Request) {
        let (server, counter) = (self.server_of(client), self.clients[client].counter);
        self.ask(server, client, counter, request);
    }

    fn ask(&mut self, site: usize, asker: usize, counter: usize, request: Request) {
        let Counter { key, shard, worker } = &self.counters[counter];
        let order = Order { asker, key: key.clone(), shard: *shard, request };
        let event = Event::Order { site, worker: *worker, order };
        self.network.send(&mut self.queue, node(site), node(site), event);
    }

    /// Begins a batch, unless one is under way.
    fn begin(&mut self, site: usize, worker: usize) -> Result<(), String> {
        let now_us = self.now_us();
        let it = &mut self.sites[site][worker];
        if !it.is_idle() {
            return Ok(());
        }
        let begun = it.begin(now_us)?;
        for counted in begun.counted {
            let counter = self.counter_of(counted.asker);
            self.books.count(counter, counted.applied, counted.value)?;
        }
        self.after(begun.busy_us, Event::Finish { site, worker });
        Ok(())
    }

    /// The counter that a client, or somebody who prepares, is busy with.
    fn counter_of(&self, asker: usize) -> usize {
        match self.clients.get(asker) {
            Some(client) => client.counter,
            None => asker - self.clients.len(),
        }
    }

    fn finish(&mut self, site: usize, worker: usize) -> Result<(), String> {
        let now_us = self.now_us();
        let mut envelopes = std::mem::take(&mut self.envelopes);
        let it = &mut self.sites[site][worker];
        let answers = it.finish(now_us, &mut envelopes);
        let has_work = it.has_work();
        if let Some(wake_us) = it.wake_us(now_us) {
            self.after(wake_us - now_us, Event::Wake { site, worker });
        }
        for (asker, answer) in answers {
            self.network.send(&mut self.queue, node(site), node(site), Event::Answer { asker, answer });
        }
        for Envelope { to, shard, message } in envelopes.drain(..) {
            let letter = Letter { from: site_id(site), shard, message: Box::new(message) };
            let to = usize::from(to.number) - 1;
            let event = Event::Letter { site: to, worker, letter };
            self.network.send(&mut self.queue, node(site), node(to), event);
        }
        self.envelopes = envelopes;
        if has_work { self.begin(site, worker) } else { Ok(()) }
    }

    fn hear(&mut self, asker: usize, answer: Answer) {
        // Who prepares asks nothing again.
        let Some(client) = self.clients.get(asker) else { return };
        match client.hear(self.setup.configuration, answer) {
            Next::Ask(request) => self.ask_as(asker, request),
            Next::Over { counted, waited } => {
                let (site, server) = (client.site, self.server_of(asker));
                self.travel(server, site, Event::Over { client: asker, counted, waited });
            }
        }
    }
}

fn site_id(site: usize) -> SiteId {
    SiteId { number: u16::try_from(site + 1).expect("three sites"), incarnation: 0 }
}

fn node(site: usize) -> Node {
    Node::try_from(site).expect("three sites")
}

#[cfg(test)]
mod tests {
    use super::super::{Configuration, Costs};
    use super::*;
    use crate::bounded::setup::Workload;

    fn small(configuration: Configuration) -> World {
        let setup = Setup {
            configuration,
            counters: 2,
            clients: 60,
            initial: 100,
            rights: Rights::WithTheCreator,
            workload: Workload::Subtractions,
            costs: Costs::default(),
            seed: 3,
        };
        World::new(setup).expect("it is prepared")
    }

    #[test]
    fn a_limit_that_is_crossed_ends_the_run() {
        let mut world = small(Configuration::Weak);
        let books = std::mem::replace(&mut world.books, Books::new(Configuration::Weak, 0));
        world.books = books.taken_for(Configuration::Ours);
        let error = world.run_until(10 * SECOND_US, &mut |_| {}).expect_err("60 clients cross it");
        assert!(error.starts_with("weak, 60 clients, seed 3, "), "{error}");
        assert!(error.ends_with("is at -1, below its limit 0"), "{error}");
    }

    #[test]
    fn a_site_that_reports_something_else_than_was_counted_is_found_out() {
        for configuration in Configuration::ALL {
            let mut world = small(configuration);
            world.run_until(SECOND_US, &mut |_| {}).expect("it runs");
            world.books.count(1, 1, 1).expect("above the limit");
            let error = world.close().expect_err("the books do not balance");
            assert!(error.contains("US-East reports"), "{error}");
        }
    }
}
