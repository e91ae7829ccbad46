//! One site of several nodes in virtual time: the real hosts and keepers over one store that they share, which answers
//! late or not at all, with nodes that are paused in the middle of anything, die, come and go. Everything is determined by a
//! seed.
//!
//! A [`Plan`] is what happens, as data; [`run`] lets it happen. Checks look at every answer, and after everything has healed
//! each shard is at one node, the nodes agree where, and the counters say exactly what was acknowledged. How a node can be
//! stopped anywhere is told in `line`.

mod check;
mod finale;
mod line;
mod node;
mod plan;
mod store;
mod trouble;
mod world;
mod wrong;

pub use finale::{Summary, Violation, run, run_watched};
pub use plan::{Changes, Edition, NODES_MAX, Plan, Weather};
pub use trouble::{Call, Planned, Trouble};
pub use wrong::Wrong;
