//! An edge in a program that does not end by itself: this test, started again with a state file. What it counts it says
//! on its standard output, before and after.

use std::{env, thread, time::Duration};

use quipu_edge::{Edge, SyncError};

use super::books::place;
use crate::harness::random::Random;

/// Set where the test is such a program: the number of the edge, that of its next add, a seed.
pub(super) const INSIDE: &str = "QUIPU_INSIDE_EDGE";
pub(super) const STATE: &str = "QUIPU_STATE";
pub(super) const SERVERS: &str = "QUIPU_SERVERS";
/// What it says of an add, with its number.
pub(super) const BEGUN: &str = "begun";
pub(super) const COUNTED: &str = "counted";
/// What must not happen, with what it is.
pub(super) const TROUBLE: &str = "trouble";

const SYNC_EVERY: Duration = Duration::from_millis(100);
const CONNECT_TIME_MAX: Duration = Duration::from_secs(1);
const ANSWER_TIME_MAX: Duration = Duration::from_secs(3);
const WAIT_MIN: Duration = Duration::from_millis(50);
const WAIT_MAX: Duration = Duration::from_secs(1);
const FLUSH_MAX: Duration = Duration::from_millis(200);
const PAUSE_MS_MAX: u64 = 600;

pub(crate) fn is_inside() -> bool {
    env::var_os(INSIDE).is_some()
}

/// Counts until it is killed.
pub(crate) fn inside() {
    let task = env::var(INSIDE).expect("it is set");
    let task: Vec<u64> = task.split(' ').map(|word| word.parse().expect("a number")).collect();
    let [number, first, seed] = task[..] else { panic!("three numbers, not {task:?}") };
    let number = usize::try_from(number).expect("a small number");
    let mut random = Random::new(seed);
    let servers = env::var(SERVERS).expect("it is set");
    let servers: Vec<&str> = servers.split(',').collect();
    let options = Edge::options().sync_every(SYNC_EVERY).back_off(WAIT_MIN, WAIT_MAX);
    let options = options.timeouts(CONNECT_TIME_MAX, ANSWER_TIME_MAX);
    let edge = options.open(env::var_os(STATE).expect("it is set"), &servers).expect("it opens");
    for add in usize::try_from(first).expect("a small number").. {
        thread::sleep(Duration::from_millis(random.below(PAUSE_MS_MAX)));
        let (key, amount) = place(number, add);
        match random.below(8) {
            0 => {
                let at = usize::try_from(random.below(servers.len() as u64)).expect("less than a length");
                edge.use_server(servers[at]).expect("an address");
            }
            1 => {
                edge.value(&key).expect("a value");
            }
            2 => complain(edge.sync().err()),
            3 => complain(edge.flush(FLUSH_MAX).err().and_then(|open| open.why)),
            _ => {}
        }
        println!("{BEGUN} {add}");
        edge.add(&key, amount).expect("it is counted");
        println!("{COUNTED} {add}");
    }
}

/// Servers are away all the time, and refuse while they start; nothing else may happen.
fn complain(why: Option<SyncError>) {
    match why {
        None | Some(SyncError::Unreachable { .. } | SyncError::Refused { .. }) => {}
        Some(other) => println!("{TROUBLE} {other}"),
    }
}
