//! How long one message takes, as a distribution over whole milliseconds.

use super::Millis;
use quipu_crdt::testing::Random;

/// Probabilities below this are left to the last value.
const TAIL_MIN: f64 = 1e-18;

/// The longest a message may take, in milliseconds, beside the constant part.
const SPREAD_MS_MAX: usize = 1 << 16;

/// A delay: a constant, or a constant and a random part. Drawn in constant time from a table (Walker's alias
/// method: each column holds two values and where they part).
#[derive(Debug, Clone)]
pub struct Delay {
    constant_ms: Millis,
    /// As many as a power of two; none if the delay is constant.
    columns: Vec<Column>,
    column_bits: u32,
}

#[derive(Debug, Clone, Copy)]
struct Column {
    /// Below this, the value is the column's own number; else the other.
    part: u64,
    other: u32,
}

impl Delay {
    /// Always the same.
    pub fn constant(ms: Millis) -> Self {
        Delay { constant_ms: ms, columns: Vec::new(), column_bits: 0 }
    }

    /// A constant and a Weibull distribution, rounded down to whole milliseconds: how long messages take on
    /// the Internet (“Weibull mixture model to characterise end-to-end Internet delay at coarse time-scales”,
    /// Hernandez and Phillips).
    ///
    /// # Panics
    /// If shape or scale is not positive.
    pub fn weibull(constant_ms: Millis, shape: f64, scale_ms: f64) -> Self {
        assert!(shape > 0.0 && scale_ms > 0.0, "a Weibull distribution has a positive shape and scale");
        let longer_than = |ms: usize| (-(ms as f64 / scale_ms).powf(shape)).exp();
        let values = (1..SPREAD_MS_MAX).find(|&ms| longer_than(ms) < TAIL_MIN).unwrap_or(SPREAD_MS_MAX);
        let weights: Vec<f64> = (0..values).map(|ms| longer_than(ms) - longer_than(ms + 1)).collect();
        Delay { constant_ms, ..Self::from_weights(&weights) }
    }

    /// Vose's way to fill the table: each column takes what is missing from a value that has too much.
    fn from_weights(weights: &[f64]) -> Self {
        let len = weights.len().next_power_of_two();
        let total: f64 = weights.iter().sum();
        let mut share: Vec<f64> = weights.iter().map(|weight| weight / total * len as f64).collect();
        share.resize(len, 0.0);
        let full = u64::MAX;
        let number = |column: usize| u32::try_from(column).expect("fewer values than 2^32");
        let mut columns: Vec<Column> =
            (0..len).map(|column| Column { part: full, other: number(column) }).collect();
        let (mut small, mut large): (Vec<usize>, Vec<usize>) = (0..len).partition(|&c| share[c] < 1.0);
        while let (Some(low), Some(&high)) = (small.pop(), large.last()) {
            columns[low] = Column { part: to_part(share[low]), other: number(high) };
            share[high] -= 1.0 - share[low];
            if share[high] < 1.0 {
                large.pop();
                small.push(high);
            }
        }
        Delay { constant_ms: 0, columns, column_bits: len.trailing_zeros() }
    }

    /// One delay. A constant one draws nothing.
    #[inline]
    pub fn draw(&self, random: &mut Random) -> Millis {
        if self.columns.is_empty() {
            return self.constant_ms;
        }
        let bits = random.bits();
        let own = bits & ((1 << self.column_bits) - 1);
        let column = self.columns[usize::try_from(own).expect("masked")];
        let value = if bits >> self.column_bits << self.column_bits < column.part {
            own
        } else {
            column.other.into()
        };
        self.constant_ms + value
    }
}

/// A share in [0, 1) as a part of all 64-bit numbers.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share is in [0, 1)")]
fn to_part(share: f64) -> u64 {
    (share.clamp(0.0, 1.0) * 2f64.powi(64)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How often each delay came in a million draws.
    fn histogram(delay: &Delay) -> Vec<u32> {
        let mut random = Random::stream(1, "delay");
        let mut counts = vec![0; 2_000];
        for _ in 0..1_000_000 {
            counts[usize::try_from(delay.draw(&mut random)).expect("short")] += 1;
        }
        counts
    }

    #[test]
    fn a_constant_delay_is_constant_and_draws_nothing() {
        let mut random = Random::new(3);
        let before = random.clone().bits();
        assert_eq!(Delay::constant(80).draw(&mut random), 80);
        assert_eq!(random.bits(), before);
    }

    #[test]
    fn weibull_delays_have_the_shape_of_the_formula() {
        for (constant, scale) in [(25, 25.0), (50, 50.0)] {
            let counts = histogram(&Delay::weibull(constant, 2.0, scale));
            let constant = usize::try_from(constant).expect("small");
            assert!(counts[..constant].iter().all(|&count| count == 0), "shorter than the constant part");
            for (spread, &count) in counts[constant..].iter().enumerate() {
                let survival = |ms: usize| (-(ms as f64 / scale).powi(2)).exp();
                let expected = 1e6 * (survival(spread) - survival(spread + 1));
                let error = (f64::from(count) - expected).abs();
                assert!(
                    error < 6.0 * expected.sqrt() + 6.0,
                    "{spread} ms came {count} times, not {expected}"
                );
            }
        }
    }

    #[test]
    fn other_shapes_have_their_mean() {
        // The mean of Weibull(1, 40), an exponential, is 40; rounding down takes about a half.
        let counts = histogram(&Delay::weibull(0, 1.0, 40.0));
        let sum: f64 = counts.iter().enumerate().map(|(ms, &count)| ms as f64 * f64::from(count)).sum();
        assert!((sum / 1e6 - 39.5).abs() < 0.2, "{}", sum / 1e6);
    }
}
