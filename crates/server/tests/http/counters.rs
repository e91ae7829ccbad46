//! What counters do over HTTP.

use crate::client::{PATIENCE, Server};
use serde_json::json;
use std::sync::mpsc;

#[test]
fn adding_makes_a_counter_and_reading_shows_it() {
    let server = Server::start();
    server.ask("GET", "/v1/counters/hits").problem(404, "no-such-counter");
    let added = server.send("POST", "/v1/counters/hits/add", r#"{"amount": 5}"#).ok();
    assert_eq!(added, json!({"key": "hits", "value": 5, "applied": 5, "site": "1"}));
    server.send("POST", "/v1/counters/hits/add", r#"{"amount": "-2"}"#).ok();
    assert_eq!(server.ask("GET", "/v1/counters/hits").ok(), json!({"key": "hits", "value": 3}));
}

#[test]
fn large_values_are_strings_on_request() {
    let server = Server::start();
    let most = i64::MAX.to_string();
    server.send("POST", "/v1/counters/big/add", &format!(r#"{{"amount": {most}}}"#)).ok();
    assert_eq!(server.ask("GET", "/v1/counters/big").ok()["value"], json!(i64::MAX));
    for path in ["/v1/counters/big?values=string", "/v1/counters/big/info?values=string"] {
        assert_eq!(server.ask("GET", path).ok()["value"], json!(most), "{path}");
    }
    let list = server.ask("GET", "/v1/counters?values=string").ok();
    assert_eq!((&list["counters"][0]["value"], &list["total"]), (&json!(most), &json!("1")));
    let zero = server.send("POST", "/v1/counters/big/add?values=string", r#"{"amount": 0}"#).ok();
    assert_eq!(zero, json!({"key": "big", "value": most, "applied": "0", "site": "1"}));
}

#[test]
fn keys_are_any_bytes() {
    let server = Server::start();
    for (path, name, shown) in [
        ("a%2Fb%20c", "key", "a/b c"),
        ("%C3%A9", "key", "é"),
        ("%FF%00", "key_base64", "/wA="),
        ("%2E%2E", "key", ".."),
        ("add", "key", "add"),
        ("q%3Fr%23s", "key", "q?r#s"),
    ] {
        let added = server.send("POST", &format!("/v1/counters/{path}/add"), r#"{"amount": 1}"#).ok();
        assert_eq!(added, json!({name: shown, "value": 1, "applied": 1, "site": "1"}), "{path}");
        assert_eq!(server.ask("GET", &format!("/v1/counters/{path}")).ok(), json!({name: shown, "value": 1}));
    }
}

#[test]
fn a_repeat_gets_the_first_answer() {
    let server = Server::start();
    let first = server.add("hits", r#"{"amount": 5}"#, "id-1");
    assert_eq!(first.header("idempotent-replayed"), None);
    server.add("hits", r#"{"amount": 1}"#, "id-2").ok();
    for id in ["id-1", "\"id-1\""] {
        let repeat = server.add("hits", r#"{"amount": 5}"#, id);
        assert_eq!(repeat.ok(), first.ok(), "the same body");
        assert_eq!(repeat.header("idempotent-replayed"), Some("true"));
    }
    assert_eq!(server.ask("GET", "/v1/counters/hits").ok()["value"], 6);
    let problem = server.add("hits", r#"{"amount": 7}"#, "id-1").problem(422, "other-amount");
    assert_eq!((&problem["first"], &problem["now"]), (&json!(5), &json!(7)));
    server.add("misses", r#"{"amount": 7}"#, "id-1").ok();
}

#[test]
fn ids_that_tell_their_time_are_refused_when_it_is_not_now() {
    let server = Server::start();
    let problem = server.add("hits", r#"{"amount": 1}"#, "id-too-old").problem(410, "too-old");
    assert_eq!(problem["window_ms"], 600_000);
    server.add("hits", r#"{"amount": 1}"#, "id-from-the-future").problem(422, "from-the-future");
}

#[test]
fn an_operation_that_still_runs_is_not_run_twice() {
    let server = Server::start();
    let (told, answers) = mpsc::channel();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            let (told, server) = (told.clone(), &server);
            scope.spawn(move || told.send(server.add("gate:a", r#"{"amount": 1}"#, "id-1")));
        }
        // One of the two waits at the gate until the other has been told to wait.
        let busy = answers.recv_timeout(PATIENCE).expect("an answer");
        busy.problem(409, "still-running");
        assert_eq!(busy.header("retry-after"), Some("1"));
        server.memory.gate.add_permits(2);
        assert_eq!(answers.recv_timeout(PATIENCE).expect("an answer").ok()["value"], 1);
    });
    let repeat = server.add("gate:a", r#"{"amount": 1}"#, "id-1");
    assert_eq!(
        (repeat.ok()["value"].clone(), repeat.header("idempotent-replayed")),
        (json!(1), Some("true"))
    );
}

#[test]
fn outcomes_can_be_asked_for() {
    let server = Server::start();
    server.add("hits", r#"{"amount": 5}"#, "id/1").ok();
    let path = |id: &str| format!("/v1/counters/hits/operations/http/{id}");
    let counted = server.ask("GET", &path("id%2F1")).ok();
    assert_eq!(counted, json!({"outcome": "counted", "value": 5, "applied": 5, "site": "1"}));
    assert_eq!(server.ask("GET", &path("id-2")).ok(), json!({"outcome": "unknown"}));
    assert_eq!(server.ask("GET", &path("id-too-old")).ok(), json!({"outcome": "too_old"}));
}

#[test]
fn bounded_counters_keep_their_bounds() {
    let server = Server::start();
    let created = server.send("PUT", "/v1/counters/st%20ock", r#"{"min": 0, "max": 10, "value": 4}"#);
    assert_eq!(created.status, 201);
    assert_eq!(created.header("location"), Some("/v1/counters/st%20ock"));
    assert_eq!(created.json(), json!({"key": "st ock", "value": 4}));
    let add = |body: &str| server.send("POST", "/v1/counters/st%20ock/add", body);
    let problem = add(r#"{"amount": -5}"#).problem(422, "out-of-bounds");
    assert_eq!(
        (&problem["limit"], &problem["value"], &problem["available"]),
        (&json!(0), &json!(4), &json!(4))
    );
    assert_eq!(add(r#"{"amount": -5, "beyond": "skip"}"#).ok()["applied"], 0);
    assert_eq!(add(r#"{"amount": -5, "beyond": "saturate"}"#).ok()["applied"], -4);
    let info = server.ask("GET", "/v1/counters/st%20ock/info").ok();
    let bounds =
        json!({"min": 0, "max": 10, "initial": 4, "creator": "1", "parked_added": 0, "parked_subtracted": 0});
    assert_eq!(info["bounds"], bounds);
    let site = json!({"site": "1", "added": 0, "subtracted": 4, "provisional_added": 0, "provisional_subtracted": 0, "rights_to_add": 10, "rights_to_add_waiting": 0, "rights_to_subtract": 0, "rights_to_subtract_waiting": 0});
    assert_eq!(info["sites"], json!([site]));

    server.send("PUT", "/v1/counters/st%20ock", r#"{"min": 0}"#).problem(409, "exists");
    server.send("POST", "/v1/counters/st%20ock/reset", r#"{"to": 0}"#).problem(409, "bounded");
    server.ask("DELETE", "/v1/counters/st%20ock").problem(409, "bounded");
    server.send("PUT", "/v1/counters/other", r#"{"min": 5}"#).problem(422, "bad-definition");
}

#[test]
fn limits_of_one_command_hold_for_plain_counters() {
    let server = Server::start();
    let add = |body: &str| server.send("POST", "/v1/counters/quota/add", body);
    assert_eq!(add(r#"{"amount": 8, "upper": 10}"#).ok()["value"], 8);
    let problem =
        server.send("POST", "/v1/counters/quota/add?values=string", r#"{"amount": 8, "upper": "10"}"#);
    assert_eq!(problem.problem(422, "out-of-bounds")["available"], "2");
    assert_eq!(add(r#"{"amount": 8, "upper": 10, "beyond": "saturate"}"#).ok()["applied"], 2);
    assert_eq!(server.ask("GET", "/v1/counters/quota/info").ok()["bounds"], json!(null));
}

#[test]
fn counters_are_reset_and_deleted() {
    let server = Server::start();
    let reset =
        |to: i64| server.send("POST", "/v1/counters/hits/reset", &json!({ "to": to }).to_string()).ok();
    assert_eq!(reset(7), json!({"key": "hits", "value": 7, "existed": false, "set_aside": null}));
    assert_eq!(reset(-7), json!({"key": "hits", "value": -7, "existed": true, "set_aside": 7}));
    let deleted = server.ask("DELETE", "/v1/counters/hits");
    assert_eq!((deleted.status, deleted.body.len()), (204, 0));
    for (method, path) in [("DELETE", ""), ("GET", ""), ("GET", "/info")] {
        server.ask(method, &format!("/v1/counters/hits{path}")).problem(404, "no-such-counter");
    }
    // An add makes it again, from nothing.
    assert_eq!(server.send("POST", "/v1/counters/hits/add", r#"{"amount": 3}"#).ok()["value"], 3);
    assert_eq!(server.ask("GET", "/v1/counters/hits").ok()["value"], 3);
}

#[test]
fn all_counters_are_listed_once_page_by_page() {
    let server = Server::start();
    for number in 0..25 {
        server.send("POST", &format!("/v1/counters/page:{number:02}/add"), r#"{"amount": 1}"#).ok();
    }
    server.send("POST", "/v1/counters/%FF/add", r#"{"amount": 9}"#).ok();
    let mut keys = Vec::new();
    let mut path = "/v1/counters?prefix=page%3A&limit=10".to_owned();
    loop {
        let page = server.ask("GET", &path).ok();
        assert_eq!(page["total"], 26);
        let counters = page["counters"].as_array().expect("counters").clone();
        keys.extend(counters.iter().map(|counter| counter["key"].as_str().expect("text").to_owned()));
        let Some(next) = page["next"].as_str() else { break };
        path = format!("/v1/counters?prefix=page:&limit=10&cursor={next}");
    }
    assert_eq!(keys, (0..25).map(|number| format!("page:{number:02}")).collect::<Vec<_>>());
    let all = server.ask("GET", "/v1/counters").ok();
    assert_eq!(all["counters"][25], json!({"key_base64": "/w==", "value": 9}));
    assert_eq!(server.ask("GET", "/v1/counters?prefix=none").ok()["counters"], json!([]));
}
