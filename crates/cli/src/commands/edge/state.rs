//! The file and the servers, as all `quipu edge` commands take them.

use crate::{commands::client::Login, failure::Failure};
use quipu_edge::{Edge, OpenError, SyncError};
use quipu_server::config::parse_duration;
use quipu_storage::StorageError;
use std::{
    path::PathBuf,
    thread,
    time::{Duration, Instant},
};

/// How long a connection may take to be made.
const CONNECT_TIME_MAX: Duration = Duration::from_secs(2);
/// How long an answer may take.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(5);
/// How soon to look again whether the file is free.
const FREE_EVERY: Duration = Duration::from_millis(10);
/// Exchanges of a command that only tries: three are a handoff with a server that is met for the first time.
const EXCHANGES_MAX: usize = 4;

#[derive(clap::Args)]
pub(super) struct State {
    /// The file; made if it does not exist
    #[arg(long, env = "QUIPU_STATE", value_name = "FILE")]
    state: PathBuf,
    /// Servers to hand over to, in the order in which they are tried
    #[arg(long, env = "QUIPU_SERVERS", value_name = "URL,…", value_delimiter = ',')]
    servers: Vec<String>,
    /// Wait so long for another command that uses the file
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = parse_duration)]
    wait: Duration,
    /// The file is the original, although it was found to be used twice or was repaired: hand over again
    #[arg(long)]
    original: bool,
    #[command(flatten)]
    login: Login,
}

impl State {
    /// Opens the file, when it is free.
    pub(super) fn open(&self) -> Result<Edge, Failure> {
        let until = Instant::now() + self.wait;
        loop {
            let mut options = Edge::options().only_when_asked().timeouts(CONNECT_TIME_MAX, ANSWER_TIME_MAX);
            if self.original {
                options = options.original();
            }
            if let Some((user, password)) = self.login.credentials() {
                options = options.login(user, password);
            }
            match options.open(&self.state, self.servers()) {
                Err(OpenError::Storage(StorageError::Locked { .. })) if Instant::now() < until => {
                    thread::sleep(FREE_EVERY);
                }
                Err(OpenError::Address(bad)) => {
                    return Err(Failure::Usage { flag: "--servers", problem: bad.to_string() });
                }
                opened => return opened.map_err(Failure::failed),
            }
        }
    }

    /// As [`Self::open`], for commands that are of no use without a server.
    pub(super) fn open_online(&self) -> Result<Edge, Failure> {
        match self.has_servers() {
            true => self.open(),
            false => Err(Failure::Usage {
                flag: "--servers",
                problem: "name at least one, such as http://127.0.0.1:7380".to_owned(),
            }),
        }
    }

    pub(super) fn has_servers(&self) -> bool {
        self.servers().next().is_some()
    }

    /// An empty variable names none.
    fn servers(&self) -> impl Iterator<Item = &str> {
        self.servers.iter().map(String::as_str).filter(|server| !server.is_empty())
    }

    /// Is there a file at all?
    pub(super) fn must_exist(&self) -> Result<(), Failure> {
        match self.state.exists() {
            true => Ok(()),
            false => Err(Failure::failed(format!("there is no state in {}", self.state.display()))),
        }
    }
}

/// Hands over as much as can be, as long as servers answer. Returns why they do not.
pub(super) fn try_to_hand_over(edge: &Edge) -> Result<(), SyncError> {
    for _ in 0..EXCHANGES_MAX {
        edge.sync()?;
        let is_open = edge.status().is_some_and(|it| it.waiting > 0 || !it.in_flight.is_empty());
        if !is_open {
            break;
        }
    }
    Ok(())
}
