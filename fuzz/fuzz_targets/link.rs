//! Anything that may arrive on the link port: as a stream of frames, as one frame with a right checksum, and as a message
//! that a shard takes in.
//!
//! `cargo +nightly fuzz run link`. The checks are those of the tests, which also replay the corpus.

#![no_main]
#![allow(dead_code)]

#[path = "../../crates/server/tests/links/check.rs"]
mod check;

libfuzzer_sys::fuzz_target!(|data: &[u8]| check::check(data));
