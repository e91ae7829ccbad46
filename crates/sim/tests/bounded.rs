//! The experiments with bounded counters in small: what must hold of their shape, and that a seed decides.

use quipu_sim::bounded::{Configuration, Costs, SITES, excess, exhaust, latency, load};
use quipu_sim::{RunError, report::Cell};

const WEAK: usize = 0;
const STRONG: usize = 1;
const OURS: usize = 2;
const UNBATCHED: usize = 3;

fn always(_: f64) -> bool {
    true
}

/// The order of the configurations in rows is that of these constants.
#[test]
fn configurations_have_their_places() {
    let names = Configuration::ALL.map(Configuration::name);
    assert_eq!(
        [names[WEAK], names[STRONG], names[OURS], names[UNBATCHED]],
        ["weak", "strong", "ours", "unbatched"]
    );
}

fn small_latency() -> latency::Params {
    latency::Params { seconds: 5, ..Default::default() }
}

#[test]
fn remote_clients_of_one_site_wait_for_the_network_and_ours_do_not() {
    let rows = latency::run(&small_latency(), &mut always).expect("it runs");
    assert_eq!(rows.len(), SITES.len());
    for row in &rows {
        let median = |configuration: usize| row.far[configuration].median_ms.expect("operations");
        let max = |configuration: usize| row.far[configuration].max_ms.expect("operations");
        // One round trip within the site, a command and a commit.
        assert!((1.5..2.0).contains(&median(OURS)), "site {}: {} ms", row.site, median(OURS));
        assert!(max(OURS) < 10.0, "site {}: nobody waits for another site, {} ms", row.site, max(OURS));
        assert!(median(WEAK) > median(OURS), "weak reads before it writes");
        let round_trip_ms = [0.0, 160.0, 192.0][row.site];
        let strong = median(STRONG) - round_trip_ms;
        assert!((2.0..4.0).contains(&strong), "site {}: {strong} ms beside the network", row.site);
        assert!(row.far.iter().all(|latency| latency.operations > 50), "{row:?}");
    }
}

#[test]
fn a_transfer_takes_a_round_trip_to_another_site() {
    let rows = latency::run(&small_latency(), &mut always).expect("it runs");
    // All rights are at the first site: whoever is elsewhere asks for some first.
    for (row, round_trip_ms) in rows[1..].iter().zip([160.0, 192.0]) {
        let Some(slowest) = row.transferred.max_ms else {
            panic!("site {} had no rights to begin with", row.site)
        };
        assert!(slowest >= round_trip_ms, "site {}: {slowest} ms", row.site);
        assert!(slowest < round_trip_ms + 10.0, "site {}: {slowest} ms", row.site);
        assert!(row.decided_here.max_ms.expect("operations") < 10.0, "{row:?}");
        assert!(row.transferred.operations * 10 < row.decided_here.operations, "{row:?}");
    }
    assert_eq!(rows[0].transferred.operations, 0, "the first site has more than enough");
}

fn small_load() -> load::Params {
    load::Params { clients: vec![30, 900], seconds: 2, ..Default::default() }
}

/// The row of a configuration with so many clients.
fn find(rows: &[load::Row], configuration: usize, clients: usize) -> load::Row {
    let is_it =
        |row: &&load::Row| row.configuration == Configuration::ALL[configuration] && row.clients == clients;
    *rows.iter().find(is_it).expect("it was run")
}

#[test]
fn without_batching_a_commit_is_the_limit_and_with_it_not() {
    let rows = load::run(&small_load(), &mut always).expect("it runs");
    for configuration in [WEAK, OURS, UNBATCHED] {
        let calm = find(&rows, configuration, 30);
        assert!((280.0..300.0).contains(&calm.per_s), "30 clients and 10 operations per second: {calm:?}");
        assert!(calm.mean_ms.expect("operations") < 3.0, "{calm:?}");
    }
    let [weak, ours, unbatched] = [WEAK, OURS, UNBATCHED].map(|it| find(&rows, it, 900));
    assert!(ours.per_s > 8_500.0 && ours.mean_ms.expect("operations") < 5.0, "{ours:?}");
    // Three sites, a commit of a millisecond for each.
    assert!((2_500.0..3_000.0).contains(&unbatched.per_s), "{unbatched:?}");
    assert!((2_300.0..3_000.0).contains(&weak.per_s), "{weak:?}");
    for limited in [weak, unbatched] {
        assert!(
            limited.mean_ms.expect("operations") > 50.0 * ours.mean_ms.expect("operations"),
            "{limited:?}"
        );
        assert!(limited.p99_ms >= limited.mean_ms, "{limited:?}");
    }
}

#[test]
fn conditional_writes_get_into_each_others_way_unless_there_are_many_counters() {
    let one = load::run(&small_load(), &mut always).expect("it runs");
    let (calm, crowded) = (find(&one, STRONG, 30), find(&one, STRONG, 900));
    assert!(crowded.per_s < 0.5 * calm.per_s, "{calm:?} {crowded:?}");
    assert!(crowded.conflicts_per_s > 100.0 * calm.conflicts_per_s.max(1.0), "{calm:?} {crowded:?}");
    let many = load::run(&load::Params { counters: 100, ..small_load() }, &mut always).expect("it runs");
    assert!(find(&many, STRONG, 900).per_s > 10.0 * crowded.per_s, "{many:?}");
    for configuration in [WEAK, UNBATCHED] {
        let gain = find(&many, configuration, 900).per_s / find(&one, configuration, 900).per_s;
        assert!((1.5..3.2).contains(&gain), "three workers instead of one: {gain}");
    }
}

#[test]
fn faster_storage_lets_more_through() {
    let per_s = |commit_us| {
        let costs = Costs { commit_us, ..Costs::default() };
        let rows = load::run(&load::Params { costs, clients: vec![900], ..small_load() }, &mut always);
        find(&rows.expect("it runs"), UNBATCHED, 900).per_s
    };
    assert!(per_s(300) > 2.5 * per_s(1_000));
}

fn small_exhaust() -> exhaust::Params {
    exhaust::Params { initial: 300, seconds: 12, ..Default::default() }
}

#[test]
fn the_last_units_are_spent_once_and_then_operations_fail_at_their_site() {
    let rows = exhaust::run(&small_exhaust(), &mut always).expect("it runs");
    assert_eq!(rows.len(), 24);
    for configuration in [STRONG, OURS, UNBATCHED] {
        let counted: u64 = rows.iter().map(|row| row.parts[configuration].counted).sum();
        assert_eq!(counted, 300, "{:?}", Configuration::ALL[configuration]);
    }
    let ours: Vec<exhaust::Part> = rows.iter().map(|row| row.parts[OURS]).collect();
    let (waited, slow) = ours
        .iter()
        .fold((0, 0), |(waited, slow), part| (waited + part.waited, slow + u64::from(part.max_us > 10_000)));
    assert!(waited > 0, "rights had to travel");
    assert!(waited < 30, "{waited} of 300 waited");
    assert!(slow <= waited, "only who waits is slow");
    let last = ours.last().expect("rows");
    assert!(last.counted == 0 && last.refused > 10 && last.waited == 0, "{last:?}");
    assert!(last.max_us < 1_000, "a refusal needs no commit and no other site: {last:?}");
}

#[test]
fn only_the_plain_counter_is_spent_beyond_its_limit() {
    let params = excess::Params { initial: 600, clients: vec![6, 90], ..Default::default() };
    let rows = excess::run(&params, &mut always).expect("it runs");
    for row in &rows {
        for configuration in [STRONG, OURS, UNBATCHED] {
            let spent = row.spent[configuration];
            assert_eq!(
                (spent.excess, spent.left),
                (0, 0),
                "{:?}, {row:?}",
                Configuration::ALL[configuration]
            );
            assert!(spent.last_ms > 0);
        }
    }
    let [few, many] = [0, 1].map(|row: usize| rows[row].spent[WEAK].excess);
    assert!(many > 30, "90 clients spent {many} too many");
    assert!(many > 5 * few, "{few} with 6 clients and {many} with 90");
}

#[test]
fn the_same_seed_gives_the_same_run_and_another_seed_another() {
    let run = |seed| latency::run(&latency::Params { seconds: 2, seed, ..Default::default() }, &mut always);
    assert_eq!(run(7), run(7));
    assert_ne!(run(7), run(8));
    let params = |seed| excess::Params { initial: 200, clients: vec![30], seed, ..Default::default() };
    let run = |seed| excess::run(&params(seed), &mut always);
    assert_eq!(run(7), run(7));
    assert_ne!(run(7), run(8));
}

#[test]
fn a_table_of_loads_has_one_latency_in_each_row() {
    let params = load::Params { clients: vec![3], seconds: 1, ..Default::default() };
    let table = load::table(&load::run(&params, &mut always).expect("it runs"));
    let latencies = Configuration::ALL.map(|it| format!("{}_ms", it.name()));
    for (index, row) in table.rows().iter().enumerate() {
        let measured: Vec<bool> =
            latencies.iter().map(|name| table.column(name).nth(index) != Some(Cell::Missing)).collect();
        assert_eq!(measured.iter().filter(|it| **it).count(), 1, "{row:?}");
        assert!(measured[index], "the configurations come in their order");
    }
}

#[test]
fn a_run_can_be_stopped() {
    let mut calls = 0;
    let mut twice = |_: f64| {
        calls += 1;
        calls < 3
    };
    assert_eq!(exhaust::run(&small_exhaust(), &mut twice), Err(RunError::Stopped));
    assert_eq!(calls, 3);
}
