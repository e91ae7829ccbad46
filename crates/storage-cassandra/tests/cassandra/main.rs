//! On a real Cassandra.

mod conformance;
mod outcomes;
mod rows;
mod server;
mod setup;
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
        .test_with("conformance_of_nodes_that_share", server::shared, conformance::run_shared)
        .test_with("owners_that_race", server::shared, outcomes::owners_that_race)
        .test_with("commits_under_way", server::shared, outcomes::commits_under_way)
        .test_with("taken_meanwhile", server::shared, outcomes::taken_meanwhile)
        .test_with("large_records", server::shared, outcomes::large_records)
        .test_with("a_node_that_is_paused", server::own, outcomes::a_node_that_is_paused)
        .test_with("a_node_that_is_killed", server::own, outcomes::a_node_that_is_killed)
        .test_with("listing_as_in_memory", server::shared, rows::listing_as_in_memory)
        .test_with("ends_of_ranges", server::shared, rows::ends_of_ranges)
        .test_with("large_rows", server::shared, rows::large_rows)
        .test_with("slices_of_an_earlier_owner", server::shared, rows::slices_of_an_earlier_owner)
        .test_with("keyspaces_that_do_not_fit", server::shared, setup::keyspaces_that_do_not_fit)
        .test_with("schemas_that_cannot_be", server::shared, setup::schemas_that_cannot_be)
        .test_with("wrong_doors", server::own, setup::wrong_doors)
        .run()
}
