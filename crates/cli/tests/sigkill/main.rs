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
mod caller;
mod counting;
mod transactions;

/// How often a test kills: a part of what `QUIPU_KILLS` says, or as many as fit into a test.
fn kills(usual: u64, part_of_all: u64) -> u64 {
    let all =
        std::env::var("QUIPU_KILLS").ok().map(|kills| kills.parse::<u64>().expect("QUIPU_KILLS is a number"));
    all.map_or(usual, |all| all.div_ceil(part_of_all))
}
