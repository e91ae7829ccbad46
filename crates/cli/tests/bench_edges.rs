//! `quipu bench edges` in small: every edge is counted once, of those that have handed over nothing is left, and what is
//! written is whole. How long anything takes is not looked at.

use assert_cmd::Command;
use serde_json::Value;
use std::path::Path;
use std::time::Duration;

/// Seconds instead of minutes.
const SMALL: &str = "--edges 300 --clients 4 --keys 7 --touched 1,30 --adds 5 --idle 3 --idle-seconds 2 --rounds 2 \
                     --seconds 0.1";

fn quipu(temporary: &Path, args: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_quipu"));
    command.args(["bench", "edges"]).args(SMALL.split_whitespace()).args(args.split_whitespace());
    command.env("TMPDIR", temporary).timeout(Duration::from_secs(240));
    command
}

/// What it prints; nothing is left behind.
fn text(args: &str) -> String {
    let folder = tempfile::tempdir().expect("a folder");
    let output = quipu(folder.path(), args).assert().success().get_output().clone();
    let left = std::fs::read_dir(folder.path()).expect("it is there").count();
    assert_eq!(left, 0, "the servers' folders are removed");
    String::from_utf8(output.stdout).expect("text")
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("no number: {value}"))
}

fn list(value: &Value) -> &Vec<Value> {
    value.as_array().unwrap_or_else(|| panic!("no list: {value}"))
}

#[test]
fn all_four_are_measured() {
    let folder = tempfile::tempdir().expect("a folder");
    let (json, plot) = (folder.path().join("run.json"), folder.path().join("run.svg"));
    let text = text(&format!("--json {} --plot {}", json.display(), plot.display()));
    assert!(text.contains("| slots, folded slots, tokens after | 0, 0, 0 |\n"), "{text}");
    assert!(text.contains("| requests for each | 2.00 |\n"), "{text}");
    assert!(text.contains("| slots, tokens | 0, 0 |\n| requests per minute of each | 0.00 |\n"), "{text}");
    // A table for each: a line of dashes after its head, and as many cells in every row.
    let tables: Vec<&str> = text.split("\n\n").collect();
    assert_eq!(tables.len(), 4, "{text}");
    for table in tables {
        let cells: Vec<usize> = table.lines().map(|line| line.matches('|').count()).collect();
        assert!(cells.len() > 2 && cells.iter().all(|count| *count == cells[0]), "{table}");
        assert!(table.lines().nth(1).is_some_and(|line| line.starts_with("|---")), "{table}");
    }

    let run: Value = serde_json::from_str(&std::fs::read_to_string(json).expect("a file")).expect("JSON");
    assert_eq!(run["handoffs"]["requests"], 600);
    bytes_are_whole(list(&run["bytes"]));
    let idle = &run["idle"];
    assert_eq!((&idle["requests"], &idle["after"]["slots"]), (&0.into(), &0.into()), "nothing to say");
    // Asked about once in a second.
    assert!(number(&idle["requests_while_watching"]) >= 3.0, "{idle}");
    let counting = list(&run["counting"]);
    assert_eq!(counting.len(), 7);
    for way in counting {
        assert_eq!(list(&way["per_second"]).len(), 2);
        assert!(number(&way["over_bare"]["min"]) > 0.0, "{way}");
    }
    roxmltree::Document::parse(&std::fs::read_to_string(plot).expect("a file")).expect("SVG");
}

fn bytes_are_whole(bytes: &[Value]) {
    let [one, many] = bytes else { panic!("two: {bytes:?}") };
    assert_eq!(
        (&one["counters"], &many["counters"], &many["adds_to_each"]),
        (&1.into(), &30.into(), &5.into())
    );
    for (handoff, keys) in [(one, 1.0), (many, 30.0)] {
        for round in list(&handoff["rounds"]) {
            assert_eq!(round["requests"], 2);
            // Each key has 16 bytes and is sent once at least, and HTTP has words of its own.
            let (sent, received) = (number(&round["sent_bytes"]), number(&round["received_bytes"]));
            assert!(sent > keys * 16.0 && received > 0.0, "{round}");
            assert!(number(&round["wire_bytes"]) > sent + received, "{round}");
        }
    }
}

#[test]
fn edges_that_vanish_leave_a_slot_and_then_a_bit() {
    let text = text("--part handoffs --vanish");
    assert!(text.contains("| slots, folded slots, tokens after | 300, 0, 0 |\n"), "{text}");
    assert!(text.contains("| memory of a folded slot | "), "{text}");
}

#[test]
fn what_cannot_be_is_refused_before_anything_is_started() {
    let folder = tempfile::tempdir().expect("a folder");
    for (args, part) in [
        ("--seconds 0", "--seconds"),
        ("--idle-seconds -1", "--idle-seconds"),
        ("--part everything", "--part"),
        ("--json /nowhere/at/all", "--json"),
    ] {
        let output = quipu(folder.path(), args).assert().code(2).get_output().clone();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains(part), "{said}");
    }
}
