//! Whether the store answers at all. Each call to one that does not would wait for as long as a request may take, and hold
//! up a caller who has others to look after; while it is known to be away, calls fail at once.

use std::{
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use quipu_storage::{ShardId, StorageError};
use tokio::time::timeout;

use crate::{error::unanswered, fence, store::Link};

/// A store that takes longer than this to say who owns one shard is away.
const LOOK_WITHIN: Duration = Duration::from_secs(1);

/// What is known of the store.
#[derive(Debug, Default)]
pub(crate) struct Away {
    is_away: AtomicBool,
    /// A task looks whether it answers.
    is_watched: AtomicBool,
}

impl Away {
    pub(crate) fn is_away(&self) -> bool {
        self.is_away.load(Ordering::Acquire)
    }

    /// Refuses what would wait in vain.
    pub(crate) fn check(&self) -> Result<(), StorageError> {
        match self.is_away() {
            true => Err(unanswered("asking the store", "it does not answer at the moment")),
            false => Ok(()),
        }
    }
}

/// Takes note of how a request has ended: when one was not answered, a task looks until the store answers again. One
/// request that fails says little, so the store counts as away only if that look fails too.
pub(crate) fn note<T>(link: &Arc<Link>, result: &Result<T, StorageError>) {
    if matches!(result, Err(StorageError::Unanswered { .. }))
        && !link.away.is_watched.swap(true, Ordering::AcqRel)
    {
        tokio::spawn(look(Arc::downgrade(link)));
    }
}

/// Looks until the store answers, or until nobody uses it any more.
async fn look(link: Weak<Link>) {
    let Some(mut backoff) = link.upgrade().map(|link| link.backoff()) else { return };
    loop {
        let Some(link) = link.upgrade() else { return };
        let answers = matches!(timeout(LOOK_WITHIN, fence::standing(&link, ShardId(0))).await, Ok(Ok(_)));
        link.away.is_away.store(!answers, Ordering::Release);
        if answers {
            return link.away.is_watched.store(false, Ordering::Release);
        }
        drop(link);
        backoff.wait().await;
    }
}
