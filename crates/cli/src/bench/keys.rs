//! Which key the next command is for.

use quipu_crdt::testing::Random;
use std::fmt::{self, Display, Formatter};
use std::str::FromStr;

/// The exponent that is common in benchmarks of key-value stores.
const ZIPF_THETA: f64 = 0.99;
const ZIPF_THETA_MAX: f64 = 5.0;

/// How commands spread over the keys.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Distribution {
    /// Every key as often as any other.
    Uniform,
    /// The i-th key in proportion to 1 / i^theta.
    Zipf { theta: f64 },
    /// All commands for one key.
    Hot,
}

impl FromStr for Distribution {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "uniform" => return Ok(Distribution::Uniform),
            "hot" => return Ok(Distribution::Hot),
            "zipf" => return Ok(Distribution::Zipf { theta: ZIPF_THETA }),
            _ => {}
        }
        let theta = text.strip_prefix("zipf:").and_then(|theta| theta.parse().ok());
        match theta.filter(|theta| *theta > 0.0 && *theta <= ZIPF_THETA_MAX) {
            Some(theta) => Ok(Distribution::Zipf { theta }),
            None => Err(format!(
                "use uniform, hot, zipf, or zipf:THETA with THETA above 0 and at most {ZIPF_THETA_MAX}"
            )),
        }
    }
}

impl Display for Distribution {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Distribution::Uniform => f.write_str("uniform"),
            Distribution::Zipf { theta } => write!(f, "zipf:{theta}"),
            Distribution::Hot => f.write_str("hot"),
        }
    }
}

/// Draws keys, numbered from 0.
#[derive(Debug, Clone)]
pub(super) enum Keys {
    Uniform { keys: usize },
    Zipf(Zipf),
    Hot,
}

impl Keys {
    pub(super) fn new(distribution: Distribution, keys: u32) -> Self {
        match distribution {
            Distribution::Uniform => Keys::Uniform { keys: keys as usize },
            Distribution::Zipf { theta } => Keys::Zipf(Zipf::new(keys, theta)),
            Distribution::Hot => Keys::Hot,
        }
    }

    pub(super) fn draw(&self, random: &mut Random) -> u64 {
        match self {
            Keys::Uniform { keys } => random.below(*keys) as u64,
            Keys::Zipf(zipf) => zipf.draw(random) - 1,
            Keys::Hot => 0,
        }
    }
}

/// Ranks in proportion to 1 / rank^theta, exactly, without a table: a point under the curve x^-theta is drawn by
/// inverting its integral, rounded to a rank, and drawn again in the rare case that it lies outside the rank's bar
/// ("Rejection-inversion to generate variates from monotone discrete distributions", Hörmann and Derflinger).
#[derive(Debug, Clone)]
pub(super) struct Zipf {
    ranks: f64,
    theta: f64,
    /// The integral from 1 to where the curve begins and ends.
    area: std::ops::Range<f64>,
    /// So far left of its rank a point is always inside the bar.
    safe: f64,
}

impl Zipf {
    fn new(ranks: u32, theta: f64) -> Self {
        let ranks = f64::from(ranks);
        let area = integral(1.5, theta) - 1.0..integral(ranks + 0.5, theta);
        let safe = 2.0 - inverse_integral(integral(2.5, theta) - 2f64.powf(-theta), theta);
        Zipf { ranks, theta, area, safe }
    }

    /// A rank from 1.
    fn draw(&self, random: &mut Random) -> u64 {
        loop {
            let area = self.area.end + random.unit() * (self.area.start - self.area.end);
            let point = inverse_integral(area, self.theta);
            let rank = point.round().clamp(1.0, self.ranks);
            let inside = rank - point <= self.safe
                || area >= integral(rank + 0.5, self.theta) - rank.powf(-self.theta);
            if inside {
                #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "1 to 2^32")]
                return rank as u64;
            }
        }
    }
}

/// The integral of x^-theta from 1 to x.
fn integral(x: f64, theta: f64) -> f64 {
    let power = 1.0 - theta;
    if power.abs() < 1e-9 { x.ln() } else { (x.powf(power) - 1.0) / power }
}

fn inverse_integral(area: f64, theta: f64) -> f64 {
    let power = 1.0 - theta;
    if power.abs() < 1e-9 { area.exp() } else { (1.0 + area * power).max(0.0).powf(1.0 / power) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zipf_ranks_come_in_their_proportions() {
        const DRAWS: u32 = 400_000;
        for (keys, theta) in [(1, 0.99), (2, 1.0), (10, 0.5), (1_000, 0.99), (1_000, 1.0), (1_000, 2.0)] {
            let zipf = Keys::new(Distribution::Zipf { theta }, keys);
            let mut random = Random::new(7);
            let mut counts = vec![0u32; keys as usize];
            for _ in 0..DRAWS {
                let key = usize::try_from(zipf.draw(&mut random)).expect("a small number");
                counts[key] += 1;
            }
            let total: f64 = (1..=keys).map(|rank| f64::from(rank).powf(-theta)).sum();
            for (rank, &count) in (1..=keys).zip(&counts) {
                let expected = f64::from(DRAWS) * f64::from(rank).powf(-theta) / total;
                let tolerance = 5.0 * expected.sqrt() + 5.0;
                assert!(
                    (f64::from(count) - expected).abs() < tolerance,
                    "{keys} {theta}: rank {rank}: {count}, expected {expected}"
                );
            }
        }
    }

    #[test]
    fn uniform_reaches_every_key_and_hot_one() {
        let mut random = Random::new(3);
        let uniform = Keys::new(Distribution::Uniform, 10);
        let mut seen = [false; 10];
        for _ in 0..1_000 {
            seen[usize::try_from(uniform.draw(&mut random)).expect("below 10")] = true;
        }
        assert_eq!(seen, [true; 10]);
        assert_eq!(Keys::new(Distribution::Hot, 10).draw(&mut random), 0);
    }

    #[test]
    fn distributions_are_read_and_written() {
        for text in ["uniform", "hot", "zipf:0.99", "zipf:1.5"] {
            assert_eq!(text.parse::<Distribution>().expect("a distribution").to_string(), text);
        }
        assert_eq!("zipf".parse(), Ok(Distribution::Zipf { theta: 0.99 }));
        for wrong in ["", "zipf:", "zipf:0", "zipf:-1", "zipf:NaN", "zipf:6", "Uniform", "normal"] {
            assert!(wrong.parse::<Distribution>().is_err(), "{wrong}");
        }
    }
}
