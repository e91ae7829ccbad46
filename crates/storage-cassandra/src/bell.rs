//! Tells a log, and whoever drives it, that a commit under way has come to its end.

use std::{
    fmt,
    sync::{Arc, Condvar, Mutex},
    time::Instant,
};

const POISONED: &str = "a thread that waited for a commit panicked";

/// What is called when something has ended, from a thread of the driver: it must not take long.
pub(crate) type Tell = Arc<dyn Fn() + Send + Sync>;

/// Counts how often something has ended.
#[derive(Default)]
pub(crate) struct Bell {
    rung: Mutex<u64>,
    changed: Condvar,
    tell: Option<Tell>,
}

impl fmt::Debug for Bell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bell").field("rung", &self.rung).finish_non_exhaustive()
    }
}

impl Bell {
    pub(crate) fn new(tell: Option<Tell>) -> Self {
        Self { tell, ..Self::default() }
    }

    pub(crate) fn ring(&self) {
        *self.rung.lock().expect(POISONED) += 1;
        self.changed.notify_all();
        if let Some(tell) = &self.tell {
            tell();
        }
    }

    /// How often it has rung.
    pub(crate) fn count(&self) -> u64 {
        *self.rung.lock().expect(POISONED)
    }

    /// Waits until it has rung more often than that, or until then.
    pub(crate) fn wait(&self, count: u64, until: Instant) {
        let rung = self.rung.lock().expect(POISONED);
        let left = until.saturating_duration_since(Instant::now());
        // Whether it rang or the time is over: the caller looks again.
        drop(self.changed.wait_timeout_while(rung, left, |rung| *rung == count).expect(POISONED));
    }
}
