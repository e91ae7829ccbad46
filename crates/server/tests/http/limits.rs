//! Slow, silent and too many clients.

use crate::client::{Server, read_answer, request};
use quipu_server::http::{CONNECTIONS_MAX, WATCHES_MAX};
use std::{
    io::{Read, Write},
    net::TcpStream,
    time::Duration,
};

/// Half of the descriptors that a process commonly has would be used for both ends of too many connections, so this
/// test needs more than the usual 1024 and says so where it cannot have them.
fn enough_files() -> bool {
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let line = limits.lines().find(|line| line.starts_with("Max open files"));
    let soft = line.and_then(|line| line.split_whitespace().nth(3)?.parse::<usize>().ok());
    soft.is_some_and(|soft| soft > 3 * CONNECTIONS_MAX)
}

#[test]
fn silent_clients_hold_nobody_up() {
    let server = Server::start();
    let silent: Vec<TcpStream> = (0..100).map(|_| server.connect()).collect();
    for stream in &silent {
        (&*stream).write_all(b"POST /v1/counters/a/add HTTP/1.1\r\nhost: te").expect("sent");
    }
    server.send("POST", "/v1/counters/a/add", r#"{"amount": 1}"#).ok();
}

#[test]
fn a_head_that_does_not_arrive_is_given_up() {
    let server = Server::start();
    let mut stream = server.connect();
    stream.write_all(b"GET /v1/counters/a HTTP/1.1\r\nhost: te").expect("sent");
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).expect("the server closes within the patience of the test");
}

#[test]
fn a_body_that_does_not_arrive_is_given_up_with_a_word() {
    let server = Server::start();
    let mut stream = server.connect();
    let head = request(
        "POST",
        "/v1/counters/a/add",
        &[("content-type", "application/json"), ("content-length", "12")],
        b"",
    );
    stream.write_all(&head).expect("sent");
    read_answer(&mut stream).problem(408, "slow-body");
}

#[test]
fn a_head_that_is_too_long_is_refused() {
    let server = Server::start();
    let mut stream = server.connect();
    let path = format!("/v1/counters/{}", "a".repeat(100_000));
    // The server may have refused it before all of it is sent.
    let _ = stream.write_all(&request("GET", &path, &[], b""));
    let mut answer = [0; 12];
    if stream.read_exact(&mut answer).is_ok() {
        assert!(answer.starts_with(b"HTTP/1.1 4"), "{:?}", String::from_utf8_lossy(&answer));
    }
    server.ask("GET", "/health/live").ok();
}

#[test]
fn one_client_too_many_is_told_so() {
    if !enough_files() {
        eprintln!("SKIPPED: too few files may be open in this process (ulimit -n); the limit was not tried");
        return;
    }
    let server = Server::start();
    let mut connected: Vec<TcpStream> = (0..CONNECTIONS_MAX).map(|_| server.connect()).collect();
    let mut one_more = server.connect();
    read_answer(&mut one_more).problem(503, "too-many-connections");
    assert_eq!(server.metrics.connections_refused.get(), 1);
    assert_eq!(server.metrics.http_connections.get(), i64::try_from(CONNECTIONS_MAX).expect("small"));
    connected.truncate(CONNECTIONS_MAX / 2);
    let mut left = server.metrics.http_connections.get();
    for _ in 0..200 {
        left = server.metrics.http_connections.get();
        if left == i64::try_from(CONNECTIONS_MAX / 2).expect("small") {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(left, i64::try_from(CONNECTIONS_MAX / 2).expect("small"), "places are free again");
    server.ask("GET", "/health/live").ok();
}

#[test]
fn those_who_watch_leave_room_for_others() {
    if !enough_files() {
        eprintln!("SKIPPED: too few files may be open in this process (ulimit -n); the limit was not tried");
        return;
    }
    let server = Server::start();
    let get = request("GET", "/v1/counters/a/watch", &[], b"");
    let mut watches: Vec<TcpStream> = (0..WATCHES_MAX).map(|_| server.connect()).collect();
    for watch in &mut watches {
        watch.write_all(&get).expect("sent");
        let mut first = [0; 12];
        watch.read_exact(&mut first).expect("an answer");
        assert_eq!(&first, b"HTTP/1.1 200");
    }
    server.raw(&get).problem(503, "too-many-watches");
    server.send("POST", "/v1/counters/a/add", r#"{"amount": 1}"#).ok();
}
