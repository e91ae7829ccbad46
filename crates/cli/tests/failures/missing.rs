//! These very tests where namespaces are not permitted: the one that needs them may not count as passed.

use std::process::{Command, Output};

/// The test that needs namespaces, where no program that makes them can be found.
fn without_programs(required: &str) -> (bool, String) {
    let program = std::env::current_exe().expect("this program");
    let output = Command::new(program)
        .args(["--exact", "kills_in_network_namespaces", "--color", "never"])
        .env("PATH", "")
        .env("QUIPU_REQUIRE_NAMESPACES", required)
        .output();
    let Output { status, stdout, stderr } = output.expect("it runs");
    (status.success(), [stdout, stderr].map(|said| String::from_utf8_lossy(&said).into_owned()).concat())
}

pub(crate) fn what_cannot_run_is_not_passed() {
    let (succeeded, said) = without_programs("0");
    assert!(succeeded && said.contains("0 passed; 0 failed; 1 ignored"), "{said}");
    assert!(
        said.contains("SKIPPED, and not passed: kills_in_network_namespaces: unshare is not installed"),
        "{said}"
    );
    let (succeeded, said) = without_programs("1");
    assert!(!succeeded && said.contains("0 passed; 1 failed; 0 ignored"), "{said}");
}
