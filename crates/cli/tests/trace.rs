//! `quipu demo` and `quipu sim trace` as a user runs them.

use assert_cmd::Command;

fn quipu(args: &[&str]) -> std::process::Output {
    Command::cargo_bin("quipu").expect("the binary is built").args(args).output().expect("it runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("text")
}

#[test]
fn the_demonstration_ends_with_the_exact_sum() {
    let output = quipu(&["demo"]);
    assert!(output.status.success());
    assert!(text(&output.stdout).contains("3 + 4 + 10 + 20 + 5 = 42 at both sites"));
}

#[test]
fn a_trace_says_what_it_checked() {
    let output = quipu(&["sim", "trace", "--steps", "20000", "--lives"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("20000 steps with seed 1: no condition was violated"));
    assert_eq!(text(&output.stderr), "", "no progress bar where nobody watches");
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    let figures = || {
        let output = quipu(&["sim", "trace", "--steps", "20000", "--seed", "9", "--json"]);
        let mut value: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let object = value.as_object_mut().expect("an object");
        object.remove("seconds");
        object.remove("steps_per_second");
        value
    };
    let first = figures();
    assert_eq!(first, figures());
    assert_eq!(first["violations"], 0);
    assert!(first["tokens"].as_u64() > Some(0));
}

#[test]
fn impossible_flags_are_refused_by_name_before_anything_runs() {
    for (flag, value) in [("--clients", "0"), ("--servers", "0"), ("--roots", "1001"), ("--steps", "many")] {
        let output = quipu(&["sim", "trace", flag, value]);
        assert_eq!(output.status.code(), Some(2), "{flag} {value}");
        assert!(text(&output.stderr).contains(flag), "{flag} {value}: {}", text(&output.stderr));
        assert_eq!(text(&output.stdout), "");
    }
}
