//! Two contestants side by side: the ratio in each round, and over the rounds its median and its spread.

use super::round::Measured;

/// The middle of some numbers, and their ends.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Spread {
    pub(super) median: f64,
    pub(super) least: f64,
    pub(super) most: f64,
}

impl Spread {
    /// Of none there is none.
    pub(super) fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        let (&least, &most) = (values.first()?, values.last()?);
        let middle = values.len() / 2;
        let median =
            if values.len() % 2 == 1 { values[middle] } else { (values[middle - 1] + values[middle]) / 2.0 };
        Some(Spread { median, least, most })
    }
}

/// The first contestant in units of the second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Ratios {
    pub(super) throughput: Spread,
    pub(super) p50: Spread,
    pub(super) p99: Spread,
}

/// Over the rounds that both have finished; none if there is no such round.
pub(super) fn ratios(first: &[Measured], second: &[Measured]) -> Option<Ratios> {
    let over_rounds = |number: fn(&Measured) -> f64| {
        Spread::of(first.iter().zip(second).map(|(first, second)| number(first) / number(second)))
    };
    Some(Ratios {
        throughput: over_rounds(Measured::per_second)?,
        p50: over_rounds(|measured| quantile_ns(measured, 0.5))?,
        p99: over_rounds(|measured| quantile_ns(measured, 0.99))?,
    })
}

/// At least one, so that a ratio is a number.
pub(super) fn quantile_ns(measured: &Measured, quantile: f64) -> f64 {
    measured.latency.value_at_quantile(quantile).max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_and_its_spread() {
        assert_eq!(Spread::of([]), None);
        assert_eq!(Spread::of([2.0]), Some(Spread { median: 2.0, least: 2.0, most: 2.0 }));
        assert_eq!(Spread::of([9.0, 1.0, 2.0]), Some(Spread { median: 2.0, least: 1.0, most: 9.0 }));
        assert_eq!(Spread::of([9.0, 1.0, 2.0, 4.0]), Some(Spread { median: 3.0, least: 1.0, most: 9.0 }));
    }
}
