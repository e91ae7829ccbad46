//! Every form that is read, and those that are not.

use super::*;
use proptest::prelude::*;

#[test]
fn segments_hold_any_bytes() {
    assert_eq!(segment("plain"), b"plain");
    assert_eq!(segment("a%2Fb%20c+d"), b"a/b c+d");
    assert_eq!(segment("%00%ff"), [0, 255]);
    assert_eq!(segment("100%"), b"100%", "a percent sign that encodes nothing is one");
}

#[test]
fn parameters_are_found_once() {
    let query = "prefix=a%26b+c&limit=5&flag";
    assert_eq!(parameter(query, "prefix"), Ok(Some(b"a&b c".to_vec())));
    assert_eq!(parameter(query, "flag"), Ok(Some(Vec::new())));
    assert_eq!(parameter(query, "other"), Ok(None));
    assert!(parameter("a=1&a=2", "a").expect_err("twice").contains("twice"));
}

#[test]
fn numbers_are_written_as_asked() {
    assert_eq!(Numbers::of_query(""), Ok(Numbers::Number));
    assert_eq!(Numbers::of_query("values=number"), Ok(Numbers::Number));
    assert_eq!(Numbers::of_query("values=string"), Ok(Numbers::Text));
    assert!(Numbers::of_query("values=hex").expect_err("unknown").contains("`hex`"));
}

#[test]
fn listings_have_limits() {
    let request = ListRequest::of_query("").expect("nothing is needed");
    assert_eq!(request, ListRequest { prefix: vec![], after: None, limit: LIST_LIMIT_DEFAULT });
    let query = format!("prefix=p%00&limit=7&cursor={}", write_cursor(b"\xff/"));
    let request = ListRequest::of_query(&query).expect("all given");
    assert_eq!(request, ListRequest { prefix: b"p\0".to_vec(), after: Some(b"\xff/".to_vec()), limit: 7 });
    for query in [
        "limit=0",
        "limit=1001",
        "limit=-1",
        "limit=",
        "limit=ten",
        "cursor=",
        "cursor=%",
        "cursor=a",
        "limit=1&limit=1",
    ] {
        assert!(ListRequest::of_query(query).is_err(), "{query}");
    }
    let long = "x".repeat(KEY_BYTES_MAX + 1);
    assert!(ListRequest::of_query(&format!("prefix={long}")).is_err());
    assert!(ListRequest::of_query(&format!("cursor={}", write_cursor(long.as_bytes()))).is_err());
}

#[test]
fn an_operation_id_may_be_quoted() {
    assert_eq!(operation_id(b"8e03978e-40d5"), Ok(b"8e03978e-40d5".to_vec()));
    assert_eq!(operation_id(b"\"8e03978e-40d5\""), Ok(b"8e03978e-40d5".to_vec()));
    assert_eq!(operation_id(br#""a \"b\" \\""#), Ok(br#"a "b" \"#.to_vec()));
    for bad in [
        &b""[..],
        b"\"\"",
        b"\"open",
        b"\"a\"b",
        b"a\"b",
        b"a b",
        b"\xc3\xa9",
        b"\"\xc3\xa9\"",
        b"\"\\n\"",
        b"\"",
    ] {
        assert!(operation_id(bad).is_err(), "{bad:?}");
    }
    assert!(operation_id(&[b'x'; OPERATION_ID_BYTES_MAX]).is_ok());
    assert!(operation_id(&[b'x'; OPERATION_ID_BYTES_MAX + 1]).is_err());
}

#[test]
fn amounts_are_whole_numbers_of_64_bits() {
    for (text, amount) in [
        ("1", 1),
        ("-9223372036854775808", i64::MIN),
        ("9223372036854775807", i64::MAX),
        ("\"9223372036854775807\"", i64::MAX),
        ("\"-5\"", -5),
        ("2.0", 2),
        ("1e3", 1000),
        // Read in haste, these are a half or a whole off.
        ("4392364775934106.0", 4_392_364_775_934_106),
        ("7576434961819953.0", 7_576_434_961_819_953),
        ("-9007199254740991.0", -9_007_199_254_740_991),
        ("-0", 0),
    ] {
        assert_eq!(add(format!("{{\"amount\":{text}}}").as_bytes()), Ok(Add::of(amount)), "{text}");
    }
    for text in [
        "9223372036854775808",
        "-9223372036854775809",
        "\"9223372036854775808\"",
        "1e19",
        "1e400",
        "1.5",
        "9007199254740992.0",
        "9007199254740993.0",
        "\"\"",
        "\"+1\"",
        "\"00000000000000000001\"",
        "\" 1\"",
        "\"1.0\"",
        "true",
        "null",
        "[1]",
        "{}",
    ] {
        let problem = add(format!("{{\"amount\":{text}}}").as_bytes()).expect_err(text);
        assert!(problem.starts_with("the body is not what is asked for"), "{text}: {problem}");
    }
}

#[test]
fn bodies_are_read_whole() {
    assert_eq!(
        add(br#" {"amount": -3, "lower": "0", "upper": 10, "beyond": "saturate"} "#),
        Ok(Add { amount: -3, lower: Some(0), upper: Some(10), beyond: Beyond::Saturate, remote_ms: 0 })
    );
    assert_eq!(add(br#"{"amount":1,"beyond":"skip","lower":null}"#).expect("good").beyond, Beyond::Skip);
    assert_eq!(
        create(br#"{"min":0,"max":10,"value":4,"wait_ms":"70"}"#),
        Ok(CreateRequest {
            limits: Limits { minimum: Some(0), maximum: Some(10), initial: 4 },
            spread: OwnedSpread::Creator,
            wait_ms: 70
        })
    );
    let limits = Limits { minimum: None, maximum: None, initial: 0 };
    let spread = OwnedSpread::Creator;
    assert_eq!(create(b"{}"), Ok(CreateRequest { limits, spread, wait_ms: CREATE_WAIT_MS }));
    assert_eq!(add(br#"{"amount":1,"remote_ms":60000}"#).map(|add| add.remote_ms), Ok(SITES_WAIT_MS_MAX));
    assert_eq!(reset(br#"{"to":7}"#), Ok(7));
}

#[test]
fn other_bodies_are_refused_in_words() {
    for (body, part) in [
        ("", "empty"),
        ("[]", "not a JSON object"),
        ("[1,null,null,null]", "not a JSON object"),
        ("5", "not a JSON object"),
        ("{", "EOF"),
        ("{}", "missing field `amount`"),
        (r#"{"amount":1,"amount":2}"#, "duplicate field"),
        (r#"{"amount":1,"amout":2}"#, "unknown field `amout`"),
        (r#"{"amount":1,"beyond":"ignore"}"#, "refuse"),
        (r#"{"amount":1,"remote_ms":60001}"#, "from 0 to 60000"),
        (r#"{"amount":1,"remote_ms":-1}"#, "`remote_ms` is -1"),
        (r#"{"amount":1} x"#, "trailing"),
    ] {
        let problem = add(body.as_bytes()).expect_err(body);
        assert!(problem.contains(part), "{body}: {problem}");
    }
    let deep = format!("{{\"amount\":{}", "[".repeat(100_000));
    assert!(add(deep.as_bytes()).is_err());
    assert!(create(b"{\"min\":\xff}").is_err());
    assert!(create(br#"{"wait_ms":60001}"#).is_err_and(|problem| problem.contains("`wait_ms` is 60001")));
}

proptest! {
    #[test]
    fn cursors_come_back(key in proptest::collection::vec(any::<u8>(), 1..=KEY_BYTES_MAX)) {
        prop_assert_eq!(read_cursor(write_cursor(&key).as_bytes()), Ok(key));
    }

    #[test]
    fn random_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = (add(&bytes), create(&bytes), reset(&bytes));
        if let Ok(id) = operation_id(&bytes) {
            prop_assert!((1..=OPERATION_ID_BYTES_MAX).contains(&id.len()));
        }
        if let Ok(text) = std::str::from_utf8(&bytes) {
            prop_assert!(segment(text).len() <= text.len());
            if let Ok(request) = ListRequest::of_query(text) {
                prop_assert!((1..=LIST_LIMIT_MAX).contains(&request.limit));
            }
        }
    }
}

#[test]
fn rights_are_spread_and_moved_by_site() {
    let (one, restored) = (SiteId::FIRST, SiteId { number: 2, incarnation: 1 });
    for (text, expected) in [
        (r#""creator""#, OwnedSpread::Creator),
        (r#""even""#, OwnedSpread::Even),
        (r#"{"1": 300, "2.1": "200"}"#, OwnedSpread::Shares(vec![(one, 300), (restored, 200)])),
    ] {
        let body = format!(r#"{{"min": 0, "spread": {text}}}"#);
        assert_eq!(create(body.as_bytes()).map(|it| it.spread), Ok(expected));
    }
    for (text, problem) in [
        (r#""odd""#, "or shares by site"),
        ("7", "or shares by site"),
        (r#"{"x": 1}"#, "`x` is no site"),
        (r#"{"0": 1}"#, "`0` is no site"),
        (r#"{"1": -1}"#, "the share of site 1 is -1"),
    ] {
        let body = format!(r#"{{"min": 0, "spread": {text}}}"#);
        let said = create(body.as_bytes()).expect_err(text);
        assert!(said.contains(problem), "{text}: {said}");
    }
    let moved = move_rights(br#"{"amount": 5, "from": "1", "to": "2.1", "right": "add", "wait_ms": 70}"#);
    assert_eq!(
        moved,
        Ok(Move { amount: 5, right: Some(Right::ToAdd), from: one, to: restored, wait_ms: 70 })
    );
    let moved = move_rights(br#"{"amount": 5, "from": "1", "to": "2.1"}"#).expect("good");
    assert_eq!((moved.right, moved.wait_ms), (None, CREATE_WAIT_MS));
    assert!(move_rights(br#"{"amount": -5, "from": "1", "to": "2"}"#).is_err_and(|said| said.contains("-5")));
    assert!(move_rights(br#"{"amount": 5, "from": "one", "to": "2"}"#).is_err());
}
