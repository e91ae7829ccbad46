//! Slices come and go through many lives of a process.

use std::path::Path;

use quipu_storage::{
    Row, ShardId, Slice, Table, Write,
    embedded::{Embedded, LogConfig},
};

const SHARD: ShardId = ShardId(3);

fn open(folder: &Path) -> Embedded {
    Embedded::open(folder, LogConfig { segment_bytes: 2048, ..LogConfig::default() }).unwrap()
}

fn row(slice: u32) -> Write {
    Write { slice: Slice(slice), key: b"k".to_vec(), row: Row { version: 1, bytes: b"counted".to_vec() } }
}

/// As a process leaves it that is killed when it has made a slice and not yet written to it.
fn leave_empty(folder: &Path, slice: u32) {
    let database = fjall::Database::builder(folder.join("table")).open().unwrap();
    database.keyspace(&format!("slice-{slice}"), fjall::KeyspaceCreateOptions::default).unwrap();
}

#[test]
fn a_slice_that_was_never_written_to_does_not_hide_the_next() {
    for lives_between in 0..3 {
        let folder = tempfile::tempdir().unwrap();
        let mut last = None;
        for slice in (1..8).step_by(2) {
            leave_empty_and_reopen(folder.path(), slice, lives_between);
            let table = open(folder.path()).table();
            if let Some(last) = last {
                assert!(table.get(SHARD, Slice(last), b"k").unwrap().is_some(), "slice {last}");
            }
            table.put(SHARD, &[row(slice + 1)]).unwrap();
            last = Some(slice + 1);
        }
    }
}

fn leave_empty_and_reopen(folder: &Path, slice: u32, lives: u32) {
    drop(open(folder));
    leave_empty(folder, slice);
    for _ in 0..lives {
        drop(open(folder));
    }
}
