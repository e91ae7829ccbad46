//! Commands that one client has sent in one go, when the store is away: the answers come in the order of the commands.

use std::time::{Duration, Instant};

use crate::{
    database::Found,
    harness::{Client, Value, client::encode, cluster},
};

const DEADLINE: Duration = Duration::from_secs(1);
/// A request to the store takes up to two seconds until it is given up.
const SLACK: Duration = Duration::from_secs(4);

/// Sends all of them, then reads as many answers.
fn send(client: &mut Client, commands: &[&str]) -> Vec<Value> {
    let bytes: Vec<u8> = commands.iter().flat_map(|it| encode(&it.split(' ').collect::<Vec<_>>())).collect();
    client.write(&bytes).expect("it reads");
    commands.iter().map(|_| client.read().expect("a reply")).collect()
}

pub(crate) fn answers_in_order(database: Found) {
    let database = database.get();
    let site = database.site(&format!("--storage-deadline {}s", DEADLINE.as_secs()));
    let server = site.start();
    let mut client = server.client();
    let commands = ["INCR a", "PING", "INCR a", "GET a", "ECHO here"];
    let number = Value::Integer;
    let text = |text: &str| Value::Bulk(text.as_bytes().to_vec());
    let pong = Value::Simple("PONG".to_owned());
    assert_eq!(send(&mut client, &commands), [number(1), pong.clone(), number(2), text("2"), text("here")]);
    database.pause();
    // The first is in a commit, which stays undecided; what comes behind it was in none.
    let mut other = server.client();
    other.write(&encode(&["INCR", "a"])).expect("it reads");
    std::thread::sleep(Duration::from_millis(200));
    let start = Instant::now();
    let told = send(&mut client, &commands);
    assert!((DEADLINE..DEADLINE + SLACK).contains(&start.elapsed()), "{:?}", start.elapsed());
    let [first, second, third, read, last] = &told[..] else { panic!("{told:?}") };
    assert_eq!((second, last), (&pong, &text("here")));
    for refused in [first, third, read] {
        let Value::Error(said) = refused else { panic!("{told:?}") };
        assert!(said.starts_with("NOTSTORED ") && said.contains("nothing was counted"), "{said}");
    }
    let in_doubt = other.read().expect("a reply").text();
    assert!(in_doubt.starts_with("INDOUBT ") && in_doubt.contains("not known"), "{in_doubt}");
    // Transactions are withdrawn as a whole.
    let told = send(&mut client, &["MULTI", "INCR a", "INCR a", "EXEC"]);
    let Some(Value::Array(both)) = told.last() else { panic!("{told:?}") };
    assert!(both.iter().all(|it| it.text().starts_with("NOTSTORED ")), "{both:?}");
    database.resume();
    cluster::wait("counting goes on", || !client.call("INCR b").is_error());
    // The one in doubt was counted, since nobody has taken the shard; those that were taken back were not.
    cluster::wait("the value is known", || !client.call("GET a").is_error());
    assert_eq!(send(&mut client, &commands), [number(4), pong, number(5), text("5"), text("here")]);
    server.stop();
}
