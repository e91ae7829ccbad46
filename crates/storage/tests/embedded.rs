//! The embedded backend's own promises: one process, a full disk, workers that come and go, and old folders.

use std::{
    fs,
    io::ErrorKind,
    path::{Path, PathBuf},
    sync::Arc,
};

use quipu_storage::{
    Batch, Checkpointer, Flush, Log, Mark, Outcome, Position, Row, Scan, ShardId, Slice, StorageError, Store,
    Table, Write,
    embedded::{Embedded, LogConfig, Logs},
    memory::{Crash, Fault, Memory},
    testing::sim_disk::{Fate, Operation, SimDisk},
};

const A: ShardId = ShardId(4);
const B: ShardId = ShardId(5);

fn small(workers: u16) -> LogConfig {
    LogConfig { workers, segment_bytes: 2048, reserve_bytes: 512, ..LogConfig::default() }
}

fn batch(shard: ShardId, text: &str) -> Batch {
    Batch { shard, record: text.as_bytes().to_vec() }
}

fn committed<L: Log>(log: &mut L, shard: ShardId, text: &str) {
    let outcomes = log.commit(&[batch(shard, text)], Flush::Now);
    assert!(matches!(outcomes[..], [Outcome::Committed { .. }]), "{outcomes:?}");
}

#[test]
fn a_second_opener_is_refused_and_told_who_has_it() {
    let folder = tempfile::tempdir().unwrap();
    let first = Embedded::open(folder.path(), small(1)).unwrap();
    let error = Embedded::open(folder.path(), small(1)).unwrap_err();
    assert!(matches!(error, StorageError::Locked { .. }));
    let text = error.to_string();
    assert!(text.contains(&folder.path().display().to_string()), "{text}");
    assert!(text.contains(&std::process::id().to_string()), "{text}");
    // A log alone keeps the folder.
    let log = first.log(0);
    drop(first);
    assert!(Embedded::open(folder.path(), small(1)).is_err());
    drop(log);
    Embedded::open(folder.path(), small(1)).unwrap();
}

#[test]
fn another_folders_files_and_other_formats_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    drop(Embedded::open(folder.path(), small(1)).unwrap());
    let format = folder.path().join("FORMAT");
    let text = fs::read_to_string(&format).unwrap();
    fs::write(&format, text.replace("quipu-storage 2", "quipu-storage 3")).unwrap();
    let error = Embedded::open(folder.path(), small(1)).unwrap_err();
    assert!(matches!(error, StorageError::UnknownFormat { found: 3, known: 2, .. }), "{error}");
    fs::write(&format, "something else").unwrap();
    assert!(matches!(Embedded::open(folder.path(), small(1)), Err(StorageError::Corrupt { .. })));
}

#[test]
fn a_full_disk_is_a_clear_error_and_ends_when_there_is_space() {
    let disk = SimDisk::new();
    let logs = Logs::open(disk.clone(), disk.clone(), small(1)).unwrap();
    let mut log = logs.log(0);
    log.take(A).unwrap();
    committed(&mut log, A, "before");
    disk.fail_all(Operation::Reserve, Some(ErrorKind::StorageFull));
    let large = "x".repeat(1900);
    for _ in 0..3 {
        let outcomes = log.commit(&[batch(A, &large)], Flush::Now);
        let [Outcome::Failed(error @ StorageError::Full { .. })] = &outcomes[..] else {
            panic!("{outcomes:?}")
        };
        assert!(error.to_string().contains("no space left"), "{error}");
    }
    // What still fits is taken.
    committed(&mut log, A, "small");
    disk.fail_all(Operation::Reserve, None);
    committed(&mut log, A, &large);
    drop((log, logs));
    disk.power_cycle(0, || Fate::Lost);
    let mut log = Logs::open(disk.clone(), disk, small(1)).unwrap().log(0);
    log.take(A).unwrap();
    let records = log.read(A, Position(0)).unwrap();
    assert_eq!(records.iter().map(|record| record.bytes.len()).collect::<Vec<_>>(), [6, 5, 1900]);
}

#[test]
fn workers_come_and_go_and_leave_no_files_behind() {
    let disk = SimDisk::new();
    let mut expected = 0;
    for workers in [3, 1, 4, 2, 1] {
        let logs = Logs::open(disk.clone(), disk.clone(), small(workers)).unwrap();
        for round in 0..workers {
            let mut log = logs.log(round);
            let taken = log.take(A).unwrap();
            assert_eq!(taken.last, Position(expected));
            let from = taken.checkpoint;
            assert_eq!(log.read(A, from).unwrap().len() as u64, expected - from.0);
            committed(&mut log, A, &"y".repeat(700));
            expected += 1;
        }
    }
    let logs = Logs::open(disk.clone(), disk.clone(), small(1)).unwrap();
    let mut log = logs.log(0);
    log.take(A).unwrap();
    log.checkpoint(&[Mark { shard: A, position: Position(expected) }]).unwrap();
    assert_eq!(logs.segments(), 1);
    let names: Vec<String> = disk.contents().into_keys().filter(|name| name.ends_with(".log")).collect();
    assert_eq!(names.len(), 1, "{names:?}");
    drop((log, logs));
    disk.power_cycle(0, || Fate::Lost);
    let taken = Logs::open(disk.clone(), disk, small(1)).unwrap().log(0).take(A).unwrap();
    assert_eq!((taken.checkpoint, taken.last), (Position(expected), Position(expected)));
}

#[test]
fn segments_are_reclaimed_and_their_files_used_again() {
    let disk = SimDisk::new();
    let logs = Logs::open(disk.clone(), disk.clone(), small(1)).unwrap();
    let mut log = logs.log(0);
    log.take(A).unwrap();
    log.take(B).unwrap();
    committed(&mut log, B, "quiet");
    for round in 1..=100u64 {
        committed(&mut log, A, &"z".repeat(500));
        log.checkpoint(&[Mark { shard: A, position: Position(round) }]).unwrap();
        if round == 30 {
            assert!(logs.segments() > 5, "a quiet shard holds what it needs");
            log.checkpoint(&[Mark { shard: B, position: Position(1) }]).unwrap();
            assert!(logs.segments() <= 2);
        }
    }
    let files = disk.contents().into_keys().filter(|name| name.starts_with('w')).count();
    assert!(files <= 4, "{:?}", disk.contents().keys());
    let reserved = disk.operations().into_iter().filter(|&operation| operation == Operation::Names).count();
    assert!(reserved > 50, "files are renamed, not made anew");
}

#[test]
fn a_checkpointer_writes_the_newest_and_tries_again() {
    let memory = Memory::new();
    let mut store = Store::new(memory.log(), memory.table());
    store.open(A).unwrap();
    let checkpointer = Checkpointer::spawn(Arc::new(memory.table())).unwrap();
    let row = |version: u64| {
        let row = Row { version, bytes: version.to_string().into_bytes() };
        vec![Write { slice: Slice::KEPT, key: b"k".to_vec(), row }]
    };
    for n in 1..=10 {
        committed(store.log(), A, "r");
        memory.fail_next_put_after(0);
        checkpointer.offer(A, Position(n), row(n));
    }
    while checkpointer.flush().is_err() {}
    let marks = checkpointer.finished(|_| true);
    assert_eq!(marks.last(), Some(&Mark { shard: A, position: Position(10) }));
    store.log().checkpoint(&marks).unwrap();
    assert_eq!(memory.records(A), 0);
    assert_eq!(store.table().get(A, Slice::KEPT, b"k").unwrap().unwrap().version, 10);
    assert!(checkpointer.finished(|_| true).is_empty());
}

#[test]
fn memory_crashes_where_it_is_told_to() {
    for (crash, kept) in [(Crash::Before, [1, 1]), (Crash::Between, [1, 2]), (Crash::After, [2, 2])] {
        let memory = Memory::new();
        let mut store = Store::new(memory.log(), memory.table());
        store.open(A).unwrap();
        store.open(B).unwrap();
        store.commit(&[batch(A, "1"), batch(B, "1")], Flush::Now);
        memory.crash_in_next_commit(crash);
        let outcomes = store.commit(&[batch(A, "2"), batch(B, "2")], Flush::Now);
        assert!(matches!(outcomes[..], [Outcome::Unknown(_), Outcome::Unknown(_)]));
        assert!(matches!(store.commit(&[batch(A, "3")], Flush::Now)[..], [Outcome::Failed(_)]), "it is dead");
        let mut store = Store::new(memory.log(), memory.table());
        let found = [A, B].map(|shard| store.open(shard).unwrap().records.len());
        assert_eq!(found, kept, "{crash:?}");
        // What is not flushed is lost; an error or a full disk stores nothing; a taken fence is final.
        store.commit(&[batch(A, "later")], Flush::Later);
        memory.crash();
        let mut store = Store::new(memory.log(), memory.table());
        assert_eq!(store.open(A).unwrap().records.len(), kept[0]);
        for fault in [Fault::Error, Fault::Full] {
            memory.inject(A, fault);
            assert!(matches!(store.commit(&[batch(A, "x")], Flush::Now)[..], [Outcome::Failed(_)]));
        }
        assert_eq!(store.reload(A).unwrap().records.len(), kept[0]);
        memory.inject(A, Fault::Taken);
        assert!(matches!(store.commit(&[batch(A, "x")], Flush::Now)[..], [Outcome::Fenced]));
    }
}

fn fixture() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/v1")
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), &target).unwrap();
        }
    }
}

fn fixture_rows() -> Vec<Write> {
    let row = |slice, key: &str, version, text: &str| Write {
        slice: Slice(slice),
        key: key.as_bytes().to_vec(),
        row: Row { version, bytes: text.as_bytes().to_vec() },
    };
    vec![row(0, "hits", 2, "two"), row(0, "gone", 2, ""), row(1, "id", 1, "seen"), row(2, "id", 2, "seen")]
}

/// Writes the fixture anew; only where a test is told to, because the committed one is the point.
fn write_fixture(folder: &Path) {
    let embedded = Embedded::open(folder, small(2)).unwrap();
    let mut store = Store::new(embedded.log(1), embedded.table());
    store.open(A).unwrap();
    committed(store.log(), A, "first");
    committed(store.log(), A, "second");
    store.checkpoint(A, Position(2), &fixture_rows()).unwrap();
    store.table().drop_slices(A, Slice(2)).unwrap();
    committed(store.log(), A, "third");
    let mut other = Store::new(embedded.log(0), embedded.table());
    other.open(B).unwrap();
    committed(other.log(), B, "other");
}

#[test]
fn a_folder_of_the_first_format_opens() {
    if std::env::var_os("QUIPU_WRITE_FIXTURE").is_some() {
        write_fixture(&fixture());
    }
    let folder = tempfile::tempdir().unwrap();
    copy(&fixture(), folder.path());
    let embedded = Embedded::open(folder.path(), small(1)).unwrap();
    let mut store = Store::new(embedded.log(0), embedded.table());
    let recovered = store.open(A).unwrap();
    assert_eq!(recovered.checkpoint, Position(2));
    assert_eq!(recovered.records.len(), 1);
    assert_eq!(recovered.records[0].bytes, b"third");
    assert_eq!(store.open(B).unwrap().records[0].bytes, b"other");
    let table = store.table();
    assert_eq!(table.get(A, Slice::KEPT, b"hits").unwrap(), Some(Row { version: 2, bytes: b"two".to_vec() }));
    assert_eq!(table.get(A, Slice::KEPT, b"gone").unwrap(), Some(Row { version: 2, bytes: Vec::new() }));
    assert_eq!(table.get(A, Slice(1), b"id").unwrap(), None);
    assert_eq!(table.get(A, Slice(2), b"id").unwrap().unwrap().version, 2);
    let scan = Scan { slice: Slice::KEPT, prefix: b"", after: None, rows_max: 10 };
    assert_eq!(table.scan(A, scan).unwrap().rows.len(), 1);
}

/// The files of a log, with their lengths in bytes, by name.
fn log_files(folder: &Path) -> Vec<(String, u64)> {
    let entries = fs::read_dir(folder.join("log")).unwrap().map(Result::unwrap);
    let mut files: Vec<_> = entries
        .map(|entry| (entry.file_name().into_string().unwrap(), entry.metadata().unwrap().len()))
        .collect();
    files.sort();
    files
}

/// Zeros for a whole segment would take longer than all the rest of a start.
#[test]
fn a_start_reserves_little_and_more_as_it_is_needed() {
    const STEP: u64 = 4 * 1024 * 1024;
    const RECORD_BYTES: usize = 1024 * 1024;
    const RECORDS: usize = 9;
    let folder = tempfile::tempdir().unwrap();
    for _ in 0..3 {
        let embedded = Embedded::open(folder.path(), LogConfig::default()).unwrap();
        let mut log = embedded.log(0);
        log.take(A).unwrap();
        committed(&mut log, A, "one");
        let files = log_files(folder.path());
        assert_eq!(files.last().unwrap().1, STEP, "{files:?}");
    }
    let long = "x".repeat(RECORD_BYTES);
    let embedded = Embedded::open(folder.path(), LogConfig::default()).unwrap();
    let mut log = embedded.log(0);
    log.take(A).unwrap();
    let before = log_files(folder.path()).len();
    (0..RECORDS).for_each(|_| committed(&mut log, A, &long));
    let files = log_files(folder.path());
    assert_eq!((files.len(), files.last().unwrap().1), (before, 3 * STEP), "one file, longer: {files:?}");
    drop((log, embedded));
    let mut log = Embedded::open(folder.path(), LogConfig::default()).unwrap().log(0);
    log.take(A).unwrap();
    assert_eq!(log.read(A, Position(0)).unwrap().len(), 3 + RECORDS);
}
