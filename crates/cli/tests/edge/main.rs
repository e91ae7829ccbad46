//! `quipu edge` against a real server, and without one.

#[path = "../harness/mod.rs"]
mod harness;

use harness::{Running, Site};
use serde_json::Value;
use std::{
    fs,
    path::PathBuf,
    process::{Command, Output},
};

struct State {
    folder: tempfile::TempDir,
    servers: String,
}

impl State {
    fn new(servers: &[&Running]) -> Self {
        let servers: Vec<String> = servers.iter().map(|server| format!("http://{}", server.http)).collect();
        Self { folder: tempfile::tempdir().expect("a folder"), servers: servers.join(",") }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("state")
    }

    fn edge(&self, args: &str) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_quipu"));
        command.arg("edge").args(args.split_whitespace()).env_clear();
        command.env("QUIPU_STATE", self.path()).env("QUIPU_SERVERS", &self.servers);
        command.output().expect("it runs")
    }

    /// What a command that succeeds prints.
    #[track_caller]
    fn says(&self, args: &str) -> String {
        let output = self.edge(args);
        assert!(output.status.success(), "{args}: {}", err(&output));
        String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
    }

    /// What a command that ends with this code says about it.
    #[track_caller]
    fn fails(&self, args: &str, code: i32) -> String {
        let output = self.edge(args);
        assert_eq!(output.status.code(), Some(code), "{args}: {}", err(&output));
        err(&output)
    }

    fn status(&self) -> Value {
        serde_json::from_str(&self.says("status --json")).expect("JSON")
    }
}

fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn value(server: &Running, key: &str) -> i64 {
    server.client().call(&format!("GET {key}")).count()
}

#[test]
fn counting_online_and_leaving() {
    let site = Site::new("");
    let server = site.start();
    let state = State::new(&[&server]);
    assert_eq!(state.says("add hits"), "");
    assert_eq!(value(&server, "hits"), 1);
    state.says("add hits 41");
    state.says("subtract hits 2");
    state.says("add other 7");
    assert_eq!((value(&server, "hits"), value(&server, "other")), (40, 7));
    server.client().call("INCRBY hits 100");
    assert_eq!(state.says("value hits"), "140");
    assert_eq!(state.says("value hits other nothing"), "hits\t140\nother\t7\nnothing\t0");
    assert_eq!(state.status()["waiting"], 0);
    state.says("flush");
    state.says("retire");
    assert!(!state.path().exists());
    let info = server.client().call("INFO handoff").text();
    assert!(info.contains("slots:0"), "{info}");
    assert!(state.fails("status", 1).contains("there is no state in"));
}

#[test]
fn counting_offline_and_handing_over_later() {
    let site = Site::new("");
    let server = site.start();
    let state = State::new(&[&server]);
    for _ in 0..5 {
        state.says("add hits --offline");
    }
    assert_eq!(state.status()["waiting"], 1);
    assert_eq!(state.status()["openings"], 0);
    assert_eq!(state.says("value hits --offline"), "5");
    let resp = server.resp;
    server.kill();
    // Nobody is there: nothing to speak of, nothing lost.
    let output = state.edge("add hits 10");
    assert!(output.status.success() && output.stderr.is_empty(), "{}", err(&output));
    let open = state.fails("flush --deadline 300ms", 1);
    assert!(open.contains("1 counter waits to be handed over"), "{open}");
    assert!(open.contains("cannot be reached"), "{open}");
    let unknown = state.fails("value hits", 2);
    assert!(unknown.contains("no server has told"), "{unknown}");
    assert!(state.fails("retire --deadline 200ms", 1).contains("all counts are kept here"));
    assert!(state.path().exists());
    let server = site.start_at(resp);
    let state = State { servers: format!("http://{}", server.http), ..state };
    state.says("flush --deadline 20s");
    assert_eq!(value(&server, "hits"), 15);
    state.says("retire");
    assert_eq!(value(&server, "hits"), 15);
}

/// Processes are killed, too, between any two of their steps.
#[test]
fn commands_of_which_some_are_killed() {
    let site = Site::new("");
    let server = site.start();
    let state = State::new(&[&server]);
    let mut random = harness::random::Random::new(11);
    let (mut at_least, mut at_most) = (0, 0);
    for round in 0..60 {
        let mut command = Command::new(env!("CARGO_BIN_EXE_quipu"));
        command.args(["edge", "add", "hits"]).env_clear();
        command.env("QUIPU_STATE", state.path()).env("QUIPU_SERVERS", &state.servers);
        let mut child = command.spawn().expect("it starts");
        at_most += 1;
        if round % 2 == 0 {
            assert!(child.wait().expect("it ends").success());
            at_least += 1;
        } else {
            std::thread::sleep(std::time::Duration::from_micros(random.below(30_000)));
            child.kill().expect("it is ours");
            at_least += i64::from(child.wait().expect("it ends").success());
        }
    }
    state.says("retire --deadline 30s");
    let counted = value(&server, "hits");
    assert!((at_least..=at_most).contains(&counted), "{counted} of {at_least} to {at_most}");
}

#[test]
fn what_cannot_be_is_refused_with_what_became_of_it() {
    let site = Site::new("");
    let server = site.start();
    let state = State::new(&[&server]);
    state.says("add hits --offline");
    // Another one that has the file is waited for, and not for ever.
    let file = fs::File::open(state.path()).expect("it is there");
    file.lock().expect("it is free");
    assert!(state.fails("add hits --wait 50ms", 1).contains("is in use"));
    drop(file);
    let elsewhere =
        State { servers: "127.0.0.1:7380".to_owned(), folder: tempfile::tempdir().expect("a folder") };
    assert!(elsewhere.fails("add hits", 2).contains("--servers"));
    assert!(!elsewhere.path().exists());
    let none = State { servers: String::new(), ..elsewhere };
    assert!(none.fails("flush", 1).contains("there is no state"));
    assert!(state.fails("add hits -3", 2).contains("-3"));
    fs::write(none.path(), "not a state").expect("it is written");
    assert!(none.fails("add hits", 1).contains("no state file"));
    state.says("flush");
    assert_eq!(value(&server, "hits"), 1);
    // A server of another cluster.
    let other_site = Site::new("--cluster other");
    let other = other_site.start();
    let state = State { servers: format!("http://{}", other.http), ..state };
    let output = state.edge("add hits");
    assert!(output.status.success());
    assert!(err(&output).contains("counted, and not handed over yet"), "{}", err(&output));
    assert!(err(&output).contains("cluster"), "{}", err(&output));
    assert!(state.fails("flush --deadline 300ms", 1).contains("1 counter waits to be handed over"));
    let state = State { servers: format!("http://{}", server.http), ..state };
    state.says("retire");
    assert_eq!(value(&server, "hits"), 2);
}

#[test]
fn users_and_passwords() {
    let site = Site::new("--requirepass secret");
    let server = site.start();
    let state = State::new(&[&server]);
    let output = state.edge("add hits");
    assert!(output.status.success());
    assert!(err(&output).contains("this server has users"), "{}", err(&output));
    state.says("flush --password secret");
    state.says("retire --password secret");
}

#[test]
fn a_server_that_is_killed_in_the_middle_has_counted_once() {
    let site = Site::new("");
    let mut server = site.start();
    let mut state = State::new(&[&server]);
    for round in 1..=6 {
        state.says("add hits --offline");
        state.says("add hits");
        let resp = server.resp;
        server.kill();
        state.says("add hits");
        server = site.start_at(resp);
        state.servers = format!("http://{}", server.http);
        state.says("flush --deadline 20s");
        assert_eq!(value(&server, "hits"), 3 * round);
    }
}

#[test]
fn help_teaches_by_example() {
    for command in ["", "add", "value", "flush", "retire", "status"] {
        let mut quipu = Command::new(env!("CARGO_BIN_EXE_quipu"));
        quipu.arg("edge").args((!command.is_empty()).then_some(command)).arg("--help");
        let output = quipu.output().expect("it runs");
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && text.contains("Examples:"), "{text}");
        assert!(text.contains(&format!("quipu edge {command}")), "{text}");
    }
}

/// More counters of one hash tag than one exchange asks for, and some of others.
#[test]
fn many_values_are_asked_for_in_several_exchanges() {
    let site = Site::new("");
    let server = site.start();
    let state = State::new(&[&server]);
    state.says("add hits");
    let mut client = server.client();
    let keys: Vec<String> = (0..400)
        .map(|at| format!("{{tag}}{at:03}-{}", "k".repeat(300)))
        .chain((0..50).map(|at| format!("other-{at}")))
        .collect();
    keys.iter().for_each(|key| drop(client.call(&format!("INCRBY {key} 7"))));
    let told = state.says(&format!("value {}", keys.join(" ")));
    let expected: Vec<String> = keys.iter().map(|key| format!("{key}\t7")).collect();
    assert_eq!(told.lines().collect::<Vec<_>>(), expected);
    // And more than are asked for in one go.
    let keys: Vec<String> = (0..5_000).map(|at| format!("{{t}}{at}")).collect();
    let pipeline: String = keys.iter().map(|key| format!("INCRBY {key} 3\r\n")).collect();
    client.write(pipeline.as_bytes()).expect("it reads");
    keys.iter().for_each(|_| drop(client.read().expect("an answer")));
    let told = state.says(&format!("value {}", keys.join(" ")));
    assert_eq!(told.lines().filter(|line| line.ends_with("\t3")).count(), keys.len());
    // Nobody is there: what is printed is what the file knows, and it is said of which that is all.
    server.kill();
    let told = state.fails("value hits other-1", 2);
    assert!(told.contains("no server has told") && told.contains("other-1"), "{told}");
}
