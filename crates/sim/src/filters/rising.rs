//! Figures 11 and 12 alike: filters that differ in one thing, under a load that rises.

use super::load::Arrivals;
use super::probe::{Effort, Measured, measure};
use super::{Elements, FILTERS, rate};
use crate::report::{Cell, Table};
use crate::run::{RunError, Watch, go_on};
use quipu_crdt::bloom::{Forgetful, Settings};

/// How often one kind of filter errs at one moment.
///
/// The average over [`FILTERS`] of them whose refreshes are spread evenly over the period: just after a refresh
/// a filter errs less than just before, and that is not what is asked for here.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Reading {
    /// By the paper's equation 3.
    pub equation_3: f64,
    /// By the corrected model.
    pub corrected: f64,
    /// As it is; `None` if errors are too rare to be measured.
    pub measured: Option<Measured>,
}

/// Filters of one kind, each ahead of the one before by an equal part of the period.
pub(super) struct Group {
    filters: Vec<Forgetful>,
    elements: Vec<Elements>,
    ahead_ms: Vec<u64>,
}

impl Group {
    pub(super) fn new(settings: Settings, seed: u64) -> Self {
        let filters = vec![Forgetful::new(settings, 0).expect("the settings were checked"); FILTERS];
        let elements = (0..FILTERS).map(|stream| Elements::new(seed, stream)).collect();
        let parts = u64::try_from(FILTERS).expect("few");
        let ahead_ms = (0..parts).map(|part| settings.period_ms * part / parts).collect();
        Group { filters, elements, ahead_ms }
    }

    /// So many new elements at this time.
    pub(super) fn insert(&mut self, count: u64, now_ms: u64) {
        for ((filter, elements), ahead_ms) in
            self.filters.iter_mut().zip(&mut self.elements).zip(&self.ahead_ms)
        {
            filter.tick(now_ms + ahead_ms);
            (0..count).for_each(|_| filter.record(elements.next(), now_ms + ahead_ms));
        }
    }

    pub(super) fn read(
        &self,
        seed: u64,
        effort: &Effort,
        watch: &mut Watch<'_>,
    ) -> Result<Reading, RunError> {
        let corrected = self.average(Forgetful::estimate);
        let measured = if effort.can_show(corrected) {
            Some(measure(&self.filters, seed, effort, Forgetful::contains, watch)?)
        } else {
            None
        };
        Ok(Reading { equation_3: self.average(Forgetful::estimate_by_equation_3), corrected, measured })
    }

    fn average(&self, estimate: fn(&Forgetful) -> f64) -> f64 {
        self.filters.iter().map(estimate).sum::<f64>() / self.filters.len() as f64
    }
}

/// The readings at one rate.
#[derive(Debug, Clone, PartialEq)]
pub struct Moment {
    /// When.
    pub time_ms: u64,
    /// Elements per second by then.
    pub rate: f64,
    /// One for each kind of filter.
    pub readings: Vec<Reading>,
}

/// So much virtual time passes between two calls of the watcher while nothing is measured.
pub(super) const LOOK_UP_MS: u64 = 1_000;

/// Lets the load rise as `rate_at` says and reads all groups whenever it has come to the next of the rates.
pub(super) fn rise(
    kinds: &[Settings],
    rate_at: impl Fn(u64) -> f64,
    rates: &[f64],
    effort: &Effort,
    seed: u64,
    watch: &mut Watch<'_>,
) -> Result<Vec<Moment>, RunError> {
    let mut groups: Vec<Group> = kinds.iter().map(|settings| Group::new(*settings, seed)).collect();
    let (mut arrivals, mut time_ms) = (Arrivals::default(), 0);
    let mut moments = Vec::new();
    for &wanted in rates {
        while rate_at(time_ms) < wanted {
            let count = arrivals.in_one_ms(rate_at(time_ms));
            groups.iter_mut().for_each(|group| group.insert(count, time_ms));
            time_ms += 1;
            if time_ms.is_multiple_of(LOOK_UP_MS) {
                go_on(watch, moments.len() as f64 / rates.len() as f64)?;
            }
        }
        let all = (rates.len() * groups.len()) as f64;
        let mut readings = Vec::new();
        for group in &groups {
            let done = (moments.len() * groups.len() + readings.len()) as f64;
            readings.push(group.read(seed, effort, &mut |part| watch((done + part) / all))?);
        }
        moments.push(Moment { time_ms, rate: wanted, readings });
    }
    Ok(moments)
}

/// One row for each moment; the columns of each reading are named after its kind.
pub(super) fn table(kinds: &[String], moments: &[Moment]) -> Table {
    let of_kind =
        |kind: &String| ["measured", "corrected", "equation_3"].map(|column| format!("{column}_{kind}"));
    let columns = ["time_ms", "rate"].map(str::to_owned).into_iter().chain(kinds.iter().flat_map(of_kind));
    let mut table = Table::new(columns);
    for moment in moments {
        let mut row = vec![Cell::Count(moment.time_ms), Cell::Number(moment.rate)];
        for reading in &moment.readings {
            row.push(rate(reading.measured));
            row.push(Cell::Rate(reading.corrected));
            row.push(Cell::Rate(reading.equation_3));
        }
        table.push(row);
    }
    table
}
