//! A state file: crashes at every operation with every fate of what was not flushed, errors, damage, locks.

mod driver;

use std::{collections::BTreeMap, fs, io::ErrorKind};

use driver::{Driver, NAME, Promise, SHARDS, Step, shards};
use quipu_storage::{
    Batch, Flush, Outcome, Row, ShardId, Slice, StorageError, Store, Table, Write,
    embedded::{Disk, DiskFile},
    file::{Ending, StateFile},
    testing::{
        Seeded,
        sim_disk::{Fate, Operation, SimDisk},
    },
};

const A: ShardId = ShardId(0);
const B: ShardId = ShardId(1);

/// The most ways of losing writes that are tried for one crash; above that they are drawn.
const WAYS_MAX: usize = 40;

/// Appending, reserving, checkpoints with deleted rows, writing anew because there is too much garbage.
fn short_script() -> Vec<Step> {
    let put = |shard, key, bytes| Step::Put { shard, key, bytes };
    vec![
        put(A, 1, 20),
        put(B, 1, 700),
        put(A, 2, 9_000),
        Step::Checkpoint { shard: A },
        put(A, 1, 9_000),
        Step::Delete { shard: A, key: 2 },
        Step::Checkpoint { shard: A },
        put(A, 3, 30_000),
        Step::Take { shard: A },
        put(A, 2, 30_000),
        Step::Checkpoint { shard: A },
        put(B, 2, 10),
        Step::Checkpoint { shard: B },
        Step::Delete { shard: B, key: 1 },
        put(A, 1, 10),
    ]
}

struct Run {
    disk: SimDisk,
    promises: BTreeMap<ShardId, Promise>,
}

fn run(script: &[Step], prepare: impl FnOnce(&SimDisk)) -> Run {
    let disk = SimDisk::new();
    prepare(&disk);
    let mut promises = BTreeMap::new();
    if let Ok(mut driver) = Driver::open(&disk, BTreeMap::new()) {
        driver.run(script);
        promises = driver.promises;
    }
    Run { disk, promises }
}

/// Opens what a crash has left, and goes on from there, twice.
fn check(disk: &SimDisk, run: &Run) -> Result<(), String> {
    let mut promises = run.promises.clone();
    for _ in 0..2 {
        let mut driver = Driver::open(disk, promises)?;
        for shard in shards() {
            driver.run(&[Step::Put { shard, key: 9, bytes: 5 }]);
        }
        promises = driver.promises;
        disk.power_cycle(0, || Fate::Lost);
    }
    Ok(())
}

/// Every way in which the crashed disk may come back, or many of them.
fn every_way(run: &Run, ways_max: usize, seed: u64) -> Result<usize, String> {
    let writes = run.disk.decisions() - 1;
    let names = run.disk.name_changes() + 1;
    let all =
        Fate::ALL.len().checked_pow(u32::try_from(writes).unwrap()).and_then(|ways| ways.checked_mul(names));
    let mut random = Seeded::new(seed);
    let exhaustive = all.is_some_and(|all| all <= ways_max);
    let ways = if exhaustive { all.unwrap() } else { ways_max };
    for way in 0..ways {
        let disk = run.disk.fork();
        let mut rest = way / names;
        let kept = if exhaustive { way % names } else { random.below(names) };
        disk.power_cycle(kept, || {
            let choice = if exhaustive { rest % Fate::ALL.len() } else { random.below(Fate::ALL.len()) };
            rest /= Fate::ALL.len();
            Fate::ALL[choice]
        });
        check(&disk, run).map_err(|why| format!("way {way} of {ways}: {why}"))?;
    }
    Ok(ways)
}

fn crash_everywhere(script: &[Step], lie: bool) -> Result<usize, String> {
    let operations = run(script, |_| {}).disk.operations().len();
    let mut ways = 0;
    for at in 0..=operations as u64 {
        let run = run(script, |disk| {
            disk.crash_at(at);
            if lie {
                disk.lie();
            }
        });
        ways += every_way(&run, WAYS_MAX, at).map_err(|why| format!("crash at {at}: {why}"))?;
    }
    Ok(ways)
}

#[test]
fn a_crash_anywhere_loses_nothing_that_was_reported() {
    let operations = run(&short_script(), |_| {}).disk.operations();
    let renamed = operations.iter().filter(|operation| **operation == Operation::SyncNames).count();
    assert!(renamed > 1, "the script lets the file be written anew");
    let ways = crash_everywhere(&short_script(), false).unwrap();
    println!("{ways} ways of crashing");
    assert!(ways > 200);
}

#[test]
fn not_flushing_before_committed_is_caught() {
    match crash_everywhere(&short_script(), true) {
        Ok(ways) => panic!("not caught in {ways} ways"),
        Err(why) => println!("caught: {why}"),
    }
}

#[test]
fn an_error_anywhere_and_a_crash_after_it_lose_nothing() {
    let script = short_script();
    let operations = run(&script, |_| {}).disk.operations().len() as u64;
    let mut ways = 0;
    for kind in [ErrorKind::Other, ErrorKind::StorageFull] {
        for fail in 0..operations {
            for after in [1, 2, 3, 5, 8, operations] {
                let run = run(&script, |disk| {
                    disk.fail_at(fail, kind);
                    disk.crash_at(fail + after);
                });
                ways += every_way(&run, 4, fail)
                    .unwrap_or_else(|why| panic!("{kind:?} at {fail}, crash {after} later: {why}"));
            }
        }
    }
    println!("{ways} ways of failing and crashing");
    assert!(ways > 500);
}

fn random_script(random: &mut Seeded, steps: usize) -> Vec<Step> {
    let step = |random: &mut Seeded| {
        let shard = ShardId(u16::try_from(random.below(usize::from(SHARDS))).unwrap());
        let key = u8::try_from(random.below(6)).unwrap();
        match random.below(10) {
            0 | 1 => Step::Checkpoint { shard },
            2 => Step::Take { shard },
            3 | 4 => Step::Delete { shard, key },
            _ => Step::Put { shard, key, bytes: random.below(9_000) },
        }
    };
    (0..steps).map(|_| step(random)).collect()
}

#[test]
fn many_lives_with_errors_and_crashes() {
    let seeds = std::env::var("QUIPU_SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(40);
    for seed in 0..seeds {
        let mut random = Seeded::new(seed);
        let disk = SimDisk::new();
        let mut promises: BTreeMap<ShardId, Promise> = BTreeMap::new();
        for life in 0..20 {
            let done = disk.operations().len() as u64;
            disk.crash_at(done + random.below(200) as u64);
            if random.below(2) == 0 {
                disk.fail_at(done + random.below(100) as u64, ErrorKind::Other);
            }
            if let Ok(mut driver) = Driver::open(&disk, promises.clone()) {
                driver.run(&random_script(&mut random, 60));
                promises = driver.promises;
            }
            let names = random.below(disk.name_changes() + 1);
            disk.power_cycle(names, || Fate::ALL[random.below(Fate::ALL.len())]);
            let copy = Run { disk: disk.fork(), promises: promises.clone() };
            check(&copy.disk, &copy).unwrap_or_else(|why| {
                let replay = "cargo test -p quipu-storage --test one_file many_lives";
                panic!("seed {seed}, life {life}: {why}\nreplay: QUIPU_SEEDS={} {replay}", seed + 1)
            });
        }
    }
}

#[test]
fn a_full_disk_refuses_and_stores_nothing_until_there_is_space() {
    let disk = SimDisk::new();
    let file = StateFile::on(disk.clone(), NAME).unwrap();
    let mut store = Store::new(file.log(), file.table());
    store.open(A).unwrap();
    let batch = |bytes: usize| [Batch { shard: A, record: vec![7; bytes] }];
    assert!(matches!(store.commit(&batch(10), Flush::Now)[..], [Outcome::Committed { .. }]));
    disk.fail_all(Operation::Reserve, Some(ErrorKind::StorageFull));
    // What fits into the space that is reserved is stored; then there is no more.
    let mut stored = 1;
    let refusal = loop {
        match &store.commit(&batch(1_000), Flush::Now)[..] {
            [Outcome::Committed { .. }] => stored += 1,
            [Outcome::Failed(refusal)] => break refusal.clone(),
            other => panic!("{other:?}"),
        }
    };
    assert!(matches!(refusal, StorageError::Full { .. }), "{refusal}");
    assert!(refusal.to_string().contains("nothing was stored"), "{refusal}");
    assert_eq!(store.reload(A).unwrap().records.len(), stored);
    disk.fail_all(Operation::Reserve, None);
    assert!(matches!(store.commit(&batch(1_000), Flush::Now)[..], [Outcome::Committed { .. }]));
    drop((store, file));
    disk.power_cycle(0, || Fate::Lost);
    let file = StateFile::on(disk, NAME).unwrap();
    assert_eq!(Store::new(file.log(), file.table()).open(A).unwrap().records.len(), stored + 1);
}

/// A file with five frames of its own, the last of them of the length that is asked for.
fn written(last_bytes: usize) -> SimDisk {
    let disk = SimDisk::new();
    let mut driver = Driver::open(&disk, BTreeMap::new()).unwrap();
    driver.run(&[
        Step::Put { shard: A, key: 1, bytes: 50 },
        Step::Put { shard: A, key: 2, bytes: 50 },
        Step::Checkpoint { shard: A },
        Step::Put { shard: A, key: 3, bytes: 50 },
        Step::Put { shard: A, key: 4, bytes: last_bytes },
    ]);
    disk
}

/// A bit that flips anywhere is noticed, also in the frame that was written last, unless nothing is lost by it.
fn flip_everywhere(ending: Ending) -> Result<usize, String> {
    let mut refused = 0;
    for last_bytes in [0, 50, 400, 512, 1_500, 3_000] {
        let disk = written(last_bytes);
        let used = disk.contents()[NAME].iter().rposition(|byte| *byte != 0).unwrap() + 1;
        for offset in 0..used {
            for bit in [0, 3, 7] {
                let copy = disk.fork();
                copy.flip(NAME, offset, bit);
                match StateFile::with(copy, NAME, ending) {
                    Err(StorageError::Corrupt { .. } | StorageError::UnknownFormat { .. }) => refused += 1,
                    Err(other) => return Err(format!("byte {offset} of {used}: {other}")),
                    Ok(file) => {
                        let records = Store::new(file.log(), file.table()).open(A).unwrap().records;
                        if records.len() != 2 {
                            return Err(format!(
                                "byte {offset} of {used}, bit {bit}: {} records",
                                records.len()
                            ));
                        }
                    }
                }
            }
        }
    }
    Ok(refused)
}

#[test]
fn damage_is_an_error_and_never_a_guess() {
    let refused = flip_everywhere(Ending::Judged).unwrap();
    assert!(refused > 5_000, "{refused}");
}

#[test]
fn taking_a_damaged_last_frame_for_a_torn_one_is_caught() {
    let why = flip_everywhere(Ending::TakenForTorn).unwrap_err();
    println!("caught: {why}");
}

/// Cut anywhere, a file is refused.
#[test]
fn a_file_that_is_cut_is_damaged() {
    let disk = written(700);
    let whole = disk.contents()[NAME].len();
    for bytes in 0..whole {
        let copy = disk.fork();
        copy.cut(NAME, bytes);
        match StateFile::on(copy, NAME) {
            Err(StorageError::Corrupt { .. }) => {}
            Err(other) => panic!("cut to {bytes} bytes of {whole}: {other}"),
            Ok(_) => panic!("cut to {bytes} bytes of {whole}, and opened"),
        }
    }
}

/// Where frames and their marks end.
fn frame_ends(bytes: &[u8]) -> Vec<usize> {
    let marks = bytes.windows(4).enumerate().filter(|(_, word)| *word == b"QEND");
    marks.map(|(at, _)| at + 8).collect()
}

#[test]
fn a_file_with_nothing_but_a_header_is_damaged_and_an_empty_one_too() {
    let disk = written(50);
    for bytes in [0, 64] {
        let copy = disk.fork();
        copy.cut(NAME, bytes);
        let refusal = StateFile::on(copy.clone(), NAME).unwrap_err();
        assert!(matches!(refusal, StorageError::Corrupt { .. }), "{refusal}");
        assert_eq!(copy.contents()[NAME].len(), bytes, "nothing was changed");
    }
    // The same with the zeros that wait for frames.
    let mut bytes = disk.contents()[NAME].clone();
    bytes[64..].fill(0);
    let copy = SimDisk::new();
    Disk::create(&copy, NAME).unwrap().write_at(0, &bytes).unwrap();
    assert!(matches!(StateFile::on(copy, NAME), Err(StorageError::Corrupt { .. })));
}

/// What was written before the damage can be had, if somebody asks for it; the damaged file stays beside it.
#[test]
fn a_repair_keeps_what_can_be_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state");
    let bytes = written(50).contents()[NAME].clone();
    let ends = frame_ends(&bytes);
    let last = ends[ends.len() - 2] + 40;
    let mut damaged = bytes.clone();
    damaged[last] ^= 1;
    fs::write(&path, &damaged).unwrap();
    let damage = StateFile::examine(&path).unwrap().expect("damaged");
    assert!(damage.frames_kept > 0 && damage.bytes_lost > 0, "{damage:?}");
    assert_eq!(fs::read(&path).unwrap(), damaged, "examining changes nothing");
    // What cannot be marked as repaired is not put in its place.
    let unmarked = StateFile::repair(&path, |_| Err::<(), _>(StorageError::Injected("no mark")));
    assert!(unmarked.is_err());
    assert_eq!(fs::read(&path).unwrap(), damaged);
    let mark = Write {
        slice: Slice::KEPT,
        key: b"mark".to_vec(),
        row: Row { version: 1, bytes: b"repaired".to_vec() },
    };
    let repaired = StateFile::repair(&path, |table| {
        table.put(A, std::slice::from_ref(&mark))?;
        assert_eq!(fs::read(&path).unwrap(), damaged, "it is marked before it is in place");
        Ok::<_, StorageError>(())
    });
    repaired.unwrap().expect("damaged");
    assert_eq!(fs::read(folder.path().join("state.damaged")).unwrap(), damaged);
    assert!(StateFile::examine(&path).unwrap().is_none());
    let file = StateFile::open(&path).unwrap();
    assert_eq!(file.table().get(A, Slice::KEPT, b"mark").unwrap(), Some(mark.row));
    assert_eq!(Store::new(file.log(), file.table()).open(A).unwrap().records.len(), 1);
}

#[test]
fn a_file_is_open_once_and_other_files_are_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state");
    let file = StateFile::open(&path).unwrap();
    let refusal = StateFile::open(&path).unwrap_err();
    assert!(matches!(refusal, StorageError::Locked { .. }), "{refusal}");
    assert!(refusal.to_string().contains("is in use by"), "{refusal}");
    // It stays locked when it is written anew, and there is no second file.
    let mut store = Store::new(file.log(), file.table());
    store.open(A).unwrap();
    for _ in 0..100 {
        let outcomes = store.commit(&[Batch { shard: A, record: vec![1; 2_000] }], Flush::Now);
        let [Outcome::Committed { position }] = outcomes[..] else { panic!("{outcomes:?}") };
        store.checkpoint(A, position, &[]).unwrap();
    }
    assert!(fs::metadata(&path).unwrap().len() < 100_000, "it is written anew");
    assert!(matches!(StateFile::open(&path), Err(StorageError::Locked { .. })));
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    drop(store);
    drop(file);
    StateFile::open(&path).unwrap().remove().unwrap();
    assert!(!path.exists());

    fs::write(&path, "#!/bin/sh\necho not a state\n").unwrap();
    let refusal = StateFile::open(&path).unwrap_err();
    assert!(refusal.to_string().contains("no state file"), "{refusal}");
    assert_eq!(fs::read_to_string(&path).unwrap(), "#!/bin/sh\necho not a state\n");
    assert!(StateFile::open(folder.path()).is_err(), "a folder");
    assert!(StateFile::open(&folder.path().join("nowhere/state")).is_err(), "no folder");
    fs::remove_file(&path).unwrap();
    drop(StateFile::open(&path).unwrap());
    // What a crash has left of a new file does no harm.
    fs::write(folder.path().join("state.new"), "half").unwrap();
    let link = folder.path().join("link");
    std::os::unix::fs::symlink(&path, &link).unwrap();
    let file = StateFile::open(&link).unwrap();
    let mut store = Store::new(file.log(), file.table());
    store.open(A).unwrap();
    for _ in 0..100 {
        let outcomes = store.commit(&[Batch { shard: A, record: vec![1; 2_000] }], Flush::Now);
        let [Outcome::Committed { position }] = outcomes[..] else { panic!("{outcomes:?}") };
        store.checkpoint(A, position, &[]).unwrap();
    }
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink(), "the link is still one");
}
