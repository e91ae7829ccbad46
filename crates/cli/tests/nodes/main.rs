//! Several nodes that share a site, on a real Cassandra.

mod chaos;
mod clients;
mod crew;
#[path = "../harness/mod.rs"]
mod harness;
mod load;
mod quick;
mod sites;
mod store;
mod truth;

use std::process::ExitCode;

use harness::{
    libraries,
    suite::{Needs, Suite},
    tools,
};
use store::Store;

const CASSANDRA: Needs = Needs {
    required_by: "QUIPU_REQUIRE_CASSANDRA",
    remedy: "Install Java 17 and Maven, or as root let the tests do it: QUIPU_INSTALL=1 cargo test.",
};

/// A need: a database of one node, and something else.
fn with<T>(
    other: impl FnOnce() -> Result<T, String>,
) -> impl FnOnce() -> Result<(&'static Store, T), String> {
    // What is easier to find out first.
    move || other().and_then(|other| Ok((store::of_one()?, other)))
}

fn main() -> ExitCode {
    Suite::from_arguments(CASSANDRA)
        .test_with("any_node_takes_any_command", store::of_one, quick::any_node_takes_any_command)
        .test_with("a_node_that_drains", store::of_one, quick::a_node_that_drains)
        .test_with("rolling_restart", store::of_one, quick::rolling_restart)
        .test_with("a_node_that_is_killed", store::of_one, quick::a_node_that_is_killed)
        .test_with("a_node_that_is_paused", store::of_one, quick::a_node_that_is_paused)
        .test_with(
            "a_node_that_wakes_counts_nothing_twice",
            store::of_one,
            truth::a_node_that_wakes_counts_nothing_twice,
        )
        .test_with(
            "nobody_waits_longer_for_another_node",
            store::of_one,
            truth::nobody_waits_longer_for_another_node,
        )
        .test_with(
            "a_stranger_is_answered_no_questions",
            store::of_one,
            truth::a_stranger_is_answered_no_questions,
        )
        .test_with("an_edge_comes_to_any_node", store::of_one, quick::an_edge_comes_to_any_node)
        .test_with("another_site_comes_to_any_node", store::of_one, sites::another_site_comes_to_any_node)
        .test_with("another_site_joins", store::of_one, sites::another_site_joins)
        .test_with("a_site_of_nodes_joins_and_leaves", store::of_one, sites::a_site_of_nodes_joins_and_leaves)
        .test_with(
            "a_node_that_clients_of_a_cluster_cannot_reach",
            store::of_one,
            clients::a_node_that_clients_of_a_cluster_cannot_reach,
        )
        .test_with("redis_py_in_a_cluster", with(libraries::python), clients::redis_py)
        .test_with("ioredis_in_a_cluster", with(libraries::node), clients::ioredis)
        .test_with(
            "redis_benchmark_in_a_cluster",
            with(|| tools::redis("redis-benchmark")),
            clients::redis_benchmark,
        )
        .test_with("chaos", store::of_three, chaos::chaos)
        .run()
}
