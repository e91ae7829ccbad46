//! `quipu restore`: makes a folder that is a copy the folder of a new incarnation of its site, so that nothing is counted
//! twice: what the old one counted stays counted under the old id, as far as the copy or any peer knows.

use std::{path::Path, path::PathBuf, sync::Arc, time::SystemTime};

use quipu_engine::{Host, Moment, OpenError, Settings, SiteId, council::BadChange};
use quipu_storage::{
    Checkpointer, Flush, StorageError, Store,
    embedded::{Embedded, LogConfig},
};

use super::{FolderError, identity::Plan, millis};
use crate::random::random;

/// Why a folder was not restored. What was done of it is gone on with when it is said again; until then nothing is served
/// from the folder.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// There is none.
    #[error("{}: there is no data folder; nothing was changed. Name the copy with --data", folder.display())]
    NoFolder {
        /// What was named.
        folder: PathBuf,
    },
    /// The store failed.
    #[error("{}: {why}", folder.display())]
    Storage {
        /// The folder.
        folder: PathBuf,
        /// What is wrong.
        why: StorageError,
    },
    /// The folder cannot be read.
    #[error("{}: {why}", folder.display())]
    Folder {
        /// The folder.
        folder: PathBuf,
        /// What is wrong.
        why: FolderError,
    },
    /// A shard cannot be opened or written.
    #[error("{}: {why}; run the command again, which goes on", folder.display())]
    Shard {
        /// The folder.
        folder: PathBuf,
        /// What is wrong.
        why: OpenError,
    },
    /// It cannot go on under this id.
    #[error("{}: {why}", folder.display())]
    Change {
        /// The folder.
        folder: PathBuf,
        /// What is wrong.
        why: BadChange,
    },
}

/// A folder that was restored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Restored {
    /// What it was.
    pub old: SiteId,
    /// What it is.
    pub new: SiteId,
    /// How many changes of its own the copy has, in all shards.
    pub changes: u64,
    /// Is there no other site, so that it serves at once?
    pub is_alone: bool,
}

/// Gives a folder that is a copy a new incarnation: the next one, or this.
pub fn restore(folder: &Path, incarnation: Option<u16>) -> Result<Restored, RestoreError> {
    let at = || folder.to_owned();
    if !folder.join("FORMAT").exists() {
        return Err(RestoreError::NoFolder { folder: at() });
    }
    let storage = |why| RestoreError::Storage { folder: at(), why };
    let embedded = Embedded::open(folder, LogConfig::default()).map_err(storage)?;
    let failed = |why| RestoreError::Folder { folder: at(), why };
    let plan = Plan::begin(embedded.table(), incarnation).map_err(failed)?;
    // An interruption may have left the last steps to be done.
    let is_new = plan.council.site() == plan.new;
    let council = if is_new { Ok(plan.council.clone()) } else { plan.council.restored(plan.new) };
    let council = council.map_err(|why| RestoreError::Change { folder: at(), why })?;
    let shard_failed = |why| RestoreError::Shard { folder: at(), why };
    let changes =
        if plan.is_renamed() { 0 } else { rename_shards(&embedded, &plan).map_err(shard_failed)? };
    plan.finish(&council).map_err(failed)?;
    Ok(Restored { old: plan.old, new: plan.new, changes, is_alone: council.config().epoch > 0 })
}

/// All shards, each by itself: one that has the new id already was done before an interruption.
fn rename_shards(embedded: &Embedded, plan: &Plan) -> Result<u64, OpenError> {
    let checkpointer = Arc::new(Checkpointer::spawn(embedded.table())?);
    let mut changes = 0;
    for shard in plan.shards.all() {
        let store = Store::new(embedded.log(0), embedded.table());
        let settings = Settings { site: plan.old, seed: random(), ..Settings::default() };
        let mut host = Host::new(store, Some(Arc::clone(&checkpointer)), settings, Flush::Now);
        host.set_membership(&plan.council.membership());
        let unix = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let now = Moment { elapsed_ms: 0, unix_ms: millis(unix) };
        match host.open(shard, now) {
            Ok(()) => {}
            Err(OpenError::OtherSite { found, .. }) if found == plan.new => continue,
            Err(error) => return Err(error),
        }
        changes += host.position(shard).unwrap_or(0);
        host.begin_incarnation(shard, plan.new, now)?;
    }
    Ok(changes)
}
