//! Many clients race for the last units of a bounded counter, through kills.

use std::{net::SocketAddr, thread, time::Duration};

use crate::{
    harness::{Client, Site, Value, random::Random},
    kills,
};

const CLIENTS: usize = 64;
const UNITS: i64 = 4_000;
/// How long a server lives.
const LIFE_MS: std::ops::Range<u64> = 20..80;
/// And how many times longer on a database, where its first commit takes longer.
const LONGER_IN_DATABASE: u64 = 4;

/// One client, which takes one unit at a time until there is none.
struct Taker {
    name: String,
    command: &'static str,
    taken: i64,
    /// Sent, and nothing heard.
    unanswered: Option<u64>,
    last_id: u64,
    refused: bool,
}

impl Taker {
    /// Takes until there is no more, or the connection breaks.
    fn work(&mut self, server: SocketAddr) {
        let Ok(mut client) = Client::connect(server) else { return };
        while !self.refused {
            let id = self.unanswered.unwrap_or_else(|| {
                self.last_id += 1;
                self.last_id
            });
            self.unanswered = Some(id);
            let Ok(answer) = client.ask(&format!("{} IDMP {} {id}", self.command, self.name)) else { return };
            self.unanswered = None;
            match answer {
                Value::Integer(value) => {
                    assert!((0..=UNITS).contains(&value), "{value}");
                    self.taken += 1;
                }
                Value::Error(text) if text.starts_with("OUTOFBOUNDS") => self.refused = true,
                other => panic!("{other:?}"),
            }
        }
    }
}

fn race(create: &str, command: &'static str, end: i64, seed: &mut Random) -> u64 {
    let site = Site::new("--workers 2");
    let server = site.start();
    assert_eq!(server.client().call(create), Value::ok());
    server.kill();
    let new = |number| Taker {
        name: format!("taker-{number}"),
        command,
        taken: 0,
        unanswered: None,
        last_id: 0,
        refused: false,
    };
    let mut takers: Vec<Taker> = (0..CLIENTS).map(new).collect();
    let mut lives = 0;
    while takers.iter().any(|taker| !taker.refused) {
        lives += 1;
        let server = site.start();
        let address = server.resp;
        let longer = if site.is_in_database() { LONGER_IN_DATABASE } else { 1 };
        let life_ms = LIFE_MS.start + seed.below(LIFE_MS.end - LIFE_MS.start);
        let life = Duration::from_millis(longer * life_ms);
        thread::scope(|scope| {
            for taker in &mut takers {
                scope.spawn(move || taker.work(address));
            }
            thread::sleep(life);
            server.kill();
        });
    }
    assert_eq!(takers.iter().map(|taker| taker.taken).sum::<i64>(), UNITS, "as many as there were");
    let server = site.start();
    assert_eq!(server.client().call("GET stock"), Value::Bulk(end.to_string().into_bytes()));
    server.stop();
    lives
}

#[test]
fn the_last_units_are_given_out_once() {
    let mut random = Random::announced("bounded");
    for _ in 0..kills(1, 50) {
        let down = race(&format!("COUNTER.CREATE stock MIN 0 VALUE {UNITS}"), "DECR stock", 0, &mut random);
        let up = race(&format!("COUNTER.CREATE stock MAX {UNITS}"), "INCR stock", UNITS, &mut random);
        println!("bounded: {UNITS} units given out over {down} and {up} lives");
    }
}
