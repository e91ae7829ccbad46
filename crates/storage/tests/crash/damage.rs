//! Damage to committed bytes is an error that names the place. Only what was committed after the last note can pass for a
//! torn tail.

use quipu_storage::{
    Flush, Log, ShardId, StorageError,
    embedded::{
        Disk, Logs,
        flaws::{Flaws, Gaps, Missing},
        frame::{self, Checksum, SegmentId},
    },
    testing::sim_disk::{Fate, SimDisk},
};

use crate::{
    Run, Setup, check,
    driver::{Step, shards},
    flawed, right, run, short_script,
};

/// Flips a bit in every byte of every segment, one at a time. Returns how many were refused.
fn flip_everywhere(setup: Setup) -> Result<usize, String> {
    let mut script = short_script();
    // Worker 1 commits for one shard, then for another: a lost frame that no later record of its shard betrays. The last
    // frame of each worker's log is noted when it is closed.
    let now =
        |worker, shard| Step::Commit { worker, writes: vec![(ShardId(shard), 9, 13)], flush: Flush::Now };
    script.extend([now(1, 0), now(0, 2), now(1, 1)]);
    let Run { disk, memory, promises } = run(setup, &script, |_| {});
    let mut refused = 0;
    for (name, bytes) in disk.contents() {
        if !name.ends_with(".log") {
            continue;
        }
        for offset in 0..bytes.len() {
            let damaged = disk.fork();
            damaged.flip(&name, offset, u8::try_from(offset % 8).unwrap());
            let content = damaged.contents();
            let run = Run { disk: damaged, memory: memory.clone(), promises: promises.clone() };
            match Logs::open(run.disk.clone(), run.disk.clone(), setup.config) {
                Err(StorageError::Corrupt { file, .. }) => {
                    refused += 1;
                    if file != name {
                        return Err(format!("{name} was damaged, {file} was blamed"));
                    }
                    if run.disk.contents() != content {
                        return Err(format!("{name} at {offset}: a refused log was written to"));
                    }
                }
                Err(StorageError::Gap { .. }) => refused += 1,
                Err(StorageError::Missing { missing }) if missing.iter().all(|it| it.contains(&name)) => {
                    refused += 1;
                }
                Err(error) => return Err(format!("{name} at {offset}: {error}")),
                Ok(_) => {
                    run.disk.power_cycle(0, || Fate::Lost);
                    check(setup, &run.disk, &run).map_err(|why| format!("{name} at {offset}: {why}"))?;
                }
            }
        }
    }
    Ok(refused)
}

#[test]
fn damage_is_refused_and_named_and_nothing_is_overwritten() {
    let refused = flip_everywhere(right()).unwrap();
    println!("{refused} flips refused");
    assert!(refused > 1000);
}

#[test]
fn accepting_a_frame_after_a_gap_is_caught() {
    crate::caught(flip_everywhere(flawed(Flaws { gaps: Gaps::Accepted, ..Flaws::default() })));
}

/// Flips every bit of a frame: none may go unnoticed.
fn flip_frame(checksum: Checksum) -> Result<usize, String> {
    let id = SegmentId { store: 1, worker: 2, number: 3 };
    let mut flips = 0;
    for payload in [&b""[..], b"thirteen byte", b"sixteen bytes in"] {
        let mut bytes = Vec::new();
        frame::encode_frame(&mut bytes, id, 7, 6, payload, checksum);
        // What follows may be anything.
        bytes.extend_from_slice(&[0; 64]);
        let whole = frame::decode_frame(&bytes, 0, id, checksum).expect("sound");
        assert_eq!((whole.sequence, whole.synced, whole.payload), (7, 6, payload));
        for bit in 0..whole.bytes * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            if let Some(frame) = frame::decode_frame(&damaged, 0, id, checksum) {
                return Err(format!("bit {bit} flipped, and the frame reads {frame:?}"));
            }
            flips += 1;
        }
        let other = SegmentId { number: 4, ..id };
        assert_eq!(frame::decode_frame(&bytes, 0, other, checksum), None, "of the file's former life");
    }
    Ok(flips)
}

#[test]
fn no_flipped_bit_of_a_frame_goes_unnoticed() {
    assert!(flip_frame(Checksum::Whole).unwrap() > 900);
}

#[test]
fn a_checksum_without_the_length_is_caught() {
    crate::caught(flip_frame(Checksum::WithoutLength));
}

/// What becomes of a log, besides bits that flip.
#[derive(Debug, Clone, Copy)]
enum Harm {
    Deleted,
    Cut { bytes: usize },
}

/// Deletes and cuts every segment, one at a time, of a folder that was closed in order. Whoever opens it must refuse, or
/// find everything. Returns how many were refused.
fn harm_everywhere(setup: Setup) -> Result<usize, String> {
    let whole = run(setup, &short_script(), |_| {});
    let mut refused = 0;
    for (name, bytes) in whole.disk.contents() {
        if !name.ends_with(".log") {
            continue;
        }
        let cuts = (0..bytes.len()).step_by(40).map(|bytes| Harm::Cut { bytes });
        for harm in [Harm::Deleted].into_iter().chain(cuts) {
            let disk = whole.disk.fork();
            match harm {
                Harm::Deleted => Disk::remove(&disk, &name).unwrap(),
                Harm::Cut { bytes } => disk.cut(&name, bytes),
            }
            let content = disk.contents();
            match Logs::open(disk.clone(), disk.clone(), setup.config) {
                Err(error) if !error.is_damage() => return Err(format!("{name}, {harm:?}: {error}")),
                Err(_) if disk.contents() != content => {
                    return Err(format!("{name}, {harm:?}: a refused folder was written to"));
                }
                Err(_) => refused += 1,
                Ok(logs) => {
                    drop(logs);
                    let harmed = Run { disk, memory: whole.memory.clone(), promises: whole.promises.clone() };
                    check(setup, &harmed.disk, &harmed).map_err(|why| format!("{name}, {harm:?}: {why}"))?;
                }
            }
        }
    }
    Ok(refused)
}

#[test]
fn a_log_that_is_deleted_or_cut_is_noticed() {
    let refused = harm_everywhere(right()).unwrap();
    println!("{refused} harms refused");
    assert!(refused > 30);
}

#[test]
fn starting_without_what_is_missing_is_caught() {
    crate::caught(harm_everywhere(flawed(Flaws { missing: Missing::Ignored, ..Flaws::default() })));
}

/// A folder that was not closed in order is known as far as its last note goes.
#[test]
fn what_was_noted_is_noticed_after_a_crash_too() {
    let mut script = short_script();
    script.push(Step::Note);
    let operations = run(right(), &script, |_| {}).disk.operations().len() as u64;
    // The last operations are those of closing.
    let crashed = run(right(), &script, |disk| disk.crash_at(operations));
    crashed.disk.power_cycle(usize::MAX, || Fate::Lost);
    let newest =
        crashed.disk.contents().into_keys().rfind(|name| name.starts_with("w0-") && name.ends_with(".log"));
    Disk::remove(&crashed.disk, &newest.clone().unwrap()).unwrap();
    let error = Logs::open(crashed.disk.clone(), crashed.disk, right().config).unwrap_err();
    assert!(error.to_string().contains(&newest.unwrap()), "{error}");
}

/// A repair that is interrupted anywhere goes on where it was, and comes to the same end.
#[test]
fn a_crash_while_repairing_does_no_harm() {
    let whole = run(right(), &short_script(), |_| {});
    let harmed = whole.disk.contents().into_keys().find(|name| name.ends_with(".log")).unwrap();
    Disk::remove(&whole.disk, &harmed).unwrap();
    Disk::sync_names(&whole.disk).unwrap();
    let open = |disk: &SimDisk| Logs::open(disk.clone(), disk.clone(), right().config);
    let repair = |disk: &SimDisk| Logs::repair(disk.clone(), disk.clone());
    let left = |disk: &SimDisk| {
        let logs = open(disk).unwrap();
        let mut log = logs.log(0);
        let standing: Vec<_> = shards().map(|shard| log.take(shard).unwrap().last).collect();
        standing
    };
    let straight = whole.disk.fork();
    let findings = repair(&straight).unwrap();
    assert!(findings.lost.iter().any(|it| it.contains("group commits")), "{findings:?}");
    let expected = left(&straight);
    let mut crashes = 0;
    for at in 0.. {
        for fate in Fate::ALL {
            for names in [0, 1, 2, usize::MAX] {
                let disk = whole.disk.fork();
                disk.crash_at(at);
                let is_done = repair(&disk).is_ok();
                disk.power_cycle(names, || fate);
                if is_done {
                    assert_eq!(left(&disk), expected);
                    assert!(crashes > 100, "{crashes}");
                    return;
                }
                if let Err(error) = open(&disk.fork()) {
                    assert!(error.is_damage() || matches!(error, StorageError::Repairing { .. }), "{error}");
                    repair(&disk).unwrap();
                }
                assert_eq!(left(&disk), expected, "crash at {at}, {fate:?}, {names} names");
                crashes += 1;
            }
        }
    }
}

/// Either copy of the note is enough, and one that is neither there nor sound is missed.
#[test]
fn one_copy_of_the_note_is_enough_and_none_is_not() {
    let whole = run(right(), &short_script(), |_| {});
    for copy in ["NOTED.1", "NOTED.2"] {
        let disk = whole.disk.fork();
        disk.flip(copy, 20, 3);
        Logs::open(disk.clone(), disk.clone(), right().config).unwrap();
    }
    whole.disk.flip("NOTED.1", 20, 3);
    Disk::remove(&whole.disk, "NOTED.2").unwrap();
    let error = Logs::open(whole.disk.clone(), whole.disk, right().config).unwrap_err();
    assert!(matches!(error, StorageError::Missing { .. }), "{error}");
}
