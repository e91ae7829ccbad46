//! How long to wait before something is tried again: longer each time, and never two the same.

use std::{
    hash::{BuildHasher, RandomState},
    time::Duration,
};

/// Doubles up to a limit. Each wait lies somewhere in the upper half, so that those who failed together do not come
/// back together.
#[derive(Debug, Clone)]
pub(crate) struct Backoff {
    next: Duration,
    max: Duration,
    random: RandomState,
    count: u64,
}

impl Backoff {
    pub(crate) fn new(first: Duration, max: Duration) -> Self {
        Self { next: first.min(max), max, random: RandomState::new(), count: 0 }
    }

    /// The next wait.
    pub(crate) fn next(&mut self) -> Duration {
        self.count += 1;
        let half = self.next / 2;
        self.next = (self.next * 2).min(self.max);
        let random = u32::try_from(self.random.hash_one(self.count) % 1024).unwrap_or(0);
        half + half * random / 1024
    }

    /// Waits.
    pub(crate) async fn wait(&mut self) {
        tokio::time::sleep(self.next()).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_grows_to_its_limit() {
        let (first, max) = (Duration::from_millis(10), Duration::from_millis(1000));
        let mut backoff = Backoff::new(first, max);
        let waits: Vec<_> = (0..12).map(|_| backoff.next()).collect();
        assert!(waits[0] >= first / 2 && waits[0] < first, "{waits:?}");
        assert!(waits[11] >= max / 2 && waits[11] < max, "{waits:?}");
        let mut other = Backoff::new(first, max);
        assert!((0..12).map(|_| other.next()).ne(waits.iter().copied()), "two of them keep in step");
    }
}
