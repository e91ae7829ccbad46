//! `quipu bench sites` in small: what it counts is exact and what it writes is whole. How long anything takes is not
//! looked at.

use assert_cmd::Command;
use serde_json::Value;
use std::path::Path;
use std::time::Duration;

/// Seconds instead of minutes.
const SMALL: &str = "--rounds 2 --counters 300 --changing 0.1 --samples 5 --delay-ms 0,3 --keys 1,50 --pipeline 4 \
                     --connections 5 --seconds 0.2";

fn quipu(temporary: &Path, args: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_quipu"));
    command.args(["bench", "sites"]).args(args.split_whitespace()).env("TMPDIR", temporary);
    // Settings of others' servers are not for these; with this one they would not start.
    command.env("QUIPU_SITE", "7").timeout(Duration::from_secs(240));
    command
}

fn list<'a>(value: &'a Value, name: &str) -> &'a Vec<Value> {
    value[name].as_array().unwrap_or_else(|| panic!("no {name} in {value}"))
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("no number: {value}"))
}

#[test]
fn all_three_are_measured_and_nothing_is_left() {
    let folder = tempfile::tempdir().expect("a folder");
    let (json, plot) = (folder.path().join("run.json"), folder.path().join("run.svg"));
    let temporary = folder.path().join("temporary");
    std::fs::create_dir(&temporary).expect("a folder");
    let args = format!("{SMALL} --json {} --plot {}", json.display(), plot.display());
    let output = quipu(&temporary, &args).assert().success().get_output().clone();
    assert!(output.stderr.is_empty(), "no progress bars where nobody sees them");
    let left = std::fs::read_dir(&temporary).expect("it is there").count();
    assert_eq!(left, 0, "the sites' folders are removed");

    let run: Value = serde_json::from_str(&std::fs::read_to_string(json).expect("a file")).expect("JSON");
    bytes_are_whole(&run["bytes"]);
    times_are_whole(list(&run, "time"));
    work_is_whole(&run["work"]);

    let text = String::from_utf8(output.stdout).expect("text");
    for line in
        ["in one go ", "one at a time ", "+0 ms ", "+3 ms ", "1 key, pipeline 4 ", "50 keys, pipeline 4 "]
    {
        assert_eq!(text.lines().filter(|row| row.starts_with(line)).count(), 1, "{line:?} in {text}");
    }
    let plot = std::fs::read_to_string(plot).expect("a file");
    roxmltree::Document::parse(&plot).expect("SVG");
}

fn bytes_are_whole(bytes: &Value) {
    assert_eq!((&bytes["counters"], &bytes["changing"]), (&300.into(), &30.into()));
    // A key has 16 bytes; a row cannot do with less, and needs not much more.
    let full = number(&bytes["full_bytes"]);
    assert!((300.0 * 16.0..300.0 * 64.0).contains(&full), "{full}");
    let ways = list(bytes, "ways");
    assert_eq!(ways.len(), 2);
    for way in ways {
        assert_eq!(list(way, "rounds").len(), 2);
        for round in list(way, "rounds") {
            assert_eq!((&round["adds"], &round["peers"]), (&30.into(), &2.into()));
            // Each of the rows that changed goes to both peers, and each peer has to acknowledge.
            assert!(number(&round["sent_bytes"]) >= 2.0 * 30.0 * 16.0, "{round}");
            assert!(number(&round["received_bytes"]) > 0.0, "{round}");
            assert!(number(&round["sent_bytes"]) < 2.0 * full, "only what changed is sent: {round}");
        }
    }
}

fn times_are_whole(sights: &[Value]) {
    let delays: Vec<&Value> = sights.iter().map(|sight| &sight["delay_ms"]).collect();
    assert_eq!(delays, [0, 3]);
    for sight in sights {
        assert_eq!(list(sight, "rounds").len(), 2);
        for round in list(sight, "rounds") {
            for samples in ["client_ms", "alone_ms", "acknowledged_ms", "seen_ms"] {
                assert_eq!(round[samples]["samples"], 5, "{samples} in {round}");
            }
            // Nothing is faster than its link.
            let delay = number(&sight["delay_ms"]);
            assert!(number(&round["link_ms"]["p50"]) >= delay, "{round}");
            assert!(number(&round["seen_ms"]["p50"]) >= delay, "{round}");
        }
    }
}

fn work_is_whole(work: &Value) {
    let loads = list(work, "loads");
    let keys: Vec<&Value> = loads.iter().map(|load| &load["keys"]).collect();
    assert_eq!(keys, [1, 50]);
    for load in loads {
        assert_eq!(list(load, "rounds").len(), 2);
        for round in list(load, "rounds") {
            for side in ["with_peers", "alone"] {
                assert!(number(&round[side]["adds"]) > 0.0, "{round}");
            }
        }
    }
}

#[test]
fn what_cannot_be_is_refused_before_anything_is_started() {
    let folder = tempfile::tempdir().expect("a folder");
    for (args, flag) in [
        ("--rounds 0", "--rounds"),
        ("--counters 0", "--counters"),
        ("--changing 0", "--changing"),
        ("--changing 1.5", "--changing"),
        ("--samples 0", "--samples"),
        ("--delay-ms 10001", "--delay-ms"),
        ("--keys 0", "--keys"),
        ("--pipeline 0", "--pipeline"),
        ("--connections 0", "--connections"),
        ("--seconds 0", "--seconds"),
        ("--seconds NaN", "--seconds"),
        ("--data /nowhere/at/all", "--data"),
        ("--json /nowhere/at/all", "--json"),
        ("--plot /nowhere/at/all", "--plot"),
    ] {
        let output = quipu(folder.path(), args).assert().failure().code(2).get_output().clone();
        let error = String::from_utf8(output.stderr).expect("text");
        assert!(error.starts_with("error: ") && error.contains(flag), "{args}: {error}");
        assert!(output.stdout.is_empty(), "{args}");
    }
    assert_eq!(std::fs::read_dir(folder.path()).expect("it is there").count(), 0);
}
