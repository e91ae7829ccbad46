//! How much virtual time of the whole system one second is worth: three sites and a hundred clients, each adding ten
//! times per virtual second, half of it with ids, all checks on.
//!
//! `cargo bench -p quipu-sim --bench system`

use quipu_sim::system::{Plan, run};
use std::time::Instant;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Best of so many.
const RUNS: u64 = 3;

fn main() {
    let mut best: f64 = 0.0;
    for seed in 1..=RUNS {
        let plan = Plan::of_speed(seed);
        let (started, cpu_before) = (Instant::now(), cpu_seconds());
        let summary = run(&plan).unwrap_or_else(|violation| panic!("{violation}"));
        let elapsed = started.elapsed().as_secs_f64();
        // On a busy machine the clock tells of others.
        let seconds = cpu_before.zip(cpu_seconds()).map_or(elapsed, |(before, after)| after - before);
        let worth = plan.active_ms as f64 / 1_000.0 / seconds;
        best = best.max(worth);
        println!(
            "seed {seed}: {} s virtual, {} adds, {} messages in {seconds:.2} s of CPU time, {elapsed:.2} s by the clock",
            plan.active_ms / 1_000,
            summary.acknowledged,
            summary.messages
        );
    }
    println!("{best:.0} virtual seconds per second of CPU time, best of {RUNS}");
}

/// The CPU time of this process so far, where the system tells it, in ticks of a hundredth of a second.
fn cpu_seconds() -> Option<f64> {
    const TICKS_PER_SECOND: f64 = 100.0;
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The name of the program, in brackets, may have spaces.
    let fields: Vec<&str> = stat.rsplit(')').next()?.split_whitespace().collect();
    let ticks = |at: usize| fields.get(at)?.parse::<f64>().ok();
    Some((ticks(11)? + ticks(12)?) / TICKS_PER_SECOND)
}
