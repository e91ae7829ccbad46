//! Seeds that nobody has run before: another block each time, printed, and given again by `QUIPU_FRESH`.

use std::{
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
        Ok(text) => (parse(&text), None),
        Err(_) => (from_the_clock(), Some(Instant::now() + BEGIN_WITHIN)),
    };
    println!(
        "the same block again: QUIPU_FRESH={}..{} cargo test -p quipu-sim --test {test} fresh_seeds",
        block.start, block.end
    );
    block.take_while(move |_| deadline.is_none_or(|deadline| Instant::now() < deadline))
}

fn parse(text: &str) -> Range<u64> {
    let (from, to) = text.split_once("..").expect("QUIPU_FRESH is A..B");
    from.parse().expect("a number")..to.parse().expect("a number")
}

fn from_the_clock() -> Range<u64> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    // A block for each second.
    let start = FIRST + now.as_secs() * SEEDS_MAX;
    start..start + SEEDS_MAX
}
