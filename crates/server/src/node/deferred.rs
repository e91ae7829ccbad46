//! What has come for shards whose commit is under way. It waits until that has come to its end, and is then the next batch.

use std::collections::BTreeMap;

use quipu_engine::{OwnedCommand, Ticket};
use quipu_storage::ShardId;

use super::mail::Mail;

/// Something that waits.
#[derive(Debug)]
pub(super) enum Late {
    Command(Ticket, OwnedCommand),
    Mail(Mail),
}

/// What waits, in the order in which it came.
#[derive(Debug, Default)]
pub(super) struct Deferred(BTreeMap<ShardId, Vec<Late>>);

impl Deferred {
    pub(super) fn push(&mut self, shard: ShardId, late: Late) {
        self.0.entry(shard).or_default().push(late);
    }

    /// What waits for shards that are free.
    pub(super) fn take(&mut self, is_free: impl Fn(ShardId) -> bool) -> Vec<(ShardId, Vec<Late>)> {
        self.0.extract_if(.., |shard, _| is_free(*shard)).collect()
    }
}
