//! The experiments in small: they reach the proportions of the paper's, and are determined by their seeds.

use quipu_sim::core::Faults;
use quipu_sim::handoff::reconnect::Exchange;
use quipu_sim::handoff::{Cleanup, Error, Row, Summary, clients, reconnect, retire, sessions};

/// All rows of a run, and its summary.
fn rows(run: impl FnOnce(&mut dyn FnMut(&Row) -> bool) -> Result<Summary, Error>) -> (Vec<Row>, Summary) {
    let mut rows = Vec::new();
    let summary = run(&mut |row| {
        rows.push(*row);
        true
    });
    (rows, summary.expect("no condition is violated"))
}

/// The mean of a column over the last half of the rows.
fn late_mean(rows: &[Row], column: impl Fn(&Row) -> f64) -> f64 {
    let late = &rows[rows.len() / 2..];
    late.iter().map(column).sum::<f64>() / late.len() as f64
}

fn small_clients() -> clients::Params {
    clients::Params { tier0: 3, servers: 10, clients: 1_000, ..clients::Params::default() }
}

#[test]
fn slots_are_half_the_clients_of_a_server_and_ids_are_all_nodes() {
    let (rows, summary) = rows(|sink| clients::run(&small_clients(), sink));
    assert_eq!(rows.len(), 10);
    for (row, seconds) in rows.iter().zip(1..) {
        assert_eq!((row.time_ms, row.clients, row.active), (seconds * 1_000, seconds * 100, seconds * 100));
    }
    let last = rows[9];
    // A handoff takes two round trips, and there is a slot in half of that time.
    assert!((45.0..55.0).contains(&last.slots), "100 clients per server, {} slots", last.slots);
    // All nodes but those of the last third of a second.
    assert!((965.0..1_013.0).contains(&last.ids), "1013 nodes, {} ids", last.ids);
    assert_eq!(summary.handed_off, summary.issued);
    assert_eq!(summary.audits, 10);
    assert!(summary.reports_checked > summary.messages / 2);
}

#[test]
fn ten_times_the_servers_have_a_tenth_of_the_slots() {
    let slots = |servers| {
        let params = clients::Params { servers, ..small_clients() };
        rows(|sink| clients::run(&params, sink)).0[9].slots
    };
    let ratio = slots(5) / slots(50);
    assert!((9.0..11.0).contains(&ratio), "{ratio}");
}

#[test]
fn all_clients_may_be_there_from_the_start() {
    let params = clients::Params { arrival_ms: 0, end_ms: Some(3_000), ..small_clients() };
    let (rows, _) = rows(|sink| clients::run(&params, sink));
    assert_eq!(rows[2].clients, 1_000);
    assert_eq!(rows[2].ids, 1_013.0);
}

#[test]
fn slots_are_proportional_to_active_clients() {
    let at = |active_percent| {
        let clients = clients::Params { arrival_ms: 1, end_ms: Some(5_000), ..small_clients() };
        let params = sessions::Params { clients, activity_ms: 1_000, active_percent };
        let (rows, summary) = rows(|sink| sessions::run(&params, sink));
        assert_eq!(summary.handed_off, summary.issued, "inactive clients finish what they have begun");
        (late_mean(&rows, |row| row.slots), late_mean(&rows, |row| row.active as f64))
    };
    let (all_slots, all_active) = at(100);
    let (some_slots, some_active) = at(30);
    assert_eq!(all_active, 1_000.0);
    assert!((280.0..320.0).contains(&some_active), "{some_active} of 1000 are active");
    // A session ends with a handoff that is finished, so a little more than the share of the time.
    let share = some_slots / all_slots;
    assert!((0.25..0.5).contains(&share), "{share} of the slots at 0.3 of the activity");
}

fn small_reconnect(exchange: Exchange) -> reconnect::Params {
    let end_ms = 20_000;
    reconnect::Params { exchange, tier0: 3, servers: 20, clients: 200, end_ms, ..Default::default() }
}

#[test]
fn naive_clients_leave_slots_behind_and_smart_ones_do_not() {
    let slots = |params| rows(|sink| reconnect::run(&params, sink)).0.last().expect("rows").slots;
    let naive = slots(small_reconnect(Exchange::Naive));
    let smart = slots(small_reconnect(Exchange::Smart));
    let stay = slots(reconnect::Params { active_percent: 100, ..small_reconnect(Exchange::Naive) });
    assert!((9.0..11.0).contains(&smart), "one slot for each of 10 clients per server, {smart} found");
    assert!((3.0..7.0).contains(&stay), "half a slot for each of 10 clients per server, {stay} found");
    assert!(naive > 3.0 * smart, "naive {naive}, smart {smart}");
}

#[test]
fn the_smart_exchange_survives_a_bad_network() {
    let faults = Faults { loss: 0.2, duplication: 0.2, reordering: 0.1, reordering_ms_max: 2_000 };
    let reconnect = reconnect::Params { faults, ..small_reconnect(Exchange::Smart) };
    let (_, summary) = rows(|sink| reconnect::run(&reconnect, sink));
    assert!(summary.handed_off > 10 * summary.at_clients, "{summary:?}");
    for cleanup in [Cleanup::Off, Cleanup::On, Cleanup::Fold] {
        let retire = retire::Params { faults, fold_after_ms: 3_000, ..small_retire(cleanup) };
        let (_, summary) = rows(|sink| retire::run(&retire, sink));
        assert_eq!(summary.handed_off, summary.issued - summary.vanished);
    }
}

fn small_retire(cleanup: Cleanup) -> retire::Params {
    retire::Params {
        tier0: 3,
        servers: 10,
        clients: 100,
        partition_percent: 20,
        end_ms: 20_000,
        cleanup,
        ..Default::default()
    }
}

#[test]
fn slots_of_clients_that_vanish_stay_unless_they_are_cleaned_up() {
    let run = |params: &retire::Params| {
        let (rows, summary) = rows(|sink| retire::run(params, sink));
        (rows.last().expect("rows").slots, summary)
    };
    let (nobody, _) = run(&retire::Params { partition_percent: 0, ..small_retire(Cleanup::Off) });
    let (off, vanished) = run(&small_retire(Cleanup::Off));
    let (on, noticed) = run(&small_retire(Cleanup::On));
    let (fold, folded) = run(&retire::Params { fold_after_ms: 2_000, ..small_retire(Cleanup::Fold) });
    assert!((9.0..13.0).contains(&nobody), "a slot for each of 10 clients per server, {nobody} found");
    assert!(off > nobody + 20.0, "about 40 vanish per server: {off} slots");
    assert!(on < nobody + 2.0, "with notices {on} slots, and {nobody} if nobody is cut off");
    assert!(fold < nobody + 6.0, "with folding {fold} slots, and {nobody} if nobody is cut off");
    assert!((300..500).contains(&vanished.abandoned), "{vanished:?}");
    assert_eq!(noticed.handed_off, noticed.issued, "nothing is lost by those who leave with a notice");
    assert!(folded.folded > 200 && folded.folded_bytes < 8 * folded.folded, "{folded:?}");
}

#[test]
fn the_same_seed_gives_the_same_run_and_another_seed_another() {
    let run = |seed| rows(|sink| retire::run(&retire::Params { seed, ..small_retire(Cleanup::On) }, sink));
    assert_eq!(run(7), run(7));
    assert_ne!(run(7).0, run(8).0);
    let run = |seed| rows(|sink| clients::run(&clients::Params { seed, ..small_clients() }, sink));
    assert_eq!(run(7), run(7));
    assert_ne!(run(7).0, run(8).0);
}

#[test]
fn how_often_one_looks_does_not_change_what_happens() {
    let at_10_s = |stats_ms| {
        let params = clients::Params { stats_ms, ..small_clients() };
        let (rows, summary) = rows(|sink| clients::run(&params, sink));
        assert_eq!(summary.audits, 10_000 / stats_ms);
        *rows.last().expect("rows")
    };
    assert_eq!(at_10_s(10), at_10_s(10_000));
}

#[test]
fn the_sink_can_end_a_run() {
    let mut rows = 0;
    let summary = clients::run(&small_clients(), &mut |_| {
        rows += 1;
        rows < 3
    });
    assert!(summary.expect("no condition is violated").stopped);
    assert_eq!(rows, 3);
}

#[test]
fn impossible_parameters_are_refused_by_the_name_of_their_flags() {
    let flag = |error: Result<(), quipu_sim::Refused>| error.expect_err("refused").flag;
    let clients = small_clients;
    assert_eq!(flag(clients::Params { tier0: 0, ..clients() }.check()), "--tier0");
    assert_eq!(flag(clients::Params { servers: 0, ..clients() }.check()), "--servers");
    assert_eq!(flag(clients::Params { clients: 0, ..clients() }.check()), "--clients");
    assert_eq!(flag(clients::Params { stats_ms: 0, ..clients() }.check()), "--stats-ms");
    assert_eq!(flag(clients::Params { end_ms: Some(9_999), ..clients() }.check()), "--end-ms");
    assert_eq!(flag(clients::Params { arrival_ms: u64::MAX, ..clients() }.check()), "--arrival-ms");
    let sessions = |active_percent| sessions::Params { active_percent, ..Default::default() };
    assert_eq!(flag(sessions(101).check()), "--active-percent");
    assert_eq!(flag(sessions(0).check()), "--active-percent");
    let short = reconnect::Params { activity_ms: 1, ..Default::default() };
    assert_eq!(flag(short.check()), "--active-percent");
    let retire = || small_retire(Cleanup::On);
    assert_eq!(flag(retire::Params { partition_percent: 101, ..retire() }.check()), "--partition-percent");
    assert_eq!(flag(retire::Params { servers: 1, ..retire() }.check()), "--servers");
    assert_eq!(flag(retire::Params { end_ms: 0, ..retire() }.check()), "--end-ms");
    assert_eq!(flag(retire::Params { end_ms: u64::MAX, ..retire() }.check()), "--end-ms");
    let many = retire::Params { arrival_ms: 1, end_ms: 1_000_000_000, ..retire() };
    assert_eq!(flag(many.check()), "--arrival-ms");
}
