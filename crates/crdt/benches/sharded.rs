//! What spreading a hot counter over lanes gains: all cores count at once, in one `AtomicU64` and in a
//! `ShardedCounter`. After the figures of criterion it prints the ratios, measured in turns.
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "measures threads with a clock")]
#![allow(missing_docs, reason = "criterion's macros make public functions")]

use criterion::{Criterion, Throughput, criterion_group};
use quipu_crdt::ShardedCounter;
use std::hint::black_box;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Enough to last longer than the scheduler's time slices, so that the threads do run side by side.
const ADDS_PER_THREAD: u64 = 2_000_000;
const TURNS: usize = 21;

fn threads() -> u16 {
    let cores = std::thread::available_parallelism().map_or(2, usize::from);
    u16::try_from(cores).unwrap_or(u16::MAX)
}

/// How long it takes until all threads have added [`ADDS_PER_THREAD`] each, by the adder that each is given:
/// from the first start to the last end, as the threads themselves see it.
fn time<A: FnMut() + Send>(adder: impl Fn() -> A) -> Duration {
    let start_line = Barrier::new(usize::from(threads()));
    let spans: Vec<(Instant, Instant)> = std::thread::scope(|scope| {
        let run = |mut add: A| {
            let start_line = &start_line;
            scope.spawn(move || {
                start_line.wait();
                let start = Instant::now();
                (0..ADDS_PER_THREAD).for_each(|_| add());
                (start, Instant::now())
            })
        };
        let running: Vec<_> = (0..threads()).map(|_| run(adder())).collect();
        running.into_iter().map(|thread| thread.join().expect("adding does not fail")).collect()
    });
    let start = spans.iter().map(|span| span.0).min().expect("at least one thread");
    let end = spans.iter().map(|span| span.1).max().expect("at least one thread");
    end - start
}

fn time_plain() -> Duration {
    let counter = AtomicU64::new(0);
    time(|| {
        || {
            black_box(&counter).fetch_add(1, Ordering::Relaxed);
        }
    })
}

/// One number too, but refusing to overflow as the lanes do.
fn time_checked() -> Duration {
    let counter = ShardedCounter::new(1);
    time(|| {
        let writer = counter.writer();
        move || black_box(writer).add(1).expect("far from full")
    })
}

fn time_sharded() -> Duration {
    let counter = ShardedCounter::new(threads());
    time(|| {
        let writer = counter.writer();
        move || black_box(writer).add(1).expect("far from full")
    })
}

fn hot_counter(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("hot counter");
    group.throughput(Throughput::Elements(ADDS_PER_THREAD * u64::from(threads())));
    group.sample_size(10);
    for (name, measure) in [
        ("one AtomicU64", time_plain as fn() -> Duration),
        ("one lane", time_checked),
        ("a lane for each core", time_sharded),
    ] {
        group.bench_function(name, |bencher| {
            bencher.iter_custom(|turns| (0..turns).map(|_| measure()).sum());
        });
    }
    group.finish();
}

/// How many times as long as lanes this takes, in neighbouring measurements, which the mood of the machine
/// hits alike. The range tells how often the threads really ran side by side.
fn compare(name: &str, other: fn() -> Duration) {
    let mut ratios: Vec<f64> =
        (0..TURNS).map(|_| other().as_secs_f64() / time_sharded().as_secs_f64()).collect();
    ratios.sort_by(f64::total_cmp);
    let (least, median, most) = (ratios[0], ratios[TURNS / 2], ratios[TURNS - 1]);
    println!("  {name} takes {median:.2} times as long as lanes ({least:.2} to {most:.2})");
}

criterion_group!(benches, hot_counter);

fn main() {
    benches();
    Criterion::default().configure_from_args().final_summary();
    println!("{} threads, medians of {TURNS} turns:", threads());
    compare("one AtomicU64", time_plain);
    compare("one lane", time_checked);
}
