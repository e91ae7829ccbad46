//! Opening a shard: one way for every backend.

use std::collections::{BTreeMap, BTreeSet};

use quipu_storage::{Log, Position, Recovered, Scan, ShardId, Slice, StorageError, Table};

use super::{Host, OpenError, Running, State};
use crate::{
    Membership, Moment, Settings, Shard, WindowMode,
    handoff::{StoredClosed, StoredDesk},
    operations::{Run, decode_page, slice_of},
    record::{
        self, CLOSED_KEY, COVERED_KEY, GONE_KEY, Gone, Logged, PARKED_KEY, SUMMARY_KEY, Summary, TIME_KEY,
    },
    shard::{self, Stored, Unreadable},
};

/// How many headers are read at a time.
const HEADERS_MAX: usize = 1024;

/// How many pages of old operations are read at a time.
const WARMING_PAGES: usize = 64;

/// A shard's own time: it goes on where the last process stopped. Time that no process saw is not counted, so that
/// operations are remembered for longer, never for less.
#[derive(Debug, Clone, Copy)]
pub(super) struct Clock {
    /// What was stored when the shard was opened.
    stored_ms: u64,
    /// When that was, in the time of this process.
    opened_ms: u64,
}

impl Clock {
    pub(super) fn at(self, now: Moment) -> Moment {
        let elapsed_ms = self.stored_ms + now.elapsed_ms.saturating_sub(self.opened_ms);
        Moment { elapsed_ms, unix_ms: now.unix_ms }
    }

    /// A time of the shard in that of this process.
    pub(super) fn outside(self, time_ms: u64) -> Option<u64> {
        Some(self.opened_ms + time_ms.saturating_sub(self.stored_ms))
    }
}

impl<L: Log, T: Table> Host<L, T> {
    /// Takes a shard's fence and reads what was committed.
    pub fn open(&mut self, id: ShardId, now: Moment) -> Result<(), OpenError> {
        let recovered = self.store.open(id)?;
        self.install(id, &recovered, now)
    }

    pub(super) fn install(
        &mut self,
        id: ShardId,
        recovered: &Recovered,
        now: Moment,
    ) -> Result<(), OpenError> {
        if let Some(checkpointer) = &self.checkpointer {
            checkpointer.forget(id);
        }
        let table = self.store.table();
        if !self.discipline.opens_without_rows() {
            demand_rows(table, id, recovered.checkpoint)?;
        }
        let stored_ms = stored_time(table, id, recovered)?;
        let mut shard = read(table, id, self.settings, &self.membership, recovered, stored_ms)?;
        for peer in &self.connected {
            shard.connect(*peer, true);
        }
        let at = usize::from(id.0);
        if self.shards.len() <= at {
            self.shards.resize_with(at + 1, || None);
        }
        self.shards[at] = Some(Box::new(Running {
            id,
            shard,
            clock: Clock { stored_ms, opened_ms: now.elapsed_ms },
            position: recovered.last(),
            capturing: None,
            round: self.round,
            captured_ms: recovered.records.is_empty().then_some(stored_ms),
            floor: Slice(0),
            pending: false,
            confirmed: self.standing.epoch,
            begun_ms: 0,
            state: State::Live,
        }));
        Ok(())
    }
}

fn unreadable(id: ShardId, what: &'static str) -> impl FnOnce(minicbor::decode::Error) -> OpenError {
    move |why| OpenError::Unreadable { shard: id.0, why: Unreadable { what, why } }
}

fn summary<T: Table>(table: &T, id: ShardId) -> Result<Summary, OpenError> {
    match table.get(id, Slice::KEPT, SUMMARY_KEY)? {
        Some(row) => record::decode_summary(&row.bytes).map_err(unreadable(id, "the summary of a shard")),
        None => Ok(Summary::default()),
    }
}

/// Demands that the table has what the log does not hold any more.
fn demand_rows<T: Table>(table: &T, id: ShardId, checkpoint: Position) -> Result<(), OpenError> {
    let covered = match table.get(id, Slice::KEPT, COVERED_KEY)? {
        Some(row) => {
            let position = record::decode_row(&row.bytes);
            Position(position.map_err(unreadable(id, "the position that a table covers"))?)
        }
        // An earlier version wrote it, which did not say.
        None if table.get(id, Slice::KEPT, SUMMARY_KEY)?.is_some() => return Ok(()),
        None => Position(0),
    };
    if covered >= checkpoint {
        return Ok(());
    }
    let missing = format!(
        "rows of shard {}: the table has what was counted up to record {}, and the log begins after record {}. To go on, put back \
         a copy and run `quipu restore` on it",
        id.0, covered.0, checkpoint.0
    );
    Err(StorageError::Missing { missing: vec![missing] }.into())
}

/// The shard's time when it was last stored.
fn stored_time<T: Table>(table: &T, id: ShardId, recovered: &Recovered) -> Result<u64, OpenError> {
    let mut stored_ms = summary(table, id)?.time_ms;
    if let Some(row) = table.get(id, Slice::KEPT, TIME_KEY)? {
        let time_ms = record::decode_time(&row.bytes).map_err(unreadable(id, "the time of a shard"))?;
        stored_ms = stored_ms.max(time_ms);
    }
    if let Some(newest) = recovered.records.last() {
        let contents = record::decode_record(&newest.bytes).map_err(unreadable(id, shard::A_RECORD))?;
        stored_ms = stored_ms.max(contents.summary.time_ms);
    }
    Ok(stored_ms)
}

/// The shard as it is stored, at this time of its own.
pub(super) fn read<T: Table>(
    table: &T,
    id: ShardId,
    settings: Settings,
    membership: &Membership,
    recovered: &Recovered,
    now_ms: u64,
) -> Result<Shard, OpenError> {
    let summary = summary(table, id)?;
    let prefix = record::row_key(b"");
    let first = table.scan(id, Scan { slice: Slice::KEPT, prefix: &prefix, after: None, rows_max: 1 })?;
    let is_empty = first.rows.is_empty() && first.next.is_none();
    let runs = runs(table, id, &summary, now_ms)?;
    let open = open_entries(table, id)?;
    let gone = match table.get(id, Slice::KEPT, GONE_KEY)?.filter(|row| !row.bytes.is_empty()) {
        Some(row) => record::decode_row::<Gone>(&row.bytes)
            .map_err(unreadable(id, "the list of settled entries"))?
            .left_out(recovered.checkpoint.0)
            .collect(),
        None => BTreeSet::new(),
    };
    let desk = desk(table, id)?;
    let parked = match table.get(id, Slice::KEPT, PARKED_KEY)? {
        Some(row) => record::decode_row(&row.bytes).map_err(unreadable(id, "the list of what is parked"))?,
        None => BTreeSet::new(),
    };
    let records = recovered.records.iter().map(|record| &*record.bytes);
    let closed = closed(table, id)?;
    let stored = Stored { summary, runs, open, gone, desk, closed, parked, is_empty };
    let unreadable = |why| OpenError::Unreadable { shard: id.0, why };
    let mut shard = Shard::recover(settings, membership, stored, records, now_ms).map_err(unreadable)?;
    for key in shard.keys_of_entries().iter().filter(|key| shard.lacks(key)).cloned().collect::<Vec<_>>() {
        let row = table.get(id, Slice::KEPT, &record::row_key(&key))?;
        shard.install(&key, row.as_ref()).map_err(unreadable)?;
    }
    if let Some(found) = shard.stored_site().filter(|site| *site != settings.site) {
        return Err(OpenError::OtherSite { shard: id.0, found, asked: settings.site });
    }
    if settings.transient.is_some() {
        load_all(table, id, &mut shard)?;
    }
    if settings.window.mode == WindowMode::Filter {
        // Nothing else knows a repeat.
        while warm(table, id, &mut shard, now_ms)? {}
    }
    Ok(shard)
}

/// Tells the filter about a run of operations of an earlier process. Returns whether there are more.
pub(super) fn warm<T: Table>(
    table: &T,
    id: ShardId,
    shard: &mut Shard,
    now_ms: u64,
) -> Result<bool, OpenError> {
    let operations = shard.operations();
    let Some(run) = operations.coldest() else { return Ok(false) };
    let prefix = run.pages();
    let mut after: Option<Vec<u8>> = None;
    loop {
        let scan =
            Scan { slice: run.slice, prefix: &prefix, after: after.as_deref(), rows_max: WARMING_PAGES };
        let page = table.scan(id, scan)?;
        for (_, row) in &page.rows {
            let found = decode_page(row).map_err(unreadable(id, "a page of operations"))?;
            operations.warm(&found, now_ms);
        }
        after = page.next;
        if after.is_none() {
            operations.warmed(run);
            return Ok(operations.coldest().is_some());
        }
    }
}

/// Brings all counters into memory: those that a relay or an edge has not handed over.
fn load_all<T: Table>(table: &T, id: ShardId, shard: &mut Shard) -> Result<(), OpenError> {
    let prefix = record::row_key(b"");
    let mut after: Option<Vec<u8>> = None;
    loop {
        let scan =
            Scan { slice: Slice::KEPT, prefix: &prefix, after: after.as_deref(), rows_max: HEADERS_MAX };
        let page = table.scan(id, scan)?;
        for (row_key, row) in &page.rows {
            let Some(key) = record::counter_key(row_key) else { continue };
            if shard.lacks(key) {
                let installed = shard.install(key, Some(row));
                installed.map_err(|why| OpenError::Unreadable { shard: id.0, why })?;
            }
        }
        after = page.next;
        if after.is_none() {
            shard.all_in_memory();
            return Ok(());
        }
    }
}

/// The entries that were not settled, and the versions of their rows.
fn open_entries<T: Table>(table: &T, id: ShardId) -> Result<Vec<(u64, Logged)>, OpenError> {
    let mut open = Vec::new();
    let mut after: Option<Vec<u8>> = None;
    loop {
        let prefix = &[record::OPEN_ENTRY];
        let scan = Scan { slice: Slice::KEPT, prefix, after: after.as_deref(), rows_max: HEADERS_MAX };
        let page = table.scan(id, scan)?;
        for (_, row) in &page.rows {
            let logged =
                record::decode_row(&row.bytes).map_err(unreadable(id, "an entry of an operation"))?;
            open.push((row.version, logged));
        }
        after = page.next;
        if after.is_none() {
            return Ok(open);
        }
    }
}

/// The closed slots of other desks.
fn closed<T: Table>(table: &T, id: ShardId) -> Result<StoredClosed, OpenError> {
    const WHAT: &str = "the closed slots of a desk";
    let mut closed = StoredClosed::default();
    let mut after: Option<Vec<u8>> = None;
    loop {
        let prefix = CLOSED_KEY;
        let scan = Scan { slice: Slice::KEPT, prefix, after: after.as_deref(), rows_max: HEADERS_MAX };
        let page = table.scan(id, scan)?;
        for (key, row) in page.rows.iter().filter(|(_, row)| !row.bytes.is_empty()) {
            if key == CLOSED_KEY {
                closed.tables = record::decode_row(&row.bytes).map_err(unreadable(id, WHAT))?;
                continue;
            }
            let desk = record::closed_desk(key).ok_or_else(|| minicbor::decode::Error::message("a key"));
            let slots = record::decode_row(&row.bytes).map_err(unreadable(id, WHAT))?;
            closed.desks.insert(desk.map_err(unreadable(id, WHAT))?, slots);
        }
        after = page.next;
        if after.is_none() {
            return Ok(closed);
        }
    }
}

/// The state of handoffs.
fn desk<T: Table>(table: &T, id: ShardId) -> Result<BTreeMap<u16, StoredDesk>, OpenError> {
    const WHAT: &str = "the state of handoffs";
    let mut desk: BTreeMap<u16, StoredDesk> = BTreeMap::new();
    let mut after: Option<Vec<u8>> = None;
    loop {
        let prefix = &[record::DESK];
        let scan = Scan { slice: Slice::KEPT, prefix, after: after.as_deref(), rows_max: HEADERS_MAX };
        let page = table.scan(id, scan)?;
        for (key, row) in &page.rows {
            let part = record::desk_part(key).ok_or_else(|| minicbor::decode::Error::message("a key"));
            let (shard, part) = part.map_err(unreadable(id, WHAT))?;
            let read = desk.entry(shard).or_default().read(part, &row.bytes);
            read.map_err(unreadable(id, WHAT))?;
        }
        after = page.next;
        if after.is_none() {
            return Ok(desk);
        }
    }
}

/// The runs of operations that have not expired.
fn runs<T: Table>(table: &T, id: ShardId, summary: &Summary, now_ms: u64) -> Result<Vec<Run>, OpenError> {
    let mut runs = Vec::new();
    for slice in (slice_of(now_ms).0..=summary.slice_max).map(Slice) {
        let mut after: Option<Vec<u8>> = None;
        loop {
            let scan = Scan { slice, prefix: Run::HEADERS, after: after.as_deref(), rows_max: HEADERS_MAX };
            let page = table.scan(id, scan)?;
            for (key, row) in &page.rows {
                runs.push(Run::of_header(slice, key, row).map_err(unreadable(id, "a run of operations"))?);
            }
            after = page.next;
            if after.is_none() {
                break;
            }
        }
    }
    Ok(runs)
}
