//! What clients of one site are told of the others.

use crate::client::Server;
use quipu_server::{SITES_WAIT_MS_MAX, auth::Users, http::HttpLimits};
use serde_json::json;

#[test]
fn an_add_waits_for_other_sites_as_long_as_it_is_told() {
    let server = Server::start();
    let add = |body: &str| server.send("POST", "/v1/counters/hits/add", body);
    add(r#"{"amount": 1, "remote_ms": 250}"#).ok();
    assert_eq!(server.memory.wait_ms(), 250);
    add(r#"{"amount": 1}"#).ok();
    assert_eq!(server.memory.wait_ms(), 0);
    add(&format!(r#"{{"amount": 1, "remote_ms": {SITES_WAIT_MS_MAX}}}"#)).ok();
    let problem = add(&format!(r#"{{"amount": 1, "remote_ms": {}}}"#, SITES_WAIT_MS_MAX + 1));
    assert!(
        problem.problem(400, "bad-request")["detail"].as_str().is_some_and(|it| it.contains("remote_ms"))
    );
    assert_eq!(server.ask("GET", "/v1/counters/hits").ok()["value"], 3);
}

#[test]
fn a_creation_that_other_sites_have_not_heard_of_goes_on() {
    let server = Server::start();
    let answer = server.send("PUT", "/v1/counters/sites:creating", r#"{"min": 0, "wait_ms": 50}"#);
    assert_eq!((answer.status, server.memory.wait_ms()), (202, 50), "{answer:?}");
    assert_eq!(answer.header("location"), Some("/v1/counters/sites%3Acreating"));
    let body = answer.json();
    assert_eq!((&body["key"], &body["missing"]), (&json!("sites:creating"), &json!(["2"])));
    assert!(body["detail"].as_str().is_some_and(|it| it.contains("site 2 has not answered")), "{body}");
    assert_eq!(server.send("PUT", "/v1/counters/stock", r#"{"min": 0}"#).status, 201);
    assert_eq!(server.memory.wait_ms(), 2_000, "unless it says otherwise");
}

#[test]
fn refusals_name_the_sites_they_are_about() {
    let server = Server::start();
    server.send("PUT", "/v1/counters/sites:stock", r#"{"min": 0, "value": 3}"#);
    let spend = |values: &str| {
        let path = format!("/v1/counters/sites:stock/add?values={values}");
        server.send("POST", &path, r#"{"amount": -5}"#).problem(422, "out-of-bounds")
    };
    let problem = spend("number");
    assert_eq!(problem["elsewhere"], json!([{"site": "2", "rights": 30}]));
    assert_eq!(problem["in_all"].as_u64(), problem["available"].as_u64().map(|here| here + 30));
    assert!(
        problem["detail"]
            .as_str()
            .is_some_and(|it| it.contains("3 of the 33 units that can be subtracted; site 2 holds 30;")),
        "{problem}"
    );
    assert_eq!(spend("string")["elsewhere"], json!([{"site": "2", "rights": "30"}]));
    let add = |key: &str| server.send("POST", &format!("/v1/counters/{key}/add"), r#"{"amount": 1}"#);
    let reserved = add("sites:reserved");
    assert_eq!(reserved.problem(409, "reserved")["by"], "2");
    assert_eq!(reserved.header("retry-after"), Some("1"));
    assert_eq!(add("sites:unsettled").problem(503, "unsettled")["waiting_for"], json!(["2"]));
    add("sites:joining").problem(503, "joining");
    server.send("PUT", "/v1/counters/sites:used-before", r#"{"min": 0}"#).problem(409, "used-before");
}

#[test]
fn each_site_is_shown_with_what_may_be_taken_back() {
    let server = Server::start();
    server.send("POST", "/v1/counters/sites:a/add", r#"{"amount": 5}"#).ok();
    let info = server.ask("GET", "/v1/counters/sites:a/info").ok();
    assert_eq!(info["provisional"], 4);
    assert_eq!(info["sites"][0].get("heard_ms_ago"), None, "this site is not heard from");
    assert_eq!(
        info["sites"][1],
        json!({
            "site": "2", "added": 9, "subtracted": 2, "provisional_added": 4, "provisional_subtracted": 0,
            "rights_to_add": null, "rights_to_add_waiting": null,
            "rights_to_subtract": 3, "rights_to_subtract_waiting": 4, "heard_ms_ago": 1500,
        })
    );
}

#[test]
fn outcomes_say_where_it_was_counted() {
    let server = Server::start();
    let outcome = |id: &str| server.ask("GET", &format!("/v1/counters/hits/operations/http/{id}")).ok();
    let second = json!({"outcome": "provisional", "value": 7, "applied": 2, "site": "2"});
    assert_eq!(outcome("id-provisional"), second);
    assert_eq!(outcome("id-cancelled"), json!({"outcome": "cancelled", "counted_at": "2"}));
}

#[test]
fn the_books_are_shown_by_shard_and_in_total() {
    let server = Server::start();
    server.send("POST", "/v1/counters/a/add", r#"{"amount": 5}"#).ok();
    server.send("POST", "/v1/counters/b/add", r#"{"amount": -2}"#).ok();
    let books = server.ask("GET", "/v1/audit").ok();
    let amounts = |added: u64, subtracted: u64| json!({"added": added, "subtracted": subtracted});
    assert_eq!((&books["site"], &books["members"]), (&json!("1"), &json!(["1", "2"])));
    assert_eq!(books["shard_count"], 2);
    assert_eq!(
        books["total"],
        json!({
            "issued": amounts(5, 2), "set": amounts(0, 0), "cancelled": amounts(0, 0),
            "sites": [
                {"site": "1", "counted": amounts(5, 2), "open": 0},
                {"site": "2", "counted": amounts(2, 0), "open": 1},
            ],
        })
    );
    let shards = books["shards"].as_array().expect("shards");
    assert_eq!(shards.len(), 1, "nothing was counted in the other one");
    assert_eq!((&shards[0]["shard"], &shards[0]["issued"]), (&json!(0), &amounts(5, 2)));
    let second = json!({"site": "2", "counted": amounts(2, 0), "position": 1, "settled": 0, "open": 1});
    assert_eq!(shards[0]["sites"][1], second);
    let text = server.ask("GET", "/v1/audit?values=string").ok();
    assert_eq!(text["total"]["issued"], json!({"added": "5", "subtracted": "2"}));
}

#[test]
fn the_books_are_for_users() {
    let users: Users = "user alice wonderland".parse().expect("users");
    let server = Server::with(users, HttpLimits::default());
    server.ask("GET", "/v1/audit").problem(401, "unauthorized");
    server.ask_with("GET", "/v1/audit", &[("authorization", "Bearer alice:wonderland")], b"").ok();
}

#[test]
fn rights_are_moved_from_site_to_site() {
    let server = Server::start();
    let path = "/v1/counters/stock/move";
    server.send("PUT", "/v1/counters/stock", r#"{"min": 0, "value": 7, "spread": {"1": 7, "2": 0}}"#);
    let moved = server.send("POST", path, r#"{"amount": 9, "from": "1", "to": "2"}"#).ok();
    assert_eq!(moved, json!({"key": "stock", "moved": 7, "from": "1", "to": "2"}));
    let problem =
        server.send("POST", path, r#"{"amount": 9, "from": "2", "to": "1"}"#).problem(409, "cannot-move");
    assert_eq!(
        problem["detail"],
        "site 2 holds 0 of the 7 rights to subtract; site 1 holds them; nothing was moved"
    );
    server.send("POST", path, r#"{"amount": 9, "from": "2"}"#).problem(400, "bad-request");
}
