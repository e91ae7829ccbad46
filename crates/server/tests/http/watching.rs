//! Server-sent events.

use crate::client::{Server, read_head, request};
use serde_json::{Value, json};
use std::{
    io::{BufRead, BufReader, Write},
    net::TcpStream,
    time::{Duration, Instant},
};

struct Watch {
    reader: BufReader<TcpStream>,
}

impl Watch {
    fn of(server: &Server, path: &str) -> Self {
        let mut stream = server.connect();
        stream.write_all(&request("GET", path, &[], b"")).expect("sent");
        let (status, headers) = read_head(&mut stream);
        assert_eq!(status, 200);
        assert_eq!(headers.get("content-type").map(String::as_str), Some("text/event-stream"));
        Self { reader: BufReader::new(stream) }
    }

    /// The data of the next event. Lines of the transfer's chunks and heartbeats are passed over.
    fn next(&mut self) -> Option<Value> {
        let mut line = String::new();
        loop {
            line.clear();
            if self.reader.read_line(&mut line).expect("the connection holds") == 0 {
                return None;
            }
            if let Some(data) = line.strip_prefix("data: ") {
                return Some(serde_json::from_str(data).expect("JSON"));
            }
        }
    }
}

fn add(server: &Server, amount: i64) {
    server.send("POST", "/v1/counters/hits/add", &json!({ "amount": amount }).to_string()).ok();
}

#[test]
fn the_value_comes_first_and_then_each_change() {
    let server = Server::start();
    let mut absent = Watch::of(&server, "/v1/counters/hits/watch");
    assert_eq!(absent.next(), Some(json!({"key": "hits", "value": null})));
    add(&server, 5);
    assert_eq!(absent.next(), Some(json!({"key": "hits", "value": 5})));
    let mut text = Watch::of(&server, "/v1/counters/hits/watch?values=string");
    assert_eq!(text.next(), Some(json!({"key": "hits", "value": "5"})));
    add(&server, -7);
    assert_eq!(absent.next(), Some(json!({"key": "hits", "value": -2})));
    assert_eq!(text.next(), Some(json!({"key": "hits", "value": "-2"})));
    assert_eq!(server.ask("DELETE", "/v1/counters/hits").status, 204);
    assert_eq!(text.next(), Some(json!({"key": "hits", "value": null})));
}

#[test]
fn a_slow_reader_misses_values_but_not_the_last() {
    let server = Server::start();
    add(&server, 1);
    let mut watch = Watch::of(&server, "/v1/counters/hits/watch");
    for _ in 0..200 {
        add(&server, 1);
    }
    let mut seen = Vec::new();
    while seen.last() != Some(&201) {
        seen.push(watch.next().expect("an event")["value"].as_i64().expect("a value"));
    }
    assert!(seen.is_sorted(), "{seen:?}");
    assert!(seen.len() <= 201);
}

#[test]
fn those_who_watch_do_not_keep_a_server_from_stopping() {
    let mut server = Server::start();
    let mut watch = Watch::of(&server, "/v1/counters/hits/watch");
    assert!(watch.next().is_some());
    let begun = Instant::now();
    server.stop();
    assert!(begun.elapsed() < Duration::from_secs(4), "{:?}", begun.elapsed());
}
