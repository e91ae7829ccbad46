//! Every way to be wrong ends in a problem document.

use crate::client::{Server, request};
use quipu_engine::KEY_BYTES_MAX;

const JSON: (&str, &str) = ("content-type", "application/json");

#[test]
fn bodies_that_cannot_be_read_are_refused() {
    let server = Server::start();
    for (method, path, body) in [
        ("POST", "/v1/counters/a/add", ""),
        ("POST", "/v1/counters/a/add", "{"),
        ("POST", "/v1/counters/a/add", "[]"),
        ("POST", "/v1/counters/a/add", "{}"),
        ("POST", "/v1/counters/a/add", r#"{"amount": 1.5}"#),
        ("POST", "/v1/counters/a/add", r#"{"amount": 9223372036854775808}"#),
        ("POST", "/v1/counters/a/add", r#"{"amount": 1, "beyond": "wrap"}"#),
        ("POST", "/v1/counters/a/add", r#"{"amount": 1, "by": 2}"#),
        ("POST", "/v1/counters/a/reset", "{}"),
        ("POST", "/v1/counters/a/reset", r#"{"to": -9223372036854775809}"#),
        ("PUT", "/v1/counters/a", r#"{"min": "none"}"#),
        ("PUT", "/v1/counters/a", "\u{0}"),
    ] {
        server.send(method, path, body).problem(400, "bad-request");
    }
    server.ask("GET", "/v1/counters/a").problem(404, "no-such-counter");
}

#[test]
fn a_body_must_say_that_it_is_json() {
    let server = Server::start();
    for headers in
        [&[][..], &[("content-type", "text/plain")], &[("content-type", "application/x-www-form-urlencoded")]]
    {
        let answer = server.ask_with("POST", "/v1/counters/a/add", headers, br#"{"amount": 1}"#);
        assert!(answer.problem(415, "not-json")["detail"].as_str().is_some_and(|it| it.contains("--json")));
    }
    let headers = [("content-type", "Application/JSON; charset=utf-8")];
    server.ask_with("POST", "/v1/counters/a/add", &headers, br#"{"amount": 1}"#).ok();
}

#[test]
fn a_large_body_is_refused_with_its_limit() {
    let server = Server::start();
    let body = format!("{{\"amount\": 1{}}}", " ".repeat(20_000));
    let problem = server.send("POST", "/v1/counters/a/add", &body).problem(413, "too-large");
    assert!(problem["detail"].as_str().is_some_and(|detail| detail.contains("16384")), "{problem}");
    server.ask("GET", "/v1/counters/a").problem(404, "no-such-counter");
}

#[test]
fn a_body_that_ends_too_early_counts_nothing() {
    let server = Server::start();
    let whole = request("POST", "/v1/counters/a/add", &[JSON], br#"{"amount": 1}"#);
    let mut stream = server.connect();
    std::io::Write::write_all(&mut stream, &whole[..whole.len() - 1]).expect("sent");
    stream.shutdown(std::net::Shutdown::Write).expect("half closed");
    let mut rest = Vec::new();
    std::io::Read::read_to_end(&mut stream, &mut rest).expect("the server closes");
    let text = String::from_utf8_lossy(&rest);
    assert!(text.is_empty() || text.contains("400 Bad Request"), "{text}");
    server.ask("GET", "/v1/counters/a").problem(404, "no-such-counter");
}

#[test]
fn unknown_paths_and_methods_are_problems_too() {
    let server = Server::start();
    for path in ["/", "/v2/counters/a", "/v1/counters/", "/v1/counters/a/b", "/v1/counters/a/operations/p"] {
        server.ask("GET", path).problem(404, "no-such-path");
    }
    for (method, path, allowed) in [
        ("POST", "/v1/counters", "GET,HEAD"),
        ("PATCH", "/v1/counters/a", "GET,HEAD,PUT,DELETE"),
        ("GET", "/v1/counters/a/add", "POST"),
        ("DELETE", "/v1/counters/a/reset", "POST"),
        ("POST", "/v1/counters/a/watch", "GET,HEAD"),
        ("POST", "/health/live", "GET,HEAD"),
        ("BREW", "/metrics", "GET,HEAD"),
    ] {
        let answer = server.ask(method, path);
        answer.problem(405, "no-such-method");
        assert_eq!(answer.header("allow"), Some(allowed), "{method} {path}");
    }
}

#[test]
fn bad_parameters_are_named() {
    let server = Server::start();
    for (path, name) in [
        ("/v1/counters?limit=0", "limit"),
        ("/v1/counters?limit=1001", "limit"),
        ("/v1/counters?limit=%FF", "limit"),
        ("/v1/counters?cursor=%21", "cursor"),
        ("/v1/counters?values=roman", "values"),
        ("/v1/counters/a?values=", "values"),
        ("/v1/counters/a/info?values=x", "values"),
        ("/v1/counters/a/watch?values=x", "values"),
        ("/v1/counters?prefix=a&prefix=b", "prefix"),
    ] {
        let problem = server.ask("GET", path).problem(400, "bad-request");
        assert!(problem["detail"].as_str().is_some_and(|detail| detail.contains(name)), "{path}: {problem}");
    }
}

#[test]
fn keys_have_a_length() {
    let server = Server::start();
    let longest = "k".repeat(KEY_BYTES_MAX);
    server.send("POST", &format!("/v1/counters/{longest}/add"), r#"{"amount": 1}"#).ok();
    for path in ["", "/info", "/watch", "/operations/p/i"] {
        server.ask("GET", &format!("/v1/counters/{longest}k{path}")).problem(400, "bad-key");
    }
    server.ask("DELETE", &format!("/v1/counters/{longest}k")).problem(400, "bad-key");
    server.send("POST", "/v1/counters//add", r#"{"amount": 1}"#).problem(400, "bad-key");
}

#[test]
fn bad_ids_are_refused() {
    let server = Server::start();
    for id in ["\"open", "a b", "\"\"", &"x".repeat(256)] {
        let problem = server.add("a", r#"{"amount": 1}"#, id).problem(400, "bad-request");
        assert!(problem["detail"].as_str().is_some_and(|it| it.contains("Idempotency-Key")), "{problem}");
    }
    let mut bytes =
        b"POST /v1/counters/a/add HTTP/1.1\r\nhost: test\r\nconnection: close\r\nidempotency-key: ".to_vec();
    bytes.extend(b"\xff\xfe\r\ncontent-type: application/json\r\ncontent-length: 12\r\n\r\n{\"amount\":1}");
    server.raw(&bytes).problem(400, "bad-request");
    let twice = [JSON, ("idempotency-key", "a"), ("idempotency-key", "b")];
    server.ask_with("POST", "/v1/counters/a/add", &twice, br#"{"amount": 1}"#).problem(400, "bad-request");
    server.ask("GET", "/v1/counters/a").problem(404, "no-such-counter");
}

#[test]
fn overflow_is_refused() {
    let server = Server::start();
    server.send("POST", "/v1/counters/a/add", &format!(r#"{{"amount": {}}}"#, i64::MAX)).ok();
    server.send("POST", "/v1/counters/a/add", r#"{"amount": 1}"#).problem(422, "overflow");
}

#[test]
fn a_store_that_fails_is_not_a_client_that_is_wrong() {
    let server = Server::start();
    for (key, kind) in [("fail:not-stored", "not-stored"), ("fail:in-doubt", "in-doubt")] {
        let answer = server.send("POST", &format!("/v1/counters/{key}/add"), r#"{"amount": 1}"#);
        answer.problem(503, kind);
        assert_eq!(answer.header("retry-after"), Some("1"));
        server.ask("GET", &format!("/v1/counters/{key}/watch")).problem(503, kind);
    }
    server.ask("GET", "/v1/counters?prefix=fail:").problem(503, "not-stored");
}

#[test]
fn a_site_that_does_not_count_says_why() {
    let server = Server::start();
    for kind in ["removed", "old-copy", "leaving"] {
        let answer = server.send("POST", &format!("/v1/counters/fail:{kind}/add"), r#"{"amount": 1}"#);
        let problem = answer.problem(503, kind);
        assert!(problem["detail"].as_str().is_some_and(|it| it.contains("nothing was counted")), "{problem}");
        // Asking the same site again is of no use.
        assert_eq!(answer.header("retry-after"), None);
    }
}
