//! Edges that disappear, and come back much later.

use quipu_engine::Settings;

use crate::world::Node;

const DAY_MS: u64 = 24 * 3600 * 1000;

#[test]
fn an_edge_that_comes_back_after_its_slot_was_folded_hands_over_once() {
    let mut site = Node::site(1, Settings::default());
    let mut edges: Vec<Node> = (1..=5).map(Node::edge).collect();
    for (at, edge) in edges.iter_mut().enumerate() {
        edge.add(b"key", 1 + at as i64, 0);
        edge.exchange(&mut site, true, 0); // It has its slot, and its token, and disappears.
    }
    assert_eq!(site.host.handoff_stats().slots, 5);
    let late = 40 * DAY_MS;
    site.look_after(late);
    site.look_after(late);
    let stats = site.host.handoff_stats();
    assert_eq!((stats.slots, stats.folded), (0, 5));
    site.restart(late);
    for edge in &mut edges[1..] {
        edge.restart(late);
        let twice = edge.visits(site.server(), true, late);
        edge.hand_over(&mut site, late);
        for (shard, visit) in twice {
            site.take(shard, visit, late);
        }
    }
    assert_eq!(site.value(b"key"), 2 + 3 + 4 + 5);
    site.look_after(late);
    site.restart(late);
    let stats = site.host.handoff_stats();
    assert_eq!((stats.slots, stats.folded), (0, 1), "of the one that never came back there is one bit");
    edges[0].hand_over(&mut site, late);
    assert_eq!(site.value(b"key"), 15);
    assert_eq!(site.host.handoff_stats().folded, 0);
}
