//! Requests and answers that are lost, repeated and late, servers that change, crashes of both sides.

use std::collections::BTreeMap;

use quipu_crdt::testing::Random;
use quipu_engine::{
    Envelope, Reply, Settings, SiteId,
    handoff::{Answer, Server, Visit},
};

use crate::world::{Node, key};

const SITES: u16 = 3;
const EDGES: u8 = 4;
const STEPS: u64 = 600;

/// What is under way.
enum Flying {
    Visit { edge: usize, site: usize, shard: u16, visit: Visit },
    Answer { edge: usize, server: Server, shard: u16, answer: Answer },
    Letter { from: SiteId, letter: Envelope },
}

struct World {
    random: Random,
    sites: Vec<Node>,
    edges: Vec<Node>,
    chosen: Vec<usize>,
    flying: Vec<Flying>,
    issued: BTreeMap<Vec<u8>, i64>,
    now_ms: u64,
    /// Also visits are repeated. A visit that comes twice may open a slot that its edge does not know of, which is folded
    /// some day.
    repeats: bool,
}

impl World {
    fn new(seed: u64) -> Self {
        Self {
            random: Random::new(seed),
            sites: (1..=SITES).map(|number| Node::one_of(SITES, number)).collect(),
            edges: (1..=EDGES).map(Node::edge).collect(),
            chosen: vec![0; usize::from(EDGES)],
            flying: Vec::new(),
            issued: BTreeMap::new(),
            now_ms: 0,
            repeats: seed % 2 == 1,
        }
    }

    fn step(&mut self) {
        self.now_ms += 10;
        let edge = self.random.below(usize::from(EDGES));
        match self.random.below(22) {
            20 | 21 => self.post(),
            0..5 => {
                let (key, amount) = (key(&mut self.random), self.random.below(21) as i64 - 6);
                self.edges[edge].add(&key, amount, self.now_ms);
                *self.issued.entry(key).or_default() += amount;
            }
            5..10 => self.send(edge),
            10..17 => self.deliver(),
            17 => self.chosen[edge] = self.random.below(usize::from(SITES)),
            18 => {
                let site = self.random.below(usize::from(SITES));
                match self.random.below(4) {
                    0 => self.sites[site].restart(self.now_ms),
                    1 => self.edges[edge].restart(self.now_ms),
                    _ => self.sites[site].look_after(self.now_ms),
                }
            }
            _ => self.edges[edge].look_after(self.now_ms),
        }
    }

    /// What sites have to say to each other.
    fn post(&mut self) {
        for site in &mut self.sites {
            let from = site.id();
            let letters = site.letters(self.now_ms).into_iter();
            self.flying.extend(letters.map(|letter| Flying::Letter { from, letter }));
        }
    }

    /// To the chosen server, and to others where there is something to close.
    fn send(&mut self, edge: usize) {
        for site in 0..usize::from(SITES) {
            let (server, chosen) = (self.sites[site].server(), self.chosen[edge] == site);
            for (shard, visit) in self.edges[edge].visits(server, chosen, self.now_ms) {
                self.flying.push(Flying::Visit { edge, site, shard, visit });
            }
        }
    }

    fn deliver(&mut self) {
        if self.flying.is_empty() {
            return;
        }
        let at = self.random.below(self.flying.len());
        let (is_lost, is_repeated) = (self.random.below(10) < 3, self.random.below(10) < 4);
        let flying = self.flying.swap_remove(at);
        if is_lost {
            return;
        }
        match flying {
            Flying::Visit { edge, site, shard, visit } => {
                if is_repeated && self.repeats {
                    self.flying.push(Flying::Visit { edge, site, shard, visit: visit.clone() });
                }
                let server = self.sites[site].server();
                match self.sites[site].take(shard, visit, self.now_ms) {
                    Reply::Visited(answer) => {
                        self.flying.push(Flying::Answer { edge, server, shard, answer: *answer });
                    }
                    // An opening that has ended speaks after the next one has.
                    Reply::Refused(quipu_engine::Refusal::Copy { .. }) => {}
                    other => panic!("{other:?}"),
                }
            }
            Flying::Letter { from, letter } => {
                if is_repeated {
                    self.flying.push(Flying::Letter { from, letter: letter.clone() });
                }
                self.sites[usize::from(letter.to.number) - 1].read(from, letter, self.now_ms);
            }
            Flying::Answer { edge, server, shard, answer } => {
                self.edges[edge].answered(shard, server, &answer, self.now_ms);
                if is_repeated && self.repeats {
                    self.flying.push(Flying::Answer { edge, server, shard, answer });
                }
            }
        }
    }

    /// Lets the sites say to each other all that they have to.
    fn talk(&mut self) {
        for _ in 0..40 {
            self.now_ms += 500;
            self.post();
            for flying in std::mem::take(&mut self.flying) {
                if let Flying::Letter { from, letter } = flying {
                    self.sites[usize::from(letter.to.number) - 1].read(from, letter, self.now_ms);
                }
            }
        }
    }

    /// Nothing is lost any more: all is handed over, once, and nothing is left.
    fn settle(&mut self) {
        self.flying.clear();
        // One that was started opens no slots before another one has spoken to it.
        self.talk();
        for edge in &mut self.edges {
            for _ in 0..20 {
                for (at, site) in self.sites.iter_mut().enumerate() {
                    edge.exchange(site, at == 0, self.now_ms);
                }
            }
            assert!(edge.open_handoffs().is_empty(), "{:?}", edge.open_handoffs());
            edge.retire();
            edge.exchange(&mut self.sites[0], true, self.now_ms);
            assert_eq!(edge.open_handoffs().last_words, 0);
        }
        self.talk();
        for (key, issued) in &self.issued {
            for site in &mut self.sites {
                assert_eq!(site.value(key), *issued, "{}", String::from_utf8_lossy(key));
            }
        }
        for site in &self.sites {
            let stats = site.host.handoff_stats();
            let slots = if self.repeats { 0 } else { stats.slots };
            assert_eq!((slots, stats.cached, stats.notices, stats.tokens), (0, 0, 0, 0), "{stats:?}");
        }
    }
}

#[test]
fn whatever_is_lost_repeated_late_or_crashed_each_count_arrives_once() {
    for seed in 0..60 {
        let mut world = World::new(seed);
        (0..STEPS).for_each(|_| world.step());
        world.settle();
    }
}

#[test]
fn an_edge_reads_what_it_has_counted_and_what_it_has_heard() {
    let (mut site, mut edge) = (Node::site(1, Settings::default()), Node::edge(1));
    site.add(b"key", 5, 0);
    assert_eq!(edge.ask(b"key"), None, "nobody has told");
    edge.add(b"key", 2, 0);
    assert_eq!(edge.value(b"key"), 2);
    edge.exchange(&mut site, true, 0);
    assert_eq!(edge.value(b"key"), 7);
    edge.hand_over(&mut site, 0);
    assert_eq!((edge.value(b"key"), site.value(b"key")), (7, 7));
    edge.add(b"key", -3, 0);
    assert_eq!(edge.value(b"key"), 4);
    edge.hand_over(&mut site, 0);
    assert_eq!((edge.value(b"key"), site.value(b"key")), (4, 4));
}

#[test]
fn a_copy_of_an_edges_state_is_noticed_where_its_original_has_a_slot() {
    let mut site = Node::site(1, Settings::default());
    let (mut edge, mut copy) = (Node::edge(1), Node::edge(1));
    edge.add(b"key", 2, 0);
    copy.add(b"key", 2, 0);
    copy.restart(0);
    edge.restart(0);
    edge.restart(0);
    edge.exchange(&mut site, true, 0);
    let visits = copy.visits(site.server(), true, 0);
    for (shard, visit) in visits {
        let reply = site.take(shard, visit, 0);
        assert!(matches!(reply, Reply::Refused(quipu_engine::Refusal::Copy { .. })), "{reply:?}");
    }
    edge.hand_over(&mut site, 0);
    assert_eq!(site.value(b"key"), 2);
}

#[test]
fn what_an_edge_leaves_behind_when_it_retires_reaches_a_server_that_it_cannot() {
    let mut world = World::new(1);
    world.talk();
    let edge = &mut world.edges[0];
    edge.add(b"key", 2, 0);
    // It has a token for the first site, which it cannot reach any more.
    edge.exchange(&mut world.sites[0], true, 0);
    edge.add(b"key", 3, 0);
    for _ in 0..4 {
        edge.exchange(&mut world.sites[1], true, 0);
    }
    assert_eq!(edge.open_handoffs().tokens.len(), 1);
    edge.retire();
    assert!(edge.open_handoffs().last_words > 0);
    edge.exchange(&mut world.sites[1], true, 0);
    assert!(edge.open_handoffs().last_words > 0, "no second site has them");
    assert_eq!(world.sites[0].host.handoff_stats().slots, 1);
    world.talk();
    world.edges[0].exchange(&mut world.sites[1], true, 0);
    assert_eq!(world.edges[0].open_handoffs().last_words, 0, "it may disappear");
    for site in &mut world.sites {
        assert_eq!(site.value(b"key"), 5);
        let stats = site.host.handoff_stats();
        assert_eq!((stats.slots, stats.cached, stats.notices), (0, 0, 0), "{stats:?}");
    }
}

#[test]
fn an_edge_that_retires_leaves_nothing() {
    let (mut one, mut other) = (Node::site(1, Settings::default()), Node::site(2, Settings::default()));
    let mut edge = Node::edge(1);
    edge.add(b"key", 2, 0);
    // The first server has opened a slot, and the edge does not know.
    for (shard, visit) in edge.visits(one.server(), true, 0) {
        one.take(shard, visit, 0);
    }
    edge.hand_over(&mut other, 0);
    assert_eq!(one.host.handoff_stats().slots, 1);
    edge.exchange(&mut one, false, 0);
    assert_eq!(one.host.handoff_stats().slots, 0);
    edge.retire();
    assert_eq!(edge.open_handoffs().last_words, 1, "one visit was never answered, and may arrive yet");
    edge.exchange(&mut one, true, 0);
    assert_eq!(edge.open_handoffs().last_words, 0);
    assert_eq!((one.value(b"key"), other.value(b"key")), (0, 2));
    assert_eq!(one.host.handoff_stats(), Default::default());
    assert_eq!(other.host.handoff_stats(), Default::default());
}
