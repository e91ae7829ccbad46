//! 200 edges count at three sites and a relay; edges and servers are killed with SIGKILL at random moments. In the end all
//! edges retire, every site shows every add that was reported, once, and nothing is left of any edge.
//!
//! Some 12 seconds of it in each run of the tests, with 40 processes of edges at a time. For longer, and with all 200 at
//! a time:
//!
//! ```console
//! $ QUIPU_KILL_SECONDS=180 cargo test -p quipu-cli --test failures edges
//! ```

mod books;
mod life;
pub(crate) mod program;
mod servers;

use std::{
    collections::VecDeque,
    path::PathBuf,
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

pub(crate) use self::books::a_value_tells_of_every_add;
use self::{books::Books, life::Life, servers::Servers};
use crate::{
    directory::Work,
    harness::{cluster::PATIENCE, random::Random},
};

const EDGES: usize = 200;
/// Processes of edges at a time, in the ordinary tests.
const AT_A_TIME: usize = 40;
const SECONDS: u64 = 12;
/// How many leave at a time in the end.
const LEAVE_AT_A_TIME: usize = 8;
/// Nobody may count anything when everybody has left.
const QUIET: Duration = Duration::from_secs(1);
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// An edge: a state file, and what its processes have reported.
#[derive(Debug)]
pub(crate) struct Edge {
    number: usize,
    state: PathBuf,
    books: Books,
    /// A command to retire was begun: there is nothing else to do until it succeeds.
    retires: bool,
    /// How often it has retired and begun anew.
    retired: u64,
    /// Its processes that were killed.
    kills: u64,
}

pub(crate) fn edges_and_servers_are_killed() {
    let given = std::env::var("QUIPU_KILL_SECONDS").ok();
    let seconds = given.as_ref().map(|text| text.parse().expect("QUIPU_KILL_SECONDS is a number"));
    let at_a_time = if seconds.is_some() { EDGES } else { AT_A_TIME };
    let mut random = Random::announced("edges");
    let folder = tempfile::tempdir().expect("a folder");
    let new = |number| Edge {
        number,
        state: folder.path().join(format!("{number}.quipu")),
        books: Books::new(number),
        retires: false,
        retired: 0,
        kills: 0,
    };
    let edges = Mutex::new((0..EDGES).map(new).collect::<VecDeque<_>>());
    let mut servers = Servers::start();
    let work_for = Duration::from_secs(seconds.unwrap_or(SECONDS));
    let killed = live_and_kill(&edges, &mut servers, at_a_time, work_for, &mut random);
    servers.start_all();
    let edges = leave(&edges, &servers, &mut random);
    check(&edges, &servers);
    let sum = |of: fn(&Edge) -> u64| edges.iter().map(of).sum::<u64>();
    let (adds, doubts) = (sum(|edge| edge.books.reported()), sum(|edge| edge.books.in_doubt()));
    let (kills, retired) = (sum(|edge| edge.kills), sum(|edge| edge.retired));
    assert!(adds > 0 && doubts > 0 && kills > 0 && killed > 0, "{adds} {doubts} {kills} {killed}");
    println!(
        "edges: {kills} kills of edges and {killed} of servers; {adds} adds were reported, each is counted once at every \
         site; of {doubts} more it was not reported before the kill, and {} of them are counted, once; {EDGES} edges \
         have retired, {} times in all, and nothing is left of them",
        servers.counted_in_doubt(&edges),
        retired,
    );
}

/// Edges live and are killed, `at_a_time` of them, while servers are. Returns how often a server was killed.
fn live_and_kill(
    edges: &Mutex<VecDeque<Edge>>,
    servers: &mut Servers,
    at_a_time: usize,
    work_for: Duration,
    random: &mut Random,
) -> u64 {
    let stop = AtomicBool::new(false);
    let addresses = servers.addresses();
    thread::scope(|scope| {
        let _work = Work(&stop);
        for _ in 0..at_a_time {
            let mut life = Life::new(addresses.clone(), Random::new(random.next()));
            let stop = &stop;
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    let mut edge = edges.lock().expect("no edge fails").pop_front().expect("enough of them");
                    life.live(&mut edge);
                    edges.lock().expect("no edge fails").push_back(edge);
                }
            });
        }
        let until = Instant::now() + work_for;
        let mut killed = 0;
        while Instant::now() < until {
            assert!(!edges.is_poisoned(), "a process of an edge has failed");
            killed += servers.disturb(random);
        }
        killed
    })
}

/// All edges hand over the rest and retire.
fn leave(edges: &Mutex<VecDeque<Edge>>, servers: &Servers, random: &mut Random) -> Vec<Edge> {
    let gone = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..LEAVE_AT_A_TIME {
            let mut life = Life::new(servers.addresses(), Random::new(random.next()));
            let gone = &gone;
            scope.spawn(move || {
                loop {
                    let Some(mut edge) = edges.lock().expect("no edge fails").pop_front() else { return };
                    life.leave(&mut edge);
                    gone.lock().expect("no edge fails").push(edge);
                }
            });
        }
    });
    gone.into_inner().expect("no edge has failed")
}

/// Every site shows what was reported, and no server keeps anything of an edge.
fn check(edges: &[Edge], servers: &Servers) {
    until_nothing(|| servers.missing(edges));
    until_nothing(|| servers.keep());
    thread::sleep(QUIET);
    assert_eq!(servers.missing(edges), None, "nothing changes any more");
    assert_eq!(servers.keep(), None);
    servers.balance();
}

/// Waits until there is nothing to be said any more.
fn until_nothing(wrong: impl Fn() -> Option<String>) {
    let until = Instant::now() + PATIENCE;
    while let Some(wrong) = wrong() {
        assert!(Instant::now() < until, "after {PATIENCE:?}: {wrong}");
        thread::sleep(LOOK_EVERY);
    }
}
