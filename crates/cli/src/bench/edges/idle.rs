//! What an edge costs a server while it has nothing to say, and while it only watches a counter.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use quipu_edge::{Edge, Watch};

use super::args::Args;
use super::must_be;
use super::server::{Server, Standing};
use crate::commands::sim::progress;
use crate::failure::Failure;
use crate::interrupt::go_on;

/// Edges that come and go before the first look: what a server has of its first edges it keeps.
const FIRST: usize = 20;
/// How long an edge may take to hand over.
const HAND_OVER_MAX: Duration = Duration::from_secs(60);
/// How often is looked whether anybody wants to stop.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Counters that the edges share.
const KEYS: usize = 100;

/// What so many edges, each with threads and a connection of its own, have shown.
pub(super) struct Idle {
    pub(super) edges: usize,
    /// How long was waited.
    pub(super) seconds: f64,
    /// Without them.
    pub(super) before: Standing,
    /// When all of them have handed over what they had counted, and have been silent for that time.
    pub(super) after: Standing,
    /// Requests in that time, of all edges together.
    pub(super) requests: u64,
    /// The same when each watches a counter that does not change.
    pub(super) watching_requests: u64,
}

pub(super) fn measure(args: &Args, folder: &Path) -> Result<Idle, Failure> {
    let mut server = Server::start(folder)?;
    drop(edges(&server, FIRST)?);
    let before = server.settled(0)?;
    let bar = progress::bar("idle edges");
    let edges = edges(&server, args.idle)?;
    let requests = while_idle(args, &server)?;
    let after = server.settled(0)?;
    progress::show(&bar, 0.5);
    let watch = |(number, edge): (usize, &Edge)| edge.watch(key(number)).map_err(Failure::failed);
    let watches = edges.iter().enumerate().map(watch).collect::<Result<Vec<Watch>, Failure>>()?;
    let watching_requests = while_idle(args, &server)?;
    bar.finish_and_clear();
    drop((watches, edges));
    must_be((FIRST + args.idle) as u64, server.counted()?)?;
    server.stop()?;
    Ok(Idle { edges: args.idle, seconds: args.idle_seconds, before, after, requests, watching_requests })
}

fn key(number: usize) -> String {
    format!("idle:{}", number % KEYS)
}

/// Edges that have counted once each, and handed it over.
fn edges(server: &Server, count: usize) -> Result<Vec<Edge>, Failure> {
    let url = format!("http://{}", server.address());
    let mut edges = Vec::with_capacity(count);
    for number in 0..count {
        go_on()?;
        let edge = Edge::in_memory([&url]).map_err(Failure::failed)?;
        edge.add(key(number), 1).map_err(Failure::failed)?;
        edge.flush(HAND_OVER_MAX).map_err(Failure::failed)?;
        edges.push(edge);
    }
    Ok(edges)
}

/// Waits, and says how many exchanges there were meanwhile.
fn while_idle(args: &Args, server: &Server) -> Result<u64, Failure> {
    let before = server.exchanges()?;
    let until = Instant::now() + Duration::from_secs_f64(args.idle_seconds);
    while Instant::now() < until {
        go_on()?;
        thread::sleep(LOOK_EVERY.min(until.saturating_duration_since(Instant::now())));
    }
    Ok(server.exchanges()? - before)
}
