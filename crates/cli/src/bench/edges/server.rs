//! The server that edges hand over to: an ordinary one, and what can be seen of it from outside.

use std::net::SocketAddr;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use super::edge::Agent;
use crate::commands::cluster::site::Site;
use crate::failure::Failure;

/// What takes longer does not come any more.
const PATIENCE: Duration = Duration::from_secs(120);
/// What has not changed for so long does not change any more.
const UNCHANGED: Duration = Duration::from_secs(5);
/// How often is looked. The server reports every quarter of a second.
const LOOK_EVERY: Duration = Duration::from_millis(300);

/// How a server stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Standing {
    pub(super) resident_bytes: u64,
    pub(super) slots: u64,
    pub(super) folded: u64,
    pub(super) folded_bytes: u64,
    pub(super) tokens: u64,
}

pub(super) struct Server {
    site: Site,
}

impl Server {
    pub(super) fn start(folder: &Path) -> Result<Self, Failure> {
        let mut site = Site::new(1, folder.to_owned(), String::new());
        site.start().map_err(Failure::failed)?;
        Ok(Self { site })
    }

    pub(super) fn restart_with_ttl(&mut self, ttl: &str) -> Result<(), Failure> {
        self.site.ask_to_stop();
        self.site.wait().map_err(Failure::failed)?;
        self.site.set_flags(&["--edge-ttl", ttl]);
        self.site.start().map_err(Failure::failed)?;
        Ok(())
    }

    pub(super) fn agent(&self) -> Result<Agent, Failure> {
        Agent::new(self.site.http)
    }

    /// Where edges find it.
    pub(super) fn address(&self) -> SocketAddr {
        self.site.http
    }

    fn metric(&self, name: &str) -> Result<u64, Failure> {
        self.metric_of(name, "")
    }

    fn metric_of(&self, name: &str, label: &str) -> Result<u64, Failure> {
        let api = self.site.api().ok_or_else(|| Failure::failed("the server has ended by itself"))?;
        api.metric_of(name, label).map_err(Failure::failed)
    }

    /// How many requests of edges it has answered since it was started.
    pub(super) fn exchanges(&self) -> Result<u64, Failure> {
        self.metric_of("quipu_http_requests_total", "route=\"/v1/exchange\"")
    }

    pub(super) fn standing(&mut self) -> Result<Standing, Failure> {
        let process = self.site.process().ok_or_else(|| Failure::failed("the server has ended by itself"))?;
        Ok(Standing {
            resident_bytes: resident_bytes(process)?,
            slots: self.metric("quipu_edge_slots")?,
            folded: self.metric("quipu_edge_slots_folded")?,
            folded_bytes: self.metric("quipu_edge_slots_folded_bytes")?,
            tokens: self.metric("quipu_edge_tokens_for_others")?,
        })
    }

    /// How it stands when it reports so many slots; or others, and these have not changed for a while.
    pub(super) fn settled(&mut self, slots: u64) -> Result<Standing, Failure> {
        let (mut before, mut since) = (self.standing()?, Instant::now());
        loop {
            thread::sleep(LOOK_EVERY);
            let now = self.standing()?;
            if now.slots != before.slots {
                since = Instant::now();
            }
            if now.slots == slots || since.elapsed() > UNCHANGED {
                return Ok(now);
            }
            before = now;
        }
    }

    /// How it stands when so many slots are folded.
    pub(super) fn folded(&mut self, slots: u64) -> Result<Standing, Failure> {
        let until = Instant::now() + PATIENCE;
        loop {
            let now = self.standing()?;
            if now.folded >= slots {
                return Ok(now);
            }
            if Instant::now() > until {
                let text = format!("of {slots} slots {} were folded within {PATIENCE:?}", now.folded);
                return Err(Failure::failed(text));
            }
            thread::sleep(LOOK_EVERY);
        }
    }

    /// All that it has counted.
    pub(super) fn counted(&self) -> Result<u64, Failure> {
        let api = self.site.api().ok_or_else(|| Failure::failed("the server has ended by itself"))?;
        api.added_at(1).map_err(Failure::failed)
    }

    pub(super) fn stop(mut self) -> Result<(), Failure> {
        self.site.ask_to_stop();
        self.site.wait().map_err(Failure::failed)
    }
}

fn resident_bytes(process: u32) -> Result<u64, Failure> {
    let path = format!("/proc/{process}/status");
    let status = std::fs::read_to_string(&path)
        .map_err(|error| Failure::failed(format!("{path}: {error}; memory is measured on Linux only")))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    kib.map(|kib| kib * 1024).ok_or_else(|| Failure::failed(format!("{path} does not tell the memory")))
}
