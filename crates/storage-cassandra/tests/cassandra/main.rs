//! On a real Cassandra.

mod conformance;
mod server;
mod shifted;
#[path = "../../../cli/tests/harness/suite.rs"]
#[allow(dead_code, reason = "it has more than this target uses")]
mod suite;

use std::process::ExitCode;

use quipu_storage_cassandra::Fault;
use suite::{Needs, Suite};

const CASSANDRA: Needs = Needs {
    required_by: "QUIPU_REQUIRE_CASSANDRA",
    remedy: "Install Java 17 and Maven, or as root let the tests do it: QUIPU_INSTALL=1 cargo test.",
};

fn main() -> ExitCode {
    Suite::from_arguments(CASSANDRA)
        .test_with("conformance_when_writes_are_not_sent", server::shared, |server| {
            conformance::run(server, Fault::NotSent);
        })
        .test_with("conformance_when_answers_are_lost", server::shared, |server| {
            conformance::run(server, Fault::AnswerLost);
        })
        .test_with("conformance_when_writes_land_late", server::shared, |server| {
            conformance::run(server, Fault::Late);
        })
        .run()
}
