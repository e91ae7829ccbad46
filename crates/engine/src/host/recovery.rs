//! Opening a shard: one way for every backend.

use quipu_storage::{Log, Recovered, Scan, ShardId, Slice, StorageError, Table};

use super::{Host, OpenError, Running, State};
use crate::{
    Moment, Settings, Shard, WindowMode,
    operations::{Run, slice_of},
    record::{self, SUMMARY_KEY, Summary},
    shard::{Stored, Unreadable},
};

/// How many headers are read at a time.
const HEADERS_MAX: usize = 1024;

impl<L: Log, T: Table> Host<L, T> {
    /// Takes a shard's fence and reads what was committed.
    pub fn open(&mut self, id: ShardId, now: Moment) -> Result<(), OpenError> {
        let recovered = self.store.open(id)?;
        let elapsed_ms = now.elapsed_ms;
        let base_ms = &mut self.base_ms;
        let shard = read(self.store.table(), id, self.settings, &recovered, |stored_ms| {
            // Time that no process saw is not counted: operations are remembered for longer, never for less.
            *base_ms = (*base_ms).max(stored_ms.saturating_sub(elapsed_ms));
            *base_ms + elapsed_ms
        })?;
        let at = usize::from(id.0);
        if self.shards.len() <= at {
            self.shards.resize_with(at + 1, || None);
        }
        self.shards[at] = Some(Box::new(Running {
            id,
            shard,
            position: recovered.last(),
            capturing: None,
            round: self.round,
            captured_ms: self.base_ms + elapsed_ms,
            floor: Slice(0),
            pending: false,
            state: State::Live,
        }));
        if self.settings.window.mode == WindowMode::Filter {
            // Nothing else knows a repeat.
            while self.warm(id, self.base_ms + elapsed_ms) {}
        }
        Ok(())
    }
}

/// The shard as it is stored. `time` turns the time that was stored last into the time it is now.
pub(super) fn read<T: Table>(
    table: &T,
    id: ShardId,
    settings: Settings,
    recovered: &Recovered,
    time: impl FnOnce(u64) -> u64,
) -> Result<Shard, OpenError> {
    let unreadable = |why| OpenError::Unreadable { shard: id.0, why };
    let mut stored = Stored::default();
    if let Some(row) = table.get(id, Slice::KEPT, SUMMARY_KEY)? {
        stored.summary = record::decode_row(&row.bytes)
            .map_err(|why| unreadable(Unreadable { what: "the summary of a shard", why }))?;
    }
    let prefix = record::row_key(b"");
    let first = table.scan(id, Scan { slice: Slice::KEPT, prefix: &prefix, after: None, rows_max: 1 })?;
    stored.is_empty = first.rows.is_empty() && first.next.is_none();
    stored.runs = runs(table, id, &stored.summary).map_err(|error| match error {
        RunsError::Storage(error) => error.into(),
        RunsError::Unreadable(why) => unreadable(Unreadable { what: "a run of operations", why }),
    })?;
    let newest = recovered.records.last().map(|record| record::decode_record(&record.bytes));
    let stored_ms = match newest {
        Some(Ok(contents)) => contents.summary.time_ms,
        _ => stored.summary.time_ms,
    };
    let now_ms = time(stored_ms);
    let records = recovered.records.iter().map(|record| &*record.bytes);
    Shard::recover(settings, stored, records, now_ms).map_err(unreadable)
}

enum RunsError {
    Storage(StorageError),
    Unreadable(minicbor::decode::Error),
}

/// The runs of operations that have not expired.
fn runs<T: Table>(table: &T, id: ShardId, summary: &Summary) -> Result<Vec<Run>, RunsError> {
    let mut runs = Vec::new();
    for slice in (slice_of(summary.time_ms).0..=summary.slice_max).map(Slice) {
        let mut after: Option<Vec<u8>> = None;
        loop {
            let scan = Scan { slice, prefix: Run::HEADERS, after: after.as_deref(), rows_max: HEADERS_MAX };
            let page = table.scan(id, scan).map_err(RunsError::Storage)?;
            for (key, row) in &page.rows {
                runs.push(Run::of_header(slice, key, row).map_err(RunsError::Unreadable)?);
            }
            after = page.next;
            if after.is_none() {
                break;
            }
        }
    }
    Ok(runs)
}
