//! Counts for bounded counters that come by handoff wait for rights: never lost, never beyond the bound.

use quipu_engine::{Action, Limits, Reply, Settings, Spread};

use crate::world::Node;

fn stock(site: &mut Node, initial: i64) {
    let limits = Limits { minimum: Some(0), maximum: Some(100), initial };
    let created = site.run(b"stock", Action::Create { limits, spread: Spread::Creator, wait_ms: 0 }, 0);
    assert_eq!(created, Reply::Created);
}

#[test]
fn what_needs_rights_waits_for_them() {
    let mut site = Node::site(1, Settings::default());
    stock(&mut site, 10);
    let mut edge = Node::edge(1);
    edge.add(b"stock", -14, 0);
    edge.hand_over(&mut site, 0);
    assert_eq!(site.value(b"stock"), 0, "four wait");
    site.restart(0);
    site.add(b"stock", 3, 0);
    site.look_after(1000);
    assert_eq!(site.value(b"stock"), 0, "one waits");
    site.look_after(1000);
    site.restart(0);
    site.add(b"stock", 3, 0);
    site.look_after(2000);
    assert_eq!(site.value(b"stock"), 2);
    site.add(b"stock", 1, 0);
    site.look_after(3000);
    assert_eq!(site.value(b"stock"), 3);
}

#[test]
fn what_is_added_makes_rights_for_what_is_subtracted() {
    let mut site = Node::site(1, Settings::default());
    stock(&mut site, 95);
    let mut edge = Node::edge(1);
    edge.add(b"stock", 120, 0);
    edge.add(b"stock", -130, 0);
    edge.hand_over(&mut site, 0);
    assert_eq!(site.value(b"stock"), 85);
}
