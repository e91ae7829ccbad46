//! Figure 13: does resizing hold a target under a load that rises and falls?

use super::load::{Arrivals, LoadPoint, check_load, rate_at};
use super::printed::Printed;
use super::probe::{Effort, Measured, measure};
use super::{Elements, FILTERS, PERIOD_MS_MAX, check_settings, rate};
use crate::report::{Cell, Table};
use crate::run::{Refused, RunError, Watch, go_on, within};
use quipu_crdt::bloom::{Adaptive, BITS_MAX, ElementHash, Forgetful, Limits, PAST_MAX, Settings};
use std::collections::VecDeque;

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
    /// The share of elements inserted within the window that are not found, whose retries would count again:
    /// the most of all seconds since the row before.
    pub forgotten_percent: f64,
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
    let mut forgotten = Forgotten::default();
    let mut rows = Vec::new();
    for now_ms in 0..=params.end_ms {
        let load = rate_at(&params.load, now_ms);
        let count = arrivals.in_one_ms(load);
        trials.iter_mut().for_each(|trial| trial.insert(count, now_ms));
        if now_ms % REVIEW_MS != 0 {
            continue;
        }
        go_on(watch, now_ms as f64 / params.end_ms as f64)?;
        trials.iter_mut().for_each(|trial| trial.age(now_ms, params.settings.window_ms));
        forgotten.look(&trials);
        if now_ms % params.stats_ms == 0 {
            rows.push(row(params, &trials, now_ms, std::mem::take(&mut forgotten), watch)?);
        }
        for trial in &mut trials {
            policy.review(&mut trial.ours);
            trial.printed.review(&params.limits);
        }
    }
    Ok(rows)
}

/// Our filter and the paper's, with the same elements.
struct Trial {
    elements: Elements,
    ours: Forgetful,
    printed: Printed,
    /// What was inserted within the window, oldest first, and when.
    young: VecDeque<(u64, ElementHash)>,
}

impl Trial {
    fn new(params: &Params, stream: usize) -> Self {
        Trial {
            elements: Elements::new(params.seed, stream),
            ours: Forgetful::new(params.settings, 0).expect("the settings were checked"),
            printed: Printed::new(&params.settings),
            young: VecDeque::new(),
        }
    }

    fn insert(&mut self, count: u64, now_ms: u64) {
        self.ours.tick(now_ms);
        self.printed.tick(now_ms);
        for _ in 0..count {
            let element = self.elements.next();
            self.ours.record(element, now_ms);
            self.printed.record(element);
            self.young.push_back((now_ms, element));
        }
    }

    /// Lets go of what is older than the window.
    fn age(&mut self, now_ms: u64, window_ms: u64) {
        while self.young.front().is_some_and(|(at_ms, _)| now_ms - at_ms > window_ms) {
            self.young.pop_front();
        }
    }
}

type Finds = fn(&Trial, ElementHash) -> bool;
const IN_OURS: Finds = |trial, element| trial.ours.contains(element);
const IN_PRINTED: Finds = |trial, element| trial.printed.contains(element);

/// The most that has been forgotten of the window, in percent.
#[derive(Debug, Clone, Copy, Default)]
struct Forgotten {
    ours: f64,
    printed: f64,
}

impl Forgotten {
    fn look(&mut self, trials: &[Trial]) {
        let young = || trials.iter().flat_map(|trial| trial.young.iter().map(move |(_, one)| (trial, *one)));
        let all = young().count().max(1) as f64;
        let percent =
            |finds: Finds| 100.0 * young().filter(|(trial, one)| !finds(trial, *one)).count() as f64 / all;
        self.ours = self.ours.max(percent(IN_OURS));
        self.printed = self.printed.max(percent(IN_PRINTED));
    }
}

fn row(
    params: &Params,
    trials: &[Trial],
    now_ms: u64,
    forgotten: Forgotten,
    watch: &mut Watch<'_>,
) -> Result<Row, RunError> {
    // The same number of elements at the same times: all of them have been resized alike.
    let Trial { ours, printed, .. } = &trials[0];
    let mut watch = |_: f64| watch(now_ms as f64 / params.end_ms as f64);
    let mut measured = |finds: Finds, estimate: f64| {
        let seed = params.seed ^ now_ms;
        let worth_it = params.effort.can_show(estimate);
        worth_it.then(|| measure(trials, seed, &params.effort, finds, &mut watch)).transpose()
    };
    Ok(Row {
        time_ms: now_ms,
        rate: rate_at(&params.load, now_ms),
        bits: params.settings.bits << ours.doublings(),
        corrected: ours.estimate(),
        ours: State {
            filters: ours.filters().len(),
            period_ms: ours.settings().period_ms,
            equation_3: ours.estimate_by_equation_3(),
            measured: measured(IN_OURS, ours.estimate())?,
            forgotten_percent: forgotten.ours,
        },
        printed: State {
            filters: printed.filters(),
            period_ms: printed.period_ms(),
            equation_3: printed.estimate(),
            measured: measured(IN_PRINTED, printed.estimate())?,
            forgotten_percent: forgotten.printed,
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
            Cell::Number(ours.forgotten_percent),
            count(printed.filters),
            Cell::Number(printed.period_ms as f64 / 1_000.0),
            Cell::Rate(printed.equation_3),
            rate(printed.measured),
            Cell::Number(printed.forgotten_percent),
        ]);
    }
    table
}

fn count(number: usize) -> Cell {
    Cell::Count(u64::try_from(number).expect("64 bits"))
}
