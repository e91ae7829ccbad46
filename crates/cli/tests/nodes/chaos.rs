//! Three nodes on a Cassandra of three: at random, nodes are killed or paused, and so is one of Cassandra's at a time,
//! while clients count. For how long is said by `QUIPU_CHAOS_SECONDS`.

use std::{
    thread,
    time::{Duration, Instant},
};

use crate::{
    crew::Crew,
    harness::{Client, random::Random},
    load,
    store::Store,
};

const CLIENTS: u64 = 12;
const SECONDS_DEFAULT: u64 = 10;
const REST_MS: u64 = 3_000;
/// How long a node is paused at most, and at least: for some of them others take over.
const PAUSE_MS: std::ops::Range<u64> = 200..9_000;
/// Every shard has some of these.
const PROBES: u64 = 48;
/// Whoever is asked by a probe answers within this time, or another one is asked.
const PROBE_WITHIN: Duration = Duration::from_secs(3);

pub(crate) fn chaos(mut store: Store) {
    let seconds = std::env::var("QUIPU_CHAOS_SECONDS").ok();
    let seconds = seconds.map_or(SECONDS_DEFAULT, |it| it.parse().expect("QUIPU_CHAOS_SECONDS is a number"));
    let mut random = Random::announced("chaos");
    let crew = Crew::start(&store.keyspace(), 3);
    load::prepare(&crew);
    let seed = random.next();
    let mut events = Events::default();
    let tally = load::count_while(&crew, CLIENTS, seed, || {
        let until = Instant::now() + Duration::from_secs(seconds);
        while Instant::now() < until {
            thread::sleep(Duration::from_millis(random.below(REST_MS)));
            let victim = usize::try_from(random.below(3)).expect("an index");
            match random.below(4) {
                0 | 1 => {
                    crew.kill(victim);
                    events.kills += 1;
                    events.takeovers.push(until_served(&crew, victim));
                    crew.start_node(victim);
                }
                2 => {
                    let pause = PAUSE_MS.start + random.below(PAUSE_MS.end - PAUSE_MS.start);
                    crew.signal(victim, "STOP");
                    events.pauses += 1;
                    thread::sleep(Duration::from_millis(pause));
                    crew.signal(victim, "CONT");
                }
                _ => {
                    store.nodes.kill(victim).expect("it is ours");
                    events.store_kills += 1;
                    thread::sleep(Duration::from_millis(random.below(REST_MS)));
                    store.nodes.restart(victim).expect("it starts again");
                    store.nodes.wait_until_ready().expect("all of them take writes");
                }
            }
        }
        crew.settle();
    });
    load::check(&crew, &tally);
    assert!(events.kills + events.pauses + events.store_kills > 0 && tally.acknowledged() > 0);
    let takeovers = events.told();
    println!(
        "chaos for {seconds} s: {} counted and {} spent, each once, {} refused because nothing was left; {} kills and {} \
         pauses of nodes, {} kills of Cassandra's; after a kill everything was answered again after {}; errors that clients \
         retried: {:?}; the longest wait of a client {:?}",
        tally.acknowledged(),
        tally.spent,
        tally.sold_out,
        events.kills,
        events.pauses,
        events.store_kills,
        takeovers,
        tally.errors,
        tally.longest,
    );
}

#[derive(Default)]
struct Events {
    kills: u64,
    pauses: u64,
    store_kills: u64,
    takeovers: Vec<Duration>,
}

impl Events {
    /// The shortest, the middle and the longest takeover.
    fn told(&mut self) -> String {
        self.takeovers.sort_unstable();
        match &self.takeovers[..] {
            [] => "nothing had to be taken over".to_owned(),
            all => {
                format!("{:?} to {:?}, {:?} in the middle", all[0], all[all.len() - 1], all[all.len() / 2])
            }
        }
    }
}

/// Waits until counters of all shards are answered by a node other than this one, and says how long that took.
fn until_served(crew: &Crew, gone: usize) -> Duration {
    let began = Instant::now();
    let other = (gone + 1) % crew.len();
    for probe in 0..PROBES {
        loop {
            let answer = Client::connect_within(crew.resp(other), PROBE_WITHIN)
                .and_then(|mut client| client.ask(&format!("GET probe:{probe}")));
            if answer.is_ok_and(|answer| !answer.is_error()) {
                break;
            }
            thread::sleep(Duration::from_millis(20));
        }
    }
    began.elapsed()
}
