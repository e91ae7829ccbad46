//! These very tests on a machine without Redis: none of those that need it may count as passed.

use std::process::{Command, Output};

/// All tests here but this one, where no program can be found.
fn without_programs(required: &str) -> (bool, String) {
    let program = std::env::current_exe().expect("this program");
    let output = Command::new(program)
        .args(["--skip", "what_cannot_run", "--color", "never"])
        .env("PATH", "")
        .env("QUIPU_REQUIRE_CLIENTS", required)
        .env_remove("CI")
        .env_remove("QUIPU_INSTALL")
        .output();
    let Output { status, stdout, stderr } = output.expect("it runs");
    (status.success(), [stdout, stderr].map(|said| String::from_utf8_lossy(&said).into_owned()).concat())
}

pub(crate) fn what_cannot_run_is_not_passed() {
    let (succeeded, said) = without_programs("0");
    assert!(succeeded, "{said}");
    // The one that passes needs nothing.
    assert!(said.contains("1 passed; 0 failed; 7 ignored"), "{said}");
    assert_eq!(said.matches("SKIPPED, and not passed: ").count(), 7, "{said}");
    assert!(said.contains("redis_cli_counts_and_lists: redis-cli is not installed"), "{said}");

    let (succeeded, said) = without_programs("1");
    assert!(!succeeded && said.contains("1 passed; 7 failed; 0 ignored"), "{said}");
}
