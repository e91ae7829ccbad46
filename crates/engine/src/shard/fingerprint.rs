//! All that a shard has in memory, for tests that ask whether two shards are in the same state.

use std::fmt;

use super::Shard;

impl Shard {
    /// Writes down everything that its answers and messages depend on. Call it between batches.
    pub(crate) fn describe(&self, to: &mut impl fmt::Write) -> fmt::Result {
        let Self { counters, summary, links, waiting, unsaved, saving, .. } = self;
        write!(to, "{counters:?}{summary:?}{links:?}{waiting:?}{unsaved:?}{saving:?}")?;
        let Self { complete, entries_unsaved, moved, incarnation, .. } = self;
        write!(to, "{complete}{entries_unsaved}{moved}{incarnation:?}")?;
        self.operations.describe(to)
    }
}
