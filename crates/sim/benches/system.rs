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
        let started = Instant::now();
        let summary = run(&plan).unwrap_or_else(|violation| panic!("{violation}"));
        let seconds = started.elapsed().as_secs_f64();
        let worth = plan.active_ms as f64 / 1_000.0 / seconds;
        best = best.max(worth);
        println!(
            "seed {seed}: {} s virtual, {} adds, {} messages in {seconds:.2} s: {worth:.0} virtual seconds per second",
            plan.active_ms / 1_000,
            summary.acknowledged,
            summary.messages
        );
    }
    println!("{best:.0} virtual seconds per second, best of {RUNS}");
}
