//! `quipu sim clients`, `sessions`, `reconnect` and `retire` as a user runs them.

use assert_cmd::Command;
use std::io::{BufRead, BufReader, Read};
use std::process::{Output, Stdio};
use std::sync::mpsc;
use std::time::Duration;

fn quipu(args: &[&str]) -> Output {
    Command::cargo_bin("quipu").expect("the binary is built").arg("sim").args(args).output().expect("it runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("text")
}

/// A small run of each experiment.
const SMALL: [&[&str]; 6] = [
    &["clients", "--tier0", "3", "--servers", "10", "--clients", "300"],
    &["sessions", "--servers", "10", "--clients", "300", "--activity-ms", "1000"],
    &["reconnect", "--servers", "10", "--clients", "100", "--end-ms", "3000"],
    &["reconnect", "--exchange", "naive", "--servers", "10", "--clients", "100", "--end-ms", "3000"],
    &["retire", "--servers", "10", "--clients", "100", "--end-ms", "3000", "--cleanup", "on"],
    &["retire", "--servers", "10", "--clients", "100", "--end-ms", "3000", "--cleanup", "fold"],
];

#[test]
fn a_table_has_a_header_and_a_line_for_each_second() {
    for args in SMALL {
        let output = quipu(args);
        assert!(output.status.success(), "{args:?}: {}", text(&output.stderr));
        let table = text(&output.stdout);
        let mut lines = table.lines();
        assert_eq!(lines.next(), Some("# time\tclients\tactive\tids\tslots"), "{args:?}");
        for (line, time) in lines.by_ref().zip(["1000", "2000", "3000"]) {
            let fields: Vec<&str> = line.split('\t').collect();
            assert_eq!((fields.len(), fields[0]), (5, time), "{args:?}");
            assert!(fields.iter().all(|field| field.parse::<f64>().is_ok()), "{args:?}: {line}");
        }
        assert_eq!(lines.next(), None, "{args:?}");
        let notes = text(&output.stderr);
        assert!(notes.contains("conservation at every row (3)"), "{args:?}: {notes}");
        assert!(!notes.contains('\r') && !notes.contains('\u{1b}'), "no progress bar where nobody watches");
    }
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    for args in SMALL {
        for json in [&[][..], &["--json"][..]] {
            let run = |seed| quipu(&[args, &["--seed", seed], json].concat()).stdout;
            let first = run("5");
            assert_eq!(first, run("5"), "{args:?}");
            if !json.is_empty() {
                assert_ne!(first, run("6"), "{args:?}"); // A table of round numbers may be the same.
            }
        }
    }
}

#[test]
fn json_has_an_object_on_each_line_and_the_last_is_a_summary() {
    let output = quipu(&[SMALL[0], &["--json"]].concat());
    let values: Vec<serde_json::Value> =
        text(&output.stdout).lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(values.len(), 4);
    assert_eq!(values[0]["time"], 1_000);
    assert_eq!(values[2]["clients"], 300);
    assert!(values[2]["slots"].as_f64() > Some(10.0));
    let summary = &values[3]["summary"];
    assert_eq!(summary["violations"], 0);
    assert_eq!(summary["issued"], summary["handed_off"]);
    assert_eq!(summary["conservation_checked"], 3);
    assert_eq!(text(&output.stderr), "");
}

#[test]
fn impossible_flags_are_refused_by_name_and_range_before_anything_runs() {
    let cases: [(&[&str], &str, &str); 17] = [
        (&["clients", "--servers", "0"], "--servers", "0 is not in 1..=10000"),
        (&["clients", "--tier0", "101"], "--tier0", "101 is not in 1..=100"),
        (&["clients", "--clients", "0"], "--clients", "0 is not in 1..=10000000"),
        (&["clients", "--clients", "-5"], "-5", ""),
        (&["clients", "--clients", "5", "--end-ms", "0"], "--end-ms", "0 is not in 50..="),
        (&["clients", "--end-ms", "10"], "--end-ms", "10 is not in 1000000..="),
        (&["clients", "--stats-ms", "0"], "--stats-ms", "0 is not in 1..=1000000"),
        (&["clients", "--seed", "x"], "--seed", ""),
        (&["sessions", "--active-percent", "101"], "--active-percent", "101 is not in 1..=100"),
        (&["sessions", "--activity-ms", "0"], "--activity-ms", "0 is not in 1..="),
        (&["reconnect", "--exchange", "clever"], "--exchange", "naive"),
        (&["reconnect", "--handler-ms", "0"], "--handler-ms", "0 is not in 1..="),
        (&["reconnect", "--end-ms", "0"], "--end-ms", "0 is not in 1..="),
        (&["retire", "--partition-percent", "101"], "--partition-percent", "101 is not in 0..=100"),
        (&["retire", "--cleanup", "maybe"], "--cleanup", "fold"),
        (&["retire", "--arrival-ms", "0"], "--arrival-ms", "0 is not in 1..="),
        (&["retire", "--cleanup", "on", "--servers", "1"], "--servers", "at least 2"),
    ];
    for (args, flag, range) in cases {
        let output = quipu(args);
        let complaint = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {complaint}");
        assert!(complaint.contains(flag) && complaint.contains(range), "{args:?}: {complaint}");
        assert_eq!(text(&output.stdout), "", "{args:?}");
    }
}

#[test]
fn help_shows_examples() {
    for command in ["clients", "sessions", "reconnect", "retire"] {
        let output = quipu(&[command, "--help"]);
        assert!(output.status.success());
        assert!(text(&output.stdout).contains(&format!("quipu sim {command}")), "{command}");
        assert!(text(&output.stdout).contains("Examples:"), "{command}");
        assert!(text(&output.stdout).contains("of “Scalable eventually consistent counters"), "{command}");
    }
}

/// Starts a run that would take minutes, and reads its first lines.
#[cfg(unix)]
fn long_run() -> (std::process::Child, BufReader<std::process::ChildStdout>) {
    let mut child = std::process::Command::new(assert_cmd::cargo::cargo_bin("quipu"))
        .args(["sim", "clients", "--stats-ms", "1"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("it runs");
    let mut out = BufReader::new(child.stdout.take().expect("piped"));
    let mut line = String::new();
    for _ in 0..20 {
        line.clear();
        out.read_line(&mut line).expect("a line");
    }
    assert!(line.ends_with('\n'));
    (child, out)
}

#[test]
#[cfg(unix)]
fn ctrl_c_leaves_complete_lines_and_exits_with_130() {
    // Ctrl-C comes while a line is written, or between two: each time somewhere else.
    for _ in 0..20 {
        let (mut child, mut out) = long_run();
        let interrupt = std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status();
        assert!(interrupt.expect("kill runs").success());
        let (send, ended) = mpsc::channel();
        std::thread::spawn(move || {
            let mut rest = String::new();
            send.send(out.read_to_string(&mut rest).map(|_| rest))
        });
        let Ok(rest) = ended.recv_timeout(Duration::from_secs(60)) else {
            child.kill().expect("it can be killed");
            panic!("it has not ended");
        };
        let rest = rest.expect("text");
        assert!(rest.is_empty() || rest.ends_with('\n'), "the last line is not complete: {rest:?}");
        assert!(rest.lines().all(|line| line.split('\t').count() == 5));
        assert_eq!(child.wait().expect("it ends").code(), Some(130));
    }
}

#[test]
#[cfg(unix)]
fn a_reader_that_has_seen_enough_ends_the_run() {
    let (mut child, out) = long_run();
    drop(out);
    assert!(child.wait().expect("it ends").success());
}
