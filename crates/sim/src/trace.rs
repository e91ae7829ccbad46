//! Long random traces, in pieces, so that somebody can watch.

use quipu_crdt::testing::trace::{Conduct, Shape, Summary, Trace, Violation};

/// Steps between two calls of the watcher.
const PIECE_STEPS: u64 = 100_000;

/// Runs a trace of so many steps; `watch` is told after each piece how many have been taken and says whether
/// to go on. A trace that was stopped is finished like any other.
pub fn run(
    shape: Shape,
    seed: u64,
    steps: u64,
    mut watch: impl FnMut(u64) -> bool,
) -> Result<Summary, Violation> {
    let mut trace = Trace::new(shape, seed, Conduct::default());
    let mut taken = 0;
    while taken < steps {
        let piece = PIECE_STEPS.min(steps - taken);
        trace.run(piece)?;
        taken += piece;
        if !watch(taken) {
            break;
        }
    }
    trace.finish()
}
