//! What a node is told when it starts: one value that is known to be good.
//!
//! [`settings`] has the names and sources of the settings; this module reads and checks their values.

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use quipu_storage_cassandra::{Access, Address};

use crate::auth::Users;
use values::{
    address, cluster, folder, host, parents, peers, probability, seconds_or_never, shards, site, whole,
    within, yes_or_no,
};

mod choices;
pub mod settings;
mod units;
mod values;

pub use choices::{Durability, IdmpMode, LogFormat, LogLevel};
pub use settings::{ConfigError, Origin, Settings};
pub use units::{format_bytes, format_duration, parse_bytes, parse_duration};
pub(crate) use values::is_peer_address;

/// With how many shards a new data folder is made, unless told otherwise.
pub const SHARDS_DEFAULT: u16 = 64;
/// There are that many hash slots; a shard has at least one.
pub const SHARDS_MAX: u16 = 16_384;
/// Every site has a link to every other one.
pub const SITES_MAX: usize = 64;
/// The longest name of a cluster.
pub const CLUSTER_BYTES_MAX: usize = 64;
/// The site that a new data folder is for, unless told otherwise.
pub const SITE_DEFAULT: u16 = 1;
/// The name of a cluster, unless told otherwise.
pub const CLUSTER_DEFAULT: &str = "quipu";
/// More workers than this do not help.
pub const WORKERS_MAX: usize = 256;
/// With less the node would only read from disk.
pub const MEMORY_BYTES_MIN: u64 = 16 << 20;
/// Longer than this between two flushes is no durability.
pub const FLUSH_INTERVAL_MAX: Duration = Duration::from_secs(60);
/// Clients need some time to retry.
pub const IDMP_WINDOW_MIN: Duration = Duration::from_secs(1);
/// Every id of the window is on disk.
pub const IDMP_WINDOW_MAX: Duration = Duration::from_secs(7 * 86_400);
/// A filter that is wrong more often is of no use.
pub const IDMP_FPP_MAX: f64 = 0.1;
/// Smaller than this, and the filter is larger than the ids that it stands for.
pub const IDMP_FPP_MIN: f64 = 1e-12;
/// Edges need some time to come back.
pub const EDGE_TTL_MIN: Duration = Duration::from_secs(1);
/// What is folded later than this need not be folded.
pub const EDGE_TTL_MAX: Duration = Duration::from_secs(36_500 * 86_400);
/// A relay hands over to one of its parents at a time, and looks after all of them.
pub const PARENTS_MAX: usize = 16;
/// The highest tier that a server can have: that of relays. Edges have a higher one.
pub const TIER_MAX: u8 = quipu_engine::handoff::RELAY_TIER;
/// A node that the store answers late is not gone.
pub const TAKEOVER_AFTER_MIN: Duration = Duration::from_secs(1);
/// Nobody waits longer for the counters of a node that is gone.
pub const TAKEOVER_AFTER_MAX: Duration = Duration::from_secs(3600);
/// Operating systems allow no more sockets in a process.
pub const CLIENTS_MAX: usize = 1_000_000;
/// Linux waits no longer before it asks a silent client.
pub const TCP_KEEPALIVE_SECONDS_MAX: u64 = 32_767;

/// Shorter than this, and whoever waits hardly waits.
pub const STORAGE_DEADLINE_MIN: Duration = Duration::from_millis(100);
/// Longer than this no client waits.
pub const STORAGE_DEADLINE_MAX: Duration = Duration::from_secs(600);

/// Another site, and where it can be dialled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerAddress {
    /// Its number.
    pub number: u16,
    /// `host:port`; a name is looked up each time it is dialled.
    pub address: String,
}

/// A database that keeps everything in place of a folder.
#[derive(Debug, Clone, PartialEq)]
pub struct Database {
    /// Where it is.
    pub address: Address,
    /// How to get in.
    pub access: Access,
}

/// Everything a node is told. Made by [`Config::new`] alone, so a bad one does not exist.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Config {
    /// The folder that holds everything; made if it is not there.
    pub data: PathBuf,
    /// The database that holds everything instead.
    pub database: Option<Database>,
    /// For how long a command waits for a store that does not answer.
    pub storage_deadline: Duration,
    /// Where Redis clients connect; `None`: nowhere.
    pub resp: Option<SocketAddr>,
    /// Where clients of a Redis Cluster connect; `None`: nowhere.
    pub resp_cluster: Option<SocketAddr>,
    /// Where HTTP clients connect; `None`: nowhere.
    pub http: Option<SocketAddr>,
    /// The number of this site; `None`: as the data folder says, and [`SITE_DEFAULT`] for a new one.
    pub site: Option<u16>,
    /// Where other sites connect; `None`: nowhere, this site dials. It is opened if there are other sites, or if it was
    /// said explicitly.
    pub link: Option<SocketAddr>,
    /// Under which name or address others reach this node; `None`: where it listens.
    pub advertise: Option<String>,
    /// How long a node of the same site may be silent before others take its shards.
    pub takeover_after: Duration,
    /// Was it said where other sites connect?
    pub link_given: bool,
    /// The other sites. With this one they are the members of the cluster of a new data folder.
    pub peers: Vec<PeerAddress>,
    /// Members of a cluster that exists. A new data folder joins it.
    pub join: Vec<PeerAddress>,
    /// 0: it is a site. 1: it is a relay, which hands over to sites what it counts.
    pub tier: u8,
    /// Where a relay finds the sites that it hands over to: `host:port` of their links.
    pub parents: Vec<String>,
    /// The name of the cluster; `None`: as the data folder says, and [`CLUSTER_DEFAULT`] for a new one.
    pub cluster: Option<String>,
    /// When a count is acknowledged.
    pub durability: Durability,
    /// How much memory counters may take; the others stay on disk.
    pub memory_bytes: u64,
    /// Threads that run shards.
    pub workers: usize,
    /// How many shards the data folder has; `None`: as it was made, and [`SHARDS_DEFAULT`] for a new one.
    pub shards: Option<u16>,
    /// For how long operation ids are remembered.
    pub idmp_window: Duration,
    /// How repeated operations are recognised.
    pub idmp_mode: IdmpMode,
    /// How often the filter may take a new operation for a repeated one.
    pub idmp_fpp: f64,
    /// For how long a slot waits for its edge before only a bit of it is kept.
    pub edge_ttl: Duration,
    /// How many Redis clients may be connected.
    pub max_clients: usize,
    /// After how much silence a client is asked whether it is still there; `None`: never.
    pub tcp_keepalive: Option<Duration>,
    /// Who may connect.
    pub users: Users,
    /// Was it said that everybody may connect from everywhere?
    pub insecure: bool,
    /// What is logged.
    pub log_level: LogLevel,
    /// And how.
    pub log_format: LogFormat,
}

impl Config {
    /// Reads and checks all values, and the file of users if there is one.
    pub fn new(settings: &Settings) -> Result<Self, ConfigError> {
        let mut config = Self {
            data: settings.required(&settings::DATA, folder)?,
            database: database(settings)?,
            storage_deadline: settings.required(&settings::STORAGE_DEADLINE, |text| {
                within(parse_duration(text)?, STORAGE_DEADLINE_MIN, STORAGE_DEADLINE_MAX, format_duration)
            })?,
            resp: settings.required(&settings::RESP, address)?,
            resp_cluster: settings.required(&settings::RESP_CLUSTER, address)?,
            http: settings.required(&settings::HTTP, address)?,
            site: settings.optional(&settings::SITE, site)?,
            link: settings.required(&settings::LINK, address)?,
            advertise: settings.optional(&settings::ADVERTISE, host)?,
            takeover_after: settings.required(&settings::TAKEOVER_AFTER, |text| {
                within(parse_duration(text)?, TAKEOVER_AFTER_MIN, TAKEOVER_AFTER_MAX, format_duration)
            })?,
            link_given: settings.origin(&settings::LINK) != Origin::Default,
            peers: settings.optional(&settings::PEERS, peers)?.unwrap_or_default(),
            join: settings.optional(&settings::JOIN, peers)?.unwrap_or_default(),
            tier: settings.required(&settings::TIER, |text| whole(text, 0, TIER_MAX))?,
            parents: settings.optional(&settings::PARENTS, parents)?.unwrap_or_default(),
            cluster: settings.optional(&settings::CLUSTER, cluster)?,
            durability: settings.required(&settings::DURABILITY, str::parse)?,
            memory_bytes: settings.required(&settings::MEMORY, |text| {
                within(parse_bytes(text)?, MEMORY_BYTES_MIN, u64::MAX, format_bytes)
            })?,
            workers: settings
                .optional(&settings::WORKERS, |text| whole(text, 1, WORKERS_MAX))?
                .unwrap_or_else(workers_default),
            shards: settings.optional(&settings::SHARDS, shards)?,
            idmp_window: settings.required(&settings::IDMP_WINDOW, |text| {
                within(parse_duration(text)?, IDMP_WINDOW_MIN, IDMP_WINDOW_MAX, format_duration)
            })?,
            idmp_mode: settings.required(&settings::IDMP_MODE, str::parse)?,
            idmp_fpp: settings.required(&settings::IDMP_FPP, probability)?,
            edge_ttl: settings.required(&settings::EDGE_TTL, |text| {
                within(parse_duration(text)?, EDGE_TTL_MIN, EDGE_TTL_MAX, format_duration)
            })?,
            max_clients: settings.required(&settings::MAX_CLIENTS, |text| whole(text, 1, CLIENTS_MAX))?,
            tcp_keepalive: settings.required(&settings::TCP_KEEPALIVE, seconds_or_never)?,
            users: users(settings)?,
            insecure: settings.required(&settings::INSECURE, yes_or_no)?,
            log_level: settings.required(&settings::LOG_LEVEL, str::parse)?,
            log_format: settings.required(&settings::LOG_FORMAT, str::parse)?,
        };
        config.check_addresses(settings)?;
        config.check_peers(settings)?;
        config.check_tier(settings)?;
        config.check_database(settings)?;
        config.limit_workers(settings)?;
        Ok(config)
    }

    fn check_addresses(&self, settings: &Settings) -> Result<(), ConfigError> {
        let all = [
            (&settings::RESP, self.resp),
            (&settings::RESP_CLUSTER, self.resp_cluster),
            (&settings::HTTP, self.http),
        ];
        let is_open = !self.users.required() && !self.insecure;
        let is_public = |address: SocketAddr| !address.ip().is_loopback();
        if let Some((known, _)) = all.iter().find(|(_, address)| is_open && address.is_some_and(is_public)) {
            return Err(settings.refuse(
                known,
                "can be reached from other machines, and there is no password; give --requirepass or --acl-file, \
                 or a loopback address such as 127.0.0.1. If everybody there may count, say --insecure",
            ));
        }
        if is_open && self.link.is_some_and(is_public) {
            return Err(settings.refuse(
                &settings::LINK,
                "can be reached from other machines, and links ask for no password: whoever reaches it can count. Keep \
                 it to a network of your own; if everybody there may count, say --insecure, and otherwise give \
                 --requirepass or --acl-file for clients as well",
            ));
        }
        let is_same = |one: Option<SocketAddr>, two| one.is_some_and(|it| it.port() != 0) && one == two;
        if is_same(self.resp, self.http) {
            return Err(settings.refuse(&settings::HTTP, "is the address of --resp too; give another port"));
        }
        if is_same(self.resp_cluster, self.resp) || is_same(self.resp_cluster, self.http) {
            let problem = "is the address of --resp or --http too; give another port";
            return Err(settings.refuse(&settings::RESP_CLUSTER, problem));
        }
        let is_unspecified = |address: SocketAddr| address.ip().is_unspecified();
        if self.resp_cluster.is_some_and(is_unspecified) && self.advertise.is_none() {
            let problem =
                "is every address of this machine, and clients are told one; say which with --advertise";
            return Err(settings.refuse(&settings::RESP_CLUSTER, problem));
        }
        if [self.resp, self.resp_cluster, self.http].iter().all(Option::is_none) {
            return Err(settings.refuse(
                &settings::HTTP,
                "while --resp is off too: nobody could connect; give one of them an address",
            ));
        }
        Ok(())
    }

    fn check_peers(&self, settings: &Settings) -> Result<(), ConfigError> {
        for (known, peers) in [(&settings::PEERS, &self.peers), (&settings::JOIN, &self.join)] {
            let own = self.site.and_then(|site| peers.iter().find(|peer| peer.number == site));
            if let Some(PeerAddress { number, address }) = own {
                let problem = format!(
                    "names this site itself ({number}@{address}); leave it out, or give this site another --site"
                );
                return Err(settings.refuse(known, problem));
            }
        }
        if !self.join.is_empty() && self.site.is_none() {
            let problem = "needs --site as well: the number that `quipu site add` was given";
            return Err(settings.refuse(&settings::JOIN, problem));
        }
        let opens = self.link_given || !self.peers.is_empty() || !self.join.is_empty();
        let opened = self.link.filter(|address| opens && address.port() != 0);
        let taken = |other: Option<SocketAddr>| opened.is_some() && opened == other;
        if taken(self.resp) || taken(self.resp_cluster) || taken(self.http) {
            let problem = "is the address of --resp, --resp-cluster or --http too; give another port";
            return Err(settings.refuse(&settings::LINK, problem));
        }
        Ok(())
    }

    /// Where everything is kept, for people.
    pub fn place(&self) -> String {
        match &self.database {
            Some(database) => database.address.to_string(),
            None => self.data.display().to_string(),
        }
    }

    fn check_database(&self, settings: &Settings) -> Result<(), ConfigError> {
        let Some(_) = &self.database else { return Ok(()) };
        if settings.origin(&settings::DATA) == Origin::Flag {
            let problem =
                "is a folder, and --storage names a database that holds everything; leave one of them out";
            return Err(settings.refuse(&settings::DATA, problem));
        }
        if self.is_relay() {
            let problem =
                "is for sites, and --tier is 1; leave it out. A relay keeps what it counts in a folder";
            return Err(settings.refuse(&settings::STORAGE, problem));
        }
        let Some(link) = self.link else {
            let problem =
                "leaves no way to other nodes of this site, which share the database; give it an address";
            return Err(settings.refuse(&settings::LINK, problem));
        };
        if link.ip().is_unspecified() && self.advertise.is_none() {
            let problem = "is every address of this machine, and others need one; say which with --advertise";
            return Err(settings.refuse(&settings::LINK, problem));
        }
        Ok(())
    }

    /// Is it a relay?
    pub fn is_relay(&self) -> bool {
        self.tier > 0
    }

    fn check_tier(&self, settings: &Settings) -> Result<(), ConfigError> {
        if !self.is_relay() {
            return match self.parents.is_empty() {
                true => Ok(()),
                false => Err(settings.refuse(
                    &settings::PARENTS,
                    "is for relays, and --tier is 0; give --tier 1, or --peers for a site",
                )),
            };
        }
        for known in [&settings::PEERS, &settings::JOIN, &settings::SITE, &settings::LINK] {
            if settings.origin(known) != Origin::Default {
                let problem = "is for sites, and --tier is 1; leave it out. A relay has no number, and dials the --parents";
                return Err(settings.refuse(known, problem));
            }
        }
        if self.parents.is_empty() {
            let problem =
                "for --tier 1; give the links of the sites to hand over to, HOST:PORT such as 10.0.0.1:7381";
            return Err(settings.refuse(&settings::PARENTS, problem));
        }
        Ok(())
    }

    /// A worker without a shard would be idle for ever.
    fn limit_workers(&mut self, settings: &Settings) -> Result<(), ConfigError> {
        let shards = usize::from(self.shards.unwrap_or(SHARDS_DEFAULT));
        if self.workers > shards && settings.origin(&settings::WORKERS) != Origin::Default {
            let problem = format!("is more than the {shards} shards; give at most {shards}");
            return Err(settings.refuse(&settings::WORKERS, problem));
        }
        self.workers = self.workers.min(shards);
        Ok(())
    }
}

/// All cores but one, which is for the front ends and the disk.
fn workers_default() -> usize {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    cores.saturating_sub(1).clamp(1, WORKERS_MAX)
}

/// The database, and how to get in.
fn database(settings: &Settings) -> Result<Option<Database>, ConfigError> {
    let address = settings.optional(&settings::STORAGE, |text| {
        text.parse::<Address>().map_err(|bad| format!("{bad}; give cassandra://HOST[,HOST...]/KEYSPACE"))
    })?;
    let text = |known| settings.text(known).map(str::to_owned);
    let user = text(&settings::STORAGE_USER);
    let password = text(&settings::STORAGE_PASSWORD);
    let tls_authorities = text(&settings::STORAGE_TLS).map(PathBuf::from);
    let Some(address) = address else {
        for known in [&settings::STORAGE_USER, &settings::STORAGE_PASSWORD, &settings::STORAGE_TLS] {
            if settings.text(known).is_some() {
                return Err(
                    settings.refuse(known, "is for a database; give --storage as well, or leave it out")
                );
            }
        }
        return Ok(None);
    };
    let user = match (user, password) {
        (None, None) => None,
        (Some(user), Some(password)) => Some((user, password)),
        (Some(_), None) => {
            let problem = "needs a password; give QUIPU_STORAGE_PASSWORD, or leave it out";
            return Err(settings.refuse(&settings::STORAGE_USER, problem));
        }
        (None, Some(_)) => {
            let problem = "is of nobody; give --storage-user as well, or leave it out";
            return Err(settings.refuse(&settings::STORAGE_PASSWORD, problem));
        }
    };
    Ok(Some(Database { address, access: Access { user, tls_authorities } }))
}

/// From the one password or the file, not both: two ways to say who may connect would contradict each other.
fn users(settings: &Settings) -> Result<Users, ConfigError> {
    let file = settings.optional(&settings::ACL_FILE, |path| {
        let text = std::fs::read_to_string(path)
            .map_err(|error| format!("cannot be read: {error}; give a file of users, or none"))?;
        text.parse::<Users>().map_err(|error| format!("is not a file of users: {error}"))
    })?;
    let password = settings.optional(&settings::REQUIREPASS, |password| {
        Users::with_password(password).map_err(|error| error.to_string())
    })?;
    match (file, password) {
        (Some(_), Some(_)) => {
            let problem =
                "and --requirepass both say who may connect; add a line `user default PASSWORD` to the file";
            Err(settings.refuse(&settings::ACL_FILE, problem))
        }
        (Some(users), None) | (None, Some(users)) => Ok(users),
        (None, None) => Ok(Users::default()),
    }
}

#[cfg(test)]
mod tests;
