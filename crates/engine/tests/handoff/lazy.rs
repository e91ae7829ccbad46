//! Sites that answer clients before they flush: what an edge or a relay is told is on the device all the same.

use quipu_engine::{Refusal, Reply, Settings};

use crate::world::Node;

fn lazy_site() -> Node {
    Node::site(1, Settings::default()).lazy()
}

/// An edge that has nothing to hand over asks for a value: the visit changes nothing.
#[test]
fn a_visit_that_changes_nothing_tells_what_is_on_the_device() {
    let (mut site, mut edge) = (lazy_site(), Node::edge(1));
    edge.ask(b"hits");
    site.add(b"hits", 5, 0);
    edge.exchange(&mut site, true, 0);
    assert_eq!(edge.value(b"hits"), 5);
    site.restart(0);
    assert_eq!(site.value(b"hits"), 5, "the edge was told so");
}

/// The second time it changes nothing.
#[test]
fn a_repeated_visit_tells_what_is_on_the_device() {
    let (mut site, mut edge) = (lazy_site(), Node::edge(1));
    edge.ask(b"hits");
    let server = site.server();
    let visits = edge.visits(server, true, 0);
    visits.iter().for_each(|(shard, visit)| _ = site.take(*shard, visit.clone(), 0));
    site.add(b"hits", 5, 0);
    for (shard, visit) in visits {
        let Reply::Visited(answer) = site.take(shard, visit, 0) else { panic!("an honest edge") };
        edge.answered(shard, server, &answer, 0);
    }
    assert_eq!(edge.value(b"hits"), 5);
    site.restart(0);
    assert_eq!(site.value(b"hits"), 5, "the edge was told so");
}

#[test]
fn a_lazy_relay_tells_edges_what_is_on_the_device() {
    let (mut site, mut relay, mut edge) =
        (Node::site(1, Settings::default()), Node::relay(1).lazy(), Node::edge(1));
    edge.ask(b"hits");
    for round in 1..4 {
        edge.exchange(&mut relay, true, 0);
        relay.exchange(&mut site, true, 0);
        relay.add(b"hits", 5, 0);
        edge.exchange(&mut relay, true, 0);
        assert_eq!(edge.value(b"hits"), 5 * round);
        relay.restart(0);
        relay.hand_over(&mut site, 0);
        assert_eq!(site.value(b"hits"), 5 * round, "the edge was told so");
    }
}

/// What clients alone were told may be taken back.
#[test]
fn a_client_of_a_lazy_site_does_not_wait_for_the_device() {
    let mut site = lazy_site();
    site.add(b"hits", 5, 0);
    assert_eq!(site.value(b"hits"), 5);
    site.restart(0);
    assert_eq!(site.value(b"hits"), 0);
}

#[test]
fn a_visit_is_refused_when_what_it_would_tell_cannot_be_flushed() {
    let (mut site, mut edge) = (lazy_site(), Node::edge(1));
    edge.ask(b"hits");
    site.add(b"hits", 5, 0);
    site.break_store();
    let visits = edge.visits(site.server(), true, 0);
    assert!(!visits.is_empty());
    for (shard, visit) in visits {
        let reply = site.take(shard, visit, 0);
        assert!(matches!(&reply, Reply::Refused(Refusal::NotStored(_))), "{reply:?}");
    }
}
