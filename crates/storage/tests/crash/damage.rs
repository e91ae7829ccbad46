//! Damage to committed bytes is an error that names the place; only the last frame of a log can pass for torn.

use quipu_storage::{
    Flush, ShardId, StorageError,
    embedded::{
        LogConfig, Logs,
        flaws::{Flaws, Gaps},
        frame::{self, Checksum, SegmentId},
    },
    testing::sim_disk::{Fate, SimDisk},
};

use crate::{
    Run, Setup, check,
    driver::{Driver, Order, Step},
    lazy_disk::Stubborn,
    right, run, short_script,
};

/// Flips a bit in every byte of every segment, one at a time. Returns how many were refused.
fn flip_everywhere(setup: Setup) -> Result<usize, String> {
    let mut script = short_script();
    // Worker 1 commits for one shard, then for another: a lost frame that no later record of its shard betrays. And
    // one more group at the end of each worker's log: the one frame that damage may turn into a torn tail.
    let now =
        |worker, shard| Step::Commit { worker, writes: vec![(ShardId(shard), 9, 13)], flush: Flush::Now };
    script.extend([now(1, 0), now(0, 2), now(1, 1)]);
    let before = run(setup, &script[..script.len() - 2], |_| {}).promises;
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
            let mut promises = promises.clone();
            for (shard, promise) in &mut promises {
                promise.durable = before[shard].durable;
            }
            let run = Run { disk: damaged, memory: memory.clone(), promises };
            match Logs::open(run.disk.clone(), 0x5EED, setup.config) {
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

fn flawed(flaws: Flaws) -> Setup {
    let config = LogConfig { flaws, ..right().config };
    Setup { config, ..right() }
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

#[test]
fn a_lost_file_is_noticed() {
    let Run { disk, memory, promises } = run(right(), &short_script(), |_| {});
    let mut noticed = 0;
    for name in disk.contents().into_keys().filter(|name| name.ends_with(".log")) {
        let copy: SimDisk = disk.fork();
        quipu_storage::embedded::Disk::remove(&copy, &name).unwrap();
        let layer = Stubborn::new(copy.clone(), false);
        let opened =
            Driver::open(&copy, layer, &memory, right().config, Order::RowsThenMark, promises.clone());
        noticed += usize::from(opened.is_err());
    }
    assert!(noticed > 0);
}
