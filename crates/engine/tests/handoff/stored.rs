//! What is stored in the middle of a handoff: its bytes are fixed, and whoever finds them goes on from there.

use std::{fs, path::PathBuf};

use quipu_engine::{Reply, Settings};
use quipu_storage::ShardId;

use crate::world::{Found, Node, shards};

/// When slots of the first moment are folded.
const LATE_MS: u64 = 40 * 24 * 3600 * 1000;
/// An edge is one shard.
const EDGE_SHARD: ShardId = ShardId(0);
/// With this variable the fixture is written, not compared.
const WRITE: &str = "QUIPU_WRITE_FIXTURE";

fn fixture() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/handed.hex")
}

/// A site and an edge that has a slot there and has made its token, which nobody has taken. At the site there is also the
/// folded slot of an edge that is gone, and a token for another site that a third one has brought.
fn in_the_middle() -> [Node; 2] {
    let [mut site, mut other] = [1, 2].map(|number| Node::site(number, Settings::default()));
    let [mut edge, mut silent, mut switches] = [1, 2, 3].map(Node::edge);
    silent.add(b"hits", 1, 0);
    silent.exchange(&mut site, true, 0);
    let now_ms = LATE_MS;
    site.look_after(now_ms);
    site.look_after(now_ms);
    switches.add(b"hits", 2, now_ms);
    switches.exchange(&mut other, true, now_ms);
    // It makes a token for the other site, and brings it here.
    switches.exchange(&mut site, true, now_ms);
    edge.add(b"hits", 5, now_ms);
    edge.exchange(&mut site, true, now_ms);
    assert_eq!(edge.visits(site.server(), true, now_ms).len(), 1, "the token is made, and lost on its way");
    let stats = site.host.handoff_stats();
    assert_eq!((stats.slots, stats.folded, stats.cached), (1, 1, 1));
    [site, edge]
}

fn shard() -> ShardId {
    shards().of(b"hits")
}

/// The same in the log, and in the table.
fn found() -> Vec<(&'static str, Found)> {
    let [site, edge] = in_the_middle();
    let logged = [("site, logged", site.found(shard())), ("edge, logged", edge.found(EDGE_SHARD))];
    let [mut site, mut edge] = in_the_middle();
    site.checkpoint(LATE_MS);
    edge.checkpoint(LATE_MS);
    let stored = [("site, stored", site.found(shard())), ("edge, stored", edge.found(EDGE_SHARD))];
    logged.into_iter().chain(stored).collect()
}

fn text(found: &[(&str, Found)]) -> String {
    let mut text = "# Stored in the middle of handoffs; crates/engine/tests/handoff/stored.rs\n".to_owned();
    for (name, found) in found {
        text += &format!("{name}\n{}", found.to_text());
    }
    text
}

#[test]
fn handoffs_are_stored_as_these_bytes() {
    let text = text(&found());
    if std::env::var_os(WRITE).is_some() {
        fs::write(fixture(), &text).expect("it can be written");
    }
    assert_eq!(fs::read_to_string(fixture()).expect("the fixture"), text);
}

#[test]
fn whoever_finds_these_bytes_goes_on() {
    let text = fs::read_to_string(fixture()).expect("the fixture");
    let read = |name: &str| {
        let part = text.split_once(&format!("\n{name}\n")).expect("it is there").1;
        Found::from_text(part.lines().take_while(|line| line.starts_with(' ')))
    };
    for (sites, edges) in [("site, logged", "edge, stored"), ("site, stored", "edge, logged")] {
        let mut site = Node::site(1, Settings::default()).with(shard(), &read(sites), LATE_MS);
        let mut edge = Node::edge(1).with(EDGE_SHARD, &read(edges), LATE_MS);
        let stats = site.host.handoff_stats();
        assert_eq!((stats.slots, stats.folded, stats.cached), (1, 1, 1), "{sites}");
        let open = edge.open_handoffs();
        assert_eq!((open.pending, open.tokens.len()), (0, 1), "{edges}");
        let (shard, visit) = edge.visits(site.server(), true, LATE_MS).remove(0);
        for _ in 0..2 {
            assert!(matches!(site.take(shard, visit.clone(), LATE_MS), Reply::Visited(_)));
            assert_eq!(site.value(b"hits"), 5, "{sites}, {edges}: once");
        }
        edge.hand_over(&mut site, LATE_MS);
        assert_eq!(site.value(b"hits"), 5);
        assert_eq!(site.host.handoff_stats().slots, 0);
    }
}
