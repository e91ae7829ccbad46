//! How long to wait after a failure.

use std::time::{Duration, Instant};

use crate::random::fraction;

/// Beyond this the wait does not grow anyway.
const DOUBLINGS_MAX: u32 = 16;

/// The first wait and the longest.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Waits {
    pub(crate) first: Duration,
    pub(crate) longest: Duration,
}

/// Waits that double, and differ, so that edges that failed together do not all come back together.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct BackOff {
    failures: u32,
    until: Option<Instant>,
}

impl BackOff {
    /// It went well.
    pub(crate) fn reset(&mut self) {
        *self = Self::default();
    }

    /// It failed, or led to nothing. Returns the wait: half of it is sure, half is drawn.
    pub(crate) fn failed(&mut self, waits: Waits, now: Instant) -> Duration {
        let wait = waits.first.saturating_mul(1 << self.failures.min(DOUBLINGS_MAX)).min(waits.longest);
        self.failures = self.failures.saturating_add(1);
        let wait = wait.mul_f64(0.5 + 0.5 * fraction());
        self.until = Some(now + wait);
        wait
    }

    /// May it be tried again?
    pub(crate) fn is_over(&self, now: Instant) -> bool {
        self.until.is_none_or(|until| until <= now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_longest_and_differ() {
        let waits = Waits { first: Duration::from_millis(100), longest: Duration::from_secs(5) };
        let now = Instant::now();
        let mut back_off = BackOff::default();
        assert!(back_off.is_over(now));
        for expected_ms in [100, 200, 400, 800, 1600, 3200, 5000, 5000] {
            let wait = back_off.failed(waits, now).as_millis();
            assert!((expected_ms / 2..=expected_ms).contains(&wait), "{wait} of {expected_ms}");
            assert!(!back_off.is_over(now));
            assert!(back_off.is_over(now + waits.longest));
        }
        for _ in 0..100 {
            back_off.failed(waits, now);
        }
        back_off.reset();
        assert!(back_off.is_over(now));
        let drawn: std::collections::BTreeSet<Duration> =
            (0..100).map(|_| BackOff::default().failed(waits, now)).collect();
        assert!(drawn.len() > 90, "{drawn:?}");
    }
}
