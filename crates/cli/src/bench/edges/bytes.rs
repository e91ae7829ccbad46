//! What goes over the wire when an edge hands over what it has counted.

use std::path::Path;
use std::thread;
use std::time::Duration;

use super::args::Args;
use super::edge::{Agent, Done, Edge};
use super::must_be;
use super::server::Server;
use crate::commands::cluster::cable::Line;
use crate::failure::Failure;
use crate::interrupt::go_on;

/// When nothing more has come through the line for so long, all has.
const QUIET: Duration = Duration::from_millis(60);

/// Handoffs of edges that have counted on so many counters, to a server that they know.
pub(super) struct Handoff {
    pub(super) keys: u64,
    /// To each of the counters.
    pub(super) adds: u64,
    pub(super) rounds: Vec<Round>,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Round {
    /// The bodies of requests and answers.
    pub(super) done: Done,
    /// All that went through the connection, with what HTTP says.
    pub(super) wire_bytes: u64,
}

pub(super) fn measure(args: &Args, folder: &Path) -> Result<Vec<Handoff>, Failure> {
    let server = Server::start(folder)?;
    let line = Line::new().map_err(Failure::failed)?;
    line.aim(server.address());
    let agent = Agent::new(line.address)?;
    let (mut number, mut added) = (0, 0);
    let mut handoffs = Vec::new();
    for &keys in &args.touched {
        let mut rounds = Vec::new();
        for _ in 0..args.rounds {
            go_on()?;
            number += 1;
            added += keys * args.adds;
            rounds.push(hand_over(args, &agent, &line, number, keys)?);
        }
        handoffs.push(Handoff { keys, adds: args.adds, rounds });
    }
    must_be(added, server.counted()?)?;
    server.stop()?;
    Ok(handoffs)
}

fn hand_over(args: &Args, agent: &Agent, line: &Line, number: u64, keys: u64) -> Result<Round, Failure> {
    let mut edge = Edge::new(args.seed, number, usize::try_from(keys).unwrap_or(usize::MAX));
    for _ in 0..args.adds {
        for key in 0..keys {
            edge.add(format!("counter:{key:08}").as_bytes())?;
        }
    }
    let before = passed(line);
    let done = edge.hand_over(agent)?;
    Ok(Round { done, wire_bytes: passed(line) - before })
}

/// How much has come through: an answer may be here before it is counted.
fn passed(line: &Line) -> u64 {
    let mut before = line.passed();
    loop {
        thread::sleep(QUIET);
        let now = line.passed();
        if now == before {
            return now;
        }
        before = now;
    }
}
