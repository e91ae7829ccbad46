//! Several nodes that share a site, on a real Cassandra.

mod chaos;
mod crew;
#[path = "../harness/mod.rs"]
mod harness;
mod load;
mod quick;
mod sites;
mod store;

use std::process::ExitCode;

use harness::suite::{Needs, Suite};

const CASSANDRA: Needs = Needs {
    required_by: "QUIPU_REQUIRE_CASSANDRA",
    remedy: "Install Java 17 and Maven, or as root let the tests do it: QUIPU_INSTALL=1 cargo test.",
};

fn main() -> ExitCode {
    Suite::from_arguments(CASSANDRA)
        .test_with("any_node_takes_any_command", store::of_one, quick::any_node_takes_any_command)
        .test_with("a_node_that_drains", store::of_one, quick::a_node_that_drains)
        .test_with("rolling_restart", store::of_one, quick::rolling_restart)
        .test_with("a_node_that_is_killed", store::of_one, quick::a_node_that_is_killed)
        .test_with("a_node_that_is_paused", store::of_one, quick::a_node_that_is_paused)
        .test_with("an_edge_comes_to_any_node", store::of_one, quick::an_edge_comes_to_any_node)
        .test_with("another_site_comes_to_any_node", store::of_one, sites::another_site_comes_to_any_node)
        .test_with("chaos", store::of_three, chaos::chaos)
        .run()
}
