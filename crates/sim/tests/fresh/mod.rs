//! Blocks of seeds that the tests of both simulations run: fresh ones, which nobody has run before, printed and given again
//! by `QUIPU_FRESH`; and more by hand, with `QUIPU_SEEDS`.

use quipu_sim::coverage::Coverage;
use std::{
    fmt,
    io::Write as _,
    ops::Range,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

/// So many seeds at most,
const SEEDS_MAX: u64 = 20;
/// or as many as begin within this time.
const BEGIN_WITHIN: Duration = Duration::from_secs(10);
/// Lower seeds have been run before, in blocks.
const FIRST: u64 = 1_000_000_000;

/// The block of this run: from `QUIPU_FRESH=A..B`, all of it, else from the clock, and as far as there is time.
pub(crate) fn seeds(test: &str) -> impl Iterator<Item = u64> {
    let (block, deadline) = match std::env::var("QUIPU_FRESH") {
        Ok(text) => (parse("QUIPU_FRESH", &text), None),
        Err(_) => (from_the_clock(), Some(Instant::now() + BEGIN_WITHIN)),
    };
    // Not `eprintln!`: that is shown only when the test fails.
    let command = format!(
        "the same block again: QUIPU_FRESH={}..{} cargo test -p quipu-sim --test {test} fresh_seeds\n",
        block.start, block.end
    );
    std::io::stderr().write_all(command.as_bytes()).expect("standard error takes it");
    block.take_while(move |_| deadline.is_none_or(|deadline| Instant::now() < deadline))
}

/// Runs the seeds of `QUIPU_SEEDS=A..B`, if it is set, and prints what they have reached in the engine and all failures. Returns the first.
pub(crate) fn more<S, V: fmt::Display>(run: impl Fn(u64) -> Result<S, V>) -> Option<V> {
    let seeds = parse("QUIPU_SEEDS", &std::env::var("QUIPU_SEEDS").ok()?);
    let mut coverage = Coverage::default();
    let mut failures = Vec::new();
    for seed in seeds {
        failures.extend(run(seed).err());
        coverage.add_run();
    }
    println!("{coverage}");
    failures.iter().for_each(|violation| println!("{violation}"));
    failures.into_iter().next()
}

fn parse(variable: &str, text: &str) -> Range<u64> {
    let (from, to) = text.split_once("..").unwrap_or_else(|| panic!("{variable} is A..B"));
    from.parse().expect("a number")..to.parse().expect("a number")
}

fn from_the_clock() -> Range<u64> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    // A block for each second.
    let start = FIRST + now.as_secs() * SEEDS_MAX;
    start..start + SEEDS_MAX
}
