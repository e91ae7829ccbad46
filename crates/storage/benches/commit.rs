//! Group commits against the bare floor: `cargo bench -p quipu-storage`.
//!
//! Rows of 72 bytes (a key of 24, a value of 48), so many to a group, spread over 16 shards; every group is flushed.
//! The floor writes the same number of bytes to a preallocated file and flushes it. The two take turns, so that the
//! ratio holds on a noisy machine.

use std::{
    fs::OpenOptions,
    os::unix::fs::FileExt,
    time::{Duration, Instant},
};

use quipu_storage::{
    Batch, Flush, Log, Mark, Outcome, Position, ShardId,
    embedded::{DiskFile, Embedded, LogConfig},
};

const ROW_BYTES: usize = 72;
const SHARDS: u16 = 16;
const ROUNDS: usize = 6;
const ROUND: Duration = Duration::from_millis(250);
const FLOOR_BYTES: u64 = 64 * 1024 * 1024;

fn batches(rows: usize) -> Vec<Batch> {
    let mut batches: Vec<Batch> =
        (0..SHARDS).map(|shard| Batch { shard: ShardId(shard), record: Vec::new() }).collect();
    for row in 0..rows {
        let record = &mut batches[row % usize::from(SHARDS)].record;
        record.extend((0..ROW_BYTES).map(|at| u8::try_from((row + at) % 251).expect("small")));
    }
    batches.retain(|batch| !batch.record.is_empty());
    batches
}

fn rounds(mut commit: impl FnMut()) -> f64 {
    let start = Instant::now();
    let mut commits = 0u32;
    while start.elapsed() < ROUND {
        commit();
        commits += 1;
    }
    f64::from(commits) / start.elapsed().as_secs_f64()
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

fn main() {
    // `cargo test --benches` runs this too, without a reason to wait for it.
    if !std::env::args().any(|argument| argument == "--bench") {
        return;
    }
    // On a disk flushing is nearly everything; `QUIPU_BENCH_DIR=/dev/shm` shows what else there is.
    let place = std::env::var("QUIPU_BENCH_DIR").unwrap_or_else(|_| env!("CARGO_TARGET_TMPDIR").to_owned());
    let folder = tempfile::tempdir_in(place).expect("a folder");
    let embedded = Embedded::open(folder.path(), LogConfig::default()).expect("opens");
    let mut log = embedded.log(0);
    for shard in 0..SHARDS {
        log.take(ShardId(shard)).expect("taken");
    }
    let mut floor = OpenOptions::new()
        .create_new(true)
        .read(true)
        .write(true)
        .open(folder.path().join("floor"))
        .expect("a file");
    floor.reserve(FLOOR_BYTES).expect("space");
    floor.sync_all().expect("flushes");
    println!(
        "{:>5} {:>12} {:>12} {:>12} {:>12} {:>7}",
        "rows", "floor/s", "commits/s", "floor rows", "rows/s", "ratio"
    );
    for rows in [1, 32, 512, 4096] {
        let batches = batches(rows);
        let bytes = vec![7; batches.iter().map(|batch| batch.record.len()).sum()];
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        let mut at = 0;
        let mut marks: Vec<Mark> = Vec::new();
        for _ in 0..ROUNDS {
            theirs.push(rounds(|| {
                if at + bytes.len() as u64 > FLOOR_BYTES {
                    at = 0;
                }
                floor.write_all_at(&bytes, at).expect("writes");
                floor.sync_data().expect("flushes");
                at += bytes.len() as u64;
            }));
            let mut group = 0u64;
            ours.push(rounds(|| {
                let outcomes = log.commit(&batches, Flush::Now);
                marks = batches
                    .iter()
                    .zip(outcomes)
                    .map(|(batch, outcome)| mark(batch.shard, &outcome))
                    .collect();
                group += bytes.len() as u64;
                if group > FLOOR_BYTES / 2 {
                    group = 0;
                    log.checkpoint(&marks).expect("moves");
                }
            }));
            log.checkpoint(&marks).expect("moves");
        }
        let (ours, theirs) = (median(ours), median(theirs));
        let each = f64::from(u32::try_from(rows).expect("small"));
        println!(
            "{rows:>5} {theirs:>12.0} {ours:>12.0} {:>12.0} {:>12.0} {:>7.2}",
            theirs * each,
            ours * each,
            ours / theirs
        );
    }
}

fn mark(shard: ShardId, outcome: &Outcome) -> Mark {
    let position = match outcome {
        Outcome::Committed { position } => *position,
        other => panic!("not committed: {other:?}"),
    };
    assert!(position > Position(0));
    Mark { shard, position }
}
