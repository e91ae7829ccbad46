//! What a counter costs in memory, as it is asked of the allocator. A test of its own, so that nothing else is counted.

use peak_alloc::PeakAlloc;
use quipu_engine::{Action, Add, Command, Host, Moment, Released, Settings, Shards, Ticket};
use quipu_storage::{
    Batch, Flush, Log, Mark, Outcome, Page, Position, Record, Row, Scan, Settled, ShardId, Slice,
    StorageError, Store, Table, Taken, Write,
};

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

const COUNTERS: usize = 1_000_000;
const COUNTER_BYTES_MAX: usize = 100;
const BATCH: usize = 10_000;

/// A store that keeps nothing, so that what is counted belongs to the host.
struct Nowhere;

impl Log for Nowhere {
    fn take(&mut self, _: ShardId) -> Result<Taken, StorageError> {
        Ok(Taken { checkpoint: Position(0), last: Position(0) })
    }

    fn read(&mut self, _: ShardId, _: Position) -> Result<Vec<Record>, StorageError> {
        Ok(Vec::new())
    }

    fn commit(&mut self, batches: &[Batch], _: Flush) -> Vec<Outcome> {
        batches.iter().map(|_| Outcome::Committed { position: Position(1) }).collect()
    }

    fn flush(&mut self) -> Result<(), StorageError> {
        Ok(())
    }

    fn settle(&mut self, _: ShardId) -> Settled {
        Settled::Nothing
    }

    fn checkpoint(&mut self, _: &[Mark]) -> Result<(), StorageError> {
        Ok(())
    }

    fn confirm(&mut self, shard: ShardId) -> Result<Taken, StorageError> {
        self.take(shard)
    }
}

impl Table for Nowhere {
    fn get(&self, _: ShardId, _: Slice, _: &[u8]) -> Result<Option<Row>, StorageError> {
        Ok(None)
    }

    fn put(&self, _: ShardId, _: &[Write]) -> Result<(), StorageError> {
        Ok(())
    }

    fn scan(&self, _: ShardId, _: Scan<'_>) -> Result<Page, StorageError> {
        Ok(Page::default())
    }

    fn drop_slices(&self, _: ShardId, _: Slice) -> Result<(), StorageError> {
        Ok(())
    }
}

fn bytes_per_counter(before: usize) -> usize {
    (ALLOCATOR.current_usage() - before) / COUNTERS
}

#[test]
fn a_plain_counter_costs_at_most_a_hundred_bytes() {
    let before = ALLOCATOR.current_usage();
    let settings = Settings { memory_bytes: usize::MAX, ..Settings::default() };
    let mut host = Host::new(Store::new(Nowhere, Nowhere), None, settings, Flush::Now);
    let shards = Shards::DEFAULT;
    shards.all().for_each(|shard| host.open(shard, Moment::default()).expect("it opens"));
    let mut released = Released::default();
    for at in 0..COUNTERS {
        let key = format!("{at:016}");
        let action = Action::Add { add: Add::of(1), operation: None };
        let command = Command { key: key.as_bytes(), action };
        host.submit(shards.of(key.as_bytes()), Ticket(at as u64), command, Moment::default());
        if (at + 1) % BATCH == 0 {
            host.commit(Moment::default(), &mut released);
            assert_eq!(released.replies.len(), BATCH);
            released = Released::default();
        }
    }
    assert_eq!(host.live(), COUNTERS as u64);
    // Until they are in the table they stand in two lists.
    let unsaved = bytes_per_counter(before);
    let later = Moment { elapsed_ms: 100_000, ..Moment::default() };
    for _ in 0..shards.count() / 8 {
        host.maintain(later, &mut released);
    }
    assert_eq!(host.stats().checkpoints, u64::from(shards.count()));
    let saved = bytes_per_counter(before);
    let counted = usize::try_from(host.stats().resident_bytes).expect("it is in memory") / COUNTERS;
    println!("{unsaved} bytes before a checkpoint, {saved} after it; the host says {counted}");
    assert!(unsaved <= COUNTER_BYTES_MAX, "{unsaved} bytes a counter before a checkpoint");
    assert!(saved <= COUNTER_BYTES_MAX, "{saved} bytes a counter");
    assert!(saved.abs_diff(counted) <= 10, "the host takes it for {counted} bytes, and it is {saved}");
}
