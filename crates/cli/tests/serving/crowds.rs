//! Many clients at once, and one more than are taken.

use std::{
    io, thread,
    time::{Duration, Instant},
};

use crate::harness::{Client, Running, Site, Value};

const IDLE: usize = 1_000;
const CLIENTS_MAX: usize = 20;
/// How long a place may take to become free.
const FREE_WITHIN: Duration = Duration::from_secs(10);

#[test]
fn a_thousand_idle_clients_cost_nobody_anything() {
    let site = Site::new("--workers 2");
    let server = site.start();
    let mut idle: Vec<Client> = (0..IDLE).map(|_| server.client()).collect();
    let mut other = server.client();
    for expected in 1..=200 {
        assert_eq!(other.call("INCR a"), Value::Integer(expected));
    }
    assert!(connected(&mut other) > IDLE as i64);
    // They are still there.
    for client in &mut idle {
        assert_eq!(client.call("PING"), Value::Simple("PONG".to_owned()));
    }
    drop(idle);
    let until = Instant::now() + FREE_WITHIN;
    while connected(&mut other) > 1 {
        assert!(Instant::now() < until, "clients that have gone are still counted");
        thread::sleep(Duration::from_millis(20));
    }
}

/// How many clients the server has, as it says itself.
fn connected(client: &mut Client) -> i64 {
    let Value::Bulk(text) = client.call("INFO clients") else { panic!("a text") };
    let text = String::from_utf8(text).expect("text");
    let line = text.lines().find_map(|line| line.strip_prefix("connected_clients:"));
    line.expect("the number of clients").parse().expect("a number")
}

#[test]
fn one_client_too_many_is_told_so() {
    let site = Site::new(&format!("--workers 2 --max-clients {CLIENTS_MAX}"));
    let server = site.start();
    let mut taken: Vec<Client> = (0..CLIENTS_MAX).map(|_| server.client()).collect();
    for client in &mut taken {
        assert_eq!(client.call("PING"), Value::Simple("PONG".to_owned()));
    }
    for _ in 0..3 {
        let mut refused = server.client();
        let text = "ERR max number of clients reached".to_owned();
        assert_eq!(refused.read().expect("a word before the end"), Value::Error(text));
        assert!(refused.read().is_err(), "and then the end");
    }
    assert_eq!(taken[0].call("INCR a"), Value::Integer(1), "the others are served");
    taken.truncate(CLIENTS_MAX - 1);
    admitted(&server);
}

/// Connects as soon as there is a place.
fn admitted(server: &Running) -> Client {
    let until = Instant::now() + FREE_WITHIN;
    loop {
        let mut client = server.client();
        match client.ask("PING") {
            Ok(Value::Simple(_)) => return client,
            Ok(Value::Error(_)) | Err(_) => assert!(Instant::now() < until, "no place becomes free"),
            Ok(other) => panic!("{other:?}"),
        }
        thread::sleep(Duration::from_millis(20));
    }
}

/// A place is free again however a client has left it.
#[test]
fn places_become_free_however_clients_leave() {
    let site = Site::new(&format!("--workers 2 --max-clients {CLIENTS_MAX}"));
    let server = site.start();
    type Leave = fn(&mut Client) -> io::Result<()>;
    let ways: [(&str, Leave); 6] = [
        ("without a word", |_| Ok(())),
        ("with QUIT", |client| client.write(b"QUIT\r\n")),
        ("within a command", |client| client.write(b"*2\r\n$4\r\nINCR\r\n$1\r\n")),
        ("without reading the answer", |client| client.write(b"*2\r\n$4\r\nINCR\r\n$1\r\na\r\n")),
        ("in a transaction", |client| client.write(b"MULTI\r\nINCR a\r\n")),
        ("with nonsense", |client| client.write(b"*nonsense\r\n")),
    ];
    for (how, leave) in ways {
        for _ in 0..3 {
            for _ in 0..CLIENTS_MAX {
                let mut client = admitted(&server);
                leave(&mut client).unwrap_or_else(|error| panic!("{how}: {error}"));
            }
        }
    }
    let mut last = admitted(&server);
    let until = Instant::now() + FREE_WITHIN;
    while connected(&mut last) > 1 {
        assert!(Instant::now() < until, "somebody is still counted");
        thread::sleep(Duration::from_millis(20));
    }
}
