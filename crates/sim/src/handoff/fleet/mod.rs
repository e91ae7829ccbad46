//! The nodes of a run and what happens to them. Who sends when is in [`answers`] and [`rounds`], how clients
//! leave in [`leaving`].

mod answers;
mod leaving;
mod rounds;

use super::ids::Gossip;
use super::setup::{Cleanup, Pattern, Placement, Setup};
use super::{Replica, Seen};
use crate::core::{Backbone, Millis, Network, Node, Queue};
use leaving::{Leaving, Letter};
use quipu_crdt::testing::Random;
use std::collections::BTreeMap;

/// The tier of clients.
const CLIENT: u8 = 2;

/// A node of tier 0 or 1.
#[derive(Debug)]
pub(super) struct Fixed {
    pub(super) replica: Replica,
    /// The node of tier 0 to which a server hands over; for a node of tier 0, itself.
    root: Node,
    /// When each client that may have a slot here was heard of last; kept only if slots are folded.
    heard: BTreeMap<Node, Millis>,
}

/// A node of tier 2.
#[derive(Debug)]
pub(super) struct Client {
    pub(super) replica: Replica,
    server: Node,
    active: bool,
    /// Is its id known to its server? It is, once the server has sent it anything.
    introduced: bool,
    leaving: Option<Leaving>,
}

/// A view on its way.
#[derive(Debug, Clone)]
pub(super) struct Message {
    to: Node,
    /// What its sender knew of the ids of others: see [`Gossip`]. From a client: is its own id news?
    ids: u32,
    view: Seen,
}

/// What can happen.
#[derive(Debug, Clone)]
pub(super) enum Event {
    Message(Message),
    Letter(Box<Letter>),
    /// It is this node's turn to send.
    Round(Node),
    Arrive,
    Wake(Node),
    Sleep(Node),
    /// It is time for some client to retire.
    Retire,
}

/// All nodes, and what is on its way between them.
#[derive(Debug)]
pub(super) struct Fleet {
    pub(super) setup: Setup,
    pub(super) queue: Queue<Event>,
    pub(super) network: Network<Backbone>,
    gossip: Gossip,
    /// The nodes of tier 0, then the servers. Nodes are numbered in this order, clients after them.
    pub(super) fixed: Vec<Fixed>,
    /// `None` for those that are gone.
    pub(super) clients: Vec<Option<Client>>,
    /// Clients that have not begun to retire, in no order. Kept only if clients retire.
    staying: Vec<Node>,
    /// What was with clients when they vanished.
    pub(super) vanished: Vec<Replica>,
    pub(super) abandoned: u64,
    /// Clients that are there.
    present: u64,
    active: u64,
    arrivals_left: u32,
    /// False once the run has ended: then nobody counts, comes or goes.
    counting: bool,
    pub(super) issued: u64,
    pub(super) reports_checked: u64,
    choice: Random,
    departures: Random,
    scratch: Vec<Node>,
}

impl Fleet {
    pub(super) fn new(setup: Setup) -> Self {
        let mut choice = Random::stream(setup.seed, "choice of server");
        let nodes = setup.tier0 + setup.servers;
        let fixed: Vec<Fixed> = (0..nodes)
            .map(|id| {
                let tier = u8::from(id >= setup.tier0);
                let root = if tier == 0 { id } else { root_of(&setup, id - setup.tier0, &mut choice) };
                Fixed { replica: Replica::new(id, tier), root, heard: BTreeMap::new() }
            })
            .collect();
        let servers_meet = setup.retirement.is_some_and(|retirement| retirement.cleanup == Cleanup::On);
        let gossip = Gossip::new(nodes, |from, to| {
            let (from_server, to_server) = (from >= setup.tier0, to >= setup.tier0);
            let root = |server: Node| fixed[index(server)].root;
            match (from_server, to_server) {
                (false, false) => true,
                (false, true) => root(to) == from,
                (true, false) => root(from) == to,
                (true, true) => servers_meet,
            }
        });
        Fleet {
            setup,
            queue: Queue::new(),
            network: Network::new(Backbone::of_the_paper(setup.tier0), setup.faults, setup.seed),
            gossip,
            fixed,
            clients: Vec::new(),
            staying: Vec::new(),
            vanished: Vec::new(),
            abandoned: 0,
            present: 0,
            active: 0,
            arrivals_left: setup.arrivals,
            counting: true,
            issued: 0,
            reports_checked: 0,
            choice,
            departures: Random::stream(setup.seed, "departures"),
            scratch: Vec::new(),
        }
    }

    pub(super) fn start(&mut self) -> Result<(), String> {
        for node in 0..self.first_client() {
            match self.setup.pattern {
                Pattern::Answers => self.open_exchanges(node)?,
                Pattern::Rounds { .. } => self.queue.push(0, Event::Round(node)),
            }
        }
        for _ in 0..self.setup.clients_at_start {
            self.arrive()?;
        }
        if self.arrivals_left > 0 {
            self.queue.push(self.setup.arrival_ms, Event::Arrive);
        }
        if let Some(retirement) = self.setup.retirement {
            self.queue.push(retirement.every_ms, Event::Retire);
        }
        Ok(())
    }

    /// Lets everything happen up to and including this time.
    pub(super) fn run_until(&mut self, until: Millis) -> Result<(), String> {
        while let Some(mut batch) = self.queue.next_batch(until) {
            for event in &batch {
                self.handle(event)?;
            }
            self.queue.recycle(&mut batch);
        }
        Ok(())
    }

    /// From now on nobody counts, comes or goes; what was counted is handed over.
    pub(super) fn stop_counting(&mut self) {
        self.counting = false;
    }

    fn handle(&mut self, event: &Event) -> Result<(), String> {
        match event {
            Event::Message(message) => match self.setup.pattern {
                Pattern::Answers => self.answer(message),
                Pattern::Rounds { .. } => self.receive(message),
            },
            &Event::Round(node) => self.round(node),
            Event::Letter(letter) => {
                self.read(letter);
                Ok(())
            }
            _ if !self.counting => Ok(()),
            Event::Arrive => {
                self.arrivals_left -= 1;
                if self.arrivals_left > 0 {
                    self.queue.push(self.setup.arrival_ms, Event::Arrive);
                }
                self.arrive()
            }
            &Event::Wake(client) => self.wake(client),
            &Event::Sleep(client) => {
                self.client_mut(client).expect("clients with sessions do not retire").active = false;
                self.active -= 1;
                self.queue.push(self.setup.activity.inactive_ms, Event::Wake(client));
                Ok(())
            }
            Event::Retire => self.retire_any(),
        }
    }

    fn arrive(&mut self) -> Result<(), String> {
        let id = self.first_client() + u32::try_from(self.clients.len()).expect("limited by the setup");
        let replica = Replica::new(id, CLIENT);
        let server = self.choose_server();
        self.clients.push(Some(Client { replica, server, active: false, introduced: false, leaving: None }));
        self.present += 1;
        if self.setup.retirement.is_some() {
            self.staying.push(id);
        }
        self.activate(id)?;
        if let Pattern::Rounds { .. } = self.setup.pattern {
            self.queue.push(0, Event::Round(id));
        }
        Ok(())
    }

    /// A client comes back.
    fn wake(&mut self, id: Node) -> Result<(), String> {
        if self.setup.goes_offline {
            let server = self.choose_server();
            let client = self.client_mut(id).expect("clients with sessions do not retire");
            (client.server, client.introduced) = (server, false);
        }
        self.activate(id)
    }

    fn activate(&mut self, id: Node) -> Result<(), String> {
        self.client_mut(id).expect("it is there").active = true;
        self.active += 1;
        if self.setup.activity.inactive_ms > 0 {
            self.queue.push(self.setup.activity.active_ms, Event::Sleep(id));
        }
        match self.setup.pattern {
            Pattern::Answers => self.open_exchange_of_client(id),
            Pattern::Rounds { .. } => Ok(()),
        }
    }

    fn choose_server(&mut self) -> Node {
        let Setup { tier0, servers, placement, .. } = self.setup;
        match placement {
            Placement::Random => tier0 + below(&mut self.choice, servers),
            Placement::Even { .. } => {
                tier0 + u32::try_from(self.clients.len()).expect("limited by the setup") % servers
            }
        }
    }

    /// The first number of a client.
    fn first_client(&self) -> Node {
        self.setup.tier0 + self.setup.servers
    }

    fn is_client(&self, node: Node) -> bool {
        node >= self.first_client()
    }

    fn is_server(&self, node: Node) -> bool {
        node >= self.setup.tier0 && !self.is_client(node)
    }

    fn client_mut(&mut self, id: Node) -> Option<&mut Client> {
        let first = self.first_client();
        self.clients[index(id - first)].as_mut()
    }

    fn client(&self, id: Node) -> Option<&Client> {
        self.clients[index(id - self.first_client())].as_ref()
    }

    /// Takes over what a message tells of ids.
    fn take_ids(&mut self, message: &Message) {
        let from = *message.view.id();
        if !self.is_client(from) {
            self.gossip.receive(message.to, from, message.ids);
        } else if message.ids > 0 {
            self.gossip.meet(message.to, from);
        }
    }

    /// Sends a view of a node of tier 0 or 1.
    fn send_fixed(&mut self, to: Node, view: Seen) {
        let from = *view.id();
        let ids = if self.is_client(to) { 0 } else { self.gossip.position(from) };
        self.network.send(&mut self.queue, from, to, Event::Message(Message { to, ids, view }));
    }

    // For the rows.

    pub(super) fn client_counts(&self) -> (u64, u64) {
        (self.present, self.active)
    }

    pub(super) fn servers(&self) -> &[Fixed] {
        &self.fixed[index(self.setup.tier0)..]
    }

    pub(super) fn roots(&self) -> &[Fixed] {
        &self.fixed[..index(self.setup.tier0)]
    }

    pub(super) fn ids_at_servers(&self) -> u64 {
        (self.setup.tier0..self.first_client()).map(|server| u64::from(self.gossip.count(server))).sum()
    }
}

impl Client {
    /// Sends a view of this client.
    fn send(&self, network: &mut Network<Backbone>, queue: &mut Queue<Event>, to: Node, view: Seen) {
        let ids = u32::from(!self.introduced || to != self.server);
        network.send(queue, *view.id(), to, Event::Message(Message { to, ids, view }));
    }
}

/// The node of tier 0 to which this server hands over.
fn root_of(setup: &Setup, server: u32, choice: &mut Random) -> Node {
    match setup.placement {
        Placement::Random => below(choice, setup.tier0),
        Placement::Even { datacenters } => {
            let (roots, servers) = (setup.tier0 / datacenters, setup.servers / datacenters);
            server / servers * roots + server % roots
        }
    }
}

/// Counts one.
fn add_one(replica: &mut Replica, issued: &mut u64) -> Result<(), String> {
    replica.add(&1).map_err(|refused| format!("node {} could not count: {refused}", replica.id()))?;
    *issued += 1;
    Ok(())
}

/// Merges and checks the report: never above what was issued, never lower than before.
fn merge_and_check(setup: &Setup, replica: &mut Replica, view: &Seen, issued: u64) -> Result<(), String> {
    let before = *replica.fetch();
    (setup.merge)(replica, view).map_err(|refused| format!("node {}: {refused}", replica.id()))?;
    let after = *replica.fetch();
    if after > issued {
        return Err(format!("node {} reports {after}, but only {issued} were issued", replica.id()));
    }
    if after < before {
        return Err(format!("node {} reported {before} and then {after}", replica.id()));
    }
    Ok(())
}

fn below(random: &mut Random, end: u32) -> u32 {
    u32::try_from(random.below(index(end))).expect("below 32 bits")
}

pub(super) fn index(node: Node) -> usize {
    usize::try_from(node).expect("32 bits fit")
}
