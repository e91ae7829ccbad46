//! What connections are told about the server: who is connected, how it is set up, how it is doing.

use std::{
    collections::BTreeSet,
    fmt::Write,
    net::{SocketAddr, TcpStream},
    sync::{
        Arc, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Instant, SystemTime, UNIX_EPOCH},
};

use quipu_engine::{HostStats, SiteId, handoff::HandoffStats};

use super::Shared;
use crate::resp::{
    ClientFacts, DEFAULT_USER, Endpoint, Identity, Mode, ServerFacts, Session, Setting, SlotMap,
};

/// A client, as far as others may know.
#[derive(Debug)]
pub(super) struct Client {
    address: SocketAddr,
    local_address: Option<SocketAddr>,
    since: Instant,
    /// When it was last heard of, in milliseconds after the start of the server; written by its worker.
    heard_ms: Arc<AtomicU64>,
    identity: Identity,
}

/// How a worker is doing.
#[derive(Debug, Clone, Default)]
pub(super) struct Note {
    pub(super) commands: u64,
    pub(super) host: HostStats,
    /// Why its store refuses commits, if it does.
    pub(super) refusing: Option<String>,
    /// Sites whose streams have branched off, each with a peer that has the other branch.
    pub(super) differing: BTreeSet<(SiteId, SiteId)>,
}

impl Shared {
    /// Takes a client in, and gives it a number. If there are too many it is told so.
    pub(super) fn admit(&self, stream: &TcpStream, address: SocketAddr) -> Option<u64> {
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if clients.len() >= self.clients_max {
            use std::io::Write;
            // A fresh socket has room for a line; if not, closing says enough.
            let _ = (&*stream).write_all(b"-ERR max number of clients reached\r\n");
            self.metrics.connections_refused.inc();
            return None;
        }
        let id = self.client_ids.fetch_add(1, Ordering::Relaxed);
        let local_address = stream.local_addr().ok();
        self.metrics.resp_connections.inc();
        let (since, heard_ms) = (Instant::now(), Arc::new(AtomicU64::new(self.elapsed_ms())));
        let client = Client { address, local_address, since, heard_ms, identity: Identity::default() };
        clients.insert(id, client);
        Some(id)
    }

    fn elapsed_ms(&self) -> u64 {
        super::millis(self.started.elapsed())
    }

    /// Where a client's worker writes when it was last heard of.
    pub(super) fn heard_ms(&self, id: u64) -> Arc<AtomicU64> {
        let clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        clients.get(&id).map(|client| Arc::clone(&client.heard_ms)).unwrap_or_default()
    }

    /// A client may have said who it is.
    pub(super) fn identify(&self, session: &Session) {
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = clients.get_mut(&session.client_id())
            && client.identity != *session.identity()
        {
            client.identity = session.identity().clone();
        }
    }

    /// A client has gone.
    pub(super) fn forget(&self, id: u64) {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner).remove(&id);
        self.metrics.resp_connections.dec();
    }

    /// A worker says how it is doing.
    pub(super) fn note(&self, worker: usize, note: Note) {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)[worker] = note;
    }

    /// All workers together.
    pub(super) fn summary(&self) -> Note {
        let mut all = Note::default();
        for note in self.notes.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            let Note { commands, host, refusing, differing } = note;
            all.differing.extend(differing);
            all.commands += commands;
            all.refusing = all.refusing.or_else(|| refusing.clone());
            all.host.live += host.live;
            all.host.resident += host.resident;
            all.host.resident_bytes += host.resident_bytes;
            all.host.checkpoints += host.checkpoints;
            all.host.logged_bytes += host.logged_bytes;
            all.host.shards_unavailable += host.shards_unavailable;
            all.host.operations.seen += host.operations.seen;
            all.host.operations.repeats += host.operations.repeats;
            all.host.operations.false_positives += host.operations.false_positives;
            all.host.handoff.add(&host.handoff);
            all.host.filter.bytes += host.filter.bytes;
            all.host.filter.error_estimate = all.host.filter.error_estimate.max(host.filter.error_estimate);
        }
        all
    }

    fn write_section(&self, section: &str, mode: Mode, text: &mut String) -> std::fmt::Result {
        let Note { commands, host, .. } = self.summary();
        match section {
            "server" => {
                let seconds = self.started.elapsed().as_secs();
                let (mode, port) = match mode {
                    Mode::Alone => ("standalone", self.resp_address().map_or(0, |address| address.port())),
                    Mode::Cluster => ("cluster", self.endpoint.as_ref().map_or(0, |endpoint| endpoint.port)),
                };
                write!(
                    text,
                    "# Server\r\nquipu_version:{}\r\nredis_version:7.0.15\r\nredis_mode:{mode}\r\nprocess_id:{}\r\n\
                     tcp_port:{port}\r\nuptime_in_seconds:{seconds}\r\nuptime_in_days:{}\r\nworkers:{}\r\nshards:{}\r\n",
                    env!("CARGO_PKG_VERSION"),
                    std::process::id(),
                    seconds / 86_400,
                    self.workers(),
                    self.shards.count(),
                )
            }
            "clients" => {
                let connected = self.clients.lock().unwrap_or_else(PoisonError::into_inner).len();
                write!(
                    text,
                    "# Clients\r\nconnected_clients:{connected}\r\nmaxclients:{}\r\nrejected_connections:{}\r\n",
                    self.clients_max,
                    self.metrics.connections_refused.get(),
                )
            }
            "memory" => write!(
                text,
                "# Memory\r\ncounters_in_memory:{}\r\ncounters_memory_bytes:{}\r\nfilter_bytes:{}\r\n",
                host.resident, host.resident_bytes, host.filter.bytes,
            ),
            "persistence" => write!(
                text,
                "# Persistence\r\nlogged_bytes:{}\r\ncheckpoints:{}\r\nshards_unavailable:{}\r\n",
                host.logged_bytes, host.checkpoints, host.shards_unavailable,
            ),
            "stats" => write!(
                text,
                "# Stats\r\ntotal_commands_processed:{}\r\noperations_seen:{}\r\noperations_repeated:{}\r\n\
                 filter_false_positives:{}\r\nfilter_error_estimate:{:e}\r\n",
                commands.saturating_sub(self.commands_forgotten.load(Ordering::Relaxed)),
                host.operations.seen,
                host.operations.repeats,
                host.operations.false_positives,
                host.filter.error_estimate,
            ),
            "handoff" => {
                let HandoffStats { slots, folded, folded_bytes, tokens, cached, notices, oldest_slot_s } =
                    host.handoff;
                let now_s = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
                let age_s = oldest_slot_s.map_or(0, |since_s| now_s.saturating_sub(since_s));
                write!(
                    text,
                    "# Handoff\r\nslots:{slots}\r\noldest_slot_seconds:{age_s}\r\nfolded_slots:{folded}\r\n\
                     folded_bytes:{folded_bytes}\r\ntokens:{tokens}\r\ntokens_for_others:{cached}\r\n\
                     last_words:{notices}\r\n",
                )
            }
            "replication" => self.write_replication(text),
            "cluster" => {
                let enabled = u8::from(mode == Mode::Cluster);
                write!(
                    text,
                    "# Cluster\r\ncluster_enabled:{enabled}\r\ncommands_redirected:{}\r\ncommands_passed_on:{}\r\n",
                    self.metrics.nodes.redirected.get(),
                    self.metrics.nodes.passed_on.get(),
                )
            }
            "keyspace" if host.live == 0 => write!(text, "# Keyspace\r\n"),
            "keyspace" => write!(text, "# Keyspace\r\ndb0:keys={},expires=0,avg_ttl=0\r\n", host.live),
            _ => Ok(()),
        }
    }
}

/// What `INFO` says without being asked for more.
const SECTIONS: [&str; 9] =
    ["server", "clients", "memory", "persistence", "stats", "handoff", "replication", "cluster", "keyspace"];

impl ServerFacts for Shared {
    fn version(&self) -> &str {
        env!("CARGO_PKG_VERSION")
    }

    fn password_required(&self) -> bool {
        self.users.required()
    }

    fn authenticate(&self, user: &[u8], password: &[u8]) -> bool {
        if self.users.required() {
            self.users.check(user, password).is_some()
        } else {
            user == DEFAULT_USER.as_bytes()
        }
    }

    fn settings(&self) -> Vec<Setting> {
        self.settings.clone()
    }

    fn clients(&self) -> Vec<ClientFacts> {
        let clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        let facts = clients.iter().map(|(id, client)| ClientFacts {
            id: *id,
            address: client.address.to_string(),
            local_address: client.local_address.map(|address| address.to_string()).unwrap_or_default(),
            age_seconds: client.since.elapsed().as_secs(),
            idle_seconds: self.elapsed_ms().saturating_sub(client.heard_ms.load(Ordering::Relaxed)) / 1000,
            identity: client.identity.clone(),
        });
        facts.collect()
    }

    fn info(&self, sections: &[&str], mode: Mode) -> String {
        let wants_all = sections.is_empty()
            || sections.iter().any(|section| ["all", "default", "everything"].contains(section));
        let sections = if wants_all { &SECTIONS[..] } else { sections };
        let mut text = String::new();
        for section in sections {
            if !text.is_empty() && SECTIONS.contains(section) {
                text.push_str("\r\n");
            }
            self.write_section(section, mode, &mut text).expect("writing to memory does not fail");
        }
        text
    }

    fn reset_statistics(&self) {
        self.commands_forgotten.store(self.summary().commands, Ordering::Relaxed);
    }

    fn slot_map(&self) -> SlotMap {
        self.slots_by_node()
    }

    fn redirect(&self, slot: u16) -> Option<Endpoint> {
        self.endpoint_of(slot).inspect(|_| _ = self.metrics.nodes.redirected.inc())
    }
}
