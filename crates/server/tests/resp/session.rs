//! What Redis has no words for, and what needs more than one line: the commands of counters, refusals, both versions of
//! the protocol, limits.

use crate::support::{Conversation, Facts, check::replies, encode};
use proptest::prelude::*;
use quipu_engine::{Move, Right, SiteId};
use quipu_server::resp::{
    CLIENT_NAME_BYTES_MAX, EXEC_REPLY_BYTES_MAX, Excess, KEY_BYTES_MAX, OPERATION_ID_BYTES_MAX, OperationId,
    PATTERN_BYTES_MAX, Parsed, Parser, Peer, Protocol, QUEUED_BYTES_MAX, QUEUED_COMMANDS_MAX, Queued,
    Request, SCAN_COUNT_MAX, Session, SpreadWord, Step,
};

/// The request that one command is, or the text of the error.
fn with_request<T>(words: &[&[u8]], look: impl Fn(Result<Request<'_>, String>) -> T) -> T {
    let (facts, mut parser, mut out, sent) = (Facts::default(), Parser::new(), Vec::new(), encode(words));
    let parsed = parser.parse(&sent, Peer::Authenticated).expect("well formed");
    let Parsed::Command { arguments, .. } = parsed else { panic!("a whole command") };
    match Session::new(1, &facts).step(arguments, &mut out, &facts) {
        Step::Run(request) => look(Ok(request)),
        Step::Replied => look(Err(String::from_utf8(out).expect("text"))),
        other => panic!("{other:?}"),
    }
}

fn reads(line: &str, expected: Request<'_>) {
    let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
    with_request(&words, |request| assert_eq!(request, Ok(expected), "{line}"));
}

fn refuses(line: &str) -> String {
    let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
    with_request(&words, |request| request.expect_err(line))
}

#[test]
fn adds_with_and_without_an_id() {
    let key = b"k".as_slice();
    let operation = Some(OperationId { producer: b"p", id: b"7" });
    reads("INCR k", Request::Add { key, amount: 1, remote_ms: 0, operation: None });
    reads("decr k", Request::Add { key, amount: -1, remote_ms: 0, operation: None });
    reads("INCRBY k -5", Request::Add { key, amount: -5, remote_ms: 0, operation: None });
    reads(
        "DECRBY k 9223372036854775807",
        Request::Add { key, amount: -i64::MAX, remote_ms: 0, operation: None },
    );
    reads("INCR k IDMP p 7", Request::Add { key, amount: 1, remote_ms: 0, operation });
    reads("DECR k idmp p 7", Request::Add { key, amount: -1, remote_ms: 0, operation });
    reads("INCRBY k 5 IDMP p 7", Request::Add { key, amount: 5, remote_ms: 0, operation });
    reads("DECRBY k 5 IDMP p 7", Request::Add { key, amount: -5, remote_ms: 0, operation });
    assert_eq!(refuses("INCRBY k 5 IDMP p"), "-ERR wrong number of arguments for 'incrby' command\r\n");
    assert_eq!(refuses("INCRBY k IDMP p 7"), "-ERR wrong number of arguments for 'incrby' command\r\n");
    assert_eq!(refuses("INCRBY k x IDMP p 7"), "-ERR value is not an integer or out of range\r\n");
}

#[test]
fn increx_has_options_in_any_order() {
    let (key, operation) = (b"k".as_slice(), None);
    let plain = Request::AddWithin {
        key,
        amount: 1,
        lower: None,
        upper: None,
        excess: Excess::Skip,
        remote_ms: 0,
        operation,
    };
    reads("INCREX k", plain);
    let (lower, upper, operation) = (Some(-1), Some(10), Some(OperationId { producer: b"p", id: b"7" }));
    let full = Request::AddWithin {
        key,
        amount: 5,
        lower,
        upper,
        excess: Excess::Saturate,
        remote_ms: 0,
        operation,
    };
    reads("INCREX k BYINT 5 LBOUND -1 UBOUND 10 SATURATE IDMP p 7", full);
    reads("increx k saturate ubound 10 lbound -1 byint 5 idmp p 7", full);
    for wrong in [
        "INCREX k BYINT",
        "INCREX k FOO",
        "INCREX k BYINT 1 BYINT 1",
        "INCREX k SATURATE SATURATE",
        "INCREX k IDMP p",
        "INCREX k IDMP p 7 SATURATE",
    ] {
        assert_eq!(refuses(wrong), "-ERR syntax error\r\n", "{wrong}");
    }
    assert_eq!(refuses("INCREX k UBOUND x"), "-ERR value is not an integer or out of range\r\n");
    assert_eq!(refuses("INCREX"), "-ERR wrong number of arguments for 'increx' command\r\n");
    assert!(refuses("INCREX k LBOUND 5 UBOUND 4").contains("Correct LBOUND and UBOUND"));
    for option in ["EX 10", "px 10", "EXAT 10", "PXAT 10", "PERSIST", "ENX"] {
        let text = refuses(&format!("INCREX k {option}"));
        assert!(text.contains("is not supported: counters do not expire"), "{text}");
    }
    assert!(refuses("INCREX k BYFLOAT 0.5").contains("smaller unit"));
}

#[test]
fn adds_may_wait_for_other_sites() {
    let key = b"k".as_slice();
    let operation = Some(OperationId { producer: b"p", id: b"7" });
    reads("DECRBY k 5 REMOTE 200", Request::Add { key, amount: -5, remote_ms: 200, operation: None });
    reads("INCR k remote 60000 idmp p 7", Request::Add { key, amount: 1, remote_ms: 60_000, operation });
    reads("DECR k REMOTE 0", Request::Add { key, amount: -1, remote_ms: 0, operation: None });
    let (lower, upper, excess) = (None, None, Excess::Saturate);
    let within = Request::AddWithin { key, amount: -5, lower, upper, excess, remote_ms: 30, operation };
    reads("INCREX k BYINT -5 REMOTE 30 SATURATE IDMP p 7", within);
    let wrong_number = "-ERR wrong number of arguments for 'decrby' command\r\n";
    for wrong in [
        "DECRBY k 5 REMOTE",
        "DECRBY k 5 REMOTE 1 IDMP p",
        "DECRBY k 5 REMOTE 1 REMOTE 1",
        "DECRBY k 5 IDMP p 7 REMOTE 1",
    ] {
        assert_eq!(refuses(wrong), wrong_number, "{wrong}");
    }
    for wrong in ["INCREX k REMOTE", "INCREX k REMOTE 1 REMOTE 1", "INCREX k IDMP p 7 REMOTE 1"] {
        assert_eq!(refuses(wrong), "-ERR syntax error\r\n", "{wrong}");
    }
    assert_eq!(refuses("INCR k REMOTE soon"), "-ERR value is not an integer or out of range\r\n");
    for (wrong, given) in [("INCR k REMOTE 60001", "60001"), ("INCREX k REMOTE -1", "-1")] {
        let text = format!("-ERR REMOTE takes 0 to 60000 milliseconds, not {given}; nothing was done\r\n");
        assert_eq!(refuses(wrong), text);
    }
}

#[test]
fn creations_and_connections_wait_for_other_sites() {
    let key = b"k".as_slice();
    let create = Request::Create {
        key,
        minimum: Some(0),
        maximum: None,
        value: 0,
        spread: SpreadWord::Creator,
        wait_ms: Some(500),
    };
    reads("COUNTER.CREATE k MIN 0 WAIT 500", create);
    assert!(
        refuses("COUNTER.CREATE k MIN 0 WAIT 60001").starts_with("-ERR WAIT takes 0 to 60000 milliseconds")
    );
    assert_eq!(refuses("COUNTER.CREATE k WAIT"), "-ERR syntax error\r\n");
    assert_eq!(refuses("COUNTER.CREATE k WAIT 1 WAIT 1"), "-ERR syntax error\r\n");
    reads("WAIT 2 1000", Request::Wait { sites: 2, timeout_ms: 1_000 });
    reads("wait -1 0", Request::Wait { sites: 0, timeout_ms: 0 });
    assert_eq!(refuses("WAIT x 0"), "-ERR value is not an integer or out of range\r\n");
    assert_eq!(refuses("WAIT 1 1.5"), "-ERR timeout is not an integer or out of range\r\n");
    assert_eq!(refuses("WAIT 1 -1"), "-ERR timeout is negative\r\n");
    assert_eq!(refuses("WAIT 1"), "-ERR wrong number of arguments for 'wait' command\r\n");
}

#[test]
fn rights_are_moved_from_site_to_site() {
    let key = b"k".as_slice();
    let (from, to) = (SiteId::FIRST, SiteId { number: 2, incarnation: 1 });
    let rights = Move { amount: 100, right: None, from, to, wait_ms: 0 };
    reads("COUNTER.MOVE k 100 FROM 1 TO 2.1", Request::Move { key, rights, wait_said: false });
    let rights = Move { right: Some(Right::ToSubtract), wait_ms: 7, ..rights };
    reads(
        "counter.move k 100 to 2.1 rights subtract wait 7 from 1",
        Request::Move { key, rights, wait_said: true },
    );
    assert!(refuses("COUNTER.MOVE k 100 FROM one TO 2").starts_with("-ERR `one` is no site"));
    assert_eq!(refuses("COUNTER.MOVE k -1 FROM 1 TO 2"), "-ERR value is not an integer or out of range\r\n");
    for wrong in ["COUNTER.MOVE k 100 FROM 1 FROM 2", "COUNTER.MOVE k 1 FROM 1 TO 2 RIGHTS both"] {
        assert_eq!(refuses(wrong), "-ERR syntax error\r\n");
    }
    let text = refuses("COUNTER.MOVE k 100 FROM 1");
    assert_eq!(text, "-ERR wrong number of arguments for 'counter.move' command\r\n");
}

#[test]
fn a_transaction_does_not_wait_for_other_sites() {
    let mut conversation = Conversation::new(None);
    let refused = |text: String, option: &str| {
        assert!(text.contains(&format!("-ERR {option} waits for other sites")), "{text}");
        assert!(text.ends_with("-EXECABORT Transaction discarded because of previous errors.\r\n"), "{text}");
    };
    refused(conversation.say(&["MULTI", "INCR k REMOTE 5", "INCR k", "EXEC"]), "REMOTE");
    refused(conversation.say(&["MULTI", "INCREX k REMOTE 5", "EXEC"]), "REMOTE");
    refused(conversation.say(&["MULTI", "COUNTER.CREATE k MIN 0 WAIT 5", "EXEC"]), "WAIT");
    let text = conversation.say(&["MULTI", "INCR k REMOTE 0", "WAIT 1 0", "EXEC"]);
    assert!(text.starts_with("+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n:1\r\n"), "{text}");
}

#[test]
fn counters_are_created_within_their_bounds() {
    let key = b"k".as_slice();
    let spread = SpreadWord::Creator;
    reads(
        "COUNTER.CREATE k",
        Request::Create { key, minimum: None, maximum: None, value: 0, spread, wait_ms: None },
    );
    let (minimum, maximum) = (Some(1), Some(9));
    let create = |spread| Request::Create { key, minimum, maximum, value: 5, spread, wait_ms: None };
    reads("counter.create k max 9 min 1 value 5", create(SpreadWord::Creator));
    reads("counter.create k max 9 min 1 value 5 spread creator", create(SpreadWord::Creator));
    reads("counter.create k max 9 SPREAD even min 1 value 5", create(SpreadWord::Even));
    reads("counter.create k max 9 min 1 value 5 spread 1=3,2.1=5", create(SpreadWord::Shares(b"1=3,2.1=5")));
    for (shares, problem) in [
        ("odd", "`odd` is no share"),
        ("1=3,", "`` is no share"),
        ("1=-3", "`1=-3` is no share"),
        ("x=3", "`x` is no site"),
        ("1=3,1=4", "site 1 has two shares"),
    ] {
        let text = refuses(&format!("COUNTER.CREATE k MIN 0 SPREAD {shares}"));
        assert!(text.starts_with(&format!("-ERR {problem}")), "{text}");
    }
    assert_eq!(refuses("COUNTER.CREATE k MIN 0 SPREAD"), "-ERR syntax error\r\n");
    assert!(refuses("COUNTER.CREATE k MIN 1").starts_with("-ERR 0 does not lie from 1 to"));
    assert!(refuses("COUNTER.CREATE k MAX 9 VALUE 10").contains("Correct VALUE, MIN and MAX"));
    assert!(refuses("COUNTER.CREATE k MIN 9 MAX 1 VALUE 5").contains("5 does not lie from 9 to 1"));
    assert_eq!(refuses("COUNTER.CREATE k MIN"), "-ERR syntax error\r\n");
    assert_eq!(refuses("COUNTER.CREATE k MIN 1 MIN 1"), "-ERR syntax error\r\n");
    reads("COUNTER.INFO k", Request::Inspect { key });
    reads("COUNTER.RIGHTS k", Request::Rights { key });
    reads(
        "COUNTER.OUTCOME k p 7",
        Request::Outcome { key, operation: OperationId { producer: b"p", id: b"7" } },
    );
    assert_eq!(
        refuses("COUNTER.OUTCOME k p"),
        "-ERR wrong number of arguments for 'counter.outcome' command\r\n"
    );
}

#[test]
fn scans_look_at_so_many() {
    let scan = |cursor, count| Request::Scan { cursor, pattern: None, count, type_name: None };
    reads("SCAN 5", scan(5, 10));
    reads("SCAN 0 COUNT 100", scan(0, 100));
    reads("SCAN 0 COUNT 9223372036854775807", scan(0, SCAN_COUNT_MAX));
    reads(
        "SCAN 0 match a* type string",
        Request::Scan { cursor: 0, pattern: Some(b"a*"), count: 10, type_name: Some(b"string") },
    );
}

#[test]
fn lengths_are_checked() {
    let (long, longest) = (vec![b'k'; KEY_BYTES_MAX + 1], vec![b'k'; KEY_BYTES_MAX]);
    for command in
        ["INCR", "GET", "MGET", "EXISTS", "DEL", "TYPE", "COUNTER.CREATE", "COUNTER.INFO", "INCREX"]
    {
        for key in [&b""[..], &long] {
            let expected = format!("-ERR a key has 1 to 512 bytes, not {}; nothing was done\r\n", key.len());
            with_request(&[command.as_bytes(), key], |request| assert_eq!(request, Err(expected.clone())));
        }
        with_request(&[command.as_bytes(), &longest], |request| assert!(request.is_ok(), "{command}"));
    }
    let (long, longest) = (vec![b'i'; OPERATION_ID_BYTES_MAX + 1], vec![b'i'; OPERATION_ID_BYTES_MAX]);
    for (producer, id) in [(&b""[..], &b"7"[..]), (b"p", b""), (&long, b"7"), (b"p", &long)] {
        for words in
            [vec![&b"INCR"[..], b"k", b"IDMP", producer, id], vec![b"COUNTER.OUTCOME", b"k", producer, id]]
        {
            with_request(&words, |request| {
                assert!(request.expect_err("a length").contains("have 1 to 255 bytes each"));
            });
        }
    }
    with_request(&[b"INCR", b"k", b"IDMP", &longest, &longest], |request| assert!(request.is_ok()));
}

#[test]
fn refusals_say_what_to_use_instead() {
    for (line, instead) in [
        ("SET k hello", "INCRBY"),
        ("SET k 1.5", "whole number"),
        ("SET k 1 NX", "COUNTER.CREATE"),
        ("SET k 1 xx", "EXISTS"),
        ("SET k 1 GET", "INCRBY"),
        ("SET k 1 EX 10", "do not expire"),
        ("SET k 1 KEEPTTL", "do not expire"),
        ("INCRBYFLOAT k 1.5", "smaller unit"),
        ("hincrby k f 1", "INCRBY key:field n"),
        ("ZINCRBY k 1 m", "INCRBY key:member n"),
        ("EVAL x 0", "INCREX"),
        ("LPUSH k v", "INCR"),
        ("SADD k v", "IDMP"),
        ("EXPIRE k 5", "per period"),
        ("TTL k", "per period"),
        ("WATCH k", "INCREX"),
        ("SUBSCRIBE c", "over HTTP"),
        ("MSET a 1", "SET key n"),
        ("SETNX a 1", "COUNTER.CREATE"),
        ("GETSET a 1", "INCRBY"),
        ("SAVE", "by itself"),
        ("ACL WHOAMI", "configuration"),
        ("MONITOR", "INFO"),
        ("RENAME a b", "SET key n"),
        ("CONFIG SET save x", "start the server again"),
        ("CLIENT REPLY OFF", "every command is answered"),
    ] {
        let text = refuses(line);
        assert!(text.starts_with("-ERR ") && text.contains(instead), "{line}: {text}");
    }
    // Redis does not know them either.
    assert!(refuses("GETT k").starts_with("-ERR unknown command 'GETT'"));
    assert!(refuses("LPUSHY k").starts_with("-ERR unknown command 'LPUSHY'"));
}

#[test]
fn hello_introduces_the_server() {
    let mut conversation = Conversation::new(None);
    assert_eq!(
        conversation.say(&["HELLO 3"]),
        "%7\r\n$6\r\nserver\r\n$5\r\nquipu\r\n$7\r\nversion\r\n$5\r\n1.2.3\r\n$5\r\nproto\r\n:3\r\n$2\r\nid\r\n:1\r\n$4\r\nmode\r\n\
         $10\r\nstandalone\r\n$4\r\nrole\r\n$6\r\nmaster\r\n$7\r\nmodules\r\n*0\r\n"
    );
    assert_eq!(conversation.session.protocol(), Protocol::Resp3);
    assert!(conversation.say(&["HELLO"]).starts_with("%7\r\n"), "the version stays");
    assert!(conversation.say(&["HELLO 2 SETNAME joe"]).starts_with("*14\r\n"));
    assert_eq!(conversation.say(&["CLIENT GETNAME"]), "$3\r\njoe\r\n");
    assert_eq!(conversation.session.identity().name, "joe");
}

#[test]
fn a_password_opens_everything() {
    let mut conversation = Conversation::new(Some("secret"));
    assert_eq!(conversation.session.peer(), Peer::Unknown);
    assert!(conversation.say(&["HELLO 3 AUTH default secret SETNAME joe"]).starts_with("%7\r\n"));
    assert_eq!(conversation.session.peer(), Peer::Authenticated);
    assert_eq!(conversation.say(&["INCR k", "CLIENT GETNAME"]), ":1\r\n$3\r\njoe\r\n");
    assert!(conversation.say(&["RESET"]).starts_with("+RESET"));
    assert_eq!(conversation.session.peer(), Peer::Unknown);
    assert_eq!(conversation.session.protocol(), Protocol::Resp2);
}

#[test]
fn the_third_version_has_types_of_its_own() {
    let mut conversation = Conversation::new(None);
    conversation.say(&["HELLO 3"]);
    assert_eq!(conversation.say(&["GET nokey"]), "_\r\n");
    assert_eq!(conversation.say(&["CONFIG GET appendonly"]), "%1\r\n$10\r\nappendonly\r\n$2\r\nno\r\n");
    assert_eq!(conversation.say(&["INFO server"]), "=36\r\ntxt:# Server\r\nredis_version:7.0.15\r\n\r\n");
    assert!(
        conversation
            .say(&["COMMAND INFO incr"])
            .starts_with("*1\r\n*10\r\n$4\r\nincr\r\n:-2\r\n~1\r\n+write\r\n:1\r\n:1\r\n:1\r\n~2\r\n")
    );
    assert!(
        conversation.say(&["COMMAND DOCS incr"]).starts_with("%1\r\n$4\r\nincr\r\n%3\r\n$7\r\nsummary\r\n")
    );
}

#[test]
fn clients_say_who_they_are() {
    let mut conversation = Conversation::new(None);
    // What redis-py sends at the start.
    let start = ["CLIENT SETINFO LIB-NAME redis-py", "client setinfo lib-ver 5.0.1", "CLIENT SETNAME web"];
    assert_eq!(conversation.say(&start), "+OK\r\n+OK\r\n+OK\r\n");
    assert_eq!(conversation.say(&["CLIENT ID"]), ":1\r\n");
    let info = conversation.say(&["CLIENT INFO"]);
    for part in
        ["id=1 addr=127.0.0.1:1 ", "name=web ", "user=default", "resp=2", "lib-name=redis-py lib-ver=5.0.1\n"]
    {
        assert!(info.contains(part), "{info}");
    }
    assert_eq!(conversation.say(&["CLIENT LIST"]).matches("id=").count(), 2);
    assert!(conversation.say(&["CLIENT LIST ID 2 3"]).contains("id=2 "));
    assert_eq!(conversation.say(&["CLIENT NO-TOUCH ON"]), "+OK\r\n");
    assert_eq!(conversation.say(&["CLIENT SETINFO FOO x"]), "-ERR Unrecognized option 'FOO'\r\n");
    let long = format!("CLIENT SETNAME {}", "x".repeat(CLIENT_NAME_BYTES_MAX + 1));
    assert_eq!(conversation.say(&[&long]), "-ERR Client names have at most 512 bytes\r\n");
    assert_eq!(conversation.say(&["CLIENT GETNAME"]), "$3\r\nweb\r\n");
}

#[test]
fn the_server_is_asked_and_told() {
    let mut conversation = Conversation::new(None);
    assert_eq!(conversation.say(&["CONFIG RESETSTAT"]), "+OK\r\n");
    assert_eq!(conversation.facts.resets.get(), 1);
    assert_eq!(conversation.say(&["CONFIG GET *a* SAVE"]).matches('$').count(), 6);
    let count: usize = conversation.say(&["COMMAND COUNT"])[1..].trim_end().parse().expect("a number");
    assert_eq!(replies(conversation.say(&["COMMAND"]).as_bytes()), 1);
    assert!(conversation.say(&["COMMAND LIST"]).starts_with(&format!("*{count}\r\n")));
    assert_eq!(
        conversation.say(&["COMMAND LIST FILTERBY PATTERN incr*"]),
        "*3\r\n$4\r\nincr\r\n$6\r\nincrby\r\n$6\r\nincrex\r\n"
    );
    assert_eq!(conversation.say(&["COMMAND LIST FILTERBY ACLCAT transaction"]).matches('$').count(), 5);
    assert!(conversation.say(&["COMMAND INFO client|setname"]).contains("client|setname\r\n:3\r\n"));
    assert_eq!(conversation.say(&["COMMAND GETKEYS incr k IDMP p 7"]), "*1\r\n$1\r\nk\r\n");
    for help in ["CLIENT HELP", "COMMAND HELP", "CONFIG HELP"] {
        let text = conversation.say(&[help]);
        assert_eq!(replies(text.as_bytes()), 1);
        assert!(text.contains("Subcommands are:"), "{text}");
    }
}

#[test]
fn a_transaction_comes_out_in_order() {
    let facts = Facts::default();
    let (mut session, mut parser, mut out) = (Session::new(1, &facts), Parser::new(), Vec::new());
    let sent: Vec<u8> = ["MULTI", "INCR a", "PING", "INCRBY b x", "MGET a b", "EXEC"]
        .iter()
        .flat_map(|command| encode(&command.split(' ').collect::<Vec<_>>()))
        .collect();
    let (mut at, mut last) = (0, Step::Replied);
    while let Ok(Parsed::Command { arguments, consumed }) = parser.parse(&sent[at..], session.peer()) {
        last = match session.step(arguments, &mut out, &facts) {
            Step::RunAll(all) => Step::RunAll(all),
            Step::Replied => Step::Replied,
            other => panic!("{other:?}"),
        };
        at += consumed;
    }
    let Step::RunAll(all) = last else { panic!("{last:?}") };
    let [Queued::Run(first), Queued::Reply(second), Queued::Reply(third), Queued::Run(fourth)] = &all[..]
    else {
        panic!("{all:?}")
    };
    assert_eq!(first.get(), Request::Add { key: b"a", amount: 1, remote_ms: 0, operation: None });
    assert_eq!(
        (&second[..], &third[..]),
        (&b"+PONG\r\n"[..], &b"-ERR value is not an integer or out of range\r\n"[..])
    );
    assert!(matches!(fourth.get(), Request::GetAll { keys } if keys.iter().eq([b"a", b"b"])));
    assert!(!session.in_transaction());
}

#[test]
fn a_transaction_has_limits() {
    let large = encode(&["SET", "k", &"1".repeat(QUEUED_BYTES_MAX / 4)]);
    let mut conversation = Conversation::new(None);
    conversation.say(&["MULTI"]);
    let replied = (0..4)
        .flat_map(|_| {
            conversation.out.clear();
            conversation.receive(&large).to_vec()
        })
        .collect::<Vec<_>>();
    let replied = String::from_utf8(replied).expect("text");
    assert!(
        replied.starts_with("+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n-ERR a transaction has at most"),
        "{replied}"
    );
    assert_eq!(conversation.session.queued_bytes(), 0, "what will not run is not kept");
    let aborted = "-EXECABORT Transaction discarded because of previous errors.\r\n";
    assert_eq!(conversation.say(&["INCR a", "EXEC", "GET a"]), format!("+QUEUED\r\n{aborted}$-1\r\n"));

    conversation.say(&["MULTI"]);
    conversation.receive(&encode(&["PING"]).repeat(QUEUED_COMMANDS_MAX));
    assert!(conversation.out.ends_with(b"+QUEUED\r\n"));
    assert!(conversation.say(&["PING"]).starts_with("-ERR a transaction has at most"));
    assert_eq!(conversation.say(&["EXEC"]), aborted);
}

/// The longest reply that a command of a few bytes has, as often as a transaction takes it.
#[test]
fn the_replies_of_a_transaction_have_a_limit() {
    let mut conversation = Conversation::new(None);
    let once = conversation.say(&["COMMAND"]).len();
    conversation.say(&["MULTI"]);
    conversation.receive(&encode(&["COMMAND"]).repeat(QUEUED_COMMANDS_MAX));
    let replied = conversation.say(&["EXEC"]);
    assert!(replied.ends_with("this command was not run. Send smaller transactions\r\n"));
    let refused = "-ERR the replies about the connection".len() * 10 * QUEUED_COMMANDS_MAX;
    assert!(replied.len() < EXEC_REPLY_BYTES_MAX + once + refused, "{}", replied.len());
    assert_eq!(conversation.say(&["PING"]), "+PONG\r\n");
}

#[test]
fn patterns_are_not_too_long() {
    let (long, longest) = ("*".repeat(PATTERN_BYTES_MAX + 1), "*".repeat(PATTERN_BYTES_MAX));
    for command in ["KEYS", "SCAN 0 MATCH", "CONFIG GET", "COMMAND LIST FILTERBY PATTERN"] {
        let text = "-ERR a pattern has at most 1024 bytes, not 1025; nothing was done\r\n";
        let mut conversation = Conversation::new(None);
        assert_eq!(conversation.say(&[&format!("{command} {long}")]), text);
        assert!(conversation.say(&[&format!("{command} {longest}")]).starts_with('*'));
    }
}

proptest! {
    /// Every amount that fits gets through, forwards and backwards.
    #[test]
    fn amounts_get_through(amount: i64) {
        let text = amount.to_string();
        with_request(&[b"INCRBY", b"k", text.as_bytes()], |request| {
            assert_eq!(request, Ok(Request::Add { key: b"k", amount, remote_ms: 0, operation: None }));
        });
        with_request(&[b"DECRBY", b"k", text.as_bytes()], |request| match amount.checked_neg() {
            Some(amount) => assert_eq!(request, Ok(Request::Add { key: b"k", amount, remote_ms: 0, operation: None })),
            None => assert_eq!(request, Err("-ERR decrement would overflow\r\n".to_owned())),
        });
        with_request(&[b"SET", b"k", text.as_bytes()], |request| {
            assert_eq!(request, Ok(Request::Set { key: b"k", value: amount }));
        });
    }
}
