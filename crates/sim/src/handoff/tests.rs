//! The checks of a run have teeth: replicas that do something wrong are caught by them.

use super::run::run_setup;
use super::setup::MergeFn;
use super::{Error, Replica, clients, retire};
use quipu_crdt::handoff::Handoff;

/// What the checks say to a run of clients whose replicas merge like this.
fn verdict(merge: MergeFn) -> String {
    let params = clients::Params { tier0: 3, servers: 4, clients: 50, stats_ms: 100, ..Default::default() };
    let setup = params.setup().expect("possible parameters");
    let setup = super::setup::Setup { merge, ..setup };
    match run_setup(setup, &mut |_| true) {
        Err(Error::Violation { what, .. }) => what,
        other => panic!("not caught: {other:?}"),
    }
}

#[test]
fn a_server_that_takes_every_token_it_sees_is_caught() {
    // It counts what a token carries without asking whether the slot is still open.
    let what = verdict(|replica, view| {
        replica.merge(view)?;
        let id = *replica.id();
        for token in view.tokens().iter().filter(|token| token.target == id) {
            let _ = replica.add(&token.value);
        }
        Ok(())
    });
    assert!(what.contains("were issued"), "{what}");
}

#[test]
fn a_server_that_forgets_what_it_took_is_caught() {
    // It starts over, under the same name, when it has taken a token.
    let what = verdict(|replica, view| {
        let before = *replica.own();
        replica.merge(view)?;
        if replica.tier() == 1 && *replica.own() > before {
            *replica = Replica::new(*replica.id(), 1);
        }
        Ok(())
    });
    assert!(what.contains("node") || what.contains("were issued"), "{what}");
}

#[test]
fn a_replica_that_does_not_merge_is_caught_at_the_end() {
    let what = verdict(|replica, view| if *replica.id() == 2 { Ok(()) } else { replica.merge(view) });
    assert!(what.contains("ms after the end"), "{what}");
}

#[test]
fn a_client_that_leaves_with_its_last_token_is_caught() {
    // It takes its token for delivered as soon as it has made it: replaced by a new replica of the same name.
    let params = retire::Params {
        tier0: 3,
        servers: 4,
        clients: 20,
        partition_percent: 0,
        end_ms: 5_000,
        ..Default::default()
    };
    let setup = params.setup().expect("possible parameters");
    let merge: MergeFn = |replica, view| {
        replica.merge(view)?;
        if replica.tier() == 2 && replica.handshake().tokens().len() == 1 && replica.id() % 7 == 0 {
            *replica = Handoff::new(*replica.id(), 2);
        }
        Ok(())
    };
    let setup = super::setup::Setup { merge, ..setup };
    let outcome = run_setup(setup, &mut |_| true);
    assert!(matches!(outcome, Err(Error::Violation { .. })), "{outcome:?}");
}
