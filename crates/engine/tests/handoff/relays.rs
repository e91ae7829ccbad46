//! Relays between edges and sites: what edges hand to them arrives at the sites once, whatever is lost, repeated, late or
//! crashed, and a relay that retires leaves nothing behind but what its heir keeps under its name.

use std::collections::BTreeMap;

use quipu_crdt::testing::Random;
use quipu_engine::{
    Action, Add, Envelope, OperationId, Refusal, Reply, Settings, SiteId, Ticket,
    handoff::{Adoption, Answer, Estate, Server, Visit},
};
use quipu_storage::ShardId;

use crate::world::{Node, key, moment, shards};

const SITES: usize = SITES_COUNT as usize;
const SITES_COUNT: u16 = 2;
const RELAYS: usize = 2;
const EDGES: usize = 3;
const STEPS: u64 = 700;

/// What is under way. Nodes have numbers: first the sites, then the relays, then the edges.
enum Flying {
    Visit { from: usize, to: usize, shard: u16, visit: Visit },
    Answer { to: usize, server: Server, shard: u16, answer: Answer },
    Letter { from: SiteId, letter: Envelope },
    Estate { from: usize, to: usize, shard: ShardId, estate: Estate },
    Adopted { to: usize, shard: ShardId, adoption: Adoption },
}

struct World {
    random: Random,
    nodes: Vec<Node>,
    /// Whom each relay and edge hands over to.
    chosen: Vec<usize>,
    flying: Vec<Flying>,
    issued: BTreeMap<Vec<u8>, i64>,
    now_ms: u64,
    /// This relay retires.
    retiring: Option<usize>,
    /// Also visits are repeated, and edges crash: then one may open a slot that nobody knows of any more.
    repeats: bool,
}

impl World {
    fn new(seed: u64) -> Self {
        let sites = (1..).take(SITES).map(|number| Node::one_of(SITES_COUNT, number));
        let relays = (1..).take(RELAYS).map(Node::relay);
        let edges = (1..).take(EDGES).map(Node::edge);
        Self {
            random: Random::new(seed),
            nodes: sites.chain(relays).chain(edges).collect(),
            chosen: (0..SITES + RELAYS + EDGES)
                .map(|node| if node < SITES + RELAYS { 0 } else { SITES })
                .collect(),
            flying: Vec::new(),
            issued: BTreeMap::new(),
            now_ms: 0,
            retiring: None,
            repeats: seed % 2 == 1,
        }
    }

    fn any_edge(&mut self) -> usize {
        SITES + RELAYS + self.random.below(EDGES)
    }

    /// A relay or an edge.
    fn any_source(&mut self) -> usize {
        SITES + self.random.below(RELAYS + EDGES)
    }

    /// To whom it can hand over.
    fn servers_of(node: usize) -> std::ops::Range<usize> {
        if node < SITES + RELAYS { 0..SITES } else { 0..SITES + RELAYS }
    }

    fn step(&mut self) {
        self.now_ms += 20;
        match self.random.below(26) {
            0..5 => self.add(),
            5..11 => {
                let source = self.any_source();
                self.send(source);
            }
            11..20 => self.deliver(),
            20 | 21 => self.post(),
            22 => {
                let source = self.any_source();
                let servers = Self::servers_of(source);
                self.chosen[source] = self.random.below(servers.len());
            }
            23 => {
                let node = self.random.below(self.nodes.len());
                let may_crash = self.repeats || node < SITES + RELAYS;
                if may_crash && self.random.below(3) == 0 {
                    self.nodes[node].restart(self.now_ms);
                } else {
                    self.nodes[node].look_after(self.now_ms);
                }
            }
            24 if self.retiring.is_none() && self.random.below(15) == 0 => self.stop_relay(),
            _ => self.bequeath(),
        }
    }

    fn add(&mut self) {
        // Most at edges, some at relays and sites.
        let node =
            if self.random.below(4) == 0 { self.random.below(SITES + RELAYS) } else { self.any_edge() };
        if self.retiring == Some(node) {
            return;
        }
        let (key, amount) = (key(&mut self.random), self.random.below(21) as i64 - 6);
        self.nodes[node].add(&key, amount, self.now_ms);
        *self.issued.entry(key).or_default() += amount;
    }

    fn post(&mut self) {
        for site in &mut self.nodes[..SITES] {
            let from = site.id();
            let letters = site.letters(self.now_ms).into_iter();
            self.flying.extend(letters.map(|letter| Flying::Letter { from, letter }));
        }
    }

    /// To the chosen server, and to others where there is something to close.
    fn send(&mut self, from: usize) {
        for to in Self::servers_of(from) {
            let server = self.nodes[to].server();
            let chosen = self.chosen[from] == to;
            for (shard, visit) in self.nodes[from].visits(server, chosen, self.now_ms) {
                self.flying.push(Flying::Visit { from, to, shard, visit });
            }
        }
    }

    fn stop_relay(&mut self) {
        let relay = SITES + self.random.below(RELAYS);
        self.retiring = Some(relay);
        for shard in shards().all() {
            self.nodes[relay].host.stop_relay(shard).expect("relays may stop");
        }
        self.nodes[relay].commit(self.now_ms);
    }

    /// Sends what the retiring relay leaves to a site, which must be the one that was named, if one was.
    fn bequeath(&mut self) {
        let Some(from) = self.retiring else { return };
        for shard in shards().all() {
            let retirement = self.nodes[from].host.retirement(shard);
            assert!(retirement.is_stopped);
            if retirement.heir.is_some() {
                continue;
            }
            let named = (0..SITES).find(|site| Some(self.nodes[*site].server().name) == retirement.named);
            let to = named.unwrap_or_else(|| self.random.below(SITES));
            let heir = self.nodes[to].server().name;
            self.nodes[from].host.bequeath(shard, Ticket(0), heir);
            let Some((_, Reply::Estate(estate))) = self.nodes[from].commit(self.now_ms).pop() else {
                panic!("an estate")
            };
            self.flying.push(Flying::Estate { from, to, shard, estate: *estate });
        }
    }

    fn deliver(&mut self) {
        if self.flying.is_empty() {
            return;
        }
        let at = self.random.below(self.flying.len());
        let (is_lost, is_repeated) = (self.random.below(10) < 3, self.random.below(10) < 4);
        let flying = self.flying.swap_remove(at);
        if !is_lost {
            self.arrive(flying, is_repeated);
        }
    }

    fn arrive(&mut self, flying: Flying, is_repeated: bool) {
        let now_ms = self.now_ms;
        match flying {
            Flying::Visit { from, to, shard, visit } => {
                if is_repeated && self.repeats {
                    self.flying.push(Flying::Visit { from, to, shard, visit: visit.clone() });
                }
                let server = self.nodes[to].server();
                match self.nodes[to].take(shard, visit, now_ms) {
                    Reply::Visited(answer) => {
                        self.flying.push(Flying::Answer { to: from, server, shard, answer: *answer });
                    }
                    // An opening that has ended speaks after the next one has; or it retires.
                    Reply::Refused(Refusal::Copy { .. } | Refusal::Leaving) => {}
                    other => panic!("{other:?}"),
                }
            }
            Flying::Letter { from, letter } => {
                if is_repeated {
                    self.flying.push(Flying::Letter { from, letter: letter.clone() });
                }
                self.nodes[usize::from(letter.to.number) - 1].read(from, letter, now_ms);
            }
            Flying::Answer { to, server, shard, answer } => {
                self.nodes[to].answered(shard, server, &answer, now_ms);
                if is_repeated && self.repeats {
                    self.flying.push(Flying::Answer { to, server, shard, answer });
                }
            }
            Flying::Estate { from, to, shard, estate } => {
                self.nodes[to].host.adopt(shard, Ticket(0), &estate, moment(now_ms));
                match self.nodes[to].commit(now_ms).pop() {
                    Some((_, Reply::Adopted(adoption))) => {
                        self.flying.push(Flying::Adopted { to: from, shard, adoption: *adoption });
                    }
                    // The other site is to know it first; then the relay asks again.
                    Some((_, Reply::Refused(Refusal::NotTold { .. }))) => {}
                    other => panic!("{other:?}"),
                }
                if is_repeated {
                    self.flying.push(Flying::Estate { from, to, shard, estate });
                }
            }
            Flying::Adopted { to, shard, adoption } => {
                self.nodes[to].host.adopted(shard, &adoption);
                self.nodes[to].commit(now_ms);
                if is_repeated {
                    self.flying.push(Flying::Adopted { to, shard, adoption });
                }
            }
        }
    }

    /// All that is under way arrives, and what follows from it.
    fn arrive_all(&mut self) {
        for _ in 0..4 {
            for flying in std::mem::take(&mut self.flying) {
                self.arrive(flying, false);
            }
        }
    }

    /// Nothing is lost any more: whoever has something to say says it, for so many rounds.
    fn talk(&mut self, rounds: usize) {
        for _ in 0..rounds {
            self.now_ms += 1_000;
            (SITES..self.nodes.len()).for_each(|source| self.send(source));
            self.bequeath();
            self.arrive_all();
            self.post();
            self.arrive_all();
        }
    }

    /// Everything is handed over, once, and nothing is left.
    fn settle(&mut self) {
        self.flying.clear();
        if self.retiring.is_none() && self.random.below(2) == 0 {
            self.stop_relay();
        }
        // Nobody chooses a relay that retires: it refuses.
        for chosen in self.chosen.iter_mut().filter(|chosen| Some(**chosen) == self.retiring) {
            *chosen = 0;
        }
        self.talk(30);
        for edge in SITES + RELAYS..self.nodes.len() {
            let open = self.nodes[edge].open_handoffs();
            assert!(open.is_empty(), "edge {edge}: {open:?}");
            self.nodes[edge].retire();
        }
        self.talk(30);
        for edge in SITES + RELAYS..self.nodes.len() {
            assert_eq!(self.nodes[edge].open_handoffs().last_words, 0);
        }
        for relay in SITES..SITES + RELAYS {
            let open = self.nodes[relay].open_handoffs();
            assert!(open.is_empty(), "relay {relay}: {open:?}");
        }
        if let Some(relay) = self.retiring {
            for shard in shards().all() {
                let retirement = self.nodes[relay].host.retirement(shard);
                assert!(retirement.may_leave, "{retirement:?}");
            }
        }
        self.check();
    }

    fn check(&mut self) {
        for (key, issued) in &self.issued {
            for site in &mut self.nodes[..SITES] {
                assert_eq!(site.value(key), *issued, "{}", String::from_utf8_lossy(key));
            }
        }
        for (at, node) in self.nodes[..SITES + RELAYS].iter().enumerate() {
            let stats = node.host.handoff_stats();
            // A relay that has left keeps its desk as it was.
            let slots = if self.repeats || self.retiring == Some(at) { 0 } else { stats.slots };
            assert_eq!(
                (slots, stats.cached, stats.notices, stats.tokens),
                (0, 0, 0, 0),
                "node {at}: {stats:?}"
            );
        }
    }
}

#[test]
fn whatever_is_lost_repeated_late_or_crashed_each_count_arrives_once_through_relays() {
    for seed in 0..100 {
        let mut world = World::new(seed);
        (0..STEPS).for_each(|_| world.step());
        world.settle();
    }
}

#[test]
fn an_edge_counts_at_a_site_through_a_relay_and_reads_there_what_the_site_has() {
    let (mut site, mut relay, mut edge) = (Node::site(1, Settings::default()), Node::relay(1), Node::edge(1));
    site.add(b"key", 5, 0);
    edge.add(b"key", 2, 0);
    edge.ask(b"key");
    edge.hand_over(&mut relay, 0);
    assert_eq!((relay.value(b"key"), site.value(b"key")), (2, 5));
    relay.hand_over(&mut site, 0);
    assert_eq!((relay.value(b"key"), site.value(b"key")), (7, 7));
    edge.exchange(&mut relay, true, 0);
    assert_eq!(edge.value(b"key"), 7);
    relay.add(b"key", -3, 0);
    assert_eq!(relay.value(b"key"), 4);
    relay.hand_over(&mut site, 0);
    assert_eq!((relay.value(b"key"), site.value(b"key")), (4, 4));
}

#[test]
fn a_relay_does_only_what_relays_do() {
    let mut relay = Node::relay(1);
    let id = OperationId { producer: b"p", id: b"1" };
    for action in [
        Action::Add { add: Add::of(1), operation: Some(id) },
        Action::Add { add: Add { upper: Some(3), ..Add::of(1) }, operation: None },
        Action::Reset { to: Some(1) },
        Action::Inspect,
        Action::Outcome(id),
    ] {
        assert_eq!(relay.run(b"key", action, 0), Reply::Refused(Refusal::OnlyAtSites));
    }
    for shard in shards().all() {
        relay.host.stop_relay(shard).expect("it may");
    }
    relay.commit(0);
    relay.restart(0);
    let add = Action::Add { add: Add::of(1), operation: None };
    assert_eq!(relay.run(b"key", add, 0), Reply::Refused(Refusal::Leaving));
}

#[test]
fn a_token_for_a_relay_that_has_retired_is_taken_by_its_heir() {
    let mut world = World::new(1);
    let (edge, relay) = (SITES + RELAYS, SITES);
    world.nodes[edge].add(b"key", 7, 0);
    // It gets a slot and makes a token, and then cannot reach the relay any more.
    let server = world.nodes[relay].server();
    for (shard, visit) in world.nodes[edge].visits(server, true, 0) {
        let Reply::Visited(answer) = world.nodes[relay].take(shard, visit, 0) else { panic!("it is taken") };
        world.nodes[edge].answered(shard, server, &answer, 0);
    }
    world.retiring = Some(relay);
    for shard in shards().all() {
        world.nodes[relay].host.stop_relay(shard).expect("it may");
    }
    world.nodes[relay].commit(0);
    // The heir of all shards is the first site; the edge hands over to the second.
    let leave = |world: &mut World| {
        for shard in shards().all() {
            let heir = world.nodes[0].server().name;
            world.nodes[relay].host.bequeath(shard, Ticket(0), heir);
            let Some((_, Reply::Estate(estate))) = world.nodes[relay].commit(0).pop() else {
                panic!("an estate")
            };
            world.arrive(Flying::Estate { from: relay, to: 0, shard, estate: *estate }, false);
        }
        world.arrive_all();
    };
    leave(&mut world);
    assert!(shards().all().all(|shard| !world.nodes[relay].host.retirement(shard).may_leave));
    // It takes over, and says so when the other site knows it.
    for _ in 0..4 {
        world.now_ms += 1_000;
        world.post();
        world.arrive_all();
    }
    leave(&mut world);
    assert!(shards().all().all(|shard| world.nodes[relay].host.retirement(shard).may_leave));
    assert_eq!(world.nodes[0].host.handoff_stats().slots, 1, "under the relay's name");
    world.nodes[0].restart(0);
    world.chosen[edge] = 1;
    world.talk(15);
    let open = world.nodes[edge].open_handoffs();
    assert!(open.is_empty(), "{open:?}");
    for site in 0..SITES {
        assert_eq!(world.nodes[site].value(b"key"), 7);
        assert_eq!(world.nodes[site].host.handoff_stats().cached, 0);
    }
    assert_eq!(world.nodes[0].host.handoff_stats().slots, 0);
}
