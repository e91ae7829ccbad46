//! `quipu sim nodes` as a user runs it.

use assert_cmd::Command;
use serde_json::Value;
use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

fn quipu(args: &str) -> std::process::Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_quipu"));
    command.args(["sim", "nodes"]).args(args.split_whitespace()).output().expect("it runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("text")
}

#[test]
fn seeds_say_what_was_checked() {
    let output = quipu("--seeds 3..6");
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(text(&output.stdout).starts_with("3 seeds: no condition was violated\n"));
    assert_eq!(text(&output.stderr), "", "no progress bar where nobody watches");
}

#[test]
fn the_same_seed_gives_the_same_figures() {
    let figures = || {
        let output = quipu("--seed 4 --nodes 3 --active-ms 8000 --json");
        assert!(output.status.success(), "{}", text(&output.stderr));
        let mut value: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        value.as_object_mut().expect("an object").remove("seconds");
        value
    };
    let first = figures();
    assert_eq!(first, figures());
    assert_eq!((&first["seeds"], &first["violations"]), (&Value::from(1), &Value::from(0)));
    assert!(first["taken"].as_u64() > Some(0) && first["passed_on"].as_u64() > Some(0), "{first}");
}

#[test]
fn everything_that_happens_is_told_aloud() {
    let output = quipu("--seed 4 --nodes 2 --clients 1 --active-ms 1500 --troubles none --fair --aloud");
    assert!(output.status.success());
    let told = text(&output.stderr);
    assert!(told.contains("node 2 starts") && told.contains("has taken shard 0"), "{told}");
}

#[test]
fn speed_is_reported() {
    let output = quipu("--speed --clients 10 --active-ms 2000 --json");
    let value: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert!(value["virtual_seconds_per_second"].as_f64() > Some(0.0), "{value}");
}

#[test]
fn impossible_flags_are_refused_by_name_before_anything_runs() {
    for (flag, value) in [
        ("--nodes", "0"),
        ("--nodes", "7"),
        ("--clients", "0"),
        ("--active-ms", "0"),
        ("--keys", "0"),
        ("--seeds", "5..5"),
        ("--troubles", "1000"),
        ("--troubles", "some"),
    ] {
        let output = quipu(&format!("{flag} {value}"));
        assert_eq!(output.status.code(), Some(2), "{flag} {value}");
        assert!(text(&output.stderr).contains(flag), "{flag} {value}: {}", text(&output.stderr));
        assert_eq!(text(&output.stdout), "");
    }
}

/// A day of a hundred clients takes far longer than anybody waits for this test.
#[test]
fn a_signal_ends_a_run_in_the_middle_of_a_seed() {
    for (simulation, signal) in [("nodes", "TERM"), ("system", "INT")] {
        let mut child = std::process::Command::new(env!("CARGO_BIN_EXE_quipu"))
            .args(["sim", simulation, "--clients", "100", "--active-ms", "86400000", "--aloud"])
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts");
        let mut told = BufReader::new(child.stderr.take().expect("it is piped"));
        told.read_line(&mut String::new()).expect("something happens");
        let kill = format!("kill -s {signal} {}", child.id());
        let sent = std::process::Command::new("sh").args(["-c", &kill]).status();
        assert!(sent.expect("a shell").success());
        // It does not wait for whoever reads what it tells.
        std::io::copy(&mut told, &mut std::io::sink()).expect("up to its end");
        assert_eq!(child.wait().expect("it ends").code(), Some(130), "{simulation} after {signal}");
    }
}
