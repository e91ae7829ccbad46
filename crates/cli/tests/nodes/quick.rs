//! Three nodes on a Cassandra of one node: what they do together, and what happens when one goes.

use std::{process::Command, thread, time::Duration};

use crate::{
    crew::{Crew, SHARDS},
    harness::Value,
    load,
    store::Store,
};

const CLIENTS: u64 = 8;
/// How long the load runs before and after something happens.
const CALM: Duration = Duration::from_millis(1500);

pub(crate) fn any_node_takes_any_command(store: &Store) {
    let crew = Crew::start(&store.keyspace(), 3);
    for round in 1..=3 {
        for number in 0..crew.len() {
            let mut client = crew.client(number);
            for key in 0..20 {
                client.call(&format!("INCR all:{key}"));
            }
            let sum = 3 * (round - 1) + i64::try_from(number).expect("small") + 1;
            assert_eq!(client.call("GET all:7").count(), sum);
        }
    }
    let mut client = crew.client(2);
    assert_eq!(client.call("DBSIZE"), Value::Integer(20));
    assert_eq!(client.call("KEYS all:*").array().len(), 20);
    let values = client.call("MGET all:0 all:1 all:2 all:3").array();
    assert!(values.iter().all(|value| value.count() == 9), "{values:?}");
    // A transaction on counters of one shard is one batch, wherever that shard is.
    for number in 0..crew.len() {
        let mut client = crew.client(number);
        client.call("MULTI");
        client.call("INCRBY {pair}:a 5");
        client.call("DECRBY {pair}:b 5");
        let replies = client.call("EXEC").array();
        let times = i64::try_from(number).expect("small") + 1;
        assert_eq!(replies, [Value::Integer(5 * times), Value::Integer(-5 * times)]);
    }
    // Commands of one client on one counter are done in their order.
    let commands: String = (0..50).map(|n| format!("SET row {n}\r\nINCR row\r\n")).collect();
    client.write(commands.as_bytes()).expect("sent");
    for n in 0..50 {
        assert_eq!(client.read().expect("a reply"), Value::ok());
        assert_eq!(client.read().expect("a reply"), Value::Integer(n + 1));
    }
    assert_eq!(client.call("FLUSHALL"), Value::ok());
    assert_eq!(crew.client(0).call("DBSIZE"), Value::Integer(0));
}

pub(crate) fn a_node_that_drains(store: &Store) {
    let crew = Crew::start(&store.keyspace(), 3);
    load::prepare(&crew);
    let quipu = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_quipu"));
        let url = format!("http://{}", crew.http(0));
        let output = command.args(arguments).args(["--url", &url]).output().expect("the binary starts");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let drained = crew.resp(1).to_string();
    let tally = load::count_while(&crew, CLIENTS, 1, || {
        thread::sleep(CALM);
        quipu(&["node", "drain", &drained]);
        assert_eq!(crew.shares(0), [0, SHARDS / 2, SHARDS / 2]);
        let listed = quipu(&["node", "list", "--shards"]);
        assert!(listed.contains("draining") && listed.contains(&drained), "{listed}");
        thread::sleep(CALM);
        quipu(&["node", "drain", &drained, "--undo"]);
        crew.settle();
        thread::sleep(CALM);
    });
    load::check(&crew, &tally);
    // A shard that is handed over is nobody's for a moment, and what comes then waits.
    assert!(tally.errors.is_empty(), "{:?}", tally.errors);
    let ready = ureq::get(format!("http://{}/health/ready", crew.http(1))).call().expect("an answer");
    assert_eq!(ready.status(), 200);
}

pub(crate) fn rolling_restart(store: &Store) {
    let crew = Crew::start(&store.keyspace(), 3);
    load::prepare(&crew);
    let tally = load::count_while(&crew, CLIENTS, 2, || {
        for number in 0..crew.len() {
            thread::sleep(CALM);
            crew.stop(number);
            crew.start_node(number);
            crew.settle();
        }
        thread::sleep(CALM);
    });
    load::check(&crew, &tally);
    println!(
        "rolling restart: {} counted, longest wait {:?}, {:?}",
        tally.acknowledged(),
        tally.longest,
        tally.errors
    );
    // A client whose node ends loses its connection, and finds another one.
    let told: Vec<_> = tally
        .errors
        .keys()
        .filter(|error| ["TRYAGAIN", "INDOUBT", "NOTSTORED"].contains(&error.as_str()))
        .collect();
    assert!(told.is_empty(), "{:?}", tally.errors);
}

pub(crate) fn a_node_that_is_killed(store: &Store) {
    let crew = Crew::start(&store.keyspace(), 3);
    load::prepare(&crew);
    let tally = load::count_while(&crew, CLIENTS, 3, || {
        thread::sleep(CALM);
        crew.kill(1);
        crew.wait("others have its shards", || {
            crew.shares(0) == [SHARDS / 2, SHARDS / 2] && crew.open() == SHARDS
        });
        thread::sleep(CALM);
        crew.start_node(1);
        crew.settle();
        thread::sleep(CALM);
    });
    load::check(&crew, &tally);
    println!(
        "killed: {} counted, longest wait {:?}, {:?}",
        tally.acknowledged(),
        tally.longest,
        tally.errors
    );
}

pub(crate) fn a_node_that_is_paused(store: &Store) {
    let crew = Crew::start(&store.keyspace(), 3);
    load::prepare(&crew);
    let tally = load::count_while(&crew, CLIENTS, 4, || {
        thread::sleep(CALM);
        crew.signal(1, "STOP");
        crew.wait("others have its shards", || crew.shares(0) == [SHARDS / 2, SHARDS / 2]);
        crew.client(0).call("INCR after");
        crew.signal(1, "CONT");
        // It has had no time to hear of anything: what it says must be true all the same.
        let read = crew.client(1).call("GET after");
        assert!(matches!(&read, Value::Bulk(value) if value == b"1") || read.is_error(), "{read:?}");
        crew.settle();
        thread::sleep(CALM);
    });
    load::check(&crew, &tally);
    println!(
        "paused: {} counted, longest wait {:?}, {:?}",
        tally.acknowledged(),
        tally.longest,
        tally.errors
    );
}

pub(crate) fn an_edge_comes_to_any_node(store: &Store) {
    let crew = Crew::start(&store.keyspace(), 3);
    let folder = tempfile::tempdir().expect("a folder");
    for number in 0..crew.len() {
        let server = format!("http://{}", crew.http(number));
        let edge = quipu_edge::Edge::open(folder.path().join("state"), [server]).expect("it opens");
        for key in 0..20 {
            edge.add(format!("edge:{key}").as_bytes(), 2).expect("counted");
        }
        // A place to hand over to, the counts themselves, and that they have arrived.
        for _ in 0..3 {
            edge.sync().expect("handed over");
        }
        drop(edge);
    }
    let mut client = crew.client(1);
    for key in 0..20 {
        assert_eq!(client.call(&format!("GET edge:{key}")).count(), 6, "edge:{key}");
    }
}
