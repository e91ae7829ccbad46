//! What clients see of several sites: rights that are fetched, creations and writes that are waited for, counts that are
//! provisional, and books that balance.

use std::{
    process::Output,
    time::{Duration, Instant},
};

use crate::{
    cluster::{Cluster, wait},
    harness::{Cable, Client, Value, client::encode},
};

/// Longer than anything takes that works, shorter than a test may take.
const LONG_MS: u64 = 30_000;
/// Long enough to be told from none.
const SHORT: Duration = Duration::from_millis(300);
/// A server counts in whole milliseconds, from when it began to look at what has come.
const ROUNDING: Duration = Duration::from_millis(10);

fn connected(flags: &str) -> Cluster {
    let cluster = Cluster::start(3, flags);
    for (one, other) in [(1, 2), (1, 3), (2, 3)] {
        cluster.wait_for_link(one, other);
    }
    cluster
}

/// From now on nobody hears site 3.
fn cut_off(cluster: &Cluster) {
    cluster.set(1, 3, Cable::Cut);
    cluster.set(2, 3, Cable::Cut);
    for number in [1, 2] {
        cluster.wait_for_info(number, "peer3:link=down");
    }
}

fn heal(cluster: &Cluster) {
    cluster.set(1, 3, Cable::Whole);
    cluster.set(2, 3, Cable::Whole);
}

fn says(client: &mut Client, command: &str) -> String {
    client.call(command).text()
}

#[test]
fn writes_are_waited_for() {
    let cluster = connected("");
    let mut client = cluster.client(1);
    assert_eq!(client.call("WAIT 0 0"), Value::Integer(2), "nothing was written, and both have that");
    for number in 0..50 {
        client.call(&format!("INCR key{number}"));
    }
    assert_eq!(client.call(&format!("WAIT 2 {LONG_MS}")), Value::Integer(2));
    for number in 0..50 {
        for site in [2, 3] {
            assert_eq!(cluster.client(site).call(&format!("GET key{number}")).integer(), 1, "they have it");
        }
    }
    cut_off(&cluster);
    let mut client = cluster.client(1);
    for number in 0..50 {
        client.call(&format!("INCR key{number}"));
    }
    assert_eq!(client.call(&format!("WAIT 1 {LONG_MS}")), Value::Integer(1));
    let start = Instant::now();
    assert_eq!(client.call(&format!("WAIT 2 {}", SHORT.as_millis())), Value::Integer(1));
    assert!(start.elapsed() >= SHORT);
    // One that waits for ever is answered when the line is whole again.
    client.write(&encode(&["WAIT", "2", "0"])).expect("it reads");
    assert_eq!(cluster.client(1).call("INCR key1"), Value::Integer(3), "nobody else waits");
    heal(&cluster);
    assert_eq!(client.read().expect("a reply"), Value::Integer(2));
}

#[test]
fn rights_are_spread_and_moved() {
    let cluster = connected("");
    let mut first = cluster.client(1);
    assert_eq!(
        first.call(&format!("COUNTER.CREATE stock MIN 0 VALUE 300 SPREAD EVEN WAIT {LONG_MS}")),
        Value::ok()
    );
    for site in 1..=3 {
        assert_eq!(cluster.client(site).call("DECRBY stock 10").integer() % 10, 0, "site {site} takes it");
    }
    // Cut off, a site sells what it holds, and no more.
    cluster.agree("stock", 270);
    cut_off(&cluster);
    let mut third = cluster.client(3);
    assert_eq!(third.call("DECRBY stock 90"), Value::Integer(180));
    let refused = says(&mut third, "DECR stock");
    assert!(refused.contains("this site holds 0 of the 180 units"), "{refused}");
    let refused = says(&mut third, &format!("COUNTER.MOVE stock 5 FROM 1 TO 3 WAIT {}", SHORT.as_millis()));
    assert!(refused.starts_with("NOTMOVED site 1 was asked"), "{refused}");
    heal(&cluster);
    cluster.agree("stock", 180);
    // Asked anywhere, the holder passes them on.
    assert_eq!(third.call(&format!("COUNTER.MOVE stock 5 FROM 1 TO 3 WAIT {LONG_MS}")), Value::Integer(5));
    let mut second = cluster.client(2);
    let moved = second.call(&format!("COUNTER.MOVE stock 80 FROM 1 TO 2 WAIT {LONG_MS}"));
    assert_eq!(moved, Value::Integer(80));
    assert_eq!(second.call("DECRBY stock 170"), Value::Integer(10), "90 of its own, and 80");
}

#[test]
fn rights_are_fetched_from_other_sites() {
    let cluster = connected("");
    let (mut first, mut second) = (cluster.client(1), cluster.client(2));
    assert_eq!(first.call(&format!("COUNTER.CREATE stock MIN 0 VALUE 100 WAIT {LONG_MS}")), Value::ok());
    assert_eq!(second.call("GET stock").count(), 100, "all sites take it");
    let refused = says(&mut second, "DECRBY stock 40");
    assert!(
        refused.starts_with("OUTOFBOUNDS ")
            && refused
                .contains("this site holds 0 of the 100 units that can be subtracted; site 1 holds them"),
        "{refused}"
    );
    assert_eq!(second.call(&format!("DECRBY stock 40 REMOTE {LONG_MS} IDMP p 1")), Value::Integer(60));
    assert_eq!(second.call(&format!("DECRBY stock 40 REMOTE {LONG_MS} IDMP p 1")), Value::Integer(60));
    // More than all have: nobody waits for what there is not.
    let start = Instant::now();
    let refused = says(&mut second, &format!("DECRBY stock 61 REMOTE {LONG_MS}"));
    assert!(refused.starts_with("OUTOFBOUNDS "), "{refused}");
    assert!(start.elapsed() < Duration::from_millis(LONG_MS), "{:?}", start.elapsed());
    // Rights that cannot be fetched: it waits until its time is up, and holds up what is behind it, and nobody else.
    cluster.agree("stock", 60);
    cut_off(&cluster);
    let mut third = cluster.client(3);
    let start = Instant::now();
    let waits = format!("DECRBY stock 10 REMOTE {}", SHORT.as_millis());
    let waits = encode(&waits.split(' ').collect::<Vec<_>>());
    third.write(&[waits, encode(&["INCR", "behind"]), encode(&["GET", "stock"])].concat()).expect("it reads");
    let mut other = cluster.client(3);
    assert_eq!(other.call("INCR other"), Value::Integer(1));
    assert_eq!(other.call("GET behind"), Value::Null);
    assert!(start.elapsed() < SHORT, "{:?}", start.elapsed());
    let refused = third.read().expect("a reply").text();
    assert!(
        refused.starts_with("OUTOFBOUNDS ")
            && refused.contains(" of the 60 units that can be subtracted; site "),
        "{refused}"
    );
    assert!(start.elapsed() + ROUNDING >= SHORT, "{:?}", start.elapsed());
    assert_eq!(third.read().expect("a reply"), Value::Integer(1));
    assert_eq!(third.read().expect("a reply").integer(), 60);
    // Whoever goes while a command waits has not undone it, and its id tells what became of it.
    let mut goes = cluster.client(3);
    let waits = format!("DECRBY stock 10 REMOTE {LONG_MS} IDMP p 2");
    goes.write(&encode(&waits.split(' ').collect::<Vec<_>>())).expect("it reads");
    std::thread::sleep(SHORT);
    drop(goes);
    heal(&cluster);
    cluster.agree("stock", 50);
    wait("it is settled", || says(&mut third, "COUNTER.OUTCOME stock p 2") == "[counted 50 -10 3]");
    let rights = says(&mut third, "COUNTER.RIGHTS stock");
    assert!(rights.contains("[site 3 add null add_waiting null subtract "), "{rights}");
}

#[test]
fn a_creation_names_the_sites_that_are_missing() {
    let cluster = connected("");
    cut_off(&cluster);
    let mut first = cluster.client(1);
    let start = Instant::now();
    let refused = says(&mut first, &format!("COUNTER.CREATE seats MIN 0 VALUE 5 WAIT {}", SHORT.as_millis()));
    assert!(refused.starts_with("CREATING ") && refused.contains("site 3 has not answered"), "{refused}");
    assert!(start.elapsed() + ROUNDING >= SHORT, "{:?}", start.elapsed());
    heal(&cluster);
    cluster.agree("seats", 5);
    wait("it takes effect", || first.call("DECR seats") == Value::Integer(4));
}

#[test]
fn what_another_site_has_not_heard_of_is_provisional() {
    let cluster = connected("");
    cut_off(&cluster);
    let (mut first, mut third) = (cluster.client(1), cluster.client(3));
    assert_eq!(first.call("INCRBY k 5 IDMP p 1"), Value::Integer(5));
    assert_eq!(says(&mut first, "COUNTER.OUTCOME k p 1"), "[provisional 5 5 1]");
    // The retry of a client that has lost its way.
    assert_eq!(third.call("INCRBY k 5 IDMP p 1"), Value::Integer(5));
    let info = says(&mut third, "COUNTER.INFO k");
    assert!(info.starts_with("[value 5 provisional 5 kind plain"), "{info}");
    assert!(
        info.contains("[site 3 added 5 subtracted 0 provisional_added 5 provisional_subtracted 0]"),
        "{info}"
    );
    heal(&cluster);
    cluster.agree("k", 5);
    wait("it is settled", || says(&mut third, "COUNTER.OUTCOME k p 1") == "[counted 5 5 1]");
    wait("it was heard of", || {
        says(&mut third, "COUNTER.INFO k").contains(
            "[site 1 added 5 subtracted 0 provisional_added 0 provisional_subtracted 0 heard_ms_ago ",
        )
    });
}

#[test]
fn the_books_of_all_sites_balance_in_the_end() {
    let cluster = connected("");
    let issue = |round: u32| {
        for site in 1..=3 {
            let mut client = cluster.client(site);
            for number in 0..40 {
                client.call(&format!("INCRBY key{number} 3"));
                client.call(&format!("DECR key{number} IDMP p {round}:{site}:{number}"));
            }
        }
    };
    let said = |output: &Output| {
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
    };
    issue(1);
    cluster.balance();
    cut_off(&cluster);
    issue(2);
    let output = cluster.audit(&["--shards"]);
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(said(&output).contains("in flight from site 3 to 1: +120 -40"), "{}", said(&output));
    heal(&cluster);
    cluster.balance();
    let output = cluster.audit(&["--json"]);
    let found: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    for site in found["sites"].as_array().expect("sites") {
        assert_eq!(site["issued"], serde_json::json!({"added": 240, "subtracted": 80}), "{site}");
    }
}
