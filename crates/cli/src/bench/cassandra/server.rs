//! Ordinary servers on the database that is measured: one, or several that share its shards and the load.

use super::args::Point;
use super::database::Database;
use super::{Ours, must_be};
use crate::bench::endpoint::Endpoint;
use crate::bench::load::{Contestant, Load, Tally};
use crate::bench::round::{self, Measured};
use crate::bench::verify::verify;
use crate::commands::cluster::site::Site;
use crate::failure::Failure;
use crate::interrupt::go_on;
use std::collections::BTreeMap;
use std::path::Path;
use std::thread;
use std::time::Duration;

/// For every answer. A commit of which nothing is heard is settled, or refused, before that.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);
/// What a server counts commits in.
const COMMITS: &str = "quipu_commit_seconds_count";

pub(super) struct Server {
    label: String,
    nodes: Vec<Site>,
    /// Answered in all rounds, by the number of keys.
    added: BTreeMap<u32, Tally>,
}

impl Server {
    pub(super) fn start(database: &mut Database, point: Point, folder: &Path) -> Result<Self, Failure> {
        let Point { shards, servers } = point;
        let label = format!("quipu with {shards} shards at {servers} nodes");
        let on = database.make_for_server(&format!("s{shards}n{servers}"))?;
        let mut nodes = Vec::new();
        for node in 0..servers {
            let folder = folder.join(format!("{shards}-{servers}-{node}"));
            std::fs::create_dir(&folder)
                .map_err(|error| Failure::failed(format!("cannot make {}: {error}", folder.display())))?;
            let mut site = Site::on(on.clone(), 1, folder);
            site.set_flags(&["--shards", &shards.to_string()]);
            site.start().map_err(Failure::failed)?;
            nodes.push(site);
        }
        Ok(Self { label, nodes, added: BTreeMap::new() })
    }

    fn contestant(&self, node: usize, keys: u32) -> Contestant {
        Contestant {
            label: self.label.clone(),
            endpoint: Endpoint::of_our_own(self.label.clone(), self.nodes[node].resp, ANSWER_WITHIN),
            with_ids: false,
            prefix: format!("of{keys}:"),
        }
    }

    /// A round, and whether all of it was counted.
    pub(super) fn round(&mut self, load: &Load, number: usize) -> Result<Ours, Failure> {
        let before = self.commits()?;
        let measured = self.load(load, number)?;
        go_on()?;
        if let Some(error) = &measured.first_error {
            return Err(Failure::failed(format!("{} answered with an error: {error}", self.label)));
        }
        let commits = self.commits()? - before;
        let contestant = self.contestant(0, load.keys);
        let added = self.added.entry(load.keys).or_default();
        added.include(measured.answered);
        let verified = verify(&contestant, load.keys, added.adds).map_err(Failure::failed)?;
        must_be(&self.label, added.adds, 0, verified.counted)?;
        Ok(Ours { measured, commits })
    }

    /// All nodes at the same time, each with its share of the connections.
    fn load(&self, load: &Load, number: usize) -> Result<Measured, Failure> {
        let count = self.nodes.len();
        let share = |node: usize| Load {
            connections: load.connections / count + usize::from(node < load.connections % count),
            seed: load.seed + node as u64,
            ..load.clone()
        };
        let measured: Vec<Result<Measured, Failure>> = thread::scope(|scope| {
            let rounds: Vec<_> = (0..count)
                .map(|node| {
                    let (contestant, load) = (self.contestant(node, load.keys), share(node));
                    scope.spawn(move || {
                        let measured = round::run(&contestant, &load, number, &mut |_| go_on().is_ok());
                        measured.map_err(Failure::failed)
                    })
                })
                .collect();
            rounds.into_iter().map(|round| round.join().expect("it has not panicked")).collect()
        });
        let mut measured = measured.into_iter();
        let mut all = measured.next().ok_or_else(|| Failure::failed("there are no nodes"))??;
        measured.try_for_each(|one| one.map(|one| all.include(one)))?;
        Ok(all)
    }

    fn commits(&self) -> Result<u64, Failure> {
        let ended = || Failure::failed(format!("{} has ended", self.label));
        let commits = |site: &Site| site.api().ok_or_else(ended)?.metric(COMMITS).map_err(Failure::failed);
        self.nodes.iter().map(commits).sum()
    }

    pub(super) fn stop(mut self) -> Result<(), Failure> {
        self.nodes.iter().for_each(Site::ask_to_stop);
        self.nodes.iter_mut().try_for_each(|site| site.wait().map_err(Failure::failed))
    }
}
