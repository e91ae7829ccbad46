//! A folder of which something is gone is not started: what is missing is named, and nothing is changed.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use quipu_storage::{
    Batch, Flush, Log, Outcome, Row, ShardId, Slice, StorageError, Table, Write,
    embedded::{Embedded, Findings, LogConfig, Remedy},
    testing::Seeded,
};

const SHARDS: u16 = 3;

fn small() -> LogConfig {
    LogConfig { workers: 2, segment_bytes: 2048, reserve_bytes: 512, ..LogConfig::default() }
}

/// What the table has of each shard.
fn row() -> Write {
    Write { slice: Slice::KEPT, key: b"row".to_vec(), row: Row { version: 3, bytes: vec![9; 100] } }
}

/// A folder with several segments for each of two workers, closed in order.
fn filled() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let embedded = Embedded::open(folder.path(), small()).unwrap();
    for worker in 0..2 {
        let mut log = embedded.log(worker);
        for shard in (0..SHARDS).map(|at| ShardId(10 * worker + at)) {
            log.take(shard).unwrap();
            embedded.table().put(shard, &[row()]).unwrap();
            for _ in 0..4 {
                let outcomes = log.commit(&[Batch { shard, record: vec![7; 500] }], Flush::Now);
                assert!(matches!(outcomes[..], [Outcome::Committed { .. }]), "{outcomes:?}");
            }
        }
    }
    folder
}

fn contents(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut contents = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
            match entry.file_type().unwrap().is_dir() {
                true => folders.push(entry.path()),
                false if entry.file_name() == "LOCK" => {}
                false => drop(contents.insert(entry.path(), fs::read(entry.path()).unwrap())),
            }
        }
    }
    contents
}

fn logs(folder: &Path) -> Vec<PathBuf> {
    let all = fs::read_dir(folder.join("log")).unwrap().map(|entry| entry.unwrap().path());
    let mut logs: Vec<PathBuf> = all.filter(|path| path.extension().is_some_and(|it| it == "log")).collect();
    logs.sort();
    logs
}

/// The folder is refused, the refusal has these words, and nothing is changed.
fn refused(folder: &Path, words: &str) {
    let before = contents(folder);
    let error = match Embedded::open(folder, small()) {
        Ok(_) => panic!("started, although something is gone: {words}"),
        Err(error) => error.to_string(),
    };
    assert!(error.contains(words), "expected {words:?}: {error}");
    assert!(contents(folder) == before, "a folder that was refused was written to: {error}");
}

#[test]
fn a_folder_that_is_whole_opens_again_and_again() {
    let folder = filled();
    for _ in 0..3 {
        let embedded = Embedded::open(folder.path(), small()).unwrap();
        for shard in (0..SHARDS).flat_map(|at| [ShardId(at), ShardId(10 + at)]) {
            let mut log = embedded.log(0);
            let taken = log.take(shard).unwrap();
            assert_eq!(log.read(shard, taken.checkpoint).unwrap().len(), 4, "{shard:?}");
        }
    }
}

#[test]
fn a_folder_without_its_format_is_not_a_new_one() {
    let folder = filled();
    fs::remove_file(folder.path().join("FORMAT")).unwrap();
    refused(folder.path(), "FORMAT");
}

#[test]
fn a_log_that_is_gone_is_named() {
    let whole = logs(filled().path()).len();
    assert!(whole > 4, "several segments for each worker");
    for at in 0..whole {
        let folder = filled();
        let path = &logs(folder.path())[at];
        fs::remove_file(path).unwrap();
        refused(folder.path(), path.file_name().unwrap().to_str().unwrap());
    }
    let folder = filled();
    fs::remove_dir_all(folder.path().join("log")).unwrap();
    fs::create_dir(folder.path().join("log")).unwrap();
    refused(folder.path(), "w1-");
}

#[test]
fn a_log_that_is_emptied_or_cut_is_named() {
    let whole = logs(filled().path()).len();
    for at in 0..whole {
        for kept in [0, 30, 64, 700] {
            let folder = filled();
            let path = &logs(folder.path())[at];
            let length = fs::metadata(path).unwrap().len();
            if kept >= length {
                continue;
            }
            fs::OpenOptions::new().write(true).open(path).unwrap().set_len(kept).unwrap();
            match Embedded::open(folder.path(), small()) {
                // What was cut off held nothing.
                Ok(_) => assert!(kept == 700, "{} cut to {kept} bytes", path.display()),
                Err(StorageError::Locked { .. }) => panic!("it is not in use"),
                Err(_) => refused(folder.path(), path.file_name().unwrap().to_str().unwrap()),
            }
        }
    }
}

#[test]
fn a_table_that_is_gone_is_not_a_new_one() {
    let folder = filled();
    fs::remove_dir_all(folder.path().join("table")).unwrap();
    refused(folder.path(), "table");
}

/// Every file of a log, harmed: a repair says what would be lost, changes nothing until it is told to, and leaves each shard as
/// it was at some moment.
#[test]
fn a_repair_says_what_is_lost_and_leaves_each_shard_as_it_was_once() {
    for at in 0..logs(filled().path()).len() {
        let folder = filled();
        let path = &logs(folder.path())[at];
        fs::remove_file(path).unwrap();
        let before = contents(folder.path());
        let Findings { wrong, lost, remedy } = Embedded::examine(folder.path()).unwrap();
        assert_eq!(remedy, Remedy::Log);
        let name = path.file_name().unwrap().to_str().unwrap();
        assert!(wrong.iter().any(|it| it.contains(name)), "{wrong:?}");
        assert!(lost.iter().any(|it| it.contains("group commits")), "{lost:?}");
        assert!(contents(folder.path()) == before, "examining changes nothing");

        Embedded::repair(folder.path()).unwrap();
        let kept = fs::read_dir(folder.path().join("log")).unwrap();
        let kept = kept.filter(|entry| entry.as_ref().unwrap().path().to_string_lossy().contains("damaged"));
        assert_eq!(
            kept.count(),
            before.keys().filter(|it| it.extension().is_some_and(|it| it == "log")).count()
        );
        let error = Embedded::open(folder.path(), small()).unwrap_err();
        assert!(matches!(error, StorageError::Repaired { .. }), "{error}");
        let mut embedded = Embedded::open_repaired(folder.path(), small()).unwrap();
        let mut records = 0;
        for shard in (0..SHARDS).flat_map(|at| [ShardId(at), ShardId(10 + at)]) {
            let mut log = embedded.log(0);
            let taken = log.take(shard).unwrap();
            records += log.read(shard, taken.checkpoint).unwrap().len();
        }
        assert!((1..24).contains(&records), "{records} of 24 records are left");
        embedded.set_restored().unwrap();
        drop(embedded);
        assert_eq!(Embedded::examine(folder.path()).unwrap().remedy, Remedy::Whole);
        Embedded::open(folder.path(), small()).unwrap();
    }
}

#[test]
fn a_format_that_is_gone_is_written_again_without_loss() {
    for notes_too in [false, true] {
        let folder = filled();
        fs::remove_file(folder.path().join("FORMAT")).unwrap();
        if notes_too {
            fs::remove_file(folder.path().join("NOTED.1")).unwrap();
            fs::remove_file(folder.path().join("NOTED.2")).unwrap();
        }
        let findings = Embedded::repair(folder.path()).unwrap();
        assert_eq!((findings.remedy, &findings.lost[..]), (Remedy::Format, &[][..]));
        let embedded = Embedded::open(folder.path(), small()).unwrap();
        let mut log = embedded.log(0);
        log.take(ShardId(11)).unwrap();
        assert_eq!(log.read(ShardId(11), quipu_storage::Position(0)).unwrap().len(), 4);
    }
}

#[test]
fn a_folder_without_its_rows_is_not_repaired() {
    let folder = filled();
    fs::remove_dir_all(folder.path().join("table")).unwrap();
    let before = contents(folder.path());
    assert_eq!(Embedded::repair(folder.path()).unwrap().remedy, Remedy::None);
    assert!(contents(folder.path()) == before);
}

#[test]
fn a_folder_that_is_whole_is_not_changed_by_a_repair() {
    let folder = filled();
    let before = contents(folder.path());
    assert_eq!(Embedded::repair(folder.path()).unwrap().remedy, Remedy::Whole);
    assert!(contents(folder.path()) == before);
}

/// Damages one file of a folder in one way. Returns what was done.
fn damage(folder: &Path, random: &mut Seeded) -> String {
    let mut paths: Vec<PathBuf> = logs(folder);
    paths.push(folder.join("FORMAT"));
    let in_table = contents(&folder.join("table")).into_iter().filter(|(_, bytes)| !bytes.is_empty());
    paths.extend(in_table.map(|(path, _)| path));
    let path = &paths[random.below(paths.len())];
    let name = path.file_name().unwrap().to_string_lossy().into_owned();
    let mut bytes = fs::read(path).unwrap();
    let (at, bit) = (random.below(bytes.len()), random.below(8));
    let to = at + 1 + random.below(bytes.len() - at);
    let what = match random.below(6) {
        0 => {
            fs::remove_file(path).unwrap();
            return format!("{name} is removed");
        }
        1 => {
            bytes.truncate(at);
            format!("{name} ends at {at}")
        }
        2 => {
            bytes[at] ^= 1 << bit;
            format!("{name}: bit {bit} of byte {at} is another")
        }
        3 => {
            bytes[at..to].fill(0);
            format!("{name}: bytes {at} to {to} are zero")
        }
        4 => {
            bytes.drain(at..to);
            format!("{name}: bytes {at} to {to} are left out")
        }
        _ => {
            let other = &paths[random.below(paths.len())];
            bytes = fs::read(other).unwrap();
            format!("{name} is a copy of {}", other.display())
        }
    };
    fs::write(path, bytes).unwrap();
    what
}

/// What the logs of a folder hold, if it opens and all of it can be read.
fn held(folder: &Path) -> Result<Vec<usize>, StorageError> {
    let embedded = Embedded::open(folder, small())?;
    let shards = (0..SHARDS).flat_map(|at| [ShardId(at), ShardId(10 + at)]);
    let records = |shard| {
        let mut log = embedded.log(0);
        let taken = log.take(shard)?;
        let records = log.read(shard, taken.checkpoint)?;
        assert!(records.iter().all(|record| record.bytes == vec![7; 500]), "a record that nobody wrote");
        let Write { slice, key, row } = row();
        assert_eq!(embedded.table().get(shard, slice, &key)?, Some(row), "a row is gone");
        Ok(records.len())
    };
    shards.map(records).collect()
}

/// Another block of seeds each time, printed. However a folder that was closed in order is damaged, it does not start with
/// less than it had: it is refused and not written to, or the damage is to bytes that hold nothing.
#[test]
fn a_damaged_folder_never_starts_with_less() {
    let from: u64 = match std::env::var("QUIPU_FRESH") {
        Ok(seed) => seed.parse().expect("QUIPU_FRESH is the first seed"),
        Err(_) => {
            let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
            now.expect("after 1970").as_secs() * 1_000
        }
    };
    println!(
        "the same again: QUIPU_FRESH={from} cargo test -p quipu-storage --test missing a_damaged_folder"
    );
    let mut refused = 0;
    for seed in from..from + 60 {
        let folder = filled();
        let mut random = Seeded::new(seed);
        let what = damage(folder.path(), &mut random);
        let before = contents(folder.path());
        match held(folder.path()) {
            Ok(held) => assert_eq!(held, [4; 2 * SHARDS as usize], "seed {seed}: {what}"),
            Err(_) => {
                refused += 1;
                assert!(contents(folder.path()) == before, "seed {seed}: {what}, and it was written to");
            }
        }
    }
    assert!(refused > 20, "{refused} of 60 were refused");
}
