//! Who is refused, as an operator sees it: in the logs of both sites, with the command that repairs it.

use std::{
    io::{Read, Write},
    net::TcpStream,
};

use crate::{
    cluster::{Cluster, PATIENCE, wait},
    harness::{Cable, Line, Site},
};

pub(crate) fn wait_for_words(site: &Site, words: &[&str]) {
    wait(&format!("{words:?} in the log"), || {
        let said = site.said();
        words.iter().all(|word| said.contains(word))
    });
}

#[test]
fn a_site_of_another_cluster_is_refused_at_both_ends() {
    let cluster = Cluster::start(2, "--cluster home");
    let line = Line::new().expect("a free port");
    line.aim(cluster.running(1).link.expect("it has peers"));
    let flags = format!("--site 2 --link 127.0.0.1:0 --peers 1@{} --cluster away", line.address);
    let other = Site::new(&flags);
    let running = other.start();
    let words = ["belongs to the cluster \"away\"", "make its folder anew with --cluster home"];
    wait_for_words(&other, &words);
    wait_for_words(&cluster.sites[&1], &words);
    assert_eq!(running.client().call("INCR hits").integer(), 1, "it counts for itself");
    cluster.wait_for_link(1, 2);
    cluster.client(2).call("INCR hits");
    cluster.agree("hits", 1);
}

#[test]
fn a_second_site_with_the_same_number_is_refused() {
    let cluster = Cluster::start(2, "");
    cluster.wait_for_link(1, 2);
    let line = Line::new().expect("a free port");
    line.aim(cluster.running(1).link.expect("it has peers"));
    let twin = Site::new(&format!("--site 2 --link 127.0.0.1:0 --peers 1@{}", line.address));
    let _running = twin.start();
    let words = ["there is a second site with the number 2", "start it with another --site"];
    wait_for_words(&twin, &words);
    wait_for_words(&cluster.sites[&1], &words);
    let refusals = cluster.info(1);
    assert!(refusals.contains("peer2:link=up"), "the first is not disturbed: {refusals}");
}

#[test]
fn a_site_with_another_number_of_shards_is_refused() {
    let cluster = Cluster::start(2, "--shards 8");
    let line = Line::new().expect("a free port");
    line.aim(cluster.running(1).link.expect("it has peers"));
    let other = Site::new(&format!("--site 2 --link 127.0.0.1:0 --peers 1@{} --shards 16", line.address));
    let _running = other.start();
    wait_for_words(&other, &["site 2 has 16 shards, and site 1 has 8", "--shards"]);
}

#[test]
fn a_site_on_an_old_copy_of_its_folder_counts_no_more() {
    let mut cluster = Cluster::start(2, "");
    cluster.client(2).call("INCRBY hits 5");
    cluster.agree("hits", 5);
    let old = cluster.copy_folder(2);
    cluster.client(2).call("INCRBY hits 5");
    cluster.agree("hits", 10);
    cluster.put_back(2, &old);
    cluster.start_site(2);
    cluster.wait_for_info(2, "counting:no,site 2 runs from an old copy of its folder");
    let answer = cluster.client(2).call("INCR hits");
    assert!(answer.is_error() && format!("{answer:?}").contains("quipu restore"), "{answer:?}");
    assert_eq!(cluster.client(2).call("GET hits").integer(), 5, "it can be read");
    for number in [1, 2] {
        wait_for_words(&cluster.sites[&number], &["old copy", "quipu restore"]);
    }
    wait_for_words(&cluster.sites[&2], &["nothing is counted any more"]);
    assert!(cluster.info(1).contains("peer2:link=down"));
    assert_eq!(cluster.client(1).call("INCR hits").integer(), 11, "the others go on");
}

#[test]
fn an_old_copy_that_was_started_often_is_known_by_its_runs() {
    let mut cluster = Cluster::start(2, "");
    cluster.wait_for_link(1, 2);
    let old = cluster.copy_folder(2);
    cluster.client(2).call("INCRBY hits 5");
    cluster.agree("hits", 5);
    cluster.put_back(2, &old);
    // Alone, it cannot know; and its runs have higher numbers than the one that site 1 has seen.
    cluster.set(1, 2, Cable::Cut);
    for _ in 0..2 {
        cluster.start_site(2);
        cluster.take(2).stop();
    }
    cluster.set(1, 2, Cable::Whole);
    cluster.start_site(2);
    cluster.wait_for_info(2, "counting:no,there is a copy of the folder of site 2, and both were started: ");
    wait_for_words(&cluster.sites[&1], &["site 1 has seen run", "quipu restore"]);
}

#[test]
fn flags_that_contradict_the_folder_are_refused_before_anything_is_served() {
    let site = Site::new("--site 2 --link 127.0.0.1:0 --peers 1@127.0.0.1:1");
    site.start().stop();
    for (flags, words) in [
        ("--site 3", ["is the folder of site 2, and --site says 3", "use another --data"]),
        ("--cluster other", ["belongs to the cluster \"quipu\"", "use another --data"]),
        ("--peers 1@127.0.0.1:1,9@127.0.0.1:2", ["--peers names site 9", "quipu site add"]),
    ] {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_quipu"));
        command.args(["serve", "--resp", "127.0.0.1:0", "--http", "off", "--data"]).arg(site.data());
        let output = command.args(flags.split(' ')).output().expect("it runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && output.stdout.is_empty());
        assert!(words.iter().all(|word| said.contains(word)), "{said}");
    }
    // With the same ones it is who it was.
    site.start().stop();
}

#[test]
fn strange_bytes_on_the_link_port_are_logged_and_change_nothing() {
    let cluster = Cluster::start(2, "");
    cluster.wait_for_link(1, 2);
    let link = cluster.running(1).link.expect("it has peers");
    for (bytes, words) in [
        (b"GET / HTTP/1.1\r\n\r\n".as_slice(), "a frame of "),
        (&[1, 0, 0, 0, 1, 2, 3, 4, 5], "whose checksum is"),
        (&[200, 0, 0, 0, 1], "in the middle of a frame"),
    ] {
        let mut stream = TcpStream::connect(link).expect("it listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a time");
        stream.write_all(bytes).expect("it reads");
        stream.shutdown(std::net::Shutdown::Write).expect("open");
        // Closed or reset: either way it is over.
        let _ = stream.read_to_end(&mut Vec::new());
        wait_for_words(&cluster.sites[&1], &["no link", words]);
    }
    assert!(cluster.info(1).contains("peer2:link=up"));
    cluster.client(1).call("INCR hits");
    cluster.agree("hits", 1);
    assert_eq!(cluster.client(1).call("DBSIZE").integer(), 1);
}
