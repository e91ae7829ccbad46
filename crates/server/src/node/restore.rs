//! `quipu restore`: makes a folder that is a copy the folder of a new incarnation of its site, so that nothing is counted
//! twice: what the old one counted stays counted under the old id, as far as the copy or any peer knows.

use std::{
    collections::BTreeSet,
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
    time::SystemTime,
};

use quipu_engine::{Host, Moment, OpenError, Settings, SiteId, Uncounted, council::BadChange};
use quipu_storage::{
    Checkpointer, Flush, Log, StorageError, Store, Table,
    embedded::{Embedded, LogConfig},
};

use super::{FolderError, identity::Plan, millis};
use crate::{random::random, uncounted};

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
    /// What only the copy has counted cannot be written down, or looked at.
    #[error("{}: {why}; run the command again, which goes on", file.display())]
    Export {
        /// Where it should be.
        file: PathBuf,
        /// What is wrong.
        why: io::Error,
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
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Restored {
    /// What it was.
    pub old: SiteId,
    /// What it is.
    pub new: SiteId,
    /// How many changes of its own the copy has, in all shards, and keeps.
    pub changes: u64,
    /// What it has counted since it was started, and nobody else knows of: where it is, and under how many keys.
    pub uncounted: Option<(PathBuf, usize)>,
    /// Is there no other site, so that it serves at once?
    pub is_alone: bool,
}

/// Gives a folder that is a copy a new incarnation: the next one, or this.
pub fn restore(folder: &Path, incarnation: Option<u16>) -> Result<Restored, RestoreError> {
    let at = || folder.to_owned();
    if !folder.join("FORMAT").exists() && !folder.join("log").exists() {
        return Err(RestoreError::NoFolder { folder: at() });
    }
    let storage = |why| RestoreError::Storage { folder: at(), why };
    let mut embedded = Embedded::open_repaired(folder, LogConfig::default()).map_err(storage)?;
    let failed = |why| RestoreError::Folder { folder: at(), why };
    let plan = Plan::begin(embedded.table(), incarnation).map_err(failed)?;
    // An interruption may have left the last steps to be done.
    let is_new = plan.council.site() == plan.new;
    let council = if is_new { Ok(plan.council.clone()) } else { plan.council.restored(plan.new) };
    let council = council.map_err(|why| RestoreError::Change { folder: at(), why })?;
    let shard_failed = |why| RestoreError::Shard { folder: at(), why };
    let file = folder.join(format!("uncounted-{}.jsonl", plan.new));
    let mut changes = 0;
    if !plan.is_renamed() {
        // Before anything is undone; and not again after that.
        if !file.exists() {
            let uncounted = uncounted(&embedded, &plan).map_err(shard_failed)?;
            let written = uncounted::write(&file, plan.cluster(), plan.old, plan.new, &uncounted);
            written.map_err(|why| RestoreError::Export { file: file.clone(), why })?;
        }
        changes = rename_shards(&embedded, &plan).map_err(shard_failed)?;
    }
    plan.finish(&council).map_err(failed)?;
    embedded.set_restored().map_err(storage)?;
    let uncounted = look_at(&file).map_err(|why| RestoreError::Export { file, why })?;
    Ok(Restored { old: plan.old, new: plan.new, changes, uncounted, is_alone: council.config().epoch > 0 })
}

/// Under how many keys something stands in a file. One that has nothing is removed.
fn look_at(file: &Path) -> io::Result<Option<(PathBuf, usize)>> {
    let text = match fs::read_to_string(file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        other => other?,
    };
    let lines = text.lines().skip(1).filter_map(|line| serde_json::from_str::<uncounted::Line>(line).ok());
    let keys: BTreeSet<_> = lines.map(|line| line.key_bytes()).collect();
    match keys.len() {
        0 => fs::remove_file(file).map(|()| None),
        count => Ok(Some((file.to_owned(), count))),
    }
}

/// What all shards have counted and nobody has heard of.
fn uncounted(embedded: &Embedded, plan: &Plan) -> Result<Vec<Uncounted>, OpenError> {
    let mut all = Vec::new();
    for shard in plan.shards.all() {
        let (mut host, now) = host(embedded, plan, None);
        host.open(shard, now)?;
        all.extend(host.uncounted(shard)?);
    }
    Ok(all)
}

/// A host without shards, as the old site.
fn host(
    embedded: &Embedded,
    plan: &Plan,
    checkpointer: Option<Arc<Checkpointer>>,
) -> (Host<impl Log, impl Table>, Moment) {
    let store = Store::new(embedded.log(0), embedded.table());
    let settings = Settings { site: plan.old, seed: random(), ..Settings::default() };
    let mut host = Host::new(store, checkpointer, settings, Flush::Now);
    host.set_membership(&plan.council.membership());
    let unix = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    (host, Moment { elapsed_ms: 0, unix_ms: millis(unix) })
}

/// All shards, each by itself: one that has the new id already was done before an interruption.
fn rename_shards(embedded: &Embedded, plan: &Plan) -> Result<u64, OpenError> {
    let checkpointer = Arc::new(Checkpointer::spawn(embedded.table())?);
    let mut changes = 0;
    for shard in plan.shards.all() {
        let (mut host, now) = host(embedded, plan, Some(Arc::clone(&checkpointer)));
        match host.open(shard, now) {
            Ok(()) => {}
            Err(OpenError::OtherSite { found, .. }) if found == plan.new => continue,
            Err(error) => return Err(error),
        }
        changes += host.heard_position(shard).unwrap_or(0);
        host.begin_incarnation(shard, plan.new, now)?;
    }
    Ok(changes)
}
