//! How many elements arrive when.

use crate::run::{Refused, within};

/// The highest rate, per second: all elements of a window are kept in memory to see whether they are found.
pub const RATE_MAX: f64 = 10_000.0;

/// The most points of a load.
pub const LOAD_POINTS_MAX: usize = 1_000;

/// A load at a time. Between two of them it changes evenly.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LoadPoint {
    /// When.
    pub time_ms: u64,
    /// Elements per second.
    pub rate: f64,
}

/// Elements that arrive at a rate which changes over time, without any randomness.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Arrivals {
    owed: f64,
}

impl Arrivals {
    /// How many arrive in this millisecond.
    pub(super) fn in_one_ms(&mut self, rate: f64) -> u64 {
        self.owed += rate / 1_000.0;
        let mut due = 0;
        while self.owed >= 1.0 {
            self.owed -= 1.0;
            due += 1;
        }
        due
    }
}

/// The load at this time; after the last point that of the last.
pub(super) fn rate_at(points: &[LoadPoint], time_ms: u64) -> f64 {
    let next = points.partition_point(|point| point.time_ms <= time_ms);
    match (next.checked_sub(1).and_then(|last| points.get(last)), points.get(next)) {
        (Some(last), Some(next)) => {
            let share = (time_ms - last.time_ms) as f64 / (next.time_ms - last.time_ms) as f64;
            last.rate + share * (next.rate - last.rate)
        }
        (Some(only), None) | (None, Some(only)) => only.rate,
        (None, None) => 0.0,
    }
}

pub(super) fn check_load(points: &[LoadPoint]) -> Result<(), Refused> {
    let flag = "--load";
    if !(1..=LOAD_POINTS_MAX).contains(&points.len()) {
        return Err(Refused { flag, problem: format!("needs 1 to {LOAD_POINTS_MAX} points") });
    }
    points.iter().try_for_each(|point| within(flag, &point.rate, &(0.0..=RATE_MAX)))?;
    if points.is_sorted_by(|one, next| one.time_ms < next.time_ms) {
        return Ok(());
    }
    Err(Refused { flag, problem: "each point must be later than the one before".to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_evenly_between_points() {
        let points = [LoadPoint { time_ms: 0, rate: 10.0 }, LoadPoint { time_ms: 1_000, rate: 30.0 }];
        assert_eq!([0, 500, 1_000, 9_000].map(|at| rate_at(&points, at)), [10.0, 20.0, 30.0, 30.0]);
        let mut arrivals = Arrivals::default();
        let count: u64 = (0..1_000).map(|at| arrivals.in_one_ms(rate_at(&points, at))).sum();
        assert!((19..=20).contains(&count));
    }
}
