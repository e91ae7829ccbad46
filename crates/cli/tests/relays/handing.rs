//! What is counted at a relay, or handed to it, arrives at a site once.

use super::*;
use harness::Cluster;

#[test]
fn counts_of_clients_and_edges_arrive_at_the_site_and_its_values_come_back() {
    let parent = Parent::start();
    let site = relay(&[&parent], "");
    let relay = site.start();
    wait_for_info(&relay, "replication", "link=up,server=site 1");
    let mut client = relay.client();
    parent.running().client().call("INCRBY hits 100");
    assert_eq!(client.call("INCRBY hits 5").integer(), 5, "as far as it is known there");
    parent.wait_for("hits", 105);
    wait("the relay knows it", || client.call("GET hits").count() == 105);
    assert_eq!(client.call("DECR hits").integer(), 104);
    parent.wait_for("hits", 104);

    let mut edge = Edge::new(1);
    edge.add("hits", 7);
    edge.flush(relay.http);
    parent.wait_for("hits", 111);
    wait("the edge knows it", || {
        edge.exchange(relay.http, true);
        edge.value("hits") == Some(111)
    });
    edge.retire(relay.http);
    wait("nothing is left", || keeps(&relay).is_empty() && keeps(parent.running()).is_empty());
    assert_eq!(parent.value("hits"), 111);
    relay.stop();
}

#[test]
fn a_relay_counts_while_its_parent_is_away() {
    let mut parent = Parent::start();
    let site = relay(&[&parent], "");
    let relay = site.start();
    wait_for_info(&relay, "replication", "link=up");
    parent.kill();
    wait_for_info(&relay, "replication", "trouble:");
    let (mut client, mut edge) = (relay.client(), Edge::new(1));
    for number in 1..=50 {
        assert_eq!(client.call("INCR hits").integer(), number);
        edge.add(&format!("page:{}", number % 7), number);
    }
    edge.flush(relay.http);
    assert_eq!(client.call("GET hits").integer(), 50);
    // All of it survives the relay.
    relay.kill();
    let relay = site.start();
    assert_eq!(relay.client().call("GET hits").integer(), 50);
    parent.go_on();
    parent.wait_for("hits", 50);
    let pages = || (0..7).map(|page| parent.value(&format!("page:{page}"))).sum::<i64>();
    wait("all pages", || pages() == (1..=50).sum::<i64>());
    relay.stop();
}

#[test]
fn a_relay_goes_on_with_another_parent_and_looks_after_the_one_before() {
    let cluster = Cluster::start(2, &format!("--shards {SHARDS}"));
    cluster.wait_for_link(1, 2);
    let lines = [1, 2].map(|number| {
        let line = Line::new().expect("a free port");
        line.aim(cluster.running(number).link.expect("it has peers"));
        line
    });
    let parents = lines.each_ref().map(|line| line.address.to_string()).join(",");
    let site = Site::new(&format!("--tier 1 --parents {parents} --shards {SHARDS} --workers 2"));
    let relay = site.start();
    wait_for_info(&relay, "replication", "link=up,server=site 1");
    let mut client = relay.client();
    client.call("INCRBY hits 3");
    cluster.agree("hits", 3);
    lines[0].set(Cable::Cut);
    client.call("INCRBY hits 4");
    wait_for_info(&relay, "replication", "link=up,server=site 2");
    cluster.agree("hits", 7);
    lines[0].set(Cable::Whole);
    wait("nothing is left at either", || [1, 2].iter().all(|site| keeps(cluster.running(*site)).is_empty()));
    cluster.agree("hits", 7);
    wait("nothing is left at the relay", || keeps(&relay).is_empty());
    relay.stop();
}

#[test]
fn relays_sites_and_edges_that_are_killed_again_and_again_lose_and_double_nothing() {
    const ROUNDS: u8 = 12;
    let mut parent = Parent::start();
    let site = relay(&[&parent], "");
    let mut relay = site.start();
    let mut edges: Vec<Edge> = (1..=3).map(Edge::new).collect();
    let mut expected = 0;
    for round in 0..ROUNDS {
        for (number, edge) in edges.iter_mut().enumerate() {
            let amount = i64::from(round) + 1 + i64::try_from(number).expect("small");
            edge.add("hits", amount);
            expected += amount;
            // Whatever comes of it.
            edge.exchange(relay.http, true);
            if usize::from(round) % 3 == number {
                edge.restart();
            }
        }
        let mut client = relay.client();
        for _ in 0..20 {
            assert!(!client.call("INCR hits").is_error());
            expected += 1;
        }
        std::thread::sleep(Duration::from_millis(u64::from(round) * 7 % 60));
        match round % 3 {
            0 => {
                relay.kill();
                relay = site.start();
            }
            1 => {
                parent.kill();
                parent.go_on();
            }
            _ => {}
        }
    }
    edges.iter_mut().for_each(|edge| edge.retire(relay.http));
    parent.wait_for("hits", expected);
    wait("nothing is left", || keeps(&relay).is_empty() && keeps(parent.running()).is_empty());
    stays_so(Duration::from_secs(2), || parent.value("hits") == expected);
    relay.stop();
}
