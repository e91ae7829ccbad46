//! Opening a folder: is it what it says, and is all there that belongs to it?

use std::{collections::BTreeMap, sync::Arc};

use super::{
    disk::Disk,
    flaws::{Missing, Promise},
    format::{Format, Wholeness},
    frame::Entry,
    logs::{LogConfig, Logs},
    notes::{self, Note, Notes},
    scan::{Files, Scanner, sort_names},
    shards::{Found, ShardMap},
    wal::{Layout, Wal},
};
use crate::{ShardId, StorageError};

/// What was read of a folder's logs. Nothing was written.
pub(super) struct ReadLogs<D: Disk> {
    pub wals: Vec<Wal<D>>,
    pub shards: ShardMap,
}

/// Reads all logs of the folder, whoever wrote them, and demands that all that was noted is there.
pub(super) fn read_logs<D: Disk>(
    disk: &Arc<D>,
    store: u64,
    note: Option<&Note>,
    config: LogConfig,
) -> Result<ReadLogs<D>, StorageError> {
    let names = disk.list().map_err(|error| StorageError::io("listing the log's files", error))?;
    let mut files = sort_names(names);
    let nothing = Note::new();
    let note = note.filter(|_| config.flaws.missing == Missing::Refused).unwrap_or(&nothing);
    let last = files.keys().chain(note.keys()).max();
    let count = last.map_or(config.workers.max(1), |&last| config.workers.max(last.saturating_add(1)));
    let LogConfig { segment_bytes, reserve_bytes, flaws, .. } = config;
    let mut missing = Vec::new();
    for (&worker, held) in note {
        let scanner =
            Scanner { disk: disk.as_ref(), store, worker, flaws, until: u64::MAX, noted: held.synced };
        let segments = files.get(&worker).map(|files| files.segments.clone()).unwrap_or_default();
        missing.extend(scanner.missing(held, &segments)?);
    }
    if !missing.is_empty() {
        return Err(StorageError::Missing { missing });
    }
    let mut found: BTreeMap<ShardId, Found> = BTreeMap::new();
    let mut wals = Vec::with_capacity(usize::from(count));
    for worker in 0..count {
        let layout = Layout { store, worker, segment_bytes, reserve_bytes, flaws };
        let files: Files = files.remove(&worker).unwrap_or_default();
        let noted = note.get(&worker).map_or(0, |held| held.synced);
        let visit = &mut |entry: Entry<'_>| found.entry(entry.shard).or_default().add(entry);
        wals.push(Wal::recover(Arc::clone(disk), layout, (files, noted), visit)?);
    }
    Ok(ReadLogs { wals, shards: ShardMap::from_entries(found)? })
}

/// A folder that is being opened. Its logs are open; what else it consists of is opened before it [is](Opening::finish).
#[derive(Debug)]
pub(super) struct Opening<D: Disk> {
    logs: Logs<D>,
    pub format: Format,
    promise: Promise,
}

impl<D: Disk> Opening<D> {
    /// Opens the logs in `disk` of the folder `root`, which also `holds` other things, if it is not a new one.
    pub(super) fn begin(
        disk: D,
        root: D,
        holds: Option<String>,
        config: LogConfig,
    ) -> Result<Self, StorageError> {
        let format = match Format::read(&root)? {
            Some(format) => format,
            None => match holds.map_or_else(|| belongings(&disk, &root), |it| Ok(Some(it)))? {
                Some(held) => return Err(without_format(&root, &held)),
                None => Format::create(&root)?,
            },
        };
        if format.wholeness == Wholeness::Repairing {
            return Err(StorageError::Repairing { folder: root.describe("") });
        }
        let promise = config.flaws.promise;
        if promise != Promise::NotesFirst && !format.has_notes() {
            format.with_notes().write(&root)?;
        }
        let note = match notes::noted(&root, format.store)? {
            // One that was written before the folder was said to have any may be older than what it speaks of.
            _ if !format.has_notes() => None,
            None => {
                let missing =
                    notes::NAMES.map(|name| format!("{} is gone or not sound", root.describe(name)));
                return Err(StorageError::Missing { missing: missing.into() });
            }
            noted => noted.map(|noted| noted.logs),
        };
        let logs = Logs::start(disk, root, format.store, note.as_ref(), config)?;
        Ok(Self { logs, format, promise })
    }

    pub(super) fn notes(&self) -> Arc<Notes<D>> {
        self.logs.notes()
    }

    /// All that belongs to the folder is there, and from now on it must be.
    pub(super) fn finish(self) -> Result<Logs<D>, StorageError> {
        let Self { logs, format, promise } = self;
        if !format.has_notes() && promise == Promise::NotesFirst {
            format.with_notes().write(logs.root())?;
        }
        Ok(logs)
    }
}

/// Something that shows that a folder is not a new one.
fn belongings<D: Disk>(disk: &D, root: &D) -> Result<Option<String>, StorageError> {
    let list = |disk: &D| disk.list().map_err(|error| StorageError::io("listing the folder's files", error));
    let logs = sort_names(list(disk)?).into_values().flat_map(|files| files.segments.into_values());
    let logs = logs.map(|name| disk.describe(&name));
    let notes = list(root)?.into_iter().filter(|name| notes::NAMES.contains(&name.as_str()));
    Ok(logs.chain(notes.map(|name| root.describe(&name))).next())
}

fn without_format<D: Disk>(root: &D, held: &str) -> StorageError {
    let missing = vec![format!("{} is gone, and there is {held}", root.describe("FORMAT"))];
    StorageError::Missing { missing }
}
