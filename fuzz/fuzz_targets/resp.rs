//! Anything that a client may send, in pieces and at once: parser, session and grammar of the Redis protocol.
//!
//! `cargo +nightly fuzz run resp`. The checks are those of the tests, which also replay the corpus.

#![no_main]
#![allow(dead_code)]

#[path = "../../crates/server/tests/resp/support/mod.rs"]
mod support;

libfuzzer_sys::fuzz_target!(|data: &[u8]| support::check::check(data));
