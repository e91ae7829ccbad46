//! Adds at every site, and links that come and go: in the end all show the issued sum.

use std::{thread, time::Duration};

use crate::{
    cluster::{Cluster, wait},
    harness::Cable,
};

/// Adds at one site, to a counter that all sites add to and one of its own.
fn count(cluster: &Cluster, number: u16, times: i64) {
    let mut client = cluster.client(number);
    for _ in 0..times {
        client.call("INCR shared");
        client.call(&format!("INCRBY own:{number} {number}"));
    }
}

fn metric(cluster: &Cluster, number: u16, name: &str) -> f64 {
    let url = format!("http://{}/metrics", cluster.running(number).http);
    let text = ureq::get(&url).call().expect("metrics").body_mut().read_to_string().expect("text");
    let line = text.lines().find(|line| line.starts_with(name));
    let line = line.unwrap_or_else(|| panic!("{name} in {text}"));
    line.rsplit(' ').next().and_then(|value| value.parse().ok()).expect("a number")
}

#[test]
fn three_sites_agree_and_one_that_was_killed_catches_up() {
    let mut cluster = Cluster::start(3, "");
    for number in 1..=3 {
        count(&cluster, number, 100);
    }
    cluster.agree("shared", 300);
    for number in 1..=3 {
        cluster.agree(&format!("own:{number}"), 100 * i64::from(number));
    }
    for (one, other) in [(1, 2), (1, 3), (2, 3)] {
        cluster.wait_for_link(one, other);
    }
    // Killed in the middle; the others go on.
    cluster.take(3).kill();
    cluster.wait_for_info(1, "peer3:link=down");
    count(&cluster, 1, 50);
    count(&cluster, 2, 50);
    cluster.agree("shared", 400);
    cluster.start_site(3);
    count(&cluster, 3, 10);
    cluster.agree("shared", 410);
    cluster.agree("own:3", 330);
    assert_eq!(metric(&cluster, 1, "quipu_link_up{peer=\"2\"}"), 1.0);
    for name in [
        "quipu_link_sent_bytes_total{peer=\"2\"}",
        "quipu_link_received_bytes_total{peer=\"2\"}",
        "quipu_link_messages_sent_total{peer=\"2\"}",
        "quipu_link_messages_received_total{peer=\"2\"}",
    ] {
        assert!(metric(&cluster, 1, name) >= 1.0, "{name}");
    }
    let heard = metric(&cluster, 1, "quipu_link_last_heard_seconds{peer=\"2\"}");
    assert!((0.0..60.0).contains(&heard), "{heard}");
    for number in 1..=3 {
        cluster.take(number).stop();
    }
    for number in 1..=3 {
        cluster.start_site(number);
    }
    cluster.agree("shared", 410);
}

#[test]
fn a_site_that_is_cut_off_goes_on_counting_and_is_understood_later() {
    let cluster = Cluster::start(3, "");
    count(&cluster, 3, 5);
    cluster.agree("shared", 5);
    cluster.set(1, 3, Cable::Cut);
    cluster.set(2, 3, Cable::Cut);
    cluster.wait_for_info(3, "peer1:link=down");
    cluster.wait_for_info(3, "peer2:link=down");
    for number in 1..=3 {
        count(&cluster, number, 20);
    }
    assert_eq!(cluster.client(3).call("GET shared").count(), 25);
    cluster.set(1, 3, Cable::Whole);
    cluster.set(2, 3, Cable::Whole);
    cluster.agree("shared", 65);
}

#[test]
fn what_cannot_come_directly_comes_by_way_of_the_third() {
    let cluster = Cluster::start(3, "");
    cluster.wait_for_link(1, 2);
    cluster.set(1, 2, Cable::Cut);
    cluster.wait_for_info(1, "peer2:link=down");
    cluster.wait_for_info(2, "peer1:link=down");
    count(&cluster, 1, 10);
    count(&cluster, 2, 10);
    cluster.agree("shared", 20);
    assert!(cluster.info(1).contains("peer2:link=down"), "and not by a link of their own");
}

#[test]
fn a_line_that_swallows_everything_is_noticed_and_replaced() {
    let cluster = Cluster::start(2, "");
    count(&cluster, 1, 1);
    cluster.agree("shared", 1);
    cluster.set(1, 2, Cable::Silent);
    count(&cluster, 1, 10);
    count(&cluster, 2, 10);
    for (number, peer) in [(1, 2), (2, 1)] {
        cluster.wait_for_info(number, &format!("peer{peer}:link=down"));
        assert!(cluster.sites[&number].said().contains("a link is down: nothing was heard for 5 s"));
    }
    cluster.set(1, 2, Cable::Whole);
    cluster.agree("shared", 21);
}

#[test]
fn a_site_that_is_frozen_for_a_while_harms_nobody() {
    let cluster = Cluster::start(3, "");
    cluster.wait_for_link(2, 3);
    cluster.running(3).signal("STOP");
    count(&cluster, 1, 50);
    wait("site 2 has the adds of site 1", || cluster.client(2).call("GET shared").count() == 50);
    cluster.wait_for_info(1, "peer3:link=down");
    count(&cluster, 2, 50);
    cluster.running(3).signal("CONT");
    cluster.agree("shared", 100);
}

#[test]
fn sites_that_flush_later_agree_too() {
    let mut cluster = Cluster::start(2, "--durability interval:40");
    count(&cluster, 1, 30);
    count(&cluster, 2, 30);
    cluster.agree("shared", 60);
    cluster.take(2).stop();
    count(&cluster, 1, 5);
    cluster.start_site(2);
    cluster.agree("shared", 65);
}

#[test]
fn retries_at_another_site_count_once() {
    let cluster = Cluster::start(2, "");
    cluster.wait_for_link(1, 2);
    assert_eq!(cluster.client(1).call("INCRBY shared 5 IDMP web 1").integer(), 5);
    cluster.agree("shared", 5);
    assert_eq!(cluster.client(2).call("INCRBY shared 5 IDMP web 1").integer(), 5);
    // Both count it before they meet.
    cluster.set(1, 2, Cable::Cut);
    cluster.wait_for_info(1, "peer2:link=down");
    cluster.wait_for_info(2, "peer1:link=down");
    for number in [1, 2] {
        assert_eq!(cluster.client(number).call("INCRBY shared 7 IDMP web 2").integer(), 12);
    }
    cluster.set(1, 2, Cable::Whole);
    cluster.wait_for_link(1, 2);
    thread::sleep(Duration::from_millis(200));
    cluster.agree("shared", 12);
}

#[test]
fn idle_sites_say_little() {
    let cluster = Cluster::start(2, "");
    count(&cluster, 1, 10);
    cluster.agree("shared", 10);
    let passed = || cluster.line(1, 2).passed() + cluster.line(2, 1).passed();
    // What was under way has arrived after a while.
    thread::sleep(Duration::from_secs(5));
    let before = passed();
    thread::sleep(Duration::from_secs(4));
    let bytes = passed() - before;
    assert!((40..1_000).contains(&bytes), "{bytes} bytes in four seconds: a beat in each, and little else");
}
