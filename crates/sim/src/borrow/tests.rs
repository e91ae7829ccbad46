//! The checks of a run have teeth, and all designs meet the same clients.

use super::design::Design;
use super::handing::Handing;
use super::lending::{Lending, Messages};
use super::{Measured, Params, designs, measure};
use crate::run::RunError;

fn small() -> Params {
    Params {
        nodes: 3,
        arrival_ms: 100,
        stay_ms: 1_000,
        outage_ms: 2_000,
        patience_ms: 1_000,
        fold_after_ms: 4_000,
        gossip_ms: 200,
        end_ms: 8_000,
        ..Params::default()
    }
}

fn run<D: Design>(design: D) -> Result<Measured, RunError> {
    measure(design, &small(), 30, &mut |_| true)
}

/// What the checks say.
fn verdict<D: Design>(design: D) -> String {
    match run(design) {
        Err(RunError::Failed(what)) => what,
        other => panic!("not caught: {other:?}"),
    }
}

#[test]
fn a_client_that_leaves_before_its_counts_were_handed_over_is_caught() {
    let what = verdict(Handing { is_done: |_| true, ..Handing::new(4_000) });
    assert!(what.contains("were lost with clients that vanished"), "{what}");
}

#[test]
fn a_client_that_leaves_with_its_borrowed_identity_is_caught() {
    for messages in [Messages::Whole, Messages::OwnPart] {
        let what = verdict(Lending { is_done: |_| true, ..Lending::new(messages) });
        assert!(what.contains("were lost with clients that vanished"), "{what}");
    }
}

#[test]
fn a_client_that_never_leaves_is_caught() {
    let what = verdict(Lending { is_done: |_| false, ..Lending::new(Messages::Whole) });
    assert!(what.contains("clients could not leave"), "{what}");
}

#[test]
fn all_designs_meet_the_same_clients() {
    let (handing, whole, parts) = designs(&small());
    let all = [run(handing), run(whole), run(parts)].map(|measured| measured.expect("no violation"));
    for measured in &all {
        let Measured { clients, vanished, issued, .. } = *measured;
        assert_eq!((clients, vanished, issued), (all[0].clients, all[0].vanished, all[0].issued));
        assert_eq!(clients, 80);
    }
}
