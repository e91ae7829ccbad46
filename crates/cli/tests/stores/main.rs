//! Servers on a real Cassandra, which is paused, killed and started again under them; and a site on it beside one on a
//! folder.
//!
//! They need Java 17 and Maven, which fetches Cassandra once; where these are missing the tests are reported as ignored,
//! and with `QUIPU_REQUIRE_CASSANDRA=1` as failed.

#[path = "../harness/mod.rs"]
mod harness;

mod bench;
mod database;
mod outage;
mod pipeline;
mod start;
mod two_sites;
mod workload;

use std::process::ExitCode;

use harness::{Suite, suite::Needs};

const CASSANDRA: Needs = Needs {
    required_by: "QUIPU_REQUIRE_CASSANDRA",
    remedy: "Install Java 17 and Maven, or as root let the tests do it: QUIPU_INSTALL=1 cargo test.",
};

fn main() -> ExitCode {
    Suite::from_arguments(CASSANDRA)
        .test_with("silent_for_a_while", database::find, outage::silent_for_a_while)
        .test_with("killed_and_started_again", database::find, outage::killed_and_started_again)
        .test_with("answers_in_order", database::find, pipeline::answers_in_order)
        .test_with("down_at_the_start", database::find, start::down_at_the_start)
        .test_with("told_to_stop_while_it_waits", database::find, start::told_to_stop_while_it_waits)
        .test_with("two_sites_on_different_stores", database::find, two_sites::two_sites_on_different_stores)
        .test_with(
            "bench_cassandra_in_small",
            database::find,
            bench::everything_is_measured_and_nothing_is_left,
        )
        .test("bench_cassandra_of_what_cannot_be", bench::what_cannot_be_is_refused)
        .run()
}
