//! Health, numbers, the description, and who may ask.

use crate::client::Server;
use quipu_server::{auth::Users, http::HttpLimits};
use serde_json::{Value, json};

/// `alice:wonderland` in base64.
const ALICE: &str = "Basic YWxpY2U6d29uZGVybGFuZA==";

fn guarded() -> Server {
    let users: Users = "user alice wonderland\nuser bob builder".parse().expect("users");
    Server::with(users, HttpLimits::default())
}

#[test]
fn health_is_told() {
    let server = Server::start();
    assert_eq!(server.ask("GET", "/health/live").ok(), json!({"status": "live"}));
    assert_eq!(server.ask("GET", "/health/ready").ok(), json!({"status": "ready"}));
    server.memory.set_unready(Some("shard 7 is still loading"));
    let problem = server.ask("GET", "/health/ready").problem(503, "not-ready");
    assert_eq!(problem["detail"], "shard 7 is still loading");
    server.ask("GET", "/health/live").ok();
}

#[test]
fn requests_are_counted_by_route_and_status() {
    let server = Server::start();
    server.ask("GET", "/v1/counters/a");
    server.ask("GET", "/v1/counters/b");
    server.ask("GET", "/nowhere");
    let answer = server.ask("GET", "/metrics");
    assert_eq!(
        answer.header("content-type"),
        Some("application/openmetrics-text; version=1.0.0; charset=utf-8")
    );
    for line in [
        r#"quipu_http_requests_total{method="GET",route="/v1/counters/{key}",status="404"} 2"#,
        r#"quipu_http_requests_total{method="GET",route="none",status="404"} 1"#,
        "quipu_http_connections 1",
    ] {
        assert!(answer.text().lines().any(|it| it == line), "{line} in {}", answer.text());
    }
    assert!(answer.text().ends_with("# EOF\n"));
}

#[test]
fn users_are_asked_for_their_password() {
    let server = guarded();
    for path in ["/v1/counters", "/v1/counters/a", "/v1/counters/a/watch", "/metrics"] {
        let answer = server.ask("GET", path);
        answer.problem(401, "unauthorized");
        assert!(
            answer.header("www-authenticate").is_some_and(|it| it.starts_with("Basic realm=")),
            "{answer:?}"
        );
    }
    for wrong in ["Basic YWxpY2U6d3Jvbmc=", "Bearer alice:builder", "Bearer wonderland", "nonsense"] {
        let headers = [("authorization", wrong)];
        server.ask_with("GET", "/v1/counters", &headers, b"").problem(401, "unauthorized");
    }
    for right in [ALICE, "Bearer alice:wonderland", "bearer bob:builder"] {
        server.ask_with("GET", "/v1/counters", &[("authorization", right)], b"").ok();
    }
    for open in ["/health/live", "/health/ready", "/v1/openapi.json"] {
        server.ask("GET", open).ok();
    }
}

#[test]
fn the_user_is_the_producer() {
    let server = guarded();
    let add = |user: &str, amount: i64| {
        let headers =
            [("authorization", user), ("idempotency-key", "id-1"), ("content-type", "application/json")];
        let body = json!({ "amount": amount }).to_string();
        server.ask_with("POST", "/v1/counters/hits/add", &headers, body.as_bytes())
    };
    assert_eq!(add(ALICE, 1).ok()["value"], 1);
    assert_eq!(
        add("Bearer bob:builder", 2).ok()["value"],
        3,
        "the same id of another user is another operation"
    );
    assert_eq!(add(ALICE, 1).header("idempotent-replayed"), Some("true"));
    let headers = [("authorization", ALICE)];
    let path = "/v1/counters/hits/operations/alice/id-1";
    assert_eq!(server.ask_with("GET", path, &headers, b"").ok()["outcome"], "counted");
}

#[test]
fn every_route_and_every_problem_is_described() {
    let server = Server::start();
    let document = server.ask("GET", "/v1/openapi.json").ok();
    assert_eq!(document["openapi"], "3.1.0");
    let paths = document["paths"].as_object().expect("paths");
    for (path, item) in paths {
        for method in ["get", "put", "post", "delete", "patch"] {
            let filled = path
                .replace("{key}", "gone")
                .replace("{producer}", "p")
                .replace("{id}", "i")
                .replace("{site}", "2");
            let answer = if filled.ends_with("/watch") && method == "get" {
                continue; // It has no end; see the tests of watching.
            } else {
                server.send(&method.to_uppercase(), &filled, "{}")
            };
            let described = item.get(method).is_some();
            assert_eq!(answer.status != 405, described, "{method} {path}: {answer:?}");
            if described {
                let responses = item[method]["responses"].as_object().expect("responses");
                assert!(responses.contains_key(&answer.status.to_string()), "{method} {path}: {answer:?}");
            }
        }
    }
    assert_references_exist(&document, &document);
}

fn assert_references_exist(document: &Value, part: &Value) {
    match part {
        Value::Object(members) => {
            if let Some(Value::String(reference)) = members.get("$ref") {
                let pointer = reference.strip_prefix('#').expect("within the document");
                assert!(document.pointer(pointer).is_some(), "{reference}");
            }
            members.values().for_each(|part| assert_references_exist(document, part));
        }
        Value::Array(parts) => parts.iter().for_each(|part| assert_references_exist(document, part)),
        _ => {}
    }
}
