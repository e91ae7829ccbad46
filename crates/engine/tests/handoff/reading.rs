//! Reading at a relay: which counters it goes on asking its site about.

use quipu_engine::{Released, Reply, Settings};
use quipu_storage::ShardId;

use crate::world::{Node, moment, shards};

/// docs/relays.md: "does not go back while its counter is among the last 16,384 of its shard that were read".
const LAST_READ: usize = 16_384;

/// Keys of the same shard as `key`, which come after it in the alphabet.
fn neighbours(key: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    let shard = shards().of(key);
    (0..).map(|number| format!("key-{number}").into_bytes()).filter(move |other| shards().of(other) == shard)
}

/// A site where `aaa` is 5, and a relay whose client has read that.
fn told() -> (Node, Node) {
    let (mut site, mut relay) = (Node::site(1, Settings::default()), Node::relay(1));
    site.add(b"aaa", 5, 0);
    relay.value(b"aaa");
    relay.exchange(&mut site, true, 0);
    assert_eq!(relay.value(b"aaa"), 5);
    (site, relay)
}

#[test]
fn a_relay_forgets_the_counter_that_was_read_longest_ago() {
    let (_, mut relay) = told();
    let shard = shards().of(b"aaa");
    let mut others = neighbours(b"aaa");
    for key in others.by_ref().take(LAST_READ - 1) {
        relay.host.ask(shard, &key);
    }
    // It is read again, so another one was read longest ago.
    assert_eq!(relay.value(b"aaa"), 5);
    for key in others.by_ref().take(LAST_READ - 1) {
        relay.host.ask(shard, &key);
    }
    assert_eq!(relay.value(b"aaa"), 5, "it is among the last that were read");
    others.take(LAST_READ).for_each(|key| _ = relay.host.ask(shard, &key));
    assert!(!relay.host.is_heard(shard, b"aaa"), "now it is not");
}

#[test]
fn a_watched_counter_is_not_forgotten() {
    let (mut site, mut relay) = told();
    let shard = shards().of(b"aaa");
    relay.host.watch(shard, b"aaa").expect("a key");
    neighbours(b"aaa").take(2 * LAST_READ).for_each(|key| _ = relay.host.ask(shard, &key));
    site.add(b"aaa", 1, 0);
    let (server, mut released) = (site.server(), Released::default());
    // Many are asked about, in turn.
    for _ in 0..40 {
        for (of, visit) in relay.visits(server, true, 0) {
            let Reply::Visited(answer) = site.take(of, visit, 0) else { panic!("an honest relay") };
            relay.host.answered(shard, of, server, &answer, moment(0)).expect("an honest site");
            relay.host.commit(moment(0), &mut released);
        }
    }
    let told: Vec<Option<i64>> = released.events.iter().map(|event| event.value).collect();
    assert_eq!(told.last(), Some(&Some(6)), "{told:?}");
}

#[test]
fn a_relay_that_no_site_has_told_anything_tells_edges_nothing() {
    let (mut site, mut relay, mut edge) = (Node::site(1, Settings::default()), Node::relay(1), Node::edge(1));
    site.add(b"aaa", 7, 0);
    edge.ask(b"aaa");
    edge.exchange(&mut relay, true, 0);
    assert!(!edge.host.is_heard(ShardId(0), b"aaa"), "nobody knows it yet");
    relay.exchange(&mut site, true, 0);
    edge.exchange(&mut relay, true, 0);
    assert!(edge.host.is_heard(ShardId(0), b"aaa"));
    assert_eq!(edge.ask(b"aaa"), Some(7));
}
