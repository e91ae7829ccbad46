//! What the commands say where there are several sites: answers of sites that do not exist, as a server would give them.

use crate::{Server, err, out, quipu};
use serde_json::{Value, json};
use std::{
    io::{Read, Write},
    net::TcpListener,
    process::Output,
};

/// A server that answers every request with these books. The thread ends with the test's process.
fn site_with(books: &Value) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("http://{}", listener.local_addr().expect("it is bound"));
    let body = books.to_string();
    std::thread::spawn(move || {
        for mut client in listener.incoming().map_while(Result::ok) {
            let mut head = Vec::new();
            let mut byte = [0];
            while !head.ends_with(b"\r\n\r\n") && client.read_exact(&mut byte).is_ok() {
                head.push(byte[0]);
            }
            assert!(head.starts_with(b"GET /v1/audit "), "{}", head.escape_ascii());
            let length = body.len();
            let answer = format!(
                "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
            );
            // A client that has gone does not want it.
            let _ = client.write_all(answer.as_bytes());
        }
    });
    url
}

/// What a site knows of one: its number, what it has added, its position, its open ids.
type Row = (u16, u64, u64, u64);

fn books(site: u16, rows: &[Row]) -> Value {
    let amounts = |added: u64| json!({"added": added, "subtracted": 0});
    let sites: Vec<Value> = rows
        .iter()
        .map(|(site, added, position, open)| {
            let counted = amounts(*added);
            json!({"site": site.to_string(), "counted": counted, "position": position, "settled": 0, "open": open})
        })
        .collect();
    let own = rows.iter().find(|row| row.0 == site).map_or(0, |row| row.1);
    let shard = json!({
        "shard": 7, "issued": amounts(own), "set": amounts(0), "cancelled": amounts(0), "sites": sites,
    });
    let members: Vec<String> = rows.iter().map(|row| row.0.to_string()).collect();
    json!({"site": site.to_string(), "members": members, "shard_count": 64, "total": {}, "shards": [shard]})
}

fn audit(sites: &[&str], more: &[&str]) -> Output {
    let servers = sites.iter().flat_map(|site| ["--server", site]);
    let args: Vec<&str> = ["audit"].into_iter().chain(servers).chain(more.iter().copied()).collect();
    quipu("http://unused", &args)
}

#[test]
fn books_that_balance() {
    let rows = [(1, 5, 2, 0), (2, 7, 4, 0), (3, 0, 0, 0)];
    let sites = [1, 2, 3].map(|site| site_with(&books(site, &rows)));
    let sites = sites.each_ref().map(String::as_str);
    let output = audit(&sites, &[]);
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    assert!(
        out(&output).ends_with("the books balance: what the sites have issued is counted at all of them")
    );
    let second = out(&output).lines().nth(2).expect("a line for each").to_owned();
    let cells: Vec<&str> = second.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect();
    assert_eq!(cells, ["2", "+7 -0", "+0 -0", "+0 -0", "+7 -0", "0", sites[1]]);
    // In one flag, as the environment has it.
    let output = quipu(&sites.join(","), &["audit", "--json"]);
    let found: Value = serde_json::from_str(&out(&output)).expect("JSON");
    assert_eq!((output.status.code(), &found["balanced"]), (Some(0), &json!(true)));
    assert_eq!(found["sites"][1]["counted"], json!({"added": 7, "subtracted": 0}));
}

#[test]
fn what_is_in_flight_is_told() {
    let one = site_with(&books(1, &[(1, 5, 2, 0), (2, 1, 1, 0)]));
    let two = site_with(&books(2, &[(1, 5, 2, 0), (2, 7, 4, 1)]));
    let output = audit(&[&one, &two], &["--shards"]);
    assert_eq!(output.status.code(), Some(1), "{}", out(&output));
    let text = out(&output);
    assert!(text.contains("in flight from site 2 to 1: +6 -0"), "{text}");
    assert!(text.contains("  shard 7: +6 -0"), "{text}");
    assert!(err(&output).contains("do not balance yet"), "{}", err(&output));
    let output = audit(&[&one, &two], &["--json"]);
    let found: Value = serde_json::from_str(&out(&output)).expect("JSON");
    assert_eq!((output.status.code(), &found["balanced"]), (Some(1), &json!(false)));
    let gap = json!({"owner": "2", "observer": "1", "shard": 7, "added": 6, "subtracted": 0, "changes": 3});
    assert_eq!(found["in_flight"], json!([gap]));
    assert_eq!(found["sites"][1]["provisional_ids"], 1);
}

#[test]
fn without_all_sites_nothing_is_claimed() {
    let rows = [(1, 5, 2, 0), (2, 7, 4, 0)];
    let (one, two) = (site_with(&books(1, &rows)), site_with(&books(2, &rows)));
    let free = TcpListener::bind("127.0.0.1:0").expect("a free port").local_addr().expect("bound");
    let nobody = format!("http://{free}");
    for (sites, reason) in [
        (vec![&one[..]], "site 2 was not asked"),
        (vec![&one, &two, &nobody], "there is no server at"),
        (vec![&one, &one, &two], "both say that they are site 1"),
    ] {
        let output = audit(&sites, &[]);
        assert_eq!(output.status.code(), Some(2), "{}", out(&output));
        let text = err(&output);
        assert!(text.contains("cannot be told") && text.contains(reason), "{text}");
        assert!(!out(&output).contains("balance"), "{}", out(&output));
        let found: Value = serde_json::from_str(&out(&audit(&sites, &["--json"]))).expect("JSON");
        assert_eq!(found["balanced"], json!(null));
    }
    let other = site_with(&json!({"status": "live"}));
    assert_eq!(audit(&[&other], &[]).status.code(), Some(2), "no books at all");
    assert_eq!(audit(&["ftp://nowhere"], &[]).status.code(), Some(2));
}

#[test]
fn an_add_says_where_rights_are_and_may_wait_for_them() {
    let server = Server::start("");
    assert_eq!(server.says(&["create", "sites:stock", "--min", "0", "--value", "3", "--wait", "100"]), "3");
    let text = server.refuses(&["add", "sites:stock", "-5", "--remote", "200"]);
    assert!(text.contains("3 of the 33 units") && text.contains("site 2 holds 30"), "{text}");
    assert_eq!(server.says(&["add", "sites:stock", "-1", "--remote", "200"]), "2");
    let output = server.quipu(&["add", "hits", "--remote", "60001"]);
    assert_eq!(output.status.code(), Some(2), "{}", err(&output));
    let info = server.says(&["info", "sites:stock"]);
    assert!(info.contains("of that  4 may be taken back"), "{info}");
    let second = "site 2   added 9, subtracted 2; may subtract 3 (and 4 once an id is settled); heard from 1500 ms ago";
    assert!(info.lines().any(|line| line == second), "{info}");
}

#[test]
fn a_creation_names_the_sites_that_it_waits_for() {
    let server = Server::start("");
    let text = server.refuses(&["create", "sites:creating", "--min", "0", "--wait", "50"]);
    assert!(text.contains("site 2 has not answered yet; it will by itself then"), "{text}");
    let output = server.quipu(&["create", "sites:creating", "--min", "0", "--json"]);
    let answer: Value = serde_json::from_str(&out(&output)).expect("JSON");
    assert_eq!((output.status.code(), &answer["missing"]), (Some(1), &json!(["2"])));
}
