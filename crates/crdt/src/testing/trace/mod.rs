//! Random traces of handoff replicas under a network that replays old states out of order, with the
//! conditions of eventually consistent counting checked at every step.
//!
//! After section 5.4 of “Scalable eventually consistent counters over unreliable networks” (Almeida and
//! Baquero). Checked after every step, at the replica that took it:
//! - *fetch bounded by increments*: it reports no more than was issued anywhere;
//! - *local monotonicity*: it reports no less than before, its own increments included;
//! - *conservation*: what was issued is what the replicas hold plus the enabled tokens;
//! - no enabled token is dropped, and no slot with an enabled token either.
//!
//! And whenever the network has calmed down:
//! - *eventual accounting*: every replica reports exactly what was issued;
//! - *full garbage collection*: no slot and no token is left anywhere.

mod calm;
mod check;
mod conduct;
mod fleet;
mod life;

pub use check::Violation;
pub use conduct::{Bequeathed, Conduct, Replica, Retired, Seen};
use fleet::Fleet;

/// What a trace is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Replicas of tier 2.
    pub clients: u32,
    /// Replicas of tier 1.
    pub servers: u32,
    /// Replicas of tier 0.
    pub roots: u32,
    /// Do clients come, go silent, and leave in every way there is, and servers too?
    pub lives: bool,
}

/// The figures of a finished trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Summary {
    /// Steps taken, those of calming down not included.
    pub steps: u64,
    /// Increments issued.
    pub issued: u64,
    /// Views and other messages merged.
    pub merged: u64,
    /// Of these, old ones delivered again.
    pub replayed: u64,
    /// Tokens made.
    pub tokens: u64,
    /// How often the network was calmed and everything was accounted for.
    pub accounted: u64,
    /// Replicas that left for good.
    pub left: u64,
    /// Slots folded.
    pub folded: u64,
    /// The most slots open at once, over all replicas.
    pub slots_max: usize,
}

/// A seeded trace, step by step.
///
/// ```
/// use quipu_crdt::testing::trace::{Conduct, Shape, Trace};
/// let shape = Shape { clients: 4, servers: 2, roots: 1, lives: true };
/// let mut trace = Trace::new(shape, 7, Conduct::default());
/// trace.run(5_000).expect("no condition is violated");
/// assert!(trace.finish().expect("everything is accounted for").issued > 0);
/// ```
#[derive(Debug)]
pub struct Trace {
    fleet: Fleet,
}

/// After so many steps the network calms down and everything must be accounted for.
const CALM_STEPS: u64 = 5_000;

impl Trace {
    /// A trace that has not begun.
    ///
    /// # Panics
    /// If there is no root, or no client or server at all.
    pub fn new(shape: Shape, seed: u64, conduct: Conduct) -> Self {
        assert!(shape.roots > 0, "a trace needs a root");
        assert!(shape.clients > 0 && shape.servers > 0, "a trace needs clients and servers");
        Trace { fleet: Fleet::new(shape, seed, conduct) }
    }

    /// Takes so many steps.
    pub fn run(&mut self, steps: u64) -> Result<(), Violation> {
        for _ in 0..steps {
            self.fleet.step()?;
            if self.fleet.summary.steps.is_multiple_of(CALM_STEPS) {
                self.fleet.calm()?;
            }
        }
        Ok(())
    }

    /// Lets the network calm down one last time.
    pub fn finish(&mut self) -> Result<Summary, Violation> {
        self.fleet.calm()?;
        Ok(self.fleet.summary)
    }
}
