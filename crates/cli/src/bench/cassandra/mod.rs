//! `quipu bench cassandra`: our adds on a Cassandra beside that Cassandra's own counters.
//!
//! A [`database`] is started, or used that is there. On it run ordinary [`server`]s, each with a number of shards of its own,
//! and the database's [`counters`]; all take turns in every round, under the same load. [`report`] says what that has shown.

mod args;
mod counters;
mod database;
mod report;
mod server;

pub(crate) use args::Args;

use self::counters::Counters;
use self::database::Database;
use self::server::Server;
use crate::bench::keys::Distribution;
use crate::bench::load::{End, Load};
use crate::bench::round::Measured;
use crate::bench::sites::write;
use crate::commands::sim::output::print;
use crate::commands::sim::progress;
use crate::failure::Failure;
use crate::interrupt::{self, go_on};
use indicatif::ProgressBar;
use std::time::Duration;

/// All rounds under one load.
struct Work {
    keys: u32,
    pipeline: usize,
    rounds: Vec<Round>,
}

/// One round of everybody.
struct Round {
    /// One for each number of shards and nodes.
    ours: Vec<Ours>,
    theirs: Measured,
}

/// What a round of a server has shown.
struct Ours {
    measured: Measured,
    /// Conditional writes that it took.
    commits: u64,
}

impl Round {
    /// How many of our adds there are for each of theirs in the same time.
    fn ratio(&self, server: usize) -> f64 {
        self.ours[server].measured.per_second() / self.theirs.per_second()
    }
}

/// All that take part.
struct Scene {
    servers: Vec<Server>,
    counters: Counters,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    // Before anything is started: whoever stops it then still gets an orderly end.
    let _ = interrupt::flag();
    let folder = args.check()?;
    let bar = progress::bar("");
    bar.set_prefix("starting");
    let mut database = Database::open(args)?;
    let works = Scene::start(args, &mut database, folder.path()).and_then(|scene| scene.measure(args, &bar));
    bar.finish_and_clear();
    let closed = database.close();
    let works = works?;
    closed?;
    print(&report::text(args, &works))?;
    write(args.json.as_deref(), || Ok(format!("{:#}\n", report::json(args, &works))))?;
    write(args.plot.as_deref(), || report::svg(args, &works).map_err(Failure::failed))
}

impl Scene {
    fn start(args: &Args, database: &mut Database, folder: &std::path::Path) -> Result<Self, Failure> {
        let counters = Counters::open(database)?;
        let start = |point| Server::start(database, point, folder);
        Ok(Self { servers: args.points().into_iter().map(start).collect::<Result<_, _>>()?, counters })
    }

    fn measure(mut self, args: &Args, bar: &ProgressBar) -> Result<Vec<Work>, Failure> {
        let loads = args.keys.len() * args.pipeline.len();
        let steps = (loads * (1 + args.rounds)) as f64;
        let mut works: Vec<Work> = Vec::new();
        for &keys in &args.keys {
            for &pipeline in &args.pipeline {
                let load = load(args, keys, pipeline);
                bar.set_prefix(report::load_label(keys, pipeline));
                let mut rounds = Vec::new();
                for round in 0..=args.rounds {
                    let measured = self.round(&load, round)?;
                    // The first one is for warming up.
                    if round > 0 {
                        rounds.push(measured);
                    }
                    progress::show(bar, (works.len() * (1 + args.rounds) + round + 1) as f64 / steps);
                }
                works.push(Work { keys, pipeline, rounds });
            }
        }
        self.servers.into_iter().try_for_each(Server::stop)?;
        Ok(works)
    }

    /// Who begins changes from round to round, so that what drifts on the machine touches all alike.
    fn round(&mut self, load: &Load, number: usize) -> Result<Round, Failure> {
        let mut servers: Vec<&mut Server> = self.servers.iter_mut().collect();
        if number.is_multiple_of(2) {
            let ours =
                servers.iter_mut().map(|server| server.round(load, number)).collect::<Result<_, _>>()?;
            return Ok(Round { ours, theirs: self.counters.round(load, number)? });
        }
        let theirs = self.counters.round(load, number)?;
        let ours = servers.iter_mut().rev().map(|server| server.round(load, number));
        let mut ours: Vec<Ours> = ours.collect::<Result<_, _>>()?;
        ours.reverse();
        Ok(Round { ours, theirs })
    }
}

fn load(args: &Args, keys: u32, pipeline: usize) -> Load {
    Load {
        connections: args.connections,
        pipeline,
        keys,
        distribution: Distribution::Uniform,
        reads: 0.0,
        run: String::new(),
        seed: args.seed,
        end: End::After(Duration::from_secs_f64(args.seconds)),
        wave_every: None,
    }
}

/// A count that is not what was acknowledged is a failure of everything else that was measured. What ended in an error
/// may have been counted.
fn must_be(who: &str, acknowledged: u64, unknown: u64, counted: i128) -> Result<(), Failure> {
    let allowed = i128::from(acknowledged)..=i128::from(acknowledged + unknown);
    if allowed.contains(&counted) {
        return go_on();
    }
    Err(Failure::failed(format!(
        "{who} acknowledged {acknowledged} adds, {unknown} ended in an error, and its counters add up to {counted}"
    )))
}
