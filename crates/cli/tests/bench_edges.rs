//! `quipu bench edges` in small: every edge is counted once, and of those that have handed over nothing is left.

use assert_cmd::Command;
use std::time::Duration;

fn lines(args: &str) -> String {
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = Command::new(env!("CARGO_BIN_EXE_quipu"));
    command
        .args(["bench", "edges", "--edges", "300", "--clients", "4", "--keys", "7"])
        .args(args.split_whitespace());
    command.env("TMPDIR", folder.path()).timeout(Duration::from_secs(240));
    let output = command.assert().success().get_output().clone();
    assert_eq!(
        std::fs::read_dir(folder.path()).expect("it is there").count(),
        0,
        "the server's folder is removed"
    );
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn edges_that_hand_over_leave_nothing() {
    let text = lines("");
    assert!(text.contains("slots, folded, tokens      0 0 0\n"), "{text}");
    assert!(text.contains("requests for each          2.00\n"), "{text}");
}

#[test]
fn edges_that_vanish_leave_a_slot_and_then_a_bit() {
    let text = lines("--vanish");
    assert!(text.contains("slots, folded, tokens      300 0 0\n"), "{text}");
    assert!(text.contains("a folded slot"), "{text}");
}
