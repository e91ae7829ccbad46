//! A relay that retires hands over everything, and leaves what it keeps for edges to a site.

use std::process::{Command, Output};

use super::*;

fn retire(relay: &Running, wait: &str) -> Output {
    let url = format!("http://{}", relay.http);
    let quipu = env!("CARGO_BIN_EXE_quipu");
    Command::new(quipu).args(["retire", "--url", &url, "--wait", wait]).output().expect("it runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_retired_relay_leaves_nothing_undone() {
    let mut parent = Parent::start();
    let site = relay(&[&parent], "");
    let relay = site.start();
    let (mut early, mut late, mut lost) = (Edge::new(1), Edge::new(2), Edge::new(3));
    early.add("hits", 1);
    early.flush(relay.http);
    // One has a token for the relay, and does not bring it any more.
    late.add("hits", 20);
    late.exchange(relay.http, true).expect("an answer");
    assert_eq!(late.open().tokens.len(), 1);
    // One has a slot there, and does not know.
    lost.add("hits", 300);
    relay.client().call("INCRBY hits 4000");

    // While the parent is away it cannot.
    parent.kill();
    let Output { status, stderr, .. } = retire(&relay, "0");
    assert!(!status.success() && text(&stderr).contains("not done yet"), "{}", text(&stderr));
    let reply = relay.client().call("INCR hits");
    assert!(reply.is_error() && reply.text().contains("retires"), "{reply:?}");
    let refused = lost.exchange(relay.http, true).expect("an answer");
    assert!(refused.iter().all(|why| why.contains("retires")) && !refused.is_empty(), "{refused:?}");
    // It goes on after it was killed.
    relay.kill();
    let relay = site.start();
    assert!(relay.client().call("INCR hits").is_error());
    parent.go_on();
    let Output { status, stdout, stderr } = retire(&relay, "60");
    assert!(status.success(), "{}", text(&stderr));
    assert!(
        text(&stdout).contains("retired: everything is handed over, and site 1 keeps"),
        "{}",
        text(&stdout)
    );
    assert!(retire(&relay, "60").status.success(), "it may be asked again");
    assert!(info(&relay, "replication").contains("retiring:yes"));
    relay.kill();

    parent.wait_for("hits", 4001);
    // The heir takes what was meant for the relay, also after a restart.
    parent.kill();
    parent.go_on();
    late.retire(parent.running().http);
    lost.retire(parent.running().http);
    early.retire(parent.running().http);
    parent.wait_for("hits", 4321);
    wait("nothing is left", || keeps(parent.running()).is_empty());
    stays_so(Duration::from_secs(1), || parent.value("hits") == 4321);
}

#[test]
fn a_site_does_not_retire() {
    let parent = Parent::start();
    let Output { status, stderr, .. } = retire(parent.running(), "1");
    assert!(!status.success() && text(&stderr).contains("this is no relay"), "{}", text(&stderr));
}
