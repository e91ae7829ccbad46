//! Whether two hosts are in the same state, for tests that look at all states.

use std::fmt;

use xxhash_rust::xxh3::Xxh3;

use super::{Host, State};
use crate::Moment;

/// Hashes what is written to it.
struct Hashing(Xxh3);

impl fmt::Write for Hashing {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.update(text.as_bytes());
        Ok(())
    }
}

impl<L, T> Host<L, T> {
    /// A hash of all that its shards have in memory, and of their time. Two hosts over the same stored data with the same
    /// fingerprint do the same from now on. Call it between batches.
    pub fn fingerprint(&self, now: Moment) -> u128 {
        let mut hash = Hashing(Xxh3::new());
        for running in self.shards.iter().flatten() {
            let is_live = matches!(running.state, State::Live);
            let time_ms = running.clock.at(now).elapsed_ms;
            let described = fmt::write(
                &mut hash,
                format_args!("{:?}{is_live}{time_ms}{:?}", running.id, running.captured_ms),
            );
            described.and_then(|()| running.shard.describe(&mut hash)).expect("hashing does not fail");
        }
        hash.0.digest128()
    }
}
