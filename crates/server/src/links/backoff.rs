//! How long to wait before dialling again.

use std::time::Duration;

use crate::random::fraction;

/// After the first failure.
const FIRST: Duration = Duration::from_millis(100);
/// After many. A site that comes back is found within this time.
const LONGEST: Duration = Duration::from_secs(5);
/// After a refusal. Somebody has to repair something first.
const REFUSED_FIRST: Duration = Duration::from_secs(1);
/// After many refusals.
const REFUSED_LONGEST: Duration = Duration::from_secs(30);
/// Beyond this the wait does not grow anyway.
const DOUBLINGS_MAX: u32 = 16;

/// Waits that double, and differ a little so that sites that failed together do not all come back together.
#[derive(Debug, Default)]
pub(crate) struct BackOff {
    failures: u32,
}

impl BackOff {
    /// There was a link.
    pub(crate) fn reset(&mut self) {
        self.failures = 0;
    }

    /// The wait after a failure.
    pub(crate) fn failed(&mut self) -> Duration {
        self.next(FIRST, LONGEST)
    }

    /// The wait after a refusal.
    pub(crate) fn refused(&mut self) -> Duration {
        self.next(REFUSED_FIRST, REFUSED_LONGEST)
    }

    fn next(&mut self, first: Duration, longest: Duration) -> Duration {
        let wait = first.saturating_mul(1 << self.failures.min(DOUBLINGS_MAX)).min(longest);
        self.failures = self.failures.saturating_add(1);
        wait.mul_f64(0.5 + fraction() / 2.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_up_to_a_limit_and_begin_again() {
        let mut backoff = BackOff::default();
        let first = backoff.failed();
        assert!(first >= FIRST / 2 && first <= FIRST, "{first:?}");
        let waits: Vec<Duration> = (0..40).map(|_| backoff.failed()).collect();
        assert!(waits.iter().all(|wait| *wait <= LONGEST));
        assert!(waits[39] >= LONGEST / 2);
        assert!(backoff.refused() >= REFUSED_LONGEST / 2);
        backoff.reset();
        assert!(backoff.refused() <= REFUSED_FIRST);
    }
}
