//! The process is killed with SIGKILL under load, at random moments, and started again on the same folder.
//!
//! Some 50 kills in each run of the tests; for many more:
//!
//! ```console
//! $ QUIPU_KILLS=1000 cargo test --release -p quipu-cli --test sigkill -- --nocapture --test-threads 1
//! ```
//!
//! Clients here never send anything again by themselves: what is sent twice is sent twice on purpose.

#[path = "../harness/mod.rs"]
mod harness;

mod bounded;
mod counting;
mod transactions;

use harness::{caller, random::kills};
