//! The handoff paper's Example 1, with fewer edges.

use quipu_sim::RunError;
use quipu_sim::handoff::example1::{Outcome, Params, Row, run, table};

fn small() -> Params {
    Params { edges_per_relay: 20, end_ms: 3_000, ..Params::default() }
}

fn outcome(params: &Params) -> Outcome {
    run(params, &mut |_| true).expect("no condition is violated")
}

#[test]
fn sites_have_ten_entries_relays_a_slot_for_two_edges_and_edges_nothing_of_others() {
    let outcome = outcome(&small());
    assert_eq!(outcome.rows.len(), 4);
    let Row { sites, relays, edges, ids, .. } = outcome.rows[2];
    assert_eq!(sites.entries, 10.0);
    assert!(sites.slots <= 25.0, "each site has the relays of half a data center: {}", sites.slots);
    assert!((8.0..12.0).contains(&relays.slots), "20 edges per relay, {} slots", relays.slots);
    assert!(relays.slots_max <= 20);
    assert_eq!((relays.entries, edges.entries, edges.slots), (1.0, 1.0, 0.0));
    assert!(edges.tokens <= 1.0 && edges.bytes_max < 64, "{edges:?}");
    assert!(sites.bytes < 300.0 && relays.bytes < 300.0, "{} and {} bytes", sites.bytes, relays.bytes);
    assert_eq!(ids, 5_260.0, "a naive version vector has all nodes");
    assert!(outcome.messages > 0 && outcome.issued > 5_000);
}

#[test]
fn nothing_is_left_when_everything_has_been_handed_over() {
    let outcome = outcome(&small());
    let Row { sites, relays, edges, .. } = *outcome.rows.last().expect("there are rows");
    assert_eq!((sites.slots, relays.slots, relays.tokens, edges.tokens), (0.0, 0.0, 0.0, 0.0));
}

#[test]
fn what_sites_and_edges_keep_does_not_depend_on_how_many_edges_there_are() {
    let kept = |edges_per_relay| outcome(&Params { edges_per_relay, end_ms: 2_000, ..small() }).rows[1];
    let (few, many) = (kept(5), kept(40));
    assert_eq!(few.sites.entries, many.sites.entries);
    assert!(many.sites.slots <= 25.0 && few.sites.slots <= 25.0);
    assert!((many.edges.bytes - few.edges.bytes).abs() < 8.0);
    let ratio = many.relays.slots / few.relays.slots;
    assert!((6.0..10.0).contains(&ratio), "eight times the edges, {ratio} times the slots");
}

#[test]
fn the_same_seed_gives_the_same_run_and_another_seed_another() {
    let params = |seed| Params { seed, end_ms: 1_000, ..small() };
    assert_eq!(outcome(&params(3)), outcome(&params(3)));
    assert_ne!(outcome(&params(3)), outcome(&params(4)));
}

#[test]
fn the_watcher_is_told_and_can_end_a_run() {
    let mut told = Vec::new();
    let stopped = run(&small(), &mut |done| {
        told.push(done);
        told.len() < 5
    });
    assert_eq!(stopped, Err(RunError::Stopped));
    assert!(told.is_sorted() && told.iter().all(|done| (0.0..=1.0).contains(done)), "{told:?}");
}

#[test]
fn the_table_has_a_line_for_each_row() {
    let outcome = outcome(&Params { edges_per_relay: 2, ..small() });
    let table = table(&outcome.rows);
    assert_eq!(table.rows().len(), outcome.rows.len());
    assert_eq!(table.max("site_entries"), Some(10.0));
}

#[test]
fn impossible_parameters_are_refused_by_the_name_of_their_flags() {
    let flag = |params: Params| params.check().expect_err("refused").flag;
    assert_eq!(flag(Params { datacenters: 0, ..small() }), "--datacenters");
    assert_eq!(flag(Params { sites: 21, ..small() }), "--sites");
    assert_eq!(flag(Params { relays: 2_001, ..small() }), "--relays");
    assert_eq!(flag(Params { edges_per_relay: 0, ..small() }), "--edges-per-relay");
    assert_eq!(flag(Params { edges_per_relay: 40_001, ..small() }), "--edges-per-relay");
    assert_eq!(flag(Params { end_ms: 0, ..small() }), "--end-ms");
    assert_eq!(flag(Params { stats_ms: 3_001, ..small() }), "--stats-ms");
}
