//! How often in a second an edge counts and reads by itself, with a file and in memory, beside what the disk can do.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use quipu_edge::Edge;

use super::args::Args;
use crate::failure::Failure;
use crate::interrupt::go_on;

/// Counters that are counted on.
const KEYS: usize = 100;
/// So many bytes are written and flushed, bare: about as much as an edge stores for a count.
const RECORD_BYTES: usize = 64;
/// Threads that share an edge.
const TOGETHER: usize = 16;

/// Something that is done again and again.
pub(super) struct Way {
    pub(super) label: &'static str,
    what: What,
    threads: usize,
    /// How often in a second, in each round.
    pub(super) per_second: Vec<f64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    /// Writes a record and flushes it: what all that is durable is measured by.
    Bare,
    Add {
        in_file: bool,
    },
    Read {
        in_file: bool,
    },
}

impl Way {
    /// Does it wait for the disk?
    pub(super) fn is_durable(&self) -> bool {
        matches!(self.what, What::Bare | What::Add { in_file: true })
    }
}

fn ways() -> [Way; 7] {
    let way = |label, what, threads| Way { label, what, threads, per_second: Vec::new() };
    [
        way("bare write and flush of 64 bytes", What::Bare, 1),
        way("add, in a file", What::Add { in_file: true }, 1),
        way("add, in a file, 16 threads", What::Add { in_file: true }, TOGETHER),
        way("add, in memory", What::Add { in_file: false }, 1),
        way("add, in memory, 16 threads", What::Add { in_file: false }, TOGETHER),
        way("value, in a file", What::Read { in_file: true }, 1),
        way("value, in memory", What::Read { in_file: false }, 1),
    ]
}

pub(super) fn measure(args: &Args, folder: &Path) -> Result<Vec<Way>, Failure> {
    let none: [&str; 0] = [];
    let alone = || Edge::options().only_when_asked();
    let in_file = alone().open(folder.join("state"), none).map_err(Failure::failed)?;
    let in_memory = alone().in_memory(none).map_err(Failure::failed)?;
    let mut bare = File::create_new(folder.join("bare")).map_err(Failure::failed)?;
    let mut ways = ways();
    let edge = |is_file: bool| if is_file { &in_file } else { &in_memory };
    for _ in 0..args.rounds {
        for way in &mut ways {
            go_on()?;
            let time = Duration::from_secs_f64(args.seconds);
            let rate = match way.what {
                What::Bare => flushes(&mut bare, time)?,
                What::Add { in_file } => together(way.threads, time, |at| add(edge(in_file), at))?,
                What::Read { in_file } => together(way.threads, time, |at| read(edge(in_file), at))?,
            };
            way.per_second.push(rate);
        }
    }
    Ok(ways.into())
}

fn add(edge: &Edge, at: usize) -> Result<(), Failure> {
    edge.add(format!("counter:{at:08}"), 1).map_err(Failure::failed)
}

fn read(edge: &Edge, at: usize) -> Result<(), Failure> {
    edge.value(format!("counter:{at:08}")).map(drop).map_err(Failure::failed)
}

fn flushes(file: &mut File, time: Duration) -> Result<f64, Failure> {
    let begun = Instant::now();
    let mut count = 0_u64;
    while begun.elapsed() < time {
        file.write_all(&[0; RECORD_BYTES]).and_then(|()| file.sync_data()).map_err(Failure::failed)?;
        count += 1;
    }
    Ok(count as f64 / begun.elapsed().as_secs_f64())
}

/// So many threads do the same until the time is over; how often in a second.
fn together(
    threads: usize,
    time: Duration,
    one: impl Fn(usize) -> Result<(), Failure> + Sync,
) -> Result<f64, Failure> {
    let next = AtomicUsize::new(0);
    let begun = Instant::now();
    let work = || -> Result<u64, Failure> {
        let mut count = 0;
        while begun.elapsed() < time {
            one(next.fetch_add(1, Ordering::Relaxed) % KEYS)?;
            count += 1;
        }
        Ok(count)
    };
    let count = thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        workers.into_iter().try_fold(0, |sum, worker| {
            Ok::<u64, Failure>(sum + worker.join().map_err(|_| Failure::failed("a thread has panicked"))??)
        })
    })?;
    Ok(count as f64 / begun.elapsed().as_secs_f64())
}
