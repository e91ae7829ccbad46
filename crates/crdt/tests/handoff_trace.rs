//! Short random traces; `quipu sim trace` runs long ones.

use quipu_crdt::testing::trace::{Conduct, Shape, Summary, Trace};

fn run(shape: Shape, seed: u64, steps: u64) -> Summary {
    let mut trace = Trace::new(shape, seed, Conduct::default());
    trace
        .run(steps)
        .and_then(|()| trace.finish())
        .unwrap_or_else(|violation| panic!("{shape:?}: {violation}"))
}

const SHAPES: [(u32, u32, u32); 5] = [(12, 6, 3), (1, 1, 1), (2, 2, 1), (20, 3, 1), (5, 10, 4)];

#[test]
fn conditions_hold_in_every_shape() {
    for (clients, servers, roots) in SHAPES {
        let shape = Shape { clients, servers, roots, lives: false };
        for seed in 0..10 {
            let summary = run(shape, seed, 20_000);
            assert!(summary.tokens > 100, "handoffs happen: {summary:?}");
        }
    }
}

#[test]
fn conditions_hold_while_replicas_come_and_go() {
    for (clients, servers, roots) in SHAPES {
        let shape = Shape { clients, servers, roots, lives: true };
        for seed in 0..10 {
            let summary = run(shape, seed, 20_000);
            assert!(summary.left > 10, "replicas leave: {summary:?}");
        }
    }
}
