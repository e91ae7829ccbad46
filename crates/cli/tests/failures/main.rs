//! Several sites as real processes, which fail under load: they are killed with SIGKILL, cut off from each other, and
//! healed; their clients go to another site and repeat there what was not answered. In the end every site shows what was
//! issued, to the unit.
//!
//! Some 30 kills in each run of the tests; for many more:
//!
//! ```console
//! $ QUIPU_KILLS=1000 cargo test -p quipu-cli --test failures kills
//! ```
//!
//! Everything at once, with the checks of a Jepsen test, is in [`chaos`].
//!
//! Edges, which count when they reach nobody, are killed beside sites and a relay in [`edges`].
//!
//! The same in network namespaces, where they are permitted; elsewhere that test is reported as ignored, and with
//! `QUIPU_REQUIRE_NAMESPACES=1` as failed.

#[path = "../harness/mod.rs"]
mod harness;

mod chaos;
mod directory;
mod edges;
mod kills;
mod missing;
mod namespaces;
mod one_site;
mod spending;

use std::process::ExitCode;

use harness::{Suite, suite::Needs};

const NAMESPACES: Needs = Needs {
    required_by: "QUIPU_REQUIRE_NAMESPACES",
    remedy: "Install iproute2 and util-linux, and run it as root or where users may have namespaces.",
};

fn main() -> ExitCode {
    if edges::program::is_inside() {
        edges::program::inside();
        return ExitCode::SUCCESS;
    }
    if namespaces::is_inside() {
        namespaces::inside();
        return ExitCode::SUCCESS;
    }
    Suite::from_arguments(NAMESPACES)
        .test("kills_and_cut_links_lose_nothing", kills::kills_and_cut_links_lose_nothing)
        .test("two_partitions_never_sell_too_much", spending::two_partitions_never_sell_too_much)
        .test("one_site_of_three_is_killed", one_site::one_site_of_three_is_killed)
        .test("chaos_over_three_sites", chaos::chaos_over_three_sites)
        .test("chaos_over_five_sites", chaos::chaos_over_five_sites)
        .test("chaos_checks_pass_histories_in_order", chaos::teeth::histories_in_order_pass)
        .test("chaos_checks_find_a_lost_add", chaos::teeth::a_lost_add_is_found)
        .test("chaos_checks_find_a_double_count", chaos::teeth::a_double_count_is_found)
        .test("chaos_checks_find_an_outcome_that_changes", chaos::teeth::an_outcome_that_changes_is_found)
        .test(
            "chaos_checks_find_an_outcome_of_nothing",
            chaos::teeth::an_attempt_that_counted_nothing_is_no_outcome,
        )
        .test("chaos_checks_find_a_crossed_bound", chaos::teeth::a_crossed_bound_is_found)
        .test("chaos_checks_find_a_value_that_goes_back", chaos::teeth::a_value_that_goes_back_is_found)
        .test("chaos_checks_find_sites_that_differ", chaos::teeth::sites_that_differ_are_found)
        .test("a_value_tells_of_every_add", edges::a_value_tells_of_every_add)
        .test("edges_and_servers_are_killed", edges::edges_and_servers_are_killed)
        .test("what_cannot_run_is_not_passed", missing::what_cannot_run_is_not_passed)
        .test_with("kills_in_network_namespaces", namespaces::permitted, namespaces::run)
        .run()
}
