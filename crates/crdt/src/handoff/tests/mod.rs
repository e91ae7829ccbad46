//! Tests that need to look inside; the others are in the crate's `tests` folder.

mod wrong_rules;
mod wrong_steps;

use crate::testing::trace::{Conduct, Shape, Trace, Violation};

/// Shapes in which corner cases are met soon.
const SHAPES: [(u32, u32, u32); 3] = [(3, 2, 1), (4, 3, 2), (12, 6, 3)];
const SEEDS: u64 = 40;
const STEPS: u64 = 10_000;

/// What the checks of a trace say of this conduct.
fn violation(conduct: Conduct, lives: bool) -> Option<Violation> {
    for (clients, servers, roots) in SHAPES {
        for seed in 0..SEEDS {
            let mut trace = Trace::new(Shape { clients, servers, roots, lives }, seed, conduct);
            if let Err(violation) = trace.run(STEPS).and_then(|()| trace.finish()) {
                return Some(violation);
            }
        }
    }
    None
}

/// Demands that a wrong conduct is caught, with words that tell what went wrong.
fn assert_caught(name: &str, conduct: Conduct, lives: bool, expected: &[&str]) {
    let what = violation(conduct, lives).unwrap_or_else(|| panic!("{name} was not caught")).what;
    assert!(expected.iter().any(|words| what.contains(words)), "{name} was caught, but as: {what}");
}

#[test]
fn the_right_conduct_is_not_caught() {
    assert_eq!(violation(Conduct::default(), false), None);
    assert_eq!(violation(Conduct::default(), true), None);
}
