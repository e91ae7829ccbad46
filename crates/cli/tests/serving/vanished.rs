//! Clients that vanish without a word are asked whether they are there. What the system does for a connection stands in
//! `/proc/net/tcp`: no test can wait for minutes of silence, or cut a cable.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    thread,
    time::{Duration, Instant},
};

use crate::harness::{Site, Value};

/// Ticks of the numbers there, in a second.
const TICKS: u64 = 100;
/// How long a server may take to see a client.
const SEEN_WITHIN: Duration = Duration::from_secs(10);

/// In how many seconds the system will ask the client of this connection; `None` if it will not.
fn asked_in(server: SocketAddr, client: SocketAddr) -> Option<u64> {
    let table = fs::read_to_string("/proc/net/tcp").expect("Linux tells");
    let ends = [server, client].map(|address| format!(":{:04X}", address.port()));
    let mut rows = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let row = rows.find(|row| row[1].ends_with(&ends[0]) && row[2].ends_with(&ends[1])).expect("connected");
    // The kind of timer, 2 for this one, and the ticks that are left.
    let (kind, ticks) = row[5].split_once(':').expect("a timer");
    (kind == "02").then(|| u64::from_str_radix(ticks, 16).expect("ticks") / TICKS)
}

/// Asks until the timer is as expected: others may run for a moment first.
#[track_caller]
fn await_timer(server: SocketAddr, client: SocketAddr, expected: impl Fn(Option<u64>) -> bool) {
    let until = Instant::now() + SEEN_WITHIN;
    while !expected(asked_in(server, client)) {
        assert!(Instant::now() < until, "asked in {:?} seconds", asked_in(server, client));
        thread::sleep(Duration::from_millis(20));
    }
}

/// What `CONFIG GET` says, and the timers of a client of either kind.
#[track_caller]
fn check(flags: &str, shown: &str, expected: impl Fn(Option<u64>) -> bool) {
    let site = Site::new(flags);
    let server = site.start();
    let mut client = server.client();
    let setting = client.call("CONFIG GET tcp-keepalive").array();
    assert_eq!(setting[1], Value::Bulk(shown.into()));
    await_timer(server.resp, client.stream().local_addr().expect("connected"), &expected);
    let mut http = TcpStream::connect(server.http).expect("it listens");
    // Whoever has an answer has been taken in.
    http.write_all(b"GET /health/live HTTP/1.1\r\nhost: quipu\r\n\r\n").expect("sent");
    http.read_exact(&mut [0; 12]).expect("an answer");
    await_timer(server.http, http.local_addr().expect("connected"), &expected);
}

#[test]
fn a_silent_client_is_asked_after_five_minutes() {
    check("--workers 2", "300", |seconds| seconds.is_some_and(|it| (250..=300).contains(&it)));
}

#[test]
fn or_after_another_time() {
    check("--workers 2 --tcp-keepalive 100", "100", |seconds| {
        seconds.is_some_and(|it| (50..=100).contains(&it))
    });
}

#[test]
fn or_never() {
    check("--workers 2 --tcp-keepalive 0", "0", |seconds| seconds.is_none());
}
