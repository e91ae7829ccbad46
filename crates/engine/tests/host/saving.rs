//! What is listed while a checkpoint is being written, which takes a while where the table is far away.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use quipu_engine::{Action, Command, Host, Moment, Released, Settings, Ticket};
use quipu_storage::{
    Checkpointer, Flush, Page, Row, Scan, ShardId, Slice, StorageError, Store, Table, Write,
    memory::{Memory, MemoryLog, MemoryTable},
};

const SHARD: ShardId = ShardId(0);
const NOW: Moment = Moment { elapsed_ms: 0, unix_ms: 1_700_000_000_000 };

/// A table that does not take rows while it is told so.
struct Held {
    table: MemoryTable,
    is_held: AtomicBool,
}

impl Table for Held {
    fn get(&self, shard: ShardId, slice: Slice, key: &[u8]) -> Result<Option<Row>, StorageError> {
        self.table.get(shard, slice, key)
    }

    fn put(&self, shard: ShardId, writes: &[Write]) -> Result<(), StorageError> {
        while self.is_held.load(Ordering::Acquire) {
            std::thread::yield_now();
        }
        self.table.put(shard, writes)
    }

    fn scan(&self, shard: ShardId, scan: Scan<'_>) -> Result<Page, StorageError> {
        self.table.scan(shard, scan)
    }

    fn drop_slices(&self, shard: ShardId, floor: Slice) -> Result<(), StorageError> {
        self.table.drop_slices(shard, floor)
    }
}

struct World {
    table: Arc<Held>,
    checkpointer: Arc<Checkpointer>,
    host: Host<MemoryLog, Arc<Held>>,
}

impl World {
    fn new() -> Self {
        let memory = Memory::new();
        let table = Arc::new(Held { table: memory.table(), is_held: AtomicBool::new(false) });
        let checkpointer = Arc::new(Checkpointer::spawn(table.clone()).expect("a thread"));
        let store = Store::new(memory.log(), Arc::clone(&table));
        let mut host = Host::new(store, Some(Arc::clone(&checkpointer)), Settings::default(), Flush::Now);
        host.open(SHARD, NOW).expect("it opens");
        Self { table, checkpointer, host }
    }

    fn reset(&mut self, to: Option<i64>) {
        self.host.submit(SHARD, Ticket(1), Command { key: b"k", action: Action::Reset { to } }, NOW);
        self.host.commit(NOW, &mut Released::default()).expect("something was written");
    }

    /// Begins a checkpoint, which is not written before [`Self::finish`].
    fn begin(&mut self) {
        self.table.is_held.store(true, Ordering::Release);
        self.host.checkpoint(SHARD, NOW);
    }

    fn finish(&mut self) {
        self.table.is_held.store(false, Ordering::Release);
        self.checkpointer.flush().expect("it is written");
        self.host.maintain(NOW, &mut Released::default());
    }

    fn listed(&mut self) -> Vec<(Vec<u8>, i64)> {
        self.host.list(SHARD, b"", None, 10).expect("a page").counters
    }
}

#[test]
fn what_was_deleted_and_made_again_is_listed_all_the_time() {
    let mut world = World::new();
    world.reset(Some(1));
    world.begin();
    world.finish();
    world.reset(None);
    world.begin();
    world.reset(Some(2));
    let there = vec![(b"k".to_vec(), 2)];
    let before = world.listed();
    world.finish();
    let between = world.listed();
    // The table has no row now that it would list, and does not get one for a while.
    world.begin();
    let meanwhile = world.listed();
    world.finish();
    assert_eq!([before, between, meanwhile, world.listed()], [(); 4].map(|()| there.clone()));
}
