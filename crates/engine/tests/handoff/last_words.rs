//! Last words that a server keeps because one of their tokens cannot be counted yet.

use quipu_engine::Settings;

use crate::world::{Node, PENDING_MAX, shards};

/// A relay whose shard of `hits` is full, and that keeps the last words of an edge with a token for `hits`.
fn full_relay() -> Node {
    let (mut relay, mut edge) = (Node::relay(1), Node::edge(1));
    let shard = shards().of(b"hits");
    edge.add(b"hits", 5, 0);
    edge.exchange(&mut relay, true, 0);
    let keys = (0..).map(|number| format!("key-{number}").into_bytes());
    let keys = keys.filter(|key| shards().of(key) == shard).take(PENDING_MAX);
    keys.for_each(|key| relay.add(&key, 1, 0));
    edge.retire();
    edge.exchange(&mut relay, true, 0);
    assert_eq!(edge.open_handoffs().last_words, 0, "it may disappear");
    assert_eq!(relay.host.handoff_stats().notices, 1);
    relay
}

#[test]
fn last_words_that_cannot_be_counted_are_not_written_again() {
    let mut relay = full_relay();
    let shard = shards().of(b"hits");
    let before = relay.records(shard);
    for seconds in 1..20 {
        relay.commit(seconds * 1_000);
    }
    assert_eq!(relay.records(shard), before, "nothing has changed");
    assert_eq!(relay.host.handoff_stats().notices, 1);
}

#[test]
fn last_words_that_are_counted_later_are_counted_once() {
    let (mut relay, mut site) = (full_relay(), Node::site(1, Settings::default()));
    relay.commit(1_000);
    relay.hand_over(&mut site, 1_500);
    relay.commit(3_000);
    assert_eq!(relay.host.handoff_stats().notices, 0, "there is room now");
    for round in 1..3 {
        relay.restart(0);
        assert_eq!(relay.host.handoff_stats().notices, 0, "and that is stored");
        relay.commit(round * 5_000);
        relay.hand_over(&mut site, round * 5_000 + 500);
    }
    assert_eq!(site.value(b"hits"), 5);
}
