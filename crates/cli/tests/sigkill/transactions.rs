//! A transaction on keys with one hash tag is there after a kill, or it is not; never a part of it.

use std::{net::SocketAddr, thread, time::Duration};

use crate::{
    harness::{Client, Site, Value, client::encode, random::Random},
    kills,
};

const CLIENTS: usize = 6;
/// As many tags as this are shared by the clients.
const TAGS: usize = 3;
/// So many counters with one tag change together.
const KEYS: usize = 40;
/// How long a server lives.
const LIFE_MS: std::ops::Range<u64> = 30..150;

#[derive(Debug, Default)]
struct Sender {
    tag: usize,
    issued: i64,
    acknowledged: i64,
}

fn key(tag: usize, number: usize) -> String {
    format!("{{tag-{tag}}}:{number}")
}

/// One added to each counter of a tag, all in one write.
fn transaction(tag: usize) -> Vec<u8> {
    let adds = (0..KEYS).flat_map(|number| encode(&["INCR", &key(tag, number)]));
    encode(&["MULTI"]).into_iter().chain(adds).chain(encode(&["EXEC"])).collect()
}

impl Sender {
    /// Transactions until the connection breaks.
    fn work(&mut self, server: SocketAddr) {
        let Ok(mut client) = Client::connect(server) else { return };
        loop {
            self.issued += 1;
            let sent = client.write(&transaction(self.tag));
            let heard = (0..KEYS + 2).map(|_| client.read());
            let Ok(replies) = sent.and_then(|()| heard.collect::<std::io::Result<Vec<_>>>()) else { return };
            let values = replies.into_iter().next_back().expect("EXEC is answered").array();
            assert_eq!(values.len(), KEYS);
            // Others add to the same counters, and no transaction is seen half done.
            assert!(values.iter().all(|value| *value == values[0]), "{values:?}");
            self.acknowledged += 1;
        }
    }
}

#[test]
fn a_transaction_is_stored_whole_or_not_at_all() {
    let mut random = Random::announced("transactions");
    let kills = kills(20, 4);
    let site = Site::new("--workers 2");
    let mut clients: Vec<Sender> =
        (0..CLIENTS).map(|number| Sender { tag: number % TAGS, ..Sender::default() }).collect();
    for _ in 0..kills {
        let server = site.start();
        let address = server.resp;
        thread::scope(|scope| {
            for client in &mut clients {
                scope.spawn(move || client.work(address));
            }
            thread::sleep(Duration::from_millis(LIFE_MS.start + random.below(LIFE_MS.end - LIFE_MS.start)));
            server.kill();
        });
        check(&site, &clients);
    }
    let acknowledged: i64 = clients.iter().map(|client| client.acknowledged).sum();
    println!("transactions: {kills} kills; {acknowledged} transactions of {KEYS} adds acknowledged");
    assert!(acknowledged > 0);
}

/// All counters of a tag are the same, and lie between what was acknowledged and what was sent.
fn check(site: &Site, clients: &[Sender]) {
    let server = site.start();
    let mut reader = server.client();
    for tag in 0..TAGS {
        let names: Vec<String> = (0..KEYS).map(|number| key(tag, number)).collect();
        let values = reader.call(&format!("MGET {}", names.join(" "))).array();
        assert!(values.iter().all(|value| *value == values[0]), "a part of a transaction: {values:?}");
        let (value, mine) = (values[0].count(), clients.iter().filter(|client| client.tag == tag));
        let (issued, acknowledged) =
            mine.fold((0, 0), |sum, client| (sum.0 + client.issued, sum.1 + client.acknowledged));
        assert!(
            (acknowledged..=issued).contains(&value),
            "{value}, {acknowledged} acknowledged, {issued} sent"
        );
    }
    assert_eq!(reader.call("PING"), Value::Simple("PONG".to_owned()));
    server.kill();
}
