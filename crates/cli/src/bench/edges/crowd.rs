//! Very many edges that come, count once, hand over and go, against one server; or that vanish in the middle of it.
//!
//! An edge here is what it is everywhere, a shard that hands over, in memory and without a thread of its own, so that a
//! million of them fit into some minutes.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::args::Args;
use super::edge::{Agent, Done, Edge};
use super::must_be;
use super::server::{Server, Standing};
use crate::commands::sim::progress;
use crate::failure::Failure;
use crate::interrupt;
use crate::interrupt::go_on;

/// How often the progress is shown.
const SHOW_EVERY: Duration = Duration::from_millis(200);
/// For so many edges there is one plain add, to compare with.
const PLAIN_ONE_IN: u64 = 4;
/// Slots of edges that vanished are folded after so long, in the end.
const FOLD_AFTER: &str = "1s";

/// What a crowd has shown.
pub(super) struct Crowd {
    pub(super) done: Done,
    pub(super) seconds: f64,
    pub(super) before: Standing,
    pub(super) after: Standing,
    pub(super) end: End,
}

/// What became of the edges, and what else was measured.
pub(super) enum End {
    /// Beside them, plain adds over HTTP, by as many clients: so many in a second.
    HandedOver { plain_per_second: f64 },
    /// What is left of them when their slots are folded.
    Vanished { folded: Standing },
}

pub(super) fn measure(args: &Args, folder: &Path) -> Result<Crowd, Failure> {
    let mut server = Server::start(folder)?;
    // Some edges before the first look: what a server has of its first edges it keeps.
    let hand_over = |agent: &Agent, number: u64| live(args, number)?.hand_over(agent);
    let vanish = |agent: &Agent, number: u64| live(args, number)?.visit(agent);
    crowd("first edges", args, &server, 0..args.warm(), hand_over)?;
    let before = server.standing()?;
    let edges = args.warm()..args.warm() + args.edges;
    let begun = Instant::now();
    let done = match args.vanish {
        false => crowd("edges", args, &server, edges, hand_over)?,
        true => crowd("edges that vanish", args, &server, edges, vanish)?,
    };
    let seconds = begun.elapsed().as_secs_f64();
    let after = server.settled(if args.vanish { args.edges } else { 0 })?;
    let end = if args.vanish {
        must_be(args.warm(), server.counted()?)?;
        server.restart_with_ttl(FOLD_AFTER)?;
        End::Vanished { folded: server.folded(after.slots)? }
    } else {
        must_be(args.warm() + args.edges, server.counted()?)?;
        let adds = args.edges.div_ceil(PLAIN_ONE_IN);
        let begun = Instant::now();
        crowd("plain adds", args, &server, 0..adds, |agent, number| agent.add(&key(args, number)))?;
        End::HandedOver { plain_per_second: adds as f64 / begun.elapsed().as_secs_f64() }
    };
    server.stop()?;
    Ok(Crowd { done, seconds, before, after, end })
}

fn key(args: &Args, number: u64) -> String {
    format!("edges:{}", number % args.keys)
}

/// An edge that has counted once.
fn live(args: &Args, number: u64) -> Result<Edge, Failure> {
    let mut edge = Edge::new(args.seed, number, 1);
    edge.add(key(args, number).as_bytes())?;
    Ok(edge)
}

/// All of these, some at a time.
fn crowd(
    label: &str,
    args: &Args,
    server: &Server,
    numbers: std::ops::Range<u64>,
    one: impl Fn(&Agent, u64) -> Result<Done, Failure> + Sync,
) -> Result<Done, Failure> {
    let count = (numbers.end - numbers.start).max(1);
    let (next, ended) = (AtomicU64::new(numbers.start), AtomicU64::new(0));
    let bar = progress::bar(label);
    let work = || -> Result<Done, Failure> {
        let agent = server.agent()?;
        let mut done = Done::default();
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= numbers.end || interrupt::flag().load(Ordering::Relaxed) {
                return Ok(done);
            }
            done.add(one(&agent, number)?);
            ended.fetch_add(1, Ordering::Relaxed);
        }
    };
    let done = thread::scope(|scope| {
        let workers: Vec<_> = (0..args.clients).map(|_| scope.spawn(work)).collect();
        while workers.iter().any(|worker| !worker.is_finished()) {
            thread::sleep(SHOW_EVERY.min(Duration::from_millis(count)));
            progress::show(&bar, ended.load(Ordering::Relaxed) as f64 / count as f64);
        }
        let mut all = Done::default();
        for worker in workers {
            all.add(worker.join().map_err(|_| Failure::failed("a thread has panicked"))??);
        }
        Ok::<_, Failure>(all)
    });
    bar.finish_and_clear();
    go_on()?;
    done
}
