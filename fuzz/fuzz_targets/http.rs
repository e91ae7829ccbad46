//! What arrives over HTTP: path segments, queries, cursors, the header of operation ids, bodies. Anything is read or
//! refused; what is read keeps the limits.

#![no_main]

use libfuzzer_sys::fuzz_target;
use quipu_engine::KEY_BYTES_MAX;
use quipu_server::http::decode::{self, LIST_LIMIT_MAX, ListRequest, Numbers, OPERATION_ID_BYTES_MAX};

fuzz_target!(|bytes: &[u8]| {
    // A body that is read is read the same when it is written again by somebody else.
    if let Ok(add) = decode::add(bytes) {
        let again = format!("{{\"amount\":\"{}\"}}", add.amount);
        assert_eq!(decode::add(again.as_bytes()).map(|add| add.amount), Ok(add.amount));
    }
    let _ = decode::create(bytes);
    let _ = decode::reset(bytes);
    if let Ok(id) = decode::operation_id(bytes) {
        assert!((1..=OPERATION_ID_BYTES_MAX).contains(&id.len()));
    }
    if (1..=KEY_BYTES_MAX).contains(&bytes.len()) {
        let query = format!("cursor={}", decode::write_cursor(bytes));
        assert_eq!(ListRequest::of_query(&query).map(|request| request.after), Ok(Some(bytes.to_vec())));
    }
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    assert!(decode::segment(text).len() <= text.len());
    let _ = Numbers::of_query(text);
    if let Ok(request) = ListRequest::of_query(text) {
        assert!((1..=LIST_LIMIT_MAX).contains(&request.limit));
        assert!(request.prefix.len() <= KEY_BYTES_MAX);
        assert!(request.after.is_none_or(|after| (1..=KEY_BYTES_MAX).contains(&after.len())));
    }
});
