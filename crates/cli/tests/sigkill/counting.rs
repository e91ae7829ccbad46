//! Adds with ids and without, from many clients, through many kills.

use std::{
    fs, thread,
    time::{Duration, Instant},
};

use crate::{
    caller::{Caller, Durability, Keys, PLAIN_KEY, Sum},
    harness::{Client, Running, Site, Value, random::Random},
    kills,
};

const CALLERS: u64 = 8;
/// How long a server lives.
const LIFE_MS: std::ops::Range<u64> = 30..200;
/// Every so many lives all unanswered adds are repeated, and the sums must be exact.
const EXACT_EVERY: u64 = 5;
/// Every so many lives the server is killed before it is ready.
const EARLY_EVERY: u64 = 7;
const EARLY_MS_MAX: u64 = 40;
/// So many counters are read at once.
const READ_AT_ONCE: usize = 500;
/// So many of the counters are read after each kill; all of them at the end and whenever sums must be exact.
const SAMPLE: usize = 2_000;

/// Of two workers, each with a segment in use and one before it.
const SEGMENTS_MAX: usize = 4;
const CAUGHT_UP_WITHIN: Duration = Duration::from_secs(30);

struct Scenario {
    name: &'static str,
    flags: &'static str,
    durability: Durability,
    keys: Keys,
}

/// Some counters and their values.
fn values(client: &mut Client, keys: Keys, wanted: &[usize]) -> Vec<(usize, i64)> {
    let mut values = Vec::new();
    for page in wanted.chunks(READ_AT_ONCE) {
        let names: Vec<String> = page.iter().map(|key| keys.name(*key)).collect();
        let read = client.call(&format!("MGET {}", names.join(" "))).array();
        values.extend(page.iter().copied().zip(read.iter().map(Value::count)));
    }
    values
}

fn sum_of(callers: &[Caller], sum: impl Fn(&Caller) -> Sum) -> Sum {
    callers.iter().map(sum).fold(Sum::default(), |all, one| Sum {
        issued: all.issued + one.issued,
        acknowledged: all.acknowledged + one.acknowledged,
    })
}

fn assert_between(what: &str, value: i64, sum: Sum) {
    assert!(value >= sum.acknowledged, "{what} is {value}: acknowledged adds are lost ({sum:?})");
    assert!(value <= sum.issued, "{what} is {value}: more than was ever sent ({sum:?})");
}

/// Nothing acknowledged is missing, and nothing is there that nobody sent.
fn check_bounds(server: &Running, scenario: &Scenario, callers: &[Caller], random: &mut Random) {
    let mut client = server.client();
    let from = usize::try_from(random.below(scenario.keys.count() as u64)).expect("an index");
    let sample: Vec<usize> =
        (0..scenario.keys.count()).cycle().skip(from).take(SAMPLE.min(scenario.keys.count())).collect();
    for (key, value) in values(&mut client, scenario.keys, &sample) {
        assert_between(&scenario.keys.name(key), value, sum_of(callers, |caller| caller.sums[key]));
    }
    let plain = client.call(&format!("GET {PLAIN_KEY}")).count();
    assert_between(PLAIN_KEY, plain, sum_of(callers, |caller| caller.plain));
    callers.iter().for_each(|caller| caller.check_answers(&mut client));
}

/// After every unanswered add was repeated with its id, each counter is exactly what was issued.
fn check_exact(server: &Running, scenario: &Scenario, callers: &mut [Caller]) {
    let mut client = server.client();
    for caller in &mut *callers {
        caller.repeat(&mut client).expect("the server is not killed now");
    }
    let all: Vec<usize> = (0..scenario.keys.count()).collect();
    for (key, value) in values(&mut client, scenario.keys, &all) {
        let sum = sum_of(callers, |caller| caller.sums[key]);
        assert_eq!(sum.acknowledged, sum.issued, "everything has been answered");
        assert_eq!(value, sum.issued, "{}", scenario.keys.name(key));
    }
}

/// However often the process was killed, the table catches up with the log and the log is let go of.
fn check_log_is_short(site: &Site, server: &Running) {
    let segments = || {
        let files = fs::read_dir(site.data().join("log")).expect("the log's folder").flatten();
        files.filter(|file| file.path().extension().is_some_and(|kind| kind == "log")).count()
    };
    let until = Instant::now() + CAUGHT_UP_WITHIN;
    while segments() > SEGMENTS_MAX {
        let info = server.client().call("INFO persistence");
        assert!(Instant::now() < until, "{} segments are left: {info:?}", segments());
        thread::sleep(Duration::from_millis(50));
    }
}

fn run(scenario: &Scenario, kills: u64) {
    let mut random = Random::announced(scenario.name);
    let site = Site::new(scenario.flags);
    let new = |number| Caller::new(number, scenario.keys, scenario.durability, random.next());
    let mut callers: Vec<Caller> = (0..CALLERS).map(new).collect();
    let server = site.start();
    callers[0].fill(&mut server.client());
    server.kill();
    for life in 1..kills {
        if life % EARLY_EVERY == EARLY_EVERY - 1 {
            site.start_and_kill_after(Duration::from_millis(random.below(EARLY_MS_MAX)));
            continue;
        }
        let server = site.start();
        check_bounds(&server, scenario, &callers, &mut random);
        if life % EXACT_EVERY == EXACT_EVERY - 1 {
            check_exact(&server, scenario, &mut callers);
        }
        let address = server.resp;
        thread::scope(|scope| {
            for caller in &mut callers {
                scope.spawn(move || caller.work(address));
            }
            thread::sleep(Duration::from_millis(LIFE_MS.start + random.below(LIFE_MS.end - LIFE_MS.start)));
            server.kill();
        });
        callers.iter_mut().for_each(Caller::server_was_killed);
    }
    let server = site.start();
    check_bounds(&server, scenario, &callers, &mut random);
    check_exact(&server, scenario, &mut callers);
    let all =
        (0..scenario.keys.count()).map(|key| sum_of(&callers, |caller| caller.sums[key]).issued).sum::<i64>();
    println!("{}: {kills} kills; {all} counted, each once", scenario.name);
    assert!(all > 0);
    if !site.is_in_database() {
        check_log_is_short(&site, &server);
    }
    server.stop();
}

#[test]
fn every_acknowledged_add_is_there_and_every_repeat_counts_once() {
    let keys = Keys { hot: 5, cold: 0 };
    let scenario = Scenario { name: "counting", flags: "--workers 2", durability: Durability::Always, keys };
    run(&scenario, kills(50, 1));
}

/// More counters than fit into memory, so that the table is written and read all the time.
#[test]
fn kills_during_checkpoints_lose_nothing() {
    let scenario = Scenario {
        name: "checkpoints",
        flags: "--workers 2 --memory 16MiB",
        durability: Durability::Always,
        keys: Keys { hot: 5, cold: 40_000 },
    };
    run(&scenario, kills(20, 4));
}

/// The last adds may be lost here, though acknowledged; sent again with their ids they are there, once.
#[test]
fn what_an_interval_may_lose_can_be_repeated() {
    let scenario = Scenario {
        name: "interval",
        flags: "--workers 2 --durability interval:50",
        durability: Durability::Interval,
        keys: Keys { hot: 5, cold: 0 },
    };
    run(&scenario, kills(15, 4));
}
