//! How many commits a Cassandra on this machine takes: packed records of 50, 500 and 5000 rows, on 1, 4 and 16 shards
//! side by side. `cargo run --release -p quipu-storage-cassandra --features local --example commits [-- nodes]`

use std::{
    env,
    time::{Duration, Instant},
};

use quipu_storage::{Batch, Flush, Log, Mark, Outcome, ShardId};
use quipu_storage_cassandra::{
    Access, Cassandra, CassandraLog, Options, Schema,
    local::{Nodes, Program, Setup},
};

/// A counter's key, its count and its version, roughly.
const ROW_BYTES: usize = 72;
const WARM_UP: Duration = Duration::from_secs(1);
const MEASURED: Duration = Duration::from_secs(4);
/// The table is kept up to date behind a running server: its logs get shorter again and again.
const CHECKPOINT_EVERY: Duration = Duration::from_secs(2);

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let nodes: u32 = env::args().nth(1).map_or(Ok(1), |nodes| nodes.parse())?;
    let running = Nodes::start(&Program::find()?, Setup { nodes, ..Setup::default() })?;
    let address = running.address("bench");
    let schema = Schema { replication: nodes, ..Schema::default() };
    Cassandra::init(&address, &Access::default(), &schema)?;
    let (cassandra, _) = Cassandra::open(&address, &Access::default(), Options::default())?;
    println!("{nodes} nodes, {nodes} copies, a flush for every commit");
    println!("shards  rows  commits/s  per shard   rows/s  ms per round: half, worst");
    for shards in [1, 4, 16] {
        for rows in [50, 500, 5000] {
            let mut log = cassandra.log();
            run(&mut log, shards, rows, WARM_UP)?;
            let rounds = run(&mut log, shards, rows, MEASURED)?;
            report(shards, rows, rounds);
        }
    }
    Ok(())
}

/// Commits to all shards at once, again and again. Returns how long each round took.
fn run(log: &mut CassandraLog, shards: u16, rows: usize, length: Duration) -> Result<Vec<Duration>, String> {
    for shard in 0..shards {
        log.take(ShardId(shard)).map_err(|error| error.to_string())?;
    }
    let record: Vec<u8> = (0..rows * ROW_BYTES).map(|at| u8::try_from(at * 31 % 251).unwrap_or(0)).collect();
    let batches: Vec<Batch> =
        (0..shards).map(|shard| Batch { shard: ShardId(shard), record: record.clone() }).collect();
    let start = Instant::now();
    let mut checkpointed = start;
    let mut rounds = Vec::new();
    while start.elapsed() < length {
        let began = Instant::now();
        let mut marks = Vec::new();
        for (outcome, batch) in log.commit(&batches, Flush::Now).into_iter().zip(&batches) {
            let Outcome::Committed { position } = outcome else { return Err(format!("{outcome:?}")) };
            marks.push(Mark { shard: batch.shard, position });
        }
        rounds.push(began.elapsed());
        if checkpointed.elapsed() > CHECKPOINT_EVERY {
            log.checkpoint(&marks).map_err(|error| error.to_string())?;
            checkpointed = Instant::now();
        }
    }
    Ok(rounds)
}

#[expect(clippy::cast_precision_loss, reason = "figures for people")]
fn report(shards: u16, rows: usize, mut rounds: Vec<Duration>) {
    let total: Duration = rounds.iter().sum();
    rounds.sort_unstable();
    let per_shard = rounds.len() as f64 / total.as_secs_f64();
    let commits = per_shard * f64::from(shards);
    let ms = |round: Duration| round.as_secs_f64() * 1000.0;
    let (half, worst) = (rounds[rounds.len() / 2], rounds[rounds.len() - 1]);
    let rows_per_second = commits * rows as f64;
    println!(
        "{shards:>6} {rows:>5} {commits:>10.0} {per_shard:>10.0} {rows_per_second:>8.0} {:>10.1} {:>7.1}",
        ms(half),
        ms(worst)
    );
}
