//! The server beside Debian's Redis, and under its tools. What needs a program that is not there is reported as ignored,
//! and with `QUIPU_REQUIRE_CLIENTS=1` as failed.

#[path = "../harness/mod.rs"]
mod harness;

mod cases;
mod compare;
mod missing;
mod programs;

use std::{path::PathBuf, process::ExitCode};

use harness::{Suite, suite::PROGRAMS, tools};

/// A need: the program of this name.
fn redis(program: &str) -> impl FnOnce() -> Result<PathBuf, String> {
    move || tools::redis(program)
}

fn main() -> ExitCode {
    Suite::from_arguments(PROGRAMS)
        .test("differences_say_what_is_meant", cases::differences_say_what_is_meant)
        .test("what_cannot_run_is_not_passed", missing::what_cannot_run_is_not_passed)
        .test_with("replies_are_those_of_redis", redis("redis-server"), |program| {
            compare::replies_are_those_of_redis(&program);
        })
        .test_with("replies_with_a_password_are_those_of_redis", redis("redis-server"), |program| {
            compare::replies_with_a_password_are_those_of_redis(&program);
        })
        .test_with("replies_in_a_cluster_are_those_of_redis", redis("redis-server"), |program| {
            compare::replies_in_a_cluster_are_those_of_redis(&program);
        })
        .test_with("redis_cli_counts_and_lists", redis("redis-cli"), |program| {
            programs::redis_cli_counts_and_lists(&program);
        })
        .test_with("redis_benchmark_counts_exactly", redis("redis-benchmark"), |program| {
            programs::redis_benchmark_counts_exactly(&program);
        })
        .test_with("redis_cli_in_a_cluster_of_one", redis("redis-cli"), |program| {
            programs::redis_cli_in_a_cluster_of_one(&program);
        })
        .test_with("quipu_bench_counts_what_redis_acknowledges", redis("redis-server"), |program| {
            programs::quipu_bench_counts_what_redis_acknowledges(&program);
        })
        .run()
}
