//! What a checkpointer tells: of rounds that were forgotten while they were written, and to whom.

use std::sync::{Arc, Barrier};

use quipu_storage::{
    Checkpointer, Mark, Page, Position, Row, Scan, ShardId, Slice, StorageError, Table, Write,
    memory::{Memory, MemoryTable},
};

/// A table that waits twice in every `put`: when it has begun, and before it ends.
struct Slow {
    table: MemoryTable,
    barrier: Barrier,
}

impl Table for Slow {
    fn get(&self, shard: ShardId, slice: Slice, key: &[u8]) -> Result<Option<Row>, StorageError> {
        self.table.get(shard, slice, key)
    }

    fn put(&self, shard: ShardId, writes: &[Write]) -> Result<(), StorageError> {
        self.barrier.wait();
        self.barrier.wait();
        self.table.put(shard, writes)
    }

    fn scan(&self, shard: ShardId, scan: Scan<'_>) -> Result<Page, StorageError> {
        self.table.scan(shard, scan)
    }

    fn drop_slices(&self, shard: ShardId, floor: Slice) -> Result<(), StorageError> {
        self.table.drop_slices(shard, floor)
    }
}

fn row(version: u64) -> Vec<Write> {
    vec![Write { slice: Slice::KEPT, key: b"k".to_vec(), row: Row { version, bytes: vec![1] } }]
}

#[test]
fn a_round_that_was_forgotten_is_not_taken_for_a_later_one() {
    let memory = Memory::new();
    let table = Arc::new(Slow { table: memory.table(), barrier: Barrier::new(2) });
    let checkpointer = Checkpointer::spawn(table.clone()).unwrap();
    let shard = ShardId(0);
    checkpointer.offer(shard, Position(1), row(1));
    table.barrier.wait();
    // The shard is reloaded, and offers what it has again.
    checkpointer.forget(shard);
    checkpointer.offer(shard, Position(1), row(1));
    table.barrier.wait();
    // The second round has begun, so the first has ended.
    table.barrier.wait();
    assert_eq!(checkpointer.finished(|_| true), []);
    table.barrier.wait();
    checkpointer.flush().unwrap();
    assert_eq!(checkpointer.finished(|_| true).len(), 1);
}

#[test]
fn a_forgotten_round_that_fails_is_not_written_again() {
    let memory = Memory::new();
    let table = Arc::new(Slow { table: memory.table(), barrier: Barrier::new(2) });
    let checkpointer = Checkpointer::spawn(table.clone()).unwrap();
    memory.fail_next_put_after(0);
    checkpointer.offer(ShardId(0), Position(1), row(1));
    table.barrier.wait();
    checkpointer.forget(ShardId(0));
    table.barrier.wait();
    checkpointer.flush().unwrap();
    assert_eq!(checkpointer.finished(|_| true), []);
    assert!(checkpointer.failure().is_none());
}

#[test]
fn a_worker_does_not_take_the_marks_of_another() {
    let checkpointer = Checkpointer::spawn(Arc::new(Memory::new().table())).unwrap();
    checkpointer.offer(ShardId(0), Position(1), row(1));
    checkpointer.offer(ShardId(1), Position(2), row(1));
    checkpointer.flush().unwrap();
    let mark = |shard, position| Mark { shard: ShardId(shard), position: Position(position) };
    assert_eq!(checkpointer.finished(|shard| shard == ShardId(1)), [mark(1, 2)]);
    assert_eq!(checkpointer.finished(|shard| shard == ShardId(1)), []);
    assert_eq!(checkpointer.finished(|shard| shard == ShardId(0)), [mark(0, 1)]);
}
