//! An ordinary server on the database that is measured.

use super::database::Database;
use super::{Ours, must_be};
use crate::bench::endpoint::Endpoint;
use crate::bench::load::{Contestant, Load, Tally};
use crate::bench::round;
use crate::bench::verify::verify;
use crate::commands::cluster::site::Site;
use crate::failure::Failure;
use crate::interrupt::go_on;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

/// For every answer. A commit of which nothing is heard is settled, or refused, before that.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);
/// What a server counts commits in.
const COMMITS: &str = "quipu_commit_seconds_count";

pub(super) struct Server {
    label: String,
    site: Site,
    /// Answered in all rounds, by the number of keys.
    added: BTreeMap<u32, Tally>,
}

impl Server {
    pub(super) fn start(database: &mut Database, shards: u16, folder: &Path) -> Result<Self, Failure> {
        let label = format!("quipu with {shards} shards");
        let folder = folder.join(shards.to_string());
        std::fs::create_dir(&folder)
            .map_err(|error| Failure::failed(format!("cannot make {}: {error}", folder.display())))?;
        let mut site = Site::on(database.make_for_server(&format!("s{shards}"))?, 1, folder);
        site.set_flags(&["--shards", &shards.to_string()]);
        site.start().map_err(Failure::failed)?;
        Ok(Self { label, site, added: BTreeMap::new() })
    }

    /// A round, and whether all of it was counted.
    pub(super) fn round(&mut self, load: &Load, number: usize) -> Result<Ours, Failure> {
        let contestant = Contestant {
            label: self.label.clone(),
            endpoint: Endpoint::of_our_own(self.label.clone(), self.site.resp, ANSWER_WITHIN),
            with_ids: false,
            prefix: format!("of{}:", load.keys),
        };
        let before = self.commits()?;
        let measured = round::run(&contestant, load, number, &mut |_| go_on().is_ok());
        let measured = measured.map_err(Failure::failed)?;
        go_on()?;
        if let Some(error) = &measured.first_error {
            return Err(Failure::failed(format!("{} answered with an error: {error}", self.label)));
        }
        let commits = self.commits()? - before;
        let added = self.added.entry(load.keys).or_default();
        added.include(measured.answered);
        let verified = verify(&contestant, load.keys, added.adds).map_err(Failure::failed)?;
        must_be(&self.label, added.adds, 0, verified.counted)?;
        Ok(Ours { measured, commits })
    }

    fn commits(&self) -> Result<u64, Failure> {
        let api = self.site.api().ok_or_else(|| Failure::failed(format!("{} has ended", self.label)))?;
        api.metric(COMMITS).map_err(Failure::failed)
    }

    pub(super) fn stop(mut self) -> Result<(), Failure> {
        self.site.ask_to_stop();
        self.site.wait().map_err(Failure::failed)
    }
}
