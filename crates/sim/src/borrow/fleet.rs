//! The workload, the same for every [`Design`]: clients arrive, count, and leave or vanish.

use super::Params;
use super::books::{Tally, check_report};
use super::design::{Design, Fate, Heard, Kept, Outbox};
use crate::core::{Backbone, Faults, Millis, Network, Node, Queue};
use quipu_crdt::testing::Random;
use std::collections::BTreeMap;

/// A client that is there, or was when it vanished.
#[derive(Debug)]
struct Present<C> {
    client: C,
    server: Node,
    arrived_ms: Millis,
    /// When its server was heard last, or chosen.
    heard_ms: Millis,
    leaving_since_ms: Option<Millis>,
    /// Was the time taken until it could count, and until what it counted was held?
    could_count: bool,
    was_held: bool,
    fate: Fate,
}

#[derive(Debug, Clone)]
enum Event<M> {
    Message {
        from: Node,
        to: Node,
        message: M,
    },
    /// It is the turn of this node or client to send.
    Turn(Node),
    Arrive,
    Leave(Node),
    Vanish(Node),
}

/// All nodes, and what is on its way between them.
#[derive(Debug)]
pub(super) struct Fleet<'p, D: Design> {
    design: D,
    params: &'p Params,
    queue: Queue<Event<D::Message>>,
    network: Network<Backbone>,
    servers: Vec<D::Server>,
    clients: BTreeMap<Node, Present<D::Client>>,
    vanished: BTreeMap<Node, Present<D::Client>>,
    next_client: Node,
    workload: Random,
    pub(super) tally: Tally,
}

impl<'p, D: Design> Fleet<'p, D> {
    pub(super) fn new(design: D, params: &'p Params, loss: f64) -> Result<Self, String> {
        let faults = Faults { loss, ..Faults::NONE };
        let servers = (0..params.nodes).map(|id| design.server(id)).collect::<Result<_, _>>()?;
        let mut fleet = Fleet {
            design,
            params,
            queue: Queue::new(),
            network: Network::new(Backbone::of_the_paper(params.nodes), faults, params.seed),
            servers,
            clients: BTreeMap::new(),
            vanished: BTreeMap::new(),
            next_client: params.nodes,
            workload: Random::stream(params.seed, "borrow: workload"),
            tally: Tally::default(),
        };
        for node in 0..params.nodes {
            let delay = u64::from(node) * params.gossip_ms / u64::from(params.nodes);
            fleet.queue.push(delay, Event::Turn(node));
        }
        fleet.queue.push(params.arrival_ms, Event::Arrive);
        Ok(fleet)
    }

    pub(super) fn now(&self) -> Millis {
        self.queue.now()
    }

    pub(super) fn clients(&self) -> u64 {
        self.clients.len() as u64
    }

    /// Lets everything happen up to and including this time.
    pub(super) fn run_until(&mut self, until: Millis) -> Result<(), String> {
        while let Some(mut batch) = self.queue.next_batch(until) {
            for event in batch.drain(..) {
                self.handle(event)?;
            }
            self.queue.recycle(&mut batch);
        }
        Ok(())
    }

    fn handle(&mut self, event: Event<D::Message>) -> Result<(), String> {
        match event {
            Event::Message { from, to, message } if self.is_server(to) => {
                self.server_hears(from, to, &message)
            }
            Event::Message { from, to, message } => self.client_hears(from, to, &message),
            Event::Turn(node) if self.is_server(node) => {
                self.server_turn(node);
                Ok(())
            }
            Event::Turn(client) => self.client_turn(client),
            Event::Arrive => {
                self.arrive();
                Ok(())
            }
            Event::Leave(id) => {
                if let Some(present) = self.clients.get_mut(&id) {
                    present.leaving_since_ms = Some(self.queue.now());
                    self.design.begin_to_leave(&mut present.client);
                }
                self.note_progress(id);
                self.client_sends(id)
            }
            Event::Vanish(id) => {
                if let Some(present) = self.clients.remove(&id) {
                    self.vanished.insert(id, present);
                    self.tally.vanished += 1;
                }
                Ok(())
            }
        }
    }

    /// A client arrives. All that is left to chance is drawn here, so that it is the same for every design.
    fn arrive(&mut self) {
        let Params { nodes, arrival_ms, stay_ms, vanish_percent, end_ms, .. } = *self.params;
        let id = self.next_client;
        self.next_client += 1;
        let server = u32::try_from(self.workload.bits() % u64::from(nodes)).expect("fewer than 2^32 nodes");
        let stay_ms = stay_ms / 2 + self.workload.bits() % stay_ms;
        let vanishes = self.workload.bits() % 100 < u64::from(vanish_percent);
        let vanish_ms = self.workload.bits() % stay_ms.max(1);
        let now = self.queue.now();
        self.clients.insert(
            id,
            Present {
                client: self.design.client(id, server),
                server,
                arrived_ms: now,
                heard_ms: now,
                leaving_since_ms: None,
                could_count: false,
                was_held: false,
                fate: Fate::default(),
            },
        );
        self.tally.arrived += 1;
        self.queue.push(0, Event::Turn(id));
        if vanishes {
            self.queue.push(vanish_ms, Event::Vanish(id));
        } else {
            self.queue.push(stay_ms, Event::Leave(id));
        }
        if now + arrival_ms <= end_ms {
            self.queue.push(arrival_ms, Event::Arrive);
        }
    }

    fn server_turn(&mut self, node: Node) {
        let others: Vec<Node> = (0..self.params.nodes).filter(|&other| other != node).collect();
        let mut out = Vec::new();
        self.design.server_turn(&mut self.servers[index(node)], &others, self.queue.now(), &mut out);
        self.send_all(node, out);
        self.queue.push(self.params.gossip_ms, Event::Turn(node));
    }

    /// A client counts, unless it is leaving, looks for another server if it has not heard of its own, and sends.
    fn client_turn(&mut self, id: Node) -> Result<(), String> {
        let now = self.queue.now();
        let Some(present) = self.clients.get_mut(&id) else { return Ok(()) };
        if present.leaving_since_ms.is_none() {
            self.design.count(&mut present.client)?;
            present.fate.counted += 1;
            self.tally.issued += 1;
        }
        if now - present.heard_ms >= self.params.patience_ms && self.params.nodes > 1 {
            present.server = (present.server + 1) % self.params.nodes;
            present.heard_ms = now;
            self.design.change_server(&mut present.client, present.server);
            self.tally.moves += 1;
        }
        self.queue.push(self.params.send_ms, Event::Turn(id));
        self.note_progress(id);
        self.client_sends(id)
    }

    fn client_sends(&mut self, id: Node) -> Result<(), String> {
        let Some(present) = self.clients.get_mut(&id) else { return Ok(()) };
        let mut out = Vec::new();
        self.design.client_turn(&mut present.client, &mut out)?;
        self.send_all(id, out);
        Ok(())
    }

    /// Takes the times of a client, and lets it go if it may.
    fn note_progress(&mut self, id: Node) {
        let now = self.queue.now();
        let Some(present) = self.clients.get_mut(&id) else { return };
        if !present.could_count && self.design.can_count(&present.client) {
            present.could_count = true;
            self.tally.ready_ms.push(now - present.arrived_ms);
        }
        let Some(since) = present.leaving_since_ms else { return };
        if !present.was_held && self.design.is_held(&present.client) {
            present.was_held = true;
            self.tally.held_ms.push(now - since);
        }
        if self.design.may_leave(&present.client) {
            self.tally.leave_ms.push(now - since);
            self.clients.remove(&id);
        }
    }

    fn client_hears(&mut self, from: Node, to: Node, message: &D::Message) -> Result<(), String> {
        let Some(present) = self.clients.get_mut(&to) else { return Ok(()) };
        let now = self.queue.now();
        if from == present.server {
            present.heard_ms = now;
        }
        let before = self.design.client_reports(&present.client);
        let heard = Heard { from, from_client: false, message, now };
        let news = self.design.client_hears(&mut present.client, &heard)?;
        check_report(to, before, self.design.client_reports(&present.client), self.tally.issued)?;
        self.note_progress(to);
        if news { self.client_sends(to) } else { Ok(()) }
    }

    fn server_hears(&mut self, from: Node, to: Node, message: &D::Message) -> Result<(), String> {
        let server = &mut self.servers[index(to)];
        let before = self.design.server_reports(server);
        let mut out = Vec::new();
        let from_client = from >= self.params.nodes;
        let heard = Heard { from, from_client, message, now: self.queue.now() };
        self.design.server_hears(server, &heard, &mut out)?;
        check_report(to, Some(before), Some(self.design.server_reports(server)), self.tally.issued)?;
        if from_client {
            self.note_brought(from, self.design.brings(from, message));
        }
        self.send_all(to, out);
        Ok(())
    }

    /// Also of clients that have vanished since they sent it.
    fn note_brought(&mut self, client: Node, amount: u64) {
        let present = self.clients.get_mut(&client).or_else(|| self.vanished.get_mut(&client));
        if let Some(present) = present {
            present.fate.brought = present.fate.brought.max(amount);
        }
    }

    fn send_all(&mut self, from: Node, out: Outbox<D::Message>) {
        for (to, message) in out {
            self.send(from, to, message);
        }
    }

    fn send(&mut self, from: Node, to: Node, message: D::Message) {
        let size = self.design.size(&message);
        if self.is_server(from) && self.is_server(to) {
            self.tally.server_messages += 1;
            self.tally.server_bytes += size;
        } else {
            self.tally.client_messages += 1;
            self.tally.client_bytes += size;
        }
        let cut_off = self.params.is_cut_off(self.queue.now()) && (from == 0 || to == 0);
        if !cut_off {
            self.network.send(&mut self.queue, from, to, Event::Message { from, to, message });
        }
    }

    fn is_server(&self, node: Node) -> bool {
        node < self.params.nodes
    }

    /// What the permanent nodes keep.
    pub(super) fn kept(&self) -> impl Iterator<Item = Kept> {
        self.servers.iter().map(|server| self.design.kept(server))
    }

    /// What clients that vanished had counted and nobody else has.
    pub(super) fn lost(&self) -> u64 {
        let lost = |gone: &Present<_>| self.design.lost(&gone.client, gone.fate, &self.servers);
        self.vanished.values().map(lost).sum()
    }

    /// What is not yet as it must be in the end: all clients gone, and all that was not lost known everywhere.
    pub(super) fn unfinished(&self) -> Option<String> {
        if !self.clients.is_empty() {
            return Some(format!("{} clients could not leave", self.clients.len()));
        }
        let lost = self.lost();
        let issued = self.tally.issued;
        let reports = self.servers.iter().map(|server| self.design.server_reports(server));
        let wrong = (0..self.params.nodes).zip(reports).find(|&(_, report)| report + lost != issued);
        let (node, report) = wrong?;
        Some(format!(
            "node {node} reports {report} of {issued}, and {lost} were lost with clients that vanished"
        ))
    }
}

fn index(node: Node) -> usize {
    usize::try_from(node).expect("32 bits fit")
}
