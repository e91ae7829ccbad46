//! Edges whose handoff is at a node that loses its disk.

use std::{
    path::Path,
    process::{Command, Output},
    time::Duration,
};

use quipu_edge::Edge as Program;

use super::*;
use harness::Cluster;

fn url(running: &Running) -> String {
    format!("http://{}", running.http)
}

fn retire(state: &Path, server: &Running, flags: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_quipu"));
    command.args(["edge", "retire"]).args(flags).env_clear();
    command.env("QUIPU_STATE", state).env("QUIPU_SERVERS", url(server)).output().expect("it runs")
}

fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn what_is_on_its_way_to_a_relay_that_is_lost_is_named_and_given_up_on_demand() {
    let parent = Parent::start();
    let site = relay(&[&parent], "");
    let relay = site.start();
    wait_for_info(&relay, "replication", "link=up");
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("state.quipu");
    let edge = Program::options().only_when_asked().open(&path, [url(&relay)]).expect("it opens");
    edge.add("hits", 7).expect("it is counted");
    edge.sync().expect("the relay opens a slot");
    drop(edge);
    relay.kill();
    drop(site); // With its disk.

    for _ in 0..2 {
        let output = retire(&path, parent.running(), &["--deadline", "2s"]);
        assert_eq!(output.status.code(), Some(1), "{}", err(&output));
        let text = err(&output);
        assert!(text.contains("for the relay") && text.contains("hits +7"), "{text}");
        assert!(path.exists(), "{text}");
    }
    let output = retire(&path, parent.running(), &["--deadline", "2s", "--give-up"]);
    assert!(output.status.success(), "{}", err(&output));
    assert!(err(&output).contains("given up") && err(&output).contains("hits +7"), "{}", err(&output));
    assert!(!path.exists());
    assert_eq!(parent.value("hits"), 0);
}

#[test]
fn what_a_lost_site_alone_has_counted_its_heir_counts_once_and_then_the_edge_retires() {
    let mut cluster = Cluster::start(3, &format!("--shards {SHARDS}"));
    for (one, other) in [(1, 2), (1, 3), (2, 3)] {
        cluster.wait_for_link(one, other);
    }
    cluster.client(1).call("INCRBY hits 1");
    cluster.agree("hits", 1);
    for other in [1, 2] {
        cluster.set(3, other, Cable::Cut);
    }
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("state.quipu");
    let edge = Program::options().only_when_asked().open(&path, [url(cluster.running(3))]).expect("it opens");
    edge.add("hits", 7).expect("it is counted");
    drop(edge);
    let output = retire(&path, cluster.running(3), &["--deadline", "3s"]);
    assert_eq!(output.status.code(), Some(1), "{}", err(&output));
    assert!(err(&output).contains("no second site"), "{}", err(&output));
    assert_eq!(cluster.client(3).call("GET hits").count(), 8);
    cluster.take(3).kill();

    let mut remove = Command::new(env!("CARGO_BIN_EXE_quipu"));
    remove.args(["site", "remove", "3", "--dead", "--server", &url(cluster.running(1))]);
    let output = remove.output().expect("it runs");
    assert!(output.status.success(), "{}", err(&output));
    let output = retire(&path, cluster.running(2), &["--deadline", "60s"]);
    assert!(output.status.success(), "{}", err(&output));
    assert!(!path.exists());
    cluster.agree("hits", 8);
    stays_so(Duration::from_secs(1), || cluster.client(1).call("GET hits").count() == 8);
}
