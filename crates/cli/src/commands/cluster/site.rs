//! One site: `quipu serve` of this very program as a child process, which keeps its addresses when it is started again.
//! Benchmarks start their servers so, too.

use super::api::Api;
use rustix::process::{Pid, Signal, kill_process};
use std::{
    ffi::OsString,
    fs::{self, File},
    io::{self, BufRead as _, BufReader},
    net::{Ipv4Addr, SocketAddr},
    path::PathBuf,
    process::{Child, ChildStdout, Command, Stdio},
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

/// How long a server may take until it is ready.
const READY_TIME_MAX: Duration = Duration::from_secs(60);
/// How long a server may take to stop after it was asked to; then it is killed.
const STOP_TIME_MAX: Duration = Duration::from_secs(30);
/// How often is looked whether it has stopped.
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// How much of the log is shown if a server does not start.
const LOG_LINES_SHOWN: usize = 3;

/// A free port of this machine.
const ANY: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

#[derive(Debug)]
pub(crate) struct Site {
    pub(crate) number: u16,
    /// The folders of all sites are in it, and their logs.
    folder: PathBuf,
    /// As `--peers` has it.
    peers: String,
    /// Where its data is, if it is not in its folder.
    database: Option<Database>,
    /// Other flags.
    flags: Vec<String>,
    /// Where Redis clients connect. Known from the first start on, and the same ever after.
    pub(crate) resp: SocketAddr,
    /// Where HTTP clients connect.
    pub(crate) http: SocketAddr,
    running: Option<Running>,
}

/// A database that holds everything.
#[derive(Debug, Clone)]
pub(crate) struct Database {
    /// As `--storage` has it.
    pub(crate) address: String,
    /// How to get in: variables of the environment, which others do not see.
    pub(crate) variables: Vec<(String, OsString)>,
}

/// A server of our own. Dropping it kills it.
#[derive(Debug)]
struct Running {
    child: Child,
    api: Api,
}

/// Why a site was not started.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StartError {
    #[error("site {number} cannot be started: {error}")]
    System { number: u16, error: io::Error },
    #[error("site {number} was not ready within {READY_TIME_MAX:?} and was killed; its log ends with: {log}")]
    Slow { number: u16, log: String },
    #[error("site {number} has ended before it was ready; its log ends with: {log}")]
    Ended { number: u16, log: String },
    #[error("site {number} has said {line:?} instead of its addresses, and was killed")]
    Unknown { number: u16, line: String },
}

impl Site {
    /// One without peers is alone.
    pub(crate) fn new(number: u16, folder: PathBuf, peers: String) -> Self {
        let (flags, database) = (Vec::new(), None);
        Self { number, folder, peers, database, flags, resp: ANY, http: ANY, running: None }
    }

    /// One that is alone, and keeps everything in a database. Only its log is in the folder.
    pub(crate) fn on(database: Database, number: u16, folder: PathBuf) -> Self {
        Self { database: Some(database), ..Self::new(number, folder, String::new()) }
    }

    /// From the next start on it has these flags, too.
    pub(crate) fn set_flags(&mut self, flags: &[&str]) {
        self.flags = flags.iter().map(|flag| (*flag).to_owned()).collect();
    }

    /// Starts it and gives the address for other sites. It does not run yet.
    pub(crate) fn start(&mut self) -> Result<SocketAddr, StartError> {
        let number = self.number;
        let system = |error| StartError::System { number, error };
        let log = File::options().create(true).append(true).open(self.log()).map_err(system)?;
        let mut child = self.command().map_err(system)?.stderr(log).spawn().map_err(system)?;
        let out = child.stdout.take();
        // From here on it is killed if anything fails.
        let mut running = Running { child, api: Api::new(self.http) };
        let line = match first_line(out).recv_timeout(READY_TIME_MAX) {
            Ok(line) => line,
            Err(mpsc::RecvTimeoutError::Timeout) => {
                return Err(StartError::Slow { number, log: self.log_end() });
            }
            Err(mpsc::RecvTimeoutError::Disconnected) => {
                return Err(StartError::Ended { number, log: self.log_end() });
            }
        };
        let address = |name: &str| {
            let found = line.split(' ').find_map(|word| word.strip_prefix(name)?.parse::<SocketAddr>().ok());
            found.ok_or_else(|| StartError::Unknown { number, line: line.clone() })
        };
        (self.resp, self.http) = (address("resp=")?, address("http=")?);
        let link = address("link=")?;
        running.api = Api::new(self.http);
        self.running = Some(running);
        Ok(link)
    }

    fn command(&self) -> io::Result<Command> {
        let mut command = Command::new(std::env::current_exe()?);
        // What is set for other servers, such as a password, is not for these.
        let variables = std::env::vars_os().map(|(name, _)| name);
        variables.filter(|name| name.to_string_lossy().starts_with("QUIPU_")).for_each(|name| {
            command.env_remove(name);
        });
        command.arg("serve");
        match &self.database {
            None => command.arg("--data").arg(self.folder.join(folder_name(self.number))),
            Some(Database { address, variables }) => {
                command.envs(variables.iter().cloned()).args(["--storage", address])
            }
        };
        command.args(["--resp", &self.resp.to_string(), "--http", &self.http.to_string()]);
        command.args(["--site", &self.number.to_string()]);
        if !self.peers.is_empty() {
            command.args(["--peers", &self.peers]);
        }
        command.args(["--link", &ANY.to_string(), "--workers", "1"]).args(&self.flags);
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        Ok(command)
    }

    fn log(&self) -> PathBuf {
        self.folder.join(format!("site-{}.log", self.number))
    }

    fn log_end(&self) -> String {
        let log = fs::read_to_string(self.log()).unwrap_or_default();
        let lines: Vec<&str> = log.lines().rev().take(LOG_LINES_SHOWN).collect();
        lines.into_iter().rev().collect::<Vec<_>>().join(" / ")
    }

    /// The number of its process, while it runs.
    pub(crate) fn process(&mut self) -> Option<u32> {
        // It may have ended by itself; then it is shown as what it is, and can be started again.
        self.running.take_if(|running| !matches!(running.child.try_wait(), Ok(None)));
        self.running.as_ref().map(|running| running.child.id())
    }

    /// Its server, while it runs.
    pub(crate) fn api(&self) -> Option<&Api> {
        self.running.as_ref().map(|running| &running.api)
    }

    /// SIGKILL: no time for anything. Did it run?
    pub(crate) fn kill(&mut self) -> bool {
        self.running.take().is_some()
    }

    /// Asks it to end in an orderly way. Another call waits for it.
    pub(crate) fn ask_to_stop(&self) {
        if let Some(running) = &self.running {
            // It may have ended already.
            let _ = kill_process(Pid::from_child(&running.child), Signal::TERM);
        }
    }

    /// Waits until it has ended. One that takes too long, or that fails, is an error; it has ended then, too.
    pub(crate) fn wait(&mut self) -> Result<(), String> {
        let Some(mut running) = self.running.take() else { return Ok(()) };
        let until = Instant::now() + STOP_TIME_MAX;
        while Instant::now() < until {
            match running.child.try_wait() {
                Ok(Some(status)) if status.success() => return Ok(()),
                Ok(Some(status)) => return Err(format!("site {} has failed: {status}", self.number)),
                Ok(None) => thread::sleep(LOOK_EVERY),
                Err(error) => return Err(format!("site {} cannot be waited for: {error}", self.number)),
            }
        }
        Err(format!("site {} has not stopped within {STOP_TIME_MAX:?} and was killed", self.number))
    }
}

/// The folder of a site.
pub(super) fn folder_name(number: u16) -> String {
    format!("site-{number}")
}

/// What a server says first: that it is ready.
fn first_line(out: Option<ChildStdout>) -> mpsc::Receiver<String> {
    let (line, lines) = mpsc::channel();
    thread::spawn(move || {
        let first = out.and_then(|out| BufReader::new(out).lines().next()?.ok());
        // Whoever waits for it may have given up.
        first.map(|first| line.send(first))
    });
    lines
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
