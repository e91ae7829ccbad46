//! Two sites of one cluster, one on a folder and one on Cassandra: they replicate as any two do.

use std::thread;

use crate::{
    database::{FLAGS, Found},
    harness::{Client, Cluster, Site, Value, cluster::wait},
};

/// The one on a folder, and the one on Cassandra.
const FOLDER: u16 = 1;
const DATABASE: u16 = 2;
/// Adds with ids at each site in each round.
const ADDS: i64 = 200;
const UNITS: i64 = 100;

/// Adds with ids of a client, each 1, from one id to another; each may have been counted before.
fn add(client: &mut Client, name: &str, ids: std::ops::Range<i64>) {
    for id in ids {
        let told = client.call(&format!("INCRBY hits 1 IDMP {name} {id}"));
        assert!(!told.is_error(), "{name} {id}: {told:?}");
    }
}

/// Takes units at a site until it is told that there are none, and fetches them from the other one. Returns how many.
fn take(client: &mut Client) -> i64 {
    let mut taken = 0;
    loop {
        match client.call("DECRBY stock 1 REMOTE 5000") {
            Value::Integer(_) => taken += 1,
            Value::Error(text) if text.starts_with("OUTOFBOUNDS ") => return taken,
            other => panic!("{other:?}"),
        }
    }
}

pub(crate) fn two_sites_on_different_stores(database: Found) {
    let database = database.get();
    let mut cluster = Cluster::on(2, "", |number, flags| match number {
        DATABASE => Site::in_database(&database.address(), &format!("{flags} {FLAGS}")),
        _ => Site::in_folder(&format!("{flags} {FLAGS}")),
    });
    cluster.start_site(FOLDER);
    cluster.start_site(DATABASE);
    cluster.wait_for_link(FOLDER, DATABASE);
    // Both at once, each with ids of its own; then each repeats at the other site what it has sent.
    thread::scope(|scope| {
        for (number, name) in [(FOLDER, "f"), (DATABASE, "d")] {
            let mut client = cluster.client(number);
            scope.spawn(move || add(&mut client, name, 0..ADDS));
        }
    });
    add(&mut cluster.client(DATABASE), "f", 0..ADDS);
    add(&mut cluster.client(FOLDER), "d", 0..ADDS);
    cluster.agree("hits", 2 * ADDS);
    // A counter with bounds, whose units are at the other site.
    let mut first = cluster.client(FOLDER);
    let create = format!("COUNTER.CREATE stock MIN 0 VALUE {UNITS} WAIT 30000");
    assert_eq!(first.call(&create), Value::ok());
    wait("the counter at the other site", || cluster.client(DATABASE).call("GET stock").count() == UNITS);
    for id in 0..UNITS / 4 {
        let told = cluster.client(DATABASE).call(&format!("DECRBY stock 1 REMOTE 5000 IDMP s {id}"));
        assert!(!told.is_error(), "{told:?}");
    }
    // The node on Cassandra dies with adds under way, whose answers nobody hears. The other site goes on, and has them
    // repeated there: they count once, wherever they were counted first.
    let mut unheard = cluster.client(DATABASE);
    for id in ADDS..2 * ADDS {
        let command = format!("INCRBY hits 1 IDMP d {id}");
        unheard
            .write(&crate::harness::client::encode(&command.split(' ').collect::<Vec<_>>()))
            .expect("sent");
    }
    cluster.take(DATABASE).kill();
    add(&mut first, "f", ADDS..2 * ADDS);
    add(&mut first, "d", ADDS..2 * ADDS);
    cluster.start_site(DATABASE);
    cluster.wait_for_link(FOLDER, DATABASE);
    add(&mut cluster.client(DATABASE), "f", ADDS..2 * ADDS);
    add(&mut cluster.client(DATABASE), "d", 0..2 * ADDS);
    for id in 0..UNITS / 4 {
        let told = first.call(&format!("DECRBY stock 1 REMOTE 5000 IDMP s {id}"));
        assert!(!told.is_error(), "a repeat at the other site: {told:?}");
    }
    cluster.agree("hits", 4 * ADDS);
    cluster.agree("stock", UNITS - UNITS / 4);
    // The rest is sold at both sites at once: exactly as much as there is.
    let sold: i64 = thread::scope(|scope| {
        let clients = [FOLDER, DATABASE].map(|number| cluster.client(number));
        let takers = clients.map(|mut client| scope.spawn(move || take(&mut client)));
        takers.into_iter().map(|taker| taker.join().expect("no failure")).sum()
    });
    assert!(sold <= UNITS - UNITS / 4, "{sold} were sold");
    let rest = UNITS - UNITS / 4 - sold;
    cluster.agree("stock", rest);
    cluster.agree("hits", 4 * ADDS);
    cluster.balance();
    cluster.take(FOLDER).stop();
    cluster.take(DATABASE).stop();
}
