//! What fuzzers give bytes to: everything that reads stored bytes, and a shard that goes on with what was read.

use quipu_storage::{Page, Position, Row, Slice};

use crate::{
    Action, Add, Beyond, Command, Limits, Membership, Moment, OperationId, Settings, Shard, SiteId, Spread,
    Ticket,
    counter::Counter,
    operations::{Run, decode_page},
    record::{self, Contents},
    shard::{ListFrom, Stored},
};

const NOW: Moment = Moment { elapsed_ms: 1_000, unix_ms: 1_700_000_000_000 };

/// Reads the bytes as each thing that is stored. Returns as how many they can be read.
///
/// # Panics
/// If what was read is not the same after it was written and read again, or if a shard cannot go on with it.
pub fn rows(bytes: &[u8]) -> usize {
    let row = Row { version: 7, bytes: bytes.to_vec() };
    let header = bytes.split_at_checked(17).and_then(|(key, bytes)| {
        Run::of_header(Slice(1), key, &Row { version: 1, bytes: bytes.to_vec() }).ok()
    });
    let page = decode_page(&row).ok().inspect(|page| {
        let again = Row { version: 7, bytes: record::encode_row(page) };
        assert_eq!(decode_page(&again).ok().as_ref(), Some(page));
    });
    let summary = record::decode_summary(bytes).ok().inspect(|summary| {
        assert_eq!(record::decode_summary(&record::encode_row(summary)).ok(), Some(summary.clone()));
    });
    let read = [
        header.is_some(),
        page.is_some(),
        summary.is_some(),
        record::decode_time(bytes).is_ok(),
        read_counter(&row),
        read_record(bytes),
    ];
    read.into_iter().filter(|is_read| *is_read).count()
}

fn read_counter(row: &Row) -> bool {
    let Ok(counter) = record::decode_row::<Counter>(&row.bytes) else { return false };
    assert_eq!(record::decode_row::<Counter>(&record::encode_row(&counter)).ok(), Some(counter));
    let stored = Stored {
        summary: record::Summary { changes: 7, live: 1, ..Default::default() },
        ..Stored::default()
    };
    let mut shard = Shard::recover(Settings::default(), &alone(), stored, std::iter::empty(), NOW.elapsed_ms)
        .expect("there are no records");
    shard.install(b"key", Some(row)).expect("it was read before");
    exercise(&mut shard, b"key");
    true
}

fn read_record(bytes: &[u8]) -> bool {
    let Ok(contents) = record::decode_record(bytes) else { return false };
    let Contents { summary, changes, operations, entries, handed, before, closed } = &contents;
    let written = changes.iter().map(|change| (change.key, change.version, change.counter.as_ref()));
    let again = record::encode_record(summary, written, operations, entries, handed, before, closed.as_ref());
    assert_eq!(record::decode_record(&again).ok().as_ref(), Some(&contents));
    let records = std::iter::once(bytes);
    let mut shard = Shard::recover(Settings::default(), &alone(), Stored::default(), records, NOW.elapsed_ms)
        .expect("it was read before");
    let keys = changes.iter().map(|change| change.key);
    keys.take(3).for_each(|key| exercise(&mut shard, key));
    true
}

/// Every command, a checkpoint and a listing.
fn exercise(shard: &mut Shard, key: &[u8]) {
    let operation = OperationId { producer: b"p", id: b"i" };
    let add = |amount, beyond| Add { beyond, ..Add::of(amount) };
    let actions = [
        Action::Inspect,
        Action::Add { add: add(1, Beyond::Refuse), operation: Some(operation) },
        Action::Add { add: add(i64::MIN, Beyond::Saturate), operation: None },
        Action::Outcome(operation),
        Action::Add { add: add(i64::MAX, Beyond::Saturate), operation: None },
        Action::Get,
        Action::Reset { to: Some(-1) },
        Action::Inspect,
        Action::Reset { to: None },
        Action::Create {
            limits: Limits { minimum: Some(0), maximum: None, initial: 3 },
            spread: Spread::Creator,
            wait_ms: 0,
        },
        Action::Add { add: add(-1, Beyond::Skip), operation: None },
    ];
    for action in actions {
        shard.apply(Ticket(0), Command { key, action }, NOW);
        let record = shard.seal(NOW.elapsed_ms).record;
        assert!(record.is_none_or(|record| record::decode_record(&record).is_ok()));
    }
    let writes = shard.capture(NOW.elapsed_ms, Position(0));
    assert!(writes.is_none_or(|writes| writes.iter().all(|write| write.row.version > 0)));
    shard.saved();
    let listing = shard.list(ListFrom { prefix: b"", after: None, limit: 10 }, &Page::default());
    assert!(listing.is_ok_and(|listing| listing.counters.len() <= 10));
    shard.evict(1_000);
}

fn alone() -> Membership {
    Membership::alone(SiteId::FIRST)
}
