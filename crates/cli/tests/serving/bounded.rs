//! Many clients race for the last units of a bounded counter.

use std::{net::SocketAddr, thread};

use crate::harness::{Client, Site, Value};

const CLIENTS: usize = 64;
const UNITS: i64 = 1_000;

/// Takes a unit at a time until there is none; returns how many.
fn take(server: SocketAddr, command: &str) -> i64 {
    let mut client = Client::connect(server).expect("the server takes clients");
    let mut taken = 0;
    loop {
        match client.call(command) {
            Value::Integer(value) => {
                assert!((0..=UNITS).contains(&value), "{value}");
                taken += 1;
            }
            Value::Error(text) if text.starts_with("OUTOFBOUNDS") => return taken,
            other => panic!("{other:?}"),
        }
    }
}

fn race(create: &str, command: &str, end: i64) {
    let site = Site::new("--workers 2");
    let server = site.start();
    let mut client = server.client();
    assert_eq!(client.call(create), Value::ok());
    let taken: i64 = thread::scope(|scope| {
        let takers: Vec<_> = (0..CLIENTS).map(|_| scope.spawn(|| take(server.resp, command))).collect();
        takers.into_iter().map(|taker| taker.join().expect("no failure")).sum()
    });
    assert_eq!(taken, UNITS, "exactly as many as there were");
    assert_eq!(client.call("GET stock").integer(), end);
    // Nobody gets what is not there in one go either, and what comes back can be taken again.
    assert!(client.call(&format!("{command} IDMP late 1")).is_error());
    let back = if command.starts_with("DECR") { "INCRBY stock 3" } else { "DECRBY stock 3" };
    client.call(back);
    assert_eq!(take(server.resp, command), 3);
    assert_eq!(client.call("GET stock").integer(), end);
    assert!(client.call("DEL stock").is_error(), "bounds cannot be deleted away");
}

#[test]
fn a_minimum_is_never_crossed() {
    race(&format!("COUNTER.CREATE stock MIN 0 VALUE {UNITS}"), "DECR stock", 0);
}

#[test]
fn a_maximum_is_never_crossed() {
    race(&format!("COUNTER.CREATE stock MAX {UNITS}"), "INCR stock", UNITS);
}
