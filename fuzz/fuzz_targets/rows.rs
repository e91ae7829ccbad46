//! Any bytes as a record or a row of a shard: refused, or read, written and read again, and gone on with.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    quipu_engine::fuzzing::rows(bytes);
});
