//! Figure 13: does resizing hold a target under a load that rises and falls?

use super::load::{Arrivals, LoadPoint, check_load, rate_at};
use super::printed::Printed;
use super::probe::{Effort, Measured, measure};
use super::{Elements, FILTERS, PERIOD_MS_MAX, check_settings, rate};
use crate::report::{Cell, Table};
use crate::run::{Refused, RunError, Watch, go_on, within};
use quipu_crdt::bloom::{Adaptive, BITS_MAX, ElementHash, Forgetful, Limits, PAST_MAX, Settings};

/// What to measure.
#[derive(Debug, Clone, PartialEq)]
pub struct Params {
    /// The filter to begin with; in the paper a basic one of 6,250 bits, 5 hash functions and a period of 11 s.
    /// The window is not in the paper.
    pub settings: Settings,
    /// How far resizing may go. The paper gives none of the limits and not the target.
    pub limits: Limits,
    /// How many elements arrive when. The paper says only that they become more, fewer from 19 s on, and more
    /// again.
    pub load: Vec<LoadPoint>,
    /// How long it lasts.
    pub end_ms: u64,
    /// The time between two rows, in whole seconds.
    pub stats_ms: u64,
    /// How long to look for errors. Where a rate is held just below its target, a tenth is not accurate enough.
    pub effort: Effort,
    /// Same seed, same result.
    pub seed: u64,
}

/// The period of reviews, as in the paper.
pub const REVIEW_MS: u64 = 1_000;

/// The longest run: an hour.
pub const END_MS_MAX: u64 = 3_600_000;

impl Default for Params {
    fn default() -> Self {
        let point = |time_ms, rate| LoadPoint { time_ms, rate };
        Params {
            settings: Settings { bits: 6_250, hashes: 5, past: 1, period_ms: 11_000, window_ms: 20_000 },
            limits: Limits {
                target: 0.01,
                past_min: 1,
                past_max: 22,
                period_ms_min: 1_000,
                period_ms_max: 13_000,
                period_ms_step: 1_000,
                bits_max: 50_000,
            },
            load: vec![point(0, 10.0), point(600_000, 60.0), point(660_000, 10.0)],
            end_ms: 720_000,
            stats_ms: 2_000,
            effort: Effort { found_enough: 1_000, probes_max: 10_000_000, ..Effort::default() },
            seed: 1,
        }
    }
}

/// How a filter is doing.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct State {
    /// How many filters it consists of.
    pub filters: usize,
    /// The refresh period.
    pub period_ms: u64,
    /// By the paper's equation 3.
    pub equation_3: f64,
    /// As it is; `None` if errors are too rare to be measured.
    pub measured: Option<Measured>,
    /// Elements inserted within the window.
    pub young: usize,
    /// Those of them that are not found: their retries would count again.
    pub forgotten: usize,
}

/// One moment.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Row {
    /// When.
    pub time_ms: u64,
    /// Elements per second.
    pub rate: f64,
    /// Our filter.
    pub ours: State,
    /// Bits of our newest filter.
    pub bits: u64,
    /// By the corrected model.
    pub corrected: f64,
    /// The filter as the paper resizes it.
    pub printed: State,
}

/// Can this be measured?
pub fn check(params: &Params) -> Result<(), Refused> {
    check_settings(&params.settings)?;
    let Limits { target, past_min, past_max, period_ms_min, period_ms_max, period_ms_step, bits_max } =
        params.limits;
    if !(target > 0.0 && target < 1.0) {
        return Err(Refused { flag: "--target", problem: format!("{target} is not between 0 and 1") });
    }
    within("--past-max", &past_max, &(1..=PAST_MAX))?;
    within("--past-min", &past_min, &(1..=past_max))?;
    within("--period-ms-max", &period_ms_max, &(1..=PERIOD_MS_MAX))?;
    within("--period-ms-min", &period_ms_min, &(1..=period_ms_max))?;
    within("--period-ms-step", &period_ms_step, &(1..=PERIOD_MS_MAX))?;
    within("--bits-max", &bits_max, &(params.settings.bits..=BITS_MAX))?;
    check_load(&params.load)?;
    within("--end-ms", &params.end_ms, &(REVIEW_MS..=END_MS_MAX))?;
    if params.stats_ms == 0 || !params.stats_ms.is_multiple_of(REVIEW_MS) {
        let problem = format!("{} is not a multiple of {REVIEW_MS} above 0", params.stats_ms);
        return Err(Refused { flag: "--stats-ms", problem });
    }
    params.effort.check()
}

/// Inserts at the rate of the load; reviews every second, and measures before it from time to time.
pub fn run(params: &Params, watch: &mut Watch<'_>) -> Result<Vec<Row>, RunError> {
    check(params)?;
    let policy = Adaptive::new(params.limits).expect("the limits were checked");
    let mut trials: Vec<Trial> = (0..FILTERS).map(|stream| Trial::new(params, stream)).collect();
    let mut arrivals = Arrivals::default();
    let mut rows = Vec::new();
    for now_ms in 0..=params.end_ms {
        let load = rate_at(&params.load, now_ms);
        let count = arrivals.in_one_ms(load);
        trials.iter_mut().for_each(|trial| trial.insert(count, now_ms));
        if now_ms % REVIEW_MS == 0 {
            go_on(watch, now_ms as f64 / params.end_ms as f64)?;
            if now_ms % params.stats_ms == 0 {
                rows.push(row(params, &trials, now_ms, load, watch)?);
            }
            for trial in &mut trials {
                policy.review(&mut trial.ours);
                trial.printed.review(&params.limits);
            }
        }
    }
    Ok(rows)
}

/// Our filter and the paper's, with the same elements.
struct Trial {
    elements: Elements,
    ours: Forgetful,
    printed: Printed,
    inserted: Vec<(u64, ElementHash)>,
}

impl Trial {
    fn new(params: &Params, stream: usize) -> Self {
        Trial {
            elements: Elements::new(params.seed, stream),
            ours: Forgetful::new(params.settings, 0).expect("the settings were checked"),
            printed: Printed::new(&params.settings),
            inserted: Vec::new(),
        }
    }

    fn insert(&mut self, count: u64, now_ms: u64) {
        self.ours.tick(now_ms);
        self.printed.tick(now_ms);
        for _ in 0..count {
            let element = self.elements.next();
            self.ours.record(element, now_ms);
            self.printed.record(element);
            self.inserted.push((now_ms, element));
        }
    }

    /// The elements of the last so many milliseconds.
    fn young(&self, now_ms: u64, window_ms: u64) -> impl Iterator<Item = ElementHash> {
        let since_ms = now_ms.saturating_sub(window_ms);
        let first = self.inserted.partition_point(|(at_ms, _)| *at_ms < since_ms);
        self.inserted[first..].iter().map(|(_, element)| *element)
    }
}

fn row(
    params: &Params,
    trials: &[Trial],
    now_ms: u64,
    load: f64,
    watch: &mut Watch<'_>,
) -> Result<Row, RunError> {
    let Params { settings, effort, seed, .. } = params;
    // The same number of elements at the same times: all of them have been resized alike.
    let Trial { ours, printed, .. } = &trials[0];
    let mut watch = |_: f64| watch(now_ms as f64 / params.end_ms as f64);
    let mut rate_of =
        |finds: fn(&Trial, ElementHash) -> bool| measure(trials, *seed ^ now_ms, effort, finds, &mut watch);
    let young = |trial: &Trial| trial.young(now_ms, settings.window_ms).count();
    let forgotten = |finds: fn(&Trial, ElementHash) -> bool| {
        let of_trial = |trial: &Trial| {
            trial.young(now_ms, settings.window_ms).filter(|element| !finds(trial, *element)).count()
        };
        trials.iter().map(of_trial).sum()
    };
    let in_ours: fn(&Trial, ElementHash) -> bool = |trial, element| trial.ours.contains(element);
    let in_printed: fn(&Trial, ElementHash) -> bool = |trial, element| trial.printed.contains(element);
    let can_show = effort.can_show(ours.estimate());
    let can_show_printed = effort.can_show(printed.estimate());
    let young = trials.iter().map(young).sum();
    Ok(Row {
        time_ms: now_ms,
        rate: load,
        bits: settings.bits << ours.doublings(),
        corrected: ours.estimate(),
        ours: State {
            filters: ours.filters().len(),
            period_ms: ours.settings().period_ms,
            equation_3: ours.estimate_by_equation_3(),
            measured: if can_show { Some(rate_of(in_ours)?) } else { None },
            young,
            forgotten: forgotten(in_ours),
        },
        printed: State {
            filters: printed.filters(),
            period_ms: printed.period_ms(),
            equation_3: printed.estimate(),
            measured: if can_show_printed { Some(rate_of(in_printed)?) } else { None },
            young,
            forgotten: forgotten(in_printed),
        },
    })
}

/// The rows as a table.
pub fn table(rows: &[Row]) -> Table {
    let mut table = Table::new([
        "time_s",
        "rate",
        "filters",
        "period_s",
        "bits",
        "equation_3",
        "corrected",
        "measured",
        "forgotten_percent",
        "printed_filters",
        "printed_period_s",
        "printed_equation_3",
        "printed_measured",
        "printed_forgotten_percent",
    ]);
    for Row { time_ms, rate: load, ours, bits, corrected, printed } in rows {
        table.push(vec![
            Cell::Count(time_ms / 1_000),
            Cell::Number(*load),
            count(ours.filters),
            Cell::Number(ours.period_ms as f64 / 1_000.0),
            Cell::Count(*bits),
            Cell::Rate(ours.equation_3),
            Cell::Rate(*corrected),
            rate(ours.measured),
            percent(ours),
            count(printed.filters),
            Cell::Number(printed.period_ms as f64 / 1_000.0),
            Cell::Rate(printed.equation_3),
            rate(printed.measured),
            percent(printed),
        ]);
    }
    table
}

fn count(number: usize) -> Cell {
    Cell::Count(u64::try_from(number).expect("64 bits"))
}

fn percent(state: &State) -> Cell {
    Cell::Number(100.0 * state.forgotten as f64 / state.young.max(1) as f64)
}
