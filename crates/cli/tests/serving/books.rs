//! The books of a real server.

use std::process::Command;

use crate::harness::{Site, Value, tools};

#[test]
fn the_books_of_one_site_balance() {
    let site = Site::new("--workers 2 --requirepass secret");
    let server = site.start();
    let mut client = server.client();
    assert_eq!(client.call("AUTH secret"), Value::ok());
    for number in 0..100 {
        client.call(&format!("INCRBY key{number} 3"));
        client.call(&format!("DECR key{number} IDMP p {number}"));
        client.call(&format!("DECR key{number} IDMP p {number}"));
    }
    client.call("SET key7 10");
    let quipu = |more: &[&str]| {
        let url = format!("http://{}", server.http);
        let mut command = Command::new(env!("CARGO_BIN_EXE_quipu"));
        command.args(["audit", "--server", &url, "--password", "secret"]).args(more);
        tools::output(&mut command).unwrap_or_else(|said| panic!("{said}"))
    };
    let found: serde_json::Value = serde_json::from_str(&quipu(&["--json"])).expect("JSON");
    assert_eq!(found["balanced"], true, "{found}");
    let books = &found["sites"][0];
    assert_eq!(books["site"], "1");
    assert_eq!(books["issued"], serde_json::json!({"added": 300, "subtracted": 100}), "repeats count once");
    assert_eq!(books["set"]["added"].as_u64().map(|added| added > 0), Some(true), "{books}");
    let sum =
        |of: &str| ["issued", "set", "cancelled"].map(|part| books[part][of].as_u64().expect("a number"));
    for of in ["added", "subtracted"] {
        assert_eq!(books["counted"][of].as_u64(), Some(sum(of).iter().sum()), "{books}");
    }
    assert!(quipu(&[]).contains("the books balance"));
}
