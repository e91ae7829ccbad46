//! What a relay does not do, and what is said about it.

use super::*;
use harness::Cluster;

fn fails_to_start(site: &Site, reason: &str) {
    assert!(site.try_start("127.0.0.1:0").is_none());
    assert!(site.said().contains(reason), "{}", site.said());
}

#[test]
fn what_only_sites_do_is_refused() {
    let parent = Parent::start();
    let site = relay(&[&parent], "");
    let relay = site.start();
    let mut client = relay.client();
    for command in [
        "SET hits 5",
        "DEL hits",
        "INCREX hits UBOUND 3",
        "COUNTER.CREATE stock MIN 0",
        "COUNTER.INFO hits",
        "SCAN 0",
        "KEYS *",
        "DBSIZE",
        "FLUSHDB",
    ] {
        let reply = client.call(command);
        assert!(reply.is_error() && reply.text().starts_with("HANDOFF "), "{command}: {reply:?}");
    }
    let status = |method: &str, path: &str| {
        let agent: ureq::Agent = ureq::Agent::config_builder().http_status_as_error(false).build().into();
        let url = format!("http://{}{path}", relay.http);
        let request = ureq::http::Request::builder().method(method).uri(url).body(()).expect("a request");
        agent.run(request).expect("an answer").status().as_u16()
    };
    assert_eq!(status("GET", "/v1/counters"), 409);
    assert_eq!(status("GET", "/v1/sites"), 409);
    assert_eq!(status("GET", "/v1/audit"), 409);
    assert_eq!(status("GET", "/health/ready"), 200);
    relay.stop();
}

#[test]
fn a_folder_is_for_a_relay_or_for_a_site() {
    let parent = Parent::start();
    let site = relay(&[&parent], "");
    site.start().stop();
    let as_site = site.with_other_flags(&format!("--shards {SHARDS}"));
    fails_to_start(&as_site, "it is the folder of a relay");
    let address = parent.line.address;
    let plain = Site::in_folder("");
    plain.start().stop();
    let as_relay = plain.with_other_flags(&format!("--tier 1 --parents {address}"));
    fails_to_start(&as_relay, "it is the folder of site 1");
}

#[test]
fn settings_that_contradict_each_other() {
    for (flags, reason) in [
        ("--tier 1", "for --tier 1; give the links of the sites"),
        ("--parents a:1", "is for relays"),
        ("--tier 1 --parents a:1 --peers 2@b:1", "--peers: \"2@b:1\" is for sites"),
        ("--tier 1 --parents a:1 --join 2@b:1 --site 3", "is for sites"),
        ("--tier 1 --parents a:1 --link 127.0.0.1:0", "--link: \"127.0.0.1:0\" is for sites"),
        ("--tier 2 --parents a:1", "--tier: \"2\" is more than 1"),
        ("--tier 1 --parents a:1,a:1", "has a:1 twice"),
        ("--tier 1 --parents nonsense", "is no address"),
    ] {
        let site = Site::new(flags);
        fails_to_start(&site, reason);
    }
}

#[test]
fn a_parent_with_another_number_of_shards_or_of_another_cluster_is_handed_nothing() {
    let parent = Parent::start();
    let address = parent.line.address;
    for (flags, reason) in [
        ("--shards 8", "site 1 has 4 shards, and this relay has 8"),
        ("--shards 4 --cluster other", "belongs to the cluster \"other\", and this is a server of \"quipu\""),
    ] {
        let site = Site::new(&format!("--tier 1 --parents {address} {flags}"));
        let relay = site.start();
        assert_eq!(relay.client().call("INCRBY hits 3").integer(), 3);
        wait_for_info(&relay, "replication", reason);
        assert!(site.said().contains(reason), "{}", site.said());
        stays_so(Duration::from_millis(500), || parent.value("hits") == 0);
        assert_eq!(relay.client().call("GET hits").integer(), 3, "it stays here");
        relay.stop();
    }
}

#[test]
fn a_parent_or_an_edge_of_a_cluster_with_the_same_name_is_found_out() {
    let [mut ours, other] = [Parent::start(), Parent::start()];
    let site = relay(&[&ours, &other], "");
    let relay = site.start();
    relay.client().call("INCRBY hits 3");
    ours.wait_for("hits", 3);
    // Both are site 1 of a cluster that is called quipu, and were begun apart.
    ours.kill();
    relay.client().call("INCRBY hits 4");
    wait_for_info(&relay, "replication", "the edge belongs to the cluster \"quipu/");
    stays_so(Duration::from_millis(500), || other.value("hits") == 0);
    let mut edge = Edge::new(1);
    edge.add("hits", 5);
    edge.exchange(relay.http, true).expect("the relay has told the id");
    assert_eq!(edge.exchange(other.running().http, true), None, "refused");
    ours.go_on();
    edge.flush(relay.http);
    ours.wait_for("hits", 12);
    assert_eq!(other.value("hits"), 0);
    relay.stop();
}

/// Each draws nothing or the same as all others.
#[test]
fn all_sites_of_a_cluster_come_to_know_its_id() {
    let mut cluster = Cluster::new(3, &format!("--shards {SHARDS}"));
    // The lowest, which draws it, comes last.
    for number in [3, 2, 1] {
        cluster.start_site(number);
    }
    let ids = |cluster: &Cluster| [1, 2, 3].map(|number| edge::cluster_id(cluster.running(number).http));
    wait("all know it", || ids(&cluster).iter().all(Option::is_some));
    let known = ids(&cluster);
    assert!(known.iter().all(|id| *id == known[0]), "{known:?}");
    cluster.take(2).kill();
    cluster.start_site(2);
    assert_eq!(ids(&cluster), known, "it is stored");
}
