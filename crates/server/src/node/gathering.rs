//! A worker gathers commands between two commits on a store that is far away.
//!
//! When a commit ends, all whose commands were in it are answered at once, and most of them ask again at once. If the next
//! commit began with those alone that had waited meanwhile, there would be two crowds of which one always waits for the
//! other's commit, each half as large as one batch could be; and clients that ask for several shards at a time would be
//! held up by shards that are out of step. So no commit begins until as many are there as there were before, or a part
//! of the time has passed that the last commit took. Who is alone never waits.

use std::time::{Duration, Instant};

/// It takes at most this part of the commit before it,
const PART_OF_COMMIT: u32 = 2;
/// and at most so long.
const GATHER_MAX: Duration = Duration::from_millis(20);

#[derive(Debug, Default)]
pub(super) struct Gathering {
    /// So many commands were there together.
    crowd: usize,
    /// It goes on until then.
    until: Option<Instant>,
}

impl Gathering {
    /// A commit has ended that took so long. With its commands and those that wait so many are there.
    pub(super) fn begin(&mut self, took: Duration, present: usize, now: Instant) {
        self.crowd = self.crowd.max(present);
        let until = now + (took / PART_OF_COMMIT).min(GATHER_MAX);
        self.until = Some(self.until.map_or(until, |before| before.max(until)));
    }

    pub(super) fn is_on(&self) -> bool {
        self.until.is_some()
    }

    /// Ends it if so many that are there are enough, or its time is over: then those that are missing are not expected
    /// any more.
    pub(super) fn look(&mut self, present: usize, now: Instant) {
        if self.left(present, now) == Some(Duration::ZERO) {
            self.end();
            self.crowd = present;
        }
    }

    pub(super) fn end(&mut self) {
        self.until = None;
    }

    /// How long it goes on at most, if it is on.
    pub(super) fn left(&self, present: usize, now: Instant) -> Option<Duration> {
        let left = |until: Instant| until.saturating_duration_since(now);
        self.until.map(|until| if present >= self.crowd { Duration::ZERO } else { left(until) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn it_ends_when_all_are_back() {
        let now = Instant::now();
        let mut gathering = Gathering::default();
        gathering.begin(8 * MS, 5, now);
        assert_eq!(gathering.left(4, now), Some(4 * MS));
        gathering.look(4, now + MS);
        assert!(gathering.is_on());
        gathering.look(5, now + MS);
        assert!(!gathering.is_on());
    }

    #[test]
    fn who_does_not_come_back_is_waited_for_once() {
        let now = Instant::now();
        let mut gathering = Gathering::default();
        gathering.begin(8 * MS, 5, now);
        gathering.look(3, now + 4 * MS);
        assert!(!gathering.is_on());
        gathering.begin(8 * MS, 3, now);
        gathering.look(3, now);
        assert!(!gathering.is_on());
    }

    #[test]
    fn it_takes_no_longer_than_it_may() {
        let now = Instant::now();
        let mut gathering = Gathering::default();
        assert_eq!(gathering.left(0, now), None);
        gathering.begin(2000 * MS, 2, now);
        assert_eq!(gathering.left(1, now), Some(GATHER_MAX));
        gathering.begin(MS, 2, now);
        assert_eq!(gathering.left(1, now), Some(GATHER_MAX), "the longer one counts");
        gathering.end();
        assert_eq!(gathering.left(1, now), None);
    }
}
