//! Plans that reach what ordinary seeds reach seldom or never, and that they do reach it.

use super::{NOTHING, Variant, backlog, losing, no_failure, retrying};
use quipu_engine::Rule;
use quipu_sim::coverage::Coverage;
use quipu_sim::system::{Edition, Mix, Plan, Planned, Topology, Trouble, Work};

/// Calls that are always refused, and adds that name limits of their own, at sites of which none loses what it has said.
pub(crate) fn mistaken(seed: u64) -> Plan {
    let plan = Plan::drawn(seed, None, Edition::Second);
    let (partial, limits, mistakes) = (0.5, 0.5, 0.2);
    let mix = Mix { plain: 1, ids: 1, bounded: 1, resets: 1 };
    let troubles = plan.troubles.into_iter().filter(|it| !it.trouble.forgets()).collect();
    let work = Work { mix, partial, limits, mistakes, ..plan.work };
    let intervals_ms = vec![0; plan.intervals_ms.len()];
    Plan { work, troubles, intervals_ms, ..plan }
}

#[test]
fn what_cannot_be_done_is_refused_wherever_it_is_asked_for() {
    no_failure(0..40, mistaken);
    are_reached(&["Overflow", "OtherAmount", "UsedBefore", "BoundedReset", "BadKey"]);
}

/// All of these were reached by this thread.
fn are_reached(names: &[&str]) {
    let mut coverage = Coverage::default();
    coverage.add_run();
    let is_never = |name: &&&str| coverage.never().any(|it| it.name == **name);
    assert_eq!(names.iter().find(is_never), None);
}

#[test]
fn heirs_balance_what_a_removed_site_had_taken_back() {
    no_failure(0..120, losing_resets);
    are_reached(&["ids: an heir balances what a removed site had taken back"]);
}

#[test]
fn all_rows_are_sent_in_pieces_whoever_dies_meanwhile() {
    no_failure(0..6, swept);
    are_reached(&["streams: a sweep begins", "streams: a sweep goes on where it stopped"]);
}

/// Adds to bounded counters wait for rights of others, and come again elsewhere, while tables are brought up to date.
pub(crate) fn waiting(seed: u64) -> Plan {
    let plan = retrying(seed, Mix { bounded: 1, ..NOTHING });
    let work = Work { remote_ms: 5_000, room: 10, keys: 3, hasty: false, late: 0.0, ..plan.work };
    let checkpoint =
        |at: usize| Planned { at_ms: 500 + 300 * at as u64, trouble: Trouble::Checkpoint { site: at % 3 } };
    let cut = |at_ms, to| Planned {
        at_ms,
        trouble: Trouble::Cut { from: 0, to, both: true, noticed: true, for_ms: 2_000 },
    };
    let mut troubles: Vec<Planned> = (0..30).map(checkpoint).collect();
    troubles.extend([cut(1_000, 1), cut(4_000, 2)]);
    troubles.sort_by_key(|planned| planned.at_ms);
    Plan { troubles, window_ms: 600_000, topology: Topology::Full, work, ..plan }
}

#[test]
fn commands_wait_across_checkpoints() {
    no_failure(0..10, waiting);
    are_reached(&["rights: a command that waited is counted", "ids: an id is found in a stored run"]);
}

/// A site is lost that has counted on counters that are set and deleted.
pub(crate) fn losing_resets(seed: u64) -> Plan {
    let plan = losing(seed);
    let mix = Mix { resets: 1, ..NOTHING };
    Plan { work: Work { mix, ..plan.work }, ..plan }
}

/// A site is cut off for so long that it is sent all rows, more than fit into one message.
pub(crate) fn swept(seed: u64) -> Plan {
    let plan = backlog(seed);
    let cut = |at_ms, from| Planned {
        at_ms,
        trouble: Trouble::Cut { from, to: 2, both: true, noticed: true, for_ms: 6_000 },
    };
    // A site that does not remember which rows have changed sends all of them; one that does so may die in the middle.
    let crash = |at_ms, site| Planned { at_ms, trouble: Trouble::Crash { site, away_ms: 2_000 } };
    let (first, second) = (crash(6_000, 1), crash(6_520 + 40 * seed, (seed % 2) as usize));
    let troubles = vec![cut(500, 0), cut(500, 1), first, second];
    let work = Work { mix: Mix { plain: 1, ..NOTHING }, keys: 6_000, ..plan.work };
    Plan { clients: 60, active_ms: 9_000, troubles, work, ..plan }
}

/// Adds to counters without bounds that name limits, at several sites.
fn limited(seed: u64) -> Plan {
    let plan = retrying(seed, Mix { ids: 1, ..NOTHING });
    Plan { work: Work { limits: 0.5, ..plan.work }, troubles: Vec::new(), ..plan }
}

#[test]
fn attempts_that_count_nothing_and_are_remembered_are_caught() {
    Variant::of(Rule::ZeroIsNoOutcome, limited).is_caught();
}
