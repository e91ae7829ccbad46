//! How far a run may go: so many events, and until its watcher has had enough.

use super::Millis;

/// The watcher is asked once in so many events.
const ASK_EVERY: u64 = 1 << 12;

/// More events than any run needs that comes to rest, without those that its clients cause.
const EVENTS_MAX: u64 = 10_000_000;
/// The most events that one client causes in a millisecond, on average.
const EVENTS_PER_CLIENT_MS: u64 = 1;

/// How a run is watched.
#[derive(Debug, Clone, Copy)]
pub struct Watching {
    /// Everything that happens is printed to the standard error.
    pub aloud: bool,
    /// Asked again and again, also in the middle of a run: go on?
    pub go_on: fn() -> bool,
}

impl Default for Watching {
    fn default() -> Self {
        Self { aloud: false, go_on: || true }
    }
}

/// What is left for a run. A run that comes to rest ends long before this does.
#[derive(Debug, Clone)]
pub(crate) struct Budget {
    events: u64,
    events_max: u64,
    go_on: fn() -> bool,
    /// The watcher has had enough.
    pub(crate) is_stopped: bool,
}

impl Budget {
    /// For a run in which so many clients are active for so long.
    pub(crate) fn new(clients: usize, active_ms: Millis, watching: Watching) -> Self {
        let of_clients = (clients as u64).saturating_mul(active_ms).saturating_mul(EVENTS_PER_CLIENT_MS);
        Self::of(EVENTS_MAX.saturating_add(of_clients), watching)
    }

    fn of(events_max: u64, watching: Watching) -> Self {
        Self { events: 0, events_max, go_on: watching.go_on, is_stopped: false }
    }

    /// One more event. The error is why there is none.
    pub(crate) fn spend(&mut self) -> Result<(), String> {
        self.events += 1;
        if self.events > self.events_max {
            return Err(format!("it does not come to rest: {} events have happened", self.events_max));
        }
        if self.events.is_multiple_of(ASK_EVERY) && !(self.go_on)() {
            self.is_stopped = true;
            return Err("stopped before the end".to_owned());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_ends_after_so_many_events_and_says_so() {
        let mut budget = Budget::of(3, Watching::default());
        assert!((0..3).all(|_| budget.spend().is_ok()));
        assert_eq!(budget.spend(), Err("it does not come to rest: 3 events have happened".to_owned()));
        assert!(!budget.is_stopped);
    }

    #[test]
    fn a_watcher_stops_a_run_in_the_middle() {
        let mut budget = Budget::of(u64::MAX, Watching { go_on: || false, ..Watching::default() });
        let spent = (0..2 * ASK_EVERY).take_while(|_| budget.spend().is_ok()).count() as u64;
        assert_eq!((spent, budget.is_stopped), (ASK_EVERY - 1, true));
    }
}
