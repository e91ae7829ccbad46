//! The figures of the forgetful filter's experiments, on small runs.

use quipu_crdt::bloom::{Limits, Settings};
use quipu_sim::filters::number::Start;
use quipu_sim::filters::{Effort, LoadPoint, Measured, Reading};
use quipu_sim::filters::{adapt, membership, model, number, recyclable, refresh, retries};
use quipu_sim::{Refused, RunError};

/// The model may be off by this factor.
const FACTOR_MAX: f64 = 1.5;

fn effort(found_enough: u64) -> Effort {
    Effort { found_enough, probes_max: 6_000_000, threads: 2 }
}

fn agrees(measured: Measured, model: f64) -> bool {
    measured.found >= 50 && measured.rate() < model * FACTOR_MAX && model < measured.rate() * FACTOR_MAX
}

#[test]
fn the_optimised_check_saves_most_errors() {
    let params =
        membership::Params { elements: vec![300], effort: effort(200), ..membership::Params::default() };
    let rows = membership::run(&params, &mut |_| true).expect("it can be measured");
    assert!((88.0..96.0).contains(&rows[0].percent_less()), "{rows:?}");
}

#[test]
fn the_corrected_model_is_right_by_elements_and_by_size() {
    let by_elements = model::Params { elements: vec![300, 600, 1_000], ..model::Params::figure_9() };
    let by_size = model::Params { bits: vec![4_000, 5_000, 7_500], ..model::Params::figure_10() };
    let all_in_use = model::Params { elements: vec![2_700, 3_600], ..model::Params::all_in_use() };
    for params in [by_elements, by_size, all_in_use] {
        let rows = model::run(&model::Params { effort: effort(400), ..params }, &mut |_| true);
        for row in rows.expect("it can be measured") {
            assert!(agrees(row.measured, row.corrected), "{row:?}");
        }
    }
}

#[test]
fn equation_3_is_low_when_all_filters_are_in_use() {
    let params =
        model::Params { elements: vec![3_600], effort: effort(5_000), ..model::Params::all_in_use() };
    let rows = model::run(&params, &mut |_| true).expect("it can be measured");
    assert!(rows[0].measured.rate() > 1.4 * rows[0].equation_3, "{rows:?}");
}

fn check_readings(readings: &[Reading]) {
    for reading in readings {
        if let Some(measured) = reading.measured.filter(|measured| measured.found >= 50) {
            assert!(agrees(measured, reading.corrected), "{reading:?}");
        }
    }
}

#[test]
fn shorter_periods_err_less() {
    let params = refresh::Params { effort: effort(200), ..refresh::Params::default() };
    let moments = refresh::run(&params, &mut |_| true).expect("it can be measured");
    let at_100 = moments.iter().find(|moment| (moment.rate - 100.0).abs() < 0.1).expect("one of the rates");
    let factor = at_100.readings[0].corrected / at_100.readings[3].corrected;
    assert!((500.0..2_000.0).contains(&factor), "{factor}");
    for moment in moments {
        check_readings(&moment.readings);
        assert!(moment.readings.is_sorted_by(|longer, shorter| longer.corrected > shorter.corrected));
    }
}

#[test]
fn more_filters_err_less_only_while_they_are_empty() {
    let fresh = number::Params { effort: effort(200), rate_to: 120.0, ..number::Params::default() };
    let steady = number::Params { start: Start::Steady, filters: vec![12, 3], ..fresh.clone() };
    for (params, fewer_err_more) in [(fresh, true), (steady, false)] {
        let moments = number::run(&params, &mut |_| true).expect("it can be measured");
        moments.iter().for_each(|moment| check_readings(&moment.readings));
        let readings = &moments.last().expect("several rates").readings;
        let rate = |reading: &Reading| reading.measured.expect("errors are frequent").rate();
        let (many, few) = (rate(&readings[0]), rate(readings.last().expect("two kinds")));
        assert_eq!(few > many, fewer_err_more, "{many} with many filters, {few} with few");
    }
}

#[test]
fn resizing_holds_the_target_through_the_ramp_and_forgets_nothing() {
    let params = adapt::Params {
        stats_ms: 10_000,
        effort: Effort { probes_max: 1_000_000, ..adapt::Params::default().effort },
        ..adapt::Params::default()
    };
    let rows = adapt::run(&params, &mut |_| true).expect("it can be measured");
    let highest = |measured: fn(&adapt::Row) -> Option<Measured>| {
        rows.iter().filter_map(measured).map(|measured| measured.rate()).fold(0.0, f64::max)
    };
    let ours = highest(|row| row.ours.measured);
    assert!(ours > 0.1 * params.limits.target && ours < params.limits.target, "{ours}");
    assert!(rows.iter().all(|row| row.ours.forgotten_percent == 0.0));
    assert!(
        rows.iter()
            .filter_map(|row| Some((row.ours.measured?, row.corrected)))
            .all(|(measured, model)| { measured.found < 50 || agrees(measured, model) })
    );

    // What the paper prints does neither.
    assert!(highest(|row| row.printed.measured) > 2.0 * params.limits.target);
    assert!(rows.iter().any(|row| row.printed.forgotten_percent > 10.0));
}

#[test]
fn sizes_that_stay_as_they_are_do_not_hold_it() {
    let limits = Limits { bits_max: 6_250, ..adapt::Params::default().limits };
    let params = adapt::Params { limits, stats_ms: 60_000, effort: effort(100), ..adapt::Params::default() };
    let rows = adapt::run(&params, &mut |_| true).expect("it can be measured");
    assert!(rows.iter().any(|row| row.corrected > limits.target));
    assert!(rows.iter().all(|row| row.ours.forgotten_percent == 0.0));
}

#[test]
fn only_the_counter_without_filter_is_wrong() {
    let rows = retries::run(&retries::Params::default(), &mut |_| true).expect("it can be run");
    let last = rows.last().expect("at least the end");
    assert_eq!((last.issued, last.with_filter, last.with_ids), (6_000, 6_000, 6_000));
    assert_eq!(last.without, last.issued + last.retries);
    assert!((5.0..8.0).contains(&(100.0 * last.retries as f64 / last.issued as f64)), "{last:?}");
    assert!(rows.is_sorted_by(|one, next| one.time_ms < next.time_ms));
}

#[test]
fn a_crowded_filter_misses_increments_and_counts_none_twice() {
    let params = retries::Params { arrival_ms: 2, ..retries::Params::default() };
    let rows = retries::run(&params, &mut |_| true).expect("it can be run");
    let last = rows.last().expect("at least the end");
    assert!(last.with_filter < last.issued && last.with_ids == last.issued, "{last:?}");
}

#[test]
fn nobody_loses_an_acknowledgement_and_everybody_does() {
    let with = |ack_loss_percent| {
        let params = retries::Params { ack_loss_percent, operations: 100, ..retries::Params::default() };
        *retries::run(&params, &mut |_| true).expect("it can be run").last().expect("at least the end")
    };
    assert_eq!(with(0.0).retries, 0);
    // Until the window of 10 s has passed, every 2 s.
    assert_eq!(with(100.0).retries, 500);
    assert_eq!(with(100.0).with_filter, 100);
}

#[test]
fn only_the_recyclable_filter_counts_twice() {
    let params = recyclable::Params { operations: 20_000, ..recyclable::Params::default() };
    let rows = recyclable::run(&params, &mut |_| true).expect("it can be run");
    assert!(rows.iter().all(|row| row.forgetful.twice == 0));
    let last = rows.last().expect("several shares");
    assert!(last.recyclable.error_percent() > 10.0 * last.forgetful.error_percent(), "{last:?}");
    assert!(rows[0].recyclable.twice == 0 && rows[0].forgetful.missed > 0, "{rows:?}");
}

#[test]
fn same_seed_same_rows_and_another_seed_others() {
    let with = |seed, threads| {
        let effort = Effort { threads, ..effort(50) };
        let params = model::Params { seed, effort, elements: vec![600], ..model::Params::figure_9() };
        model::table(&model::run(&params, &mut |_| true).expect("it can be measured")).to_tsv()
    };
    assert_eq!(with(1, 1), with(1, 2));
    assert_ne!(with(1, 1), with(2, 1));
}

#[test]
fn a_watcher_can_stop_it() {
    let stopped = Err(RunError::Stopped);
    let mut never = |_: f64| false;
    assert_eq!(membership::run(&membership::Params::default(), &mut never), stopped.clone().map(|()| vec![]));
    assert_eq!(adapt::run(&adapt::Params::default(), &mut never), stopped.clone().map(|()| vec![]));
    assert_eq!(retries::run(&retries::Params::default(), &mut never), stopped.clone().map(|()| vec![]));
    assert_eq!(recyclable::run(&recyclable::Params::default(), &mut never), stopped.map(|()| vec![]));
}

#[test]
fn impossible_loads_are_refused() {
    let point = |time_ms, rate| LoadPoint { time_ms, rate };
    for load in [vec![], vec![point(5, 1.0), point(5, 2.0)], vec![point(0, f64::NAN)], vec![point(0, -1.0)]] {
        let params = adapt::Params { load, ..adapt::Params::default() };
        let Err(Refused { flag, .. }) = adapt::check(&params) else { panic!("{params:?} was not refused") };
        assert_eq!(flag, "--load");
    }
    let settings = Settings { window_ms: 30_000, ..adapt::Params::default().settings };
    let params = adapt::Params { settings, ..adapt::Params::default() };
    assert_eq!(adapt::check(&params).map_err(|refused| refused.flag), Err("--window-ms"));
}
