//! Messages per second and peak memory of the run by which simulators of handoff counters are compared: ten
//! nodes of tier 0, a hundred servers, a new client every 10 ms for 100 s of virtual time.
//!
//! `cargo bench -p quipu-sim --bench handoff [-- CLIENTS [SERVERS]]`

use quipu_sim::handoff::clients::{Params, run};
use std::time::Instant;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Best of so many.
const RUNS: usize = 3;

fn main() {
    let mut numbers = std::env::args().filter_map(|argument| argument.parse().ok());
    let clients = numbers.next().unwrap_or(10_000);
    let servers = numbers.next().unwrap_or(100);
    let params = Params { clients, servers, ..Params::default() };
    let runs = if clients > 10_000 { 1 } else { RUNS };
    let mut best = f64::INFINITY;
    let mut messages = 0;
    for _ in 0..runs {
        let started = Instant::now();
        let summary = run(&params, &mut |_| true).expect("no condition is violated");
        best = best.min(started.elapsed().as_secs_f64());
        messages = summary.messages;
    }
    println!("{clients} clients, {servers} servers: {messages} messages in {best:.2} s, best of {runs}");
    println!(
        "{:.0} messages per second, {:.0} ns each",
        messages as f64 / best,
        1e9 * best / messages as f64
    );
    match peak_kib() {
        Some(kib) => println!("peak memory {:.1} MiB", kib as f64 / 1024.0),
        None => println!("peak memory unknown: this system does not tell"),
    }
}

/// The largest resident size of this process so far, where the system tells it.
fn peak_kib() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}
