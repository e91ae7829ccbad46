//! The same trace through the engine and through the map of counters of `quipu_crdt`: the same states, step by step.

use quipu_crdt::{
    Pn,
    handoff::{Handoff, View},
    testing::Random,
};
use quipu_engine::{
    Reply, Settings,
    handoff::{Answer, Deltas, Key, Name, Visit},
};

use crate::world::{Node, key, shards};

const EDGES: u8 = 3;

/// A replica of the paper's, whose value is a map of counters.
type Oracle = Handoff<Name, Deltas>;

fn delta(key: &[u8], amount: i64) -> Deltas {
    let counted =
        if amount < 0 { Pn::subtracted(amount.unsigned_abs()) } else { Pn::added(amount.unsigned_abs()) };
    Deltas::from([(Key::new(key).expect("a key"), counted)])
}

/// An edge, the oracle's one, and what is on its way from and to both.
struct Pair {
    edge: Node,
    oracle: Oracle,
    visits: Vec<(Visit, View<Name, Deltas>)>,
    answers: Vec<(Answer, View<Name, Deltas>)>,
}

/// All keys of one shard, because the oracle is not divided.
fn key_of_shard_0(random: &mut Random) -> Vec<u8> {
    loop {
        let key = key(random);
        if shards().of(&key).0 == 0 {
            return key;
        }
    }
}

#[test]
fn the_engine_and_the_map_of_counters_go_through_the_same_states() {
    for seed in 0..40 {
        let mut random = Random::new(seed);
        let mut site = Node::site(1, Settings::default());
        let server = site.server();
        let mut oracle = Oracle::new(server.name, 0);
        let mut pairs: Vec<Pair> = (1..=EDGES)
            .map(|number| Pair {
                edge: Node::edge(number),
                oracle: Oracle::new(Name::drawn([number; 16]), 2),
                visits: Vec::new(),
                answers: Vec::new(),
            })
            .collect();
        for step in 0..500 {
            let pair = random.below(pairs.len());
            let pair = &mut pairs[pair];
            match random.below(8) {
                0 | 1 => {
                    let (key, amount) = (key_of_shard_0(&mut random), 1 + random.below(9) as i64);
                    pair.edge.add(&key, amount, step);
                    pair.oracle.add(&delta(&key, amount)).expect("it fits");
                }
                2 | 3 => {
                    for (shard, visit) in pair.edge.visits(server, true, step) {
                        assert_eq!(shard, 0);
                        pair.visits.push((visit, pair.oracle.view_for(&server.name, 0)));
                    }
                }
                4 | 5 if !pair.visits.is_empty() => {
                    let at = random.below(pair.visits.len());
                    let (visit, view) = pair.visits[at].clone();
                    if random.below(2) == 0 {
                        pair.visits.swap_remove(at);
                    }
                    let Reply::Visited(answer) = site.take(0, visit, step) else { panic!("it is taken") };
                    oracle.merge(&view).expect("an honest view");
                    pair.answers.push((*answer, oracle.reply_to(&view)));
                    assert_eq!(site.host.handshake(0), Some(oracle.handshake()), "seed {seed}, step {step}");
                    for (key, counted) in oracle.own() {
                        assert_eq!(i128::from(site.value(key.bytes())), counted.value());
                    }
                }
                6 | 7 if !pair.answers.is_empty() => {
                    let at = random.below(pair.answers.len());
                    let (answer, view) = pair.answers[at].clone();
                    if random.below(2) == 0 {
                        pair.answers.swap_remove(at);
                    }
                    pair.edge.answered(0, server, &answer, step);
                    pair.oracle.merge(&view).expect("an honest view");
                    let (edge, oracle) = (pair.edge.host.handshake(0), pair.oracle.handshake());
                    assert_eq!(edge, Some(oracle), "seed {seed}, step {step}");
                }
                _ => {}
            }
        }
    }
}
