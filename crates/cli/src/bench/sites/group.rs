//! Sites of one cluster to measure: ordinary servers on free ports, started one after the other.

use crate::bench::endpoint::Endpoint;
use crate::commands::cluster::api::Api;
use crate::commands::cluster::site::Site;
use crate::failure::Failure;
use crate::interrupt::go_on;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// What takes longer than this does not come any more.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);
/// How often is looked whether something has come true.
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// Links over which nothing has passed for so long are quiet.
const QUIET: Duration = Duration::from_millis(200);
/// Where a site is that is started later: nobody is there (it is the discard port), so that one has to dial.
const NOT_YET: &str = "127.0.0.1:9";

/// What has passed over all links of a site.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Passed {
    /// There are so many links.
    pub(super) peers: u64,
    pub(super) sent_bytes: u64,
    pub(super) received_bytes: u64,
}

/// Sites 1, 2 and so on.
pub(super) struct Group {
    label: &'static str,
    folder: PathBuf,
    size: u16,
    /// Those that run.
    sites: Vec<Site>,
    /// Where they are dialled.
    links: Vec<SocketAddr>,
}

impl Group {
    /// So many sites with their folders in this one; none runs yet.
    pub(super) fn new(label: &'static str, folder: &Path, size: u16) -> Result<Self, Failure> {
        let folder = folder.join(label);
        std::fs::create_dir(&folder)
            .map_err(|error| Failure::failed(format!("cannot make {}: {error}", folder.display())))?;
        Ok(Group { label, folder, size, sites: Vec::new(), links: Vec::new() })
    }

    /// The same, and all run and are linked.
    pub(super) fn start(label: &'static str, folder: &Path, size: u16) -> Result<Self, Failure> {
        let mut group = Group::new(label, folder, size)?;
        (1..=size).try_for_each(|_| group.start_next(|link| link))?;
        Ok(group)
    }

    /// Starts the next site and waits until it has links to those that run. `through` is where it dials whoever is at an
    /// address.
    pub(super) fn start_next(&mut self, through: impl Fn(SocketAddr) -> SocketAddr) -> Result<(), Failure> {
        let running = self.sites.len();
        let links = self.links.iter().map(|link| through(*link).to_string());
        let addresses = links.chain([String::new()]).chain(std::iter::repeat(NOT_YET.to_owned()));
        let peers = (1..=self.size).zip(addresses).filter(|(_, address)| !address.is_empty());
        let peers: Vec<String> = peers.map(|(number, address)| format!("{number}@{address}")).collect();
        let number = u16::try_from(running + 1).expect("not more than its size");
        let mut site = Site::new(number, self.folder.clone(), peers.join(","));
        self.links.push(site.start().map_err(Failure::failed)?);
        self.sites.push(site);
        self.wait(&format!("site {number} has a link to every other"), |group| {
            let up = group.api(number)?.links()?.values().filter(|link| link.is_up).count();
            Ok(up == running)
        })
    }

    pub(super) fn api(&self, number: u16) -> Result<&Api, String> {
        self.site(number).api().ok_or_else(|| format!("site {number} does not run"))
    }

    pub(super) fn site(&self, number: u16) -> &Site {
        &self.sites[usize::from(number) - 1]
    }

    /// Where a site is dialled by others.
    pub(super) fn link(&self, number: u16) -> SocketAddr {
        self.links[usize::from(number) - 1]
    }

    /// The process of a site.
    pub(super) fn process(&mut self, number: u16) -> Result<u32, Failure> {
        let process = self.sites[usize::from(number) - 1].process();
        process.ok_or_else(|| Failure::failed(format!("site {number} has ended by itself")))
    }

    pub(super) fn endpoint(&self, number: u16) -> Endpoint {
        let name = format!("site {number} ({})", self.label);
        Endpoint::of_our_own(name, self.site(number).resp, PATIENCE)
    }

    /// Waits until every site knows of all that was added at site 1: so much, and no more.
    pub(super) fn wait_until_known(&self, added: u64) -> Result<(), Failure> {
        for site in &self.sites {
            let number = site.number;
            let mut known = 0;
            let came = self.wait(&format!("site {number} knows of {added}"), |group| {
                known = group.api(number)?.added_at(1)?;
                Ok(known >= added)
            });
            if known > added {
                let what = format!("site {number} has counted {known}, and {added} adds were acknowledged");
                return Err(Failure::failed(what));
            }
            came?;
        }
        Ok(())
    }

    /// Waits until nothing passes over the links of site 1 any more, and says what has passed. (There is a beat every
    /// second.)
    pub(super) fn passed(&self) -> Result<Passed, Failure> {
        let look = || -> Result<Passed, Failure> {
            let links = self.api(1).and_then(Api::links).map_err(Failure::failed)?;
            let up = || links.values().filter(|link| link.is_up);
            Ok(Passed {
                peers: up().count() as u64,
                sent_bytes: up().map(|link| link.sent_bytes).sum(),
                received_bytes: up().map(|link| link.received_bytes).sum(),
            })
        };
        let until = Instant::now() + PATIENCE;
        let mut before = look()?;
        while Instant::now() < until {
            go_on()?;
            std::thread::sleep(QUIET);
            let now = look()?;
            if before == now {
                return Ok(now);
            }
            before = now;
        }
        Err(Failure::failed(format!("the links were not quiet within {PATIENCE:?}")))
    }

    /// Looks again and again until it is true. What goes wrong in a look may go well in the next one.
    fn wait(&self, what: &str, mut look: impl FnMut(&Self) -> Result<bool, String>) -> Result<(), Failure> {
        let until = Instant::now() + PATIENCE;
        loop {
            go_on()?;
            let looked = look(self);
            if looked == Ok(true) {
                return Ok(());
            }
            if Instant::now() >= until {
                let why = looked.err().map_or(String::new(), |why| format!(": {why}"));
                return Err(Failure::failed(format!(
                    "it did not come true within {PATIENCE:?} that {what}{why}"
                )));
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }

    /// Stops all in an orderly way.
    pub(super) fn stop(mut self) -> Result<(), Failure> {
        self.sites.iter().for_each(Site::ask_to_stop);
        let failed: Vec<String> = self.sites.iter_mut().filter_map(|site| site.wait().err()).collect();
        if failed.is_empty() { Ok(()) } else { Err(Failure::failed(failed.join("; "))) }
    }
}
