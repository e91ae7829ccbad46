//! Each test runs itself again as a process of its own, in which something panics.

use std::{
    process::{Command, Output},
    time::Duration,
};

use quipu_engine::{Action, OwnedCommand};

use super::*;
use crate::{
    Server,
    config::{Config, Origin, Settings, settings},
    node::{mail::Mail, waiting::Address},
};

/// Says in which process a test is.
const IN_CHILD: &str = "QUIPU_TEST_IN_CHILD";
/// Nobody waits so long for a process that goes on.
const TOO_LONG: Duration = Duration::from_secs(60);

/// Runs the test of this name again, and does this there. `None`: that was it.
fn in_a_process_of_its_own(test: &str, act: impl FnOnce()) -> Option<Output> {
    if std::env::var_os(IN_CHILD).is_some() {
        act();
        thread::sleep(TOO_LONG);
        return None;
    }
    let mut child = Command::new(std::env::current_exe().expect("this program"));
    let name = format!("node::essential::tests::{test}");
    child.args(["--exact", &name, "--nocapture"]).env(IN_CHILD, "yes");
    Some(child.output().expect("it runs"))
}

fn has_ended(output: &Output, message: &str) {
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(EXIT_CODE), "{text}");
    assert!(text.contains(message), "{text}");
}

#[test]
fn a_worker_that_panics_ends_the_process() {
    let output = in_a_process_of_its_own("a_worker_that_panics_ends_the_process", || {
        let folder = tempfile::tempdir().expect("a folder");
        let mut given = Settings::default();
        for (known, value) in [
            (settings::DATA, folder.path().join("data").to_string_lossy().into_owned()),
            (settings::RESP, "127.0.0.1:0".to_owned()),
            (settings::HTTP, "127.0.0.1:0".to_owned()),
            (settings::SHARDS, "4".to_owned()),
            (settings::WORKERS, "2".to_owned()),
        ] {
            given.give(&known, value, Origin::Flag);
        }
        let server = Server::start(&Config::new(&given).expect("good settings")).expect("it starts");
        let shared = &server.node.shared;
        let command = quipu_engine::Command { key: b"hits", action: Action::Get };
        let commands = vec![(Address::Guest { index: 0 }.ticket(), OwnedCommand::new(command))];
        let worker = shared.owner(shared.shards.of(b"hits"));
        // The answer is for a worker that does not exist.
        shared.post(worker, Mail::Commands { from: usize::MAX, commands });
        thread::sleep(TOO_LONG);
    });
    if let Some(output) = output {
        has_ended(&output, "panicked at");
    }
}

#[test]
fn a_thread_that_panics_ends_the_process() {
    let output = in_a_process_of_its_own("a_thread_that_panics_ends_the_process", || {
        drop(essential("keeper", || panic!("what the keeper says")).expect("it starts"));
    });
    if let Some(output) = output {
        has_ended(&output, "what the keeper says");
    }
}

#[test]
fn a_task_that_panics_ends_the_process() {
    let output = in_a_process_of_its_own("a_task_that_panics_ends_the_process", || {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        runtime.block_on(async {
            let task = tokio::spawn(vital(async { panic!("what the task says") }));
            let _: Result<(), _> = task.await;
        });
    });
    if let Some(output) = output {
        has_ended(&output, "what the task says");
    }
}

#[test]
fn a_thread_that_ends_in_order_ends_nothing_else() {
    assert_eq!(essential("worker", || 7).expect("it starts").join().expect("no panic"), 7);
}
