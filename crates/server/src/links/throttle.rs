//! So many lines of the log in so much time: whoever connects again and again must not fill a disk with complaints.

use std::{
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

/// So many lines
const LINES_MAX: u32 = 20;
/// in so much time.
const PERIOD: Duration = Duration::from_secs(10);

/// Counts lines.
#[derive(Debug, Default)]
pub(crate) struct Throttle(Mutex<Option<Period>>);

#[derive(Debug)]
struct Period {
    began: Instant,
    lines: u32,
}

/// Is a line to be written?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Write,
    /// The last one for a while; it should say so.
    WriteLast,
    Omit,
}

impl Throttle {
    pub(crate) fn ask(&self, now: Instant) -> Verdict {
        let mut period = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let current = match &mut *period {
            Some(current) if now.duration_since(current.began) < PERIOD => current,
            over => over.insert(Period { began: now, lines: 0 }),
        };
        current.lines = current.lines.saturating_add(1);
        match current.lines {
            0..LINES_MAX => Verdict::Write,
            LINES_MAX => Verdict::WriteLast,
            _ => Verdict::Omit,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_and_then_none_until_the_next_period() {
        let (throttle, start) = (Throttle::default(), Instant::now());
        for _ in 1..LINES_MAX {
            assert_eq!(throttle.ask(start), Verdict::Write);
        }
        assert_eq!(throttle.ask(start), Verdict::WriteLast);
        assert_eq!(throttle.ask(start + PERIOD / 2), Verdict::Omit);
        assert_eq!(throttle.ask(start + PERIOD), Verdict::Write);
    }
}
