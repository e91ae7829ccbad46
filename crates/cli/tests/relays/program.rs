//! Programs with the crate `quipu-edge` whose server is a relay, and a site that leaves while one of them hands over.

use std::{
    process::{Child, Command, Output, Stdio},
    time::Duration,
};

use quipu_edge::Edge as Program;

use super::*;
use harness::Cluster;

const PATIENCE: Duration = Duration::from_secs(60);

fn url(running: &Running) -> String {
    format!("http://{}", running.http)
}

#[test]
fn a_program_hands_over_to_a_relay_and_reads_there() {
    let mut parent = Parent::start();
    let site = relay(&[&parent], "");
    let relay = site.start();
    wait_for_info(&relay, "replication", "link=up");
    parent.running().client().call("INCRBY hits 100");
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("state.quipu");
    let edge = Program::open(&path, [url(&relay)]).expect("it opens");
    edge.add("hits", 7).expect("it is counted");
    edge.subtract("stock", 2).expect("it is counted");
    edge.flush(PATIENCE).expect("a relay takes it");
    parent.wait_for("hits", 107);
    parent.wait_for("stock", -2);
    wait("the edge knows what all have counted", || edge.value("hits").expect("a value").value == 107);
    let mut watch = edge.watch("hits").expect("a watch");
    parent.running().client().call("INCRBY hits 3");
    let seen = std::iter::repeat_with(|| watch.next(PATIENCE)).flatten().find(|it| it.value == 110);
    assert!(seen.is_some());

    // The relay takes it while its parent is away, and the process ends without a word.
    parent.kill();
    edge.add("hits", 1).expect("it is counted");
    edge.flush(PATIENCE).expect("a relay takes it");
    edge.add("hits", 1).expect("it is counted");
    drop(edge);
    parent.go_on();
    let edge = Program::open(&path, [url(&relay)]).expect("it opens again");
    edge.retire(PATIENCE).expect("it retires");
    assert!(!path.exists());
    parent.wait_for("hits", 112);
    wait("nothing is left", || keeps(&relay).is_empty() && keeps(parent.running()).is_empty());
    relay.stop();
}

#[test]
fn a_program_goes_from_a_relay_to_a_site_and_back() {
    let parent = Parent::start();
    let site = relay(&[&parent], "");
    let relay = site.start();
    wait_for_info(&relay, "replication", "link=up");
    let servers = [url(&relay), url(parent.running())];
    let edge = Program::in_memory(&servers).expect("it opens");
    for round in 0..10_usize {
        edge.add("hits", 1).expect("it is counted");
        edge.use_server(&servers[round % 2]).expect("an address");
        // Half a handoff, whatever it comes to.
        let _ = edge.sync();
    }
    edge.retire(PATIENCE).expect("it retires");
    parent.wait_for("hits", 10);
    wait("nothing is left", || keeps(&relay).is_empty() && keeps(parent.running()).is_empty());
    stays_so(Duration::from_secs(1), || parent.value("hits") == 10);
    relay.stop();
}

fn edge_value(folder: &tempfile::TempDir, args: &str, relay: &Running) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_quipu"));
    command.args(["edge", "value", "--servers", &url(relay)]).args(args.split_whitespace());
    command.arg("--state").arg(folder.path().join("state.quipu")).env_clear();
    command.output().expect("it runs")
}

#[test]
fn the_first_question_for_a_counter_waits_for_what_the_relay_asks_its_site() {
    let mut parent = Parent::start();
    let site = relay(&[&parent], "");
    let relay = site.start();
    wait_for_info(&relay, "replication", "link=up");
    parent.running().client().call("INCRBY hits 100");
    parent.running().client().call("INCRBY other 20");
    let folder = tempfile::tempdir().expect("a folder");
    let edge = Program::open(folder.path().join("state.quipu"), [url(&relay)]).expect("it opens");
    edge.add("hits", 1).expect("it is counted");
    edge.flush(PATIENCE).expect("a relay takes it");
    drop(edge);
    let output = edge_value(&folder, "hits other --deadline 60s", &relay);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "hits\t101\nother\t20\n");

    // A relay that cannot ask is not waited for longer than that.
    parent.kill();
    relay.stop();
    let relay = site.start();
    let output = edge_value(&folder, "new --deadline 1s", &relay);
    assert_eq!(output.status.code(), Some(2));
    let why = String::from_utf8_lossy(&output.stderr);
    assert!(why.contains("no server has told what others have counted of new"), "{why}");
    relay.stop();
}

fn remove(site: u16, at: &Running) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_quipu"));
    command.args(["site", "remove", &site.to_string(), "--server", &url(at)]).stdout(Stdio::piped());
    command.spawn().expect("it starts")
}

#[test]
fn what_an_edge_has_made_for_a_site_that_leaves_its_heir_counts() {
    let cluster = Cluster::start(2, &format!("--shards {SHARDS}"));
    cluster.wait_for_link(1, 2);
    let mut edge = Edge::new(1);
    edge.add("hits", 5);
    assert_eq!(edge.exchange(cluster.running(2).http, true), Some(vec![]), "it has a slot");
    let removal = remove(2, cluster.running(1));
    let output = removal.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "the site does not wait for the edge: {said}");
    edge.flush(cluster.running(1).http);
    wait("site 1 has it", || cluster.client(1).call("GET hits").count() == 5);
}
