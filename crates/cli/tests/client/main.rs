//! `quipu add|get|create|list|watch|info|audit` against the HTTP front end, with counters in memory behind it.

#[path = "../../../server/tests/http/memory.rs"]
#[allow(dead_code, reason = "the tests of the front end use more of it")]
mod memory;
mod proxy;
mod sites;

use assert_cmd::Command;
use quipu_server::{auth::Users, http::serve_http, metrics::Metrics};
use serde_json::{Value, json};
use std::{
    net::{SocketAddr, TcpListener},
    process::Output,
    thread::JoinHandle,
    time::{Duration, Instant},
};
use tokio::sync::oneshot;

struct Server {
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    fn start(users: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let users: Users = if users.is_empty() { Users::default() } else { users.parse().expect("users") };
        let (stop, stopped) = oneshot::channel::<()>();
        let thread = std::thread::spawn(move || {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            let stopped = async { stopped.await.unwrap_or(()) };
            let counters = memory::Memory::default();
            runtime
                .block_on(serve_http(listener, counters, users, Metrics::new(), stopped))
                .expect("it serves");
        });
        Self { address, stop: Some(stop), thread: Some(thread) }
    }

    fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    fn quipu(&self, args: &[&str]) -> Output {
        quipu(&self.url(), args)
    }

    /// What a command that succeeds prints, without the last line's end.
    #[track_caller]
    fn says(&self, args: &[&str]) -> String {
        let output = self.quipu(args);
        assert!(output.status.success(), "{args:?}: {}", err(&output));
        out(&output)
    }

    /// What a command that fails says about it.
    #[track_caller]
    fn refuses(&self, args: &[&str]) -> String {
        let output = self.quipu(args);
        assert_eq!(output.status.code(), Some(1), "{args:?}: {}", out(&output));
        err(&output)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join(); // A test that fails says so itself.
        }
    }
}

fn quipu(url: &str, args: &[&str]) -> Output {
    let mut command = Command::cargo_bin("quipu").expect("the binary is built");
    command.args(args).env_clear().env("QUIPU_SERVER", url).timeout(Duration::from_secs(60));
    command.output().expect("it runs")
}

fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).trim_end_matches('\n').to_owned()
}

fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn counting_and_reading() {
    let server = Server::start("");
    assert_eq!(server.says(&["add", "hits"]), "1");
    assert_eq!(server.says(&["add", "hits", "41"]), "42");
    assert_eq!(server.says(&["add", "hits", "-2"]), "40");
    assert_eq!(server.says(&["get", "hits"]), "40");
    assert_eq!(server.says(&["add", "a/b ?#%", "9223372036854775807"]), i64::MAX.to_string());
    assert_eq!(server.says(&["get", "hits", "a/b ?#%"]), format!("hits\t40\na/b ?#%\t{}", i64::MAX));
    let output = server.quipu(&["get", "nothing", "hits"]);
    assert_eq!((output.status.code(), out(&output)), (Some(1), "hits\t40".to_owned()));
    assert!(err(&output).contains("there is no counter nothing"), "{}", err(&output));
}

#[test]
fn json_is_what_the_server_says() {
    let server = Server::start("");
    let parse = |text: &str| serde_json::from_str::<Value>(text).expect("JSON");
    assert_eq!(
        parse(&server.says(&["add", "hits", "--json"])),
        json!({"key": "hits", "value": 1, "applied": 1, "site": "1"})
    );
    assert_eq!(parse(&server.says(&["get", "hits", "--json"])), json!({"key": "hits", "value": 1}));
    assert_eq!(parse(&server.says(&["info", "hits", "--json"]))["bounds"], json!(null));
    assert_eq!(parse(&server.says(&["list", "--json"])), json!({"key": "hits", "value": 1}));
    assert_eq!(
        parse(&server.says(&["watch", "hits", "--count", "1", "--json"])),
        json!({"key": "hits", "value": 1})
    );
}

#[test]
fn limits_hold() {
    let server = Server::start("");
    assert_eq!(server.says(&["create", "stock", "--min", "0", "--max", "20", "--value", "10"]), "10");
    assert!(server.refuses(&["create", "stock", "--min", "0"]).contains("exists already"));
    assert!(server.refuses(&["add", "stock", "-11"]).contains("at most 10 can be subtracted"));
    let output = server.quipu(&["add", "stock", "-11", "--beyond", "saturate"]);
    assert_eq!((out(&output).as_str(), output.status.code()), ("0", Some(0)));
    assert!(err(&output).contains("only -10 of -11"), "{}", err(&output));
    assert!(server.refuses(&["add", "plain", "3", "--max", "2"]).contains("maximum 2"));
    assert_eq!(server.says(&["add", "plain", "--min=-5", "--beyond", "skip"]), "1");
    assert_eq!(server.says(&["create", "seats", "--max", "9", "--spread", "1=2"]), "0");
    assert_eq!(server.says(&["move", "seats", "3", "--from", "1", "--to", "2"]), "3");
    let refused = server.refuses(&["move", "seats", "1", "--from", "2", "--to", "1"]);
    assert!(refused.contains("site 2"), "{refused}");
    let info = server.says(&["info", "stock"]);
    for line in ["value    0", "minimum  0", "maximum  20", "may add 20; may subtract 0"] {
        assert!(info.contains(line), "{line} in {info}");
    }
}

#[test]
fn lists_are_complete() {
    let server = Server::start("");
    for number in 0..12 {
        server.says(&["add", &format!("user:{number:02}"), &number.to_string()]);
    }
    server.says(&["add", "zeta"]);
    assert_eq!(server.says(&["list"]).lines().count(), 13);
    assert_eq!(server.says(&["list", "user:", "--limit", "2"]), "user:00\t0\nuser:01\t1");
    assert_eq!(server.says(&["list", "none"]), "");
}

#[test]
fn an_id_counts_once() {
    let server = Server::start("");
    assert_eq!(server.says(&["add", "orders", "5", "--id", "order-1"]), "5");
    assert_eq!(server.says(&["add", "orders", "1"]), "6");
    assert_eq!(server.says(&["add", "orders", "5", "--id", "order-1"]), "5", "the first answer");
    assert!(server.refuses(&["add", "orders", "6", "--id", "order-1"]).contains("the amount 5"));
    assert_eq!(server.says(&["get", "orders"]), "6");
}

#[test]
fn lost_answers_are_asked_for_again_and_count_once() {
    let server = Server::start("");
    let proxy = proxy::Proxy::losing(server.address, 3);
    let output = quipu(&proxy.url(), &["add", "hits", "5"]);
    assert_eq!((out(&output), output.status.code()), ("5".to_owned(), Some(0)), "{}", err(&output));
    assert_eq!(proxy.connections(), 4, "three answers were lost");
    assert_eq!(server.says(&["get", "hits"]), "5");
}

#[test]
fn an_answer_that_never_comes_is_told_with_the_id() {
    let server = Server::start("");
    let proxy = proxy::Proxy::losing(server.address, usize::MAX);
    let output = quipu(&proxy.url(), &["add", "hits", "5"]);
    assert_eq!(output.status.code(), Some(1));
    let text = err(&output);
    let id = text.split("--id ").nth(1).and_then(|rest| rest.split(':').next()).expect("an id").to_owned();
    assert_eq!(server.says(&["add", "hits", "5", "--id", &id]), "5");
    assert_eq!(server.says(&["get", "hits"]), "5", "counted once");
}

#[test]
fn a_store_in_doubt_is_told_with_the_id() {
    let server = Server::start("");
    let text = server.refuses(&["add", "fail:in-doubt", "--id", "order-1"]);
    assert!(text.contains("not known whether") && text.contains("--id order-1"), "{text}");
}

#[test]
fn without_a_server_it_says_how_to_start_one() {
    let free = TcpListener::bind("127.0.0.1:0").expect("a free port").local_addr().expect("bound");
    let url = format!("http://{free}");
    for args in [
        vec!["get", "a"],
        vec!["add", "a"],
        vec!["list"],
        vec!["watch", "a"],
        vec!["info", "a"],
        vec!["create", "a", "--min", "0"],
    ] {
        let begun = Instant::now();
        let output = quipu(&url, &args);
        assert_eq!(output.status.code(), Some(1), "{args:?}");
        assert!(err(&output).contains("quipu serve"), "{args:?}: {}", err(&output));
        assert!(begun.elapsed() < Duration::from_secs(5), "no retries where nothing was sent");
    }
}

#[test]
fn users_give_their_password() {
    let server = Server::start("user alice wonderland");
    assert!(server.refuses(&["add", "hits"]).contains("users"), "no password");
    assert!(server.refuses(&["add", "hits", "--user", "alice", "--password", "wrong"]).contains("users"));
    assert_eq!(server.says(&["add", "hits", "--user", "alice", "--password", "wonderland"]), "1");
    let mut command = Command::cargo_bin("quipu").expect("the binary is built");
    command.args(["get", "hits"]).env_clear().env("QUIPU_SERVER", server.url());
    command.env("QUIPU_USER", "alice").env("QUIPU_PASSWORD", "wonderland");
    assert_eq!(out(&command.output().expect("it runs")), "1");
}

#[test]
fn watching_prints_each_value() {
    let server = Server::start("");
    let url = server.url();
    let watch = std::thread::spawn(move || quipu(&url, &["watch", "hits", "--count", "3"]));
    // Each value is new, so the watch sees three however late it begins.
    let begun = Instant::now();
    while !watch.is_finished() {
        assert!(begun.elapsed() < Duration::from_secs(50), "the watch has an end");
        server.says(&["add", "hits"]);
    }
    let output = watch.join().expect("no panic");
    assert!(output.status.success(), "{}", err(&output));
    let values: Vec<i64> = out(&output).lines().map(|line| line.parse().unwrap_or(0)).collect();
    assert_eq!(values.len(), 3);
    assert!(values.is_sorted(), "{values:?}");
}

#[test]
fn usage_is_told_apart_from_failure() {
    let server = Server::start("");
    for args in [
        vec!["add"],
        vec!["get"],
        vec!["add", "hits", "many"],
        vec!["add", "hits", "9223372036854775808"],
        vec!["create", "stock"],
        vec!["create", "stock", "--min", "0", "--wait", "60001"],
        vec!["get", "hits", "--server", "ftp://nowhere"],
        vec!["get", "hits", "--server", "https://127.0.0.1:1"],
        vec!["get", "hits", "--server", "http://"],
        vec!["watch", "hits", "--count", "0"],
        vec!["completions", "cobol"],
    ] {
        assert_eq!(server.quipu(&args).status.code(), Some(2), "{args:?}");
    }
}

#[test]
fn shells_and_readers_of_help_are_taught() {
    for shell in ["bash", "zsh", "fish"] {
        let script = out(&quipu("http://unused", &["completions", shell]));
        assert!(script.contains("idmp-window") && script.contains("watch"), "{shell}");
    }
    for command in ["serve", "add", "get", "create", "list", "watch", "info", "audit", "completions"] {
        assert!(
            out(&quipu("http://unused", &[command, "--help"])).contains("Examples:\n  quipu "),
            "{command}"
        );
    }
}
