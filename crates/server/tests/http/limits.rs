//! Slow, silent and too many clients.

use crate::client::{Server, read_answer, read_head, request};
use quipu_server::{auth::Users, http::HttpLimits};
use std::{
    io::{Read, Write},
    net::TcpStream,
    time::{Duration, Instant},
};

const SOON: Duration = Duration::from_millis(300);
const FEW: usize = 20;

/// A server with little patience and few places.
fn strict() -> Server {
    let limits = HttpLimits {
        connections: FEW,
        watches: FEW / 2,
        head_time: SOON,
        body_time: SOON,
        stall_time: SOON,
        ..HttpLimits::default()
    };
    Server::with(Users::default(), limits)
}

/// One with few places, and the usual patience with those who have one.
fn small() -> Server {
    let limits = HttpLimits { connections: FEW, watches: FEW / 2, ..HttpLimits::default() };
    Server::with(Users::default(), limits)
}

/// Waits until so many are connected.
#[track_caller]
fn await_connections(server: &Server, number: usize) {
    let begun = Instant::now();
    while usize::try_from(server.metrics.http_connections.get()) != Ok(number) {
        assert!(
            begun.elapsed() < Duration::from_secs(10),
            "{:?} are connected",
            server.metrics.http_connections
        );
        std::thread::sleep(Duration::from_millis(5));
    }
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
    let server = strict();
    let mut stream = server.connect();
    stream.write_all(b"GET /v1/counters/a HTTP/1.1\r\nhost: te").expect("sent");
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).expect("the server closes within the patience of the test");
}

#[test]
fn a_body_that_does_not_arrive_is_given_up_with_a_word() {
    let server = strict();
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
fn an_idle_connection_is_given_up() {
    let server = strict();
    let mut stream = server.connect();
    stream.write_all(b"GET /health/live HTTP/1.1\r\nhost: test\r\n\r\n").expect("sent");
    read_answer(&mut stream).ok();
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).expect("the server closes within the patience of the test");
    assert_eq!(rest, b"");
}

#[test]
fn one_client_too_many_is_told_so() {
    let server = small();
    let mut connected: Vec<TcpStream> = (0..FEW).map(|_| server.connect()).collect();
    let mut one_more = server.connect();
    read_answer(&mut one_more).problem(503, "too-many-connections");
    assert_eq!(server.metrics.connections_refused.get(), 1);
    await_connections(&server, FEW);
    connected.truncate(FEW / 2);
    await_connections(&server, FEW / 2);
    server.ask("GET", "/health/live").ok();
}

#[test]
fn those_who_watch_leave_room_for_others() {
    let server = small();
    let get = request("GET", "/v1/counters/a/watch", &[], b"");
    let mut watches: Vec<TcpStream> = (0..FEW / 2).map(|_| server.connect()).collect();
    for watch in &mut watches {
        watch.write_all(&get).expect("sent");
        let mut first = [0; 12];
        watch.read_exact(&mut first).expect("an answer");
        assert_eq!(&first, b"HTTP/1.1 200");
    }
    server.raw(&get).problem(503, "too-many-watches");
    server.send("POST", "/v1/counters/a/add", r#"{"amount": 1}"#).ok();
    drop(watches);
    await_connections(&server, 0);
    let mut again = server.connect();
    again.write_all(&get).expect("sent");
    assert_eq!(read_head(&mut again).0, 200, "the places are free again");
}
