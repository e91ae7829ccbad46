//! The real binary, started on a free port and a folder of its own; ended by its number, whatever happens.

use std::{
    fs::{self, File},
    io::{BufRead as _, BufReader},
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::PathBuf,
    process::{Child, Command, ExitStatus, Stdio},
    sync::{
        atomic::{AtomicU32, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

use tempfile::TempDir;

use super::Client;

/// How long a server may take until it is ready, on a machine with much else to do.
const READY_WITHIN: Duration = Duration::from_secs(60);
/// How long another process may keep a port that this one had a moment ago.
const PORT_WITHIN: Duration = Duration::from_secs(10);

/// Where this variable names a database (`cassandra://HOST:PORT`), servers keep everything there.
/// `scripts/test-on-cassandra` sets it.
const TEST_STORAGE: &str = "QUIPU_TEST_STORAGE";

/// Each commit is a conditional write there, on a node that many servers share: so few shards are quicker.
const FEW_SHARDS: &str = "--shards 4";
/// A database with too much to do is waited for, rather than told from one that is away; a server that was killed is not.
const PATIENT: &str = "--storage-deadline 25s --takeover-after 2s";

/// Makes a keyspace that nobody else uses, for the cluster that a server with these flags belongs to.
fn keyspace_of_its_own(database: &str, flags: &str) -> String {
    static KEYSPACES: AtomicU32 = AtomicU32::new(0);
    let number = KEYSPACES.fetch_add(1, Ordering::Relaxed);
    let keyspace = format!("{database}/test_{}_{number}", std::process::id());
    let mut command = Command::new(env!("CARGO_BIN_EXE_quipu"));
    command.args(["storage", "init", &keyspace, "--replication", "1"]);
    let mut words = flags.split_whitespace().skip_while(|word| *word != "--cluster");
    if let (Some(flag), Some(cluster)) = (words.next(), words.next()) {
        command.args([flag, cluster]);
    }
    let made = command.output();
    let made = made.expect("the binary starts");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    keyspace
}

/// A folder and the flags that servers on it are started with, one after the other.
#[derive(Debug)]
pub(crate) struct Site {
    folder: TempDir,
    flags: Vec<String>,
    /// A keyspace in place of the folder.
    storage: Option<String>,
    /// The program that starts a server and becomes it, with its arguments: a signal to it is one to the server.
    through: Vec<String>,
    /// Where clients connect.
    host: IpAddr,
}

impl Site {
    /// An empty folder. `flags` are as on the command line, apart by spaces.
    pub(crate) fn new(flags: &str) -> Self {
        // Relays keep what they count in a folder, always.
        let database = std::env::var(TEST_STORAGE).ok().filter(|_| !flags.contains("--tier 1"));
        let Some(database) = database else { return Self::kept_in(None, flags) };
        let few_shards = if flags.contains("--shards") { "" } else { FEW_SHARDS };
        Self::kept_in(Some(keyspace_of_its_own(&database, flags)), &format!("{flags} {few_shards} {PATIENT}"))
    }

    /// A folder, whatever the tests run on otherwise.
    pub(crate) fn in_folder(flags: &str) -> Self {
        Self::kept_in(None, flags)
    }

    /// A keyspace of its own in this database (`cassandra://HOST:PORT`).
    pub(crate) fn in_database(database: &str, flags: &str) -> Self {
        Self::kept_in(Some(keyspace_of_its_own(database, flags)), flags)
    }

    fn kept_in(storage: Option<String>, flags: &str) -> Self {
        let folder = TempDir::new().expect("a folder");
        let flags = flags.split_whitespace().map(str::to_owned).collect();
        Self { folder, flags, storage, through: Vec::new(), host: Ipv4Addr::LOCALHOST.into() }
    }

    /// A keyspace of a database, for one of the nodes that share it.
    pub(crate) fn on(keyspace: &str, flags: &str) -> Self {
        Self::kept_in(Some(keyspace.to_owned()), flags)
    }

    /// The same folder, with other flags.
    pub(crate) fn with_other_flags(mut self, flags: &str) -> Self {
        self.flags = flags.split_whitespace().map(str::to_owned).collect();
        self
    }

    /// The same, under a limit of the system such as `-n 256`.
    pub(crate) fn under(ulimit: &str, flags: &str) -> Self {
        Self::after(&format!("ulimit {ulimit}"), flags)
    }

    /// The same, started by a shell that has run this before.
    pub(crate) fn after(command: &str, flags: &str) -> Self {
        let mut site = Self::new(flags);
        site.through = ["sh", "-c", &format!("{command} && exec \"$0\" \"$@\"")].map(str::to_owned).to_vec();
        site
    }

    /// The same, in a network of its own that [`ip netns`](https://man7.org/linux/man-pages/man8/ip-netns.8.html) has
    /// named, where it has this address for clients.
    pub(crate) fn in_namespace(name: &str, host: Ipv4Addr, flags: &str) -> Self {
        let mut site = Self::new(flags);
        site.through = vec!["nsenter".to_owned(), format!("--net=/run/netns/{name}")];
        site.host = host.into();
        site
    }

    /// Is everything kept in a database in place of a folder?
    pub(crate) fn is_in_database(&self) -> bool {
        self.storage.is_some()
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    fn free_port(&self) -> String {
        SocketAddr::from((self.host, 0)).to_string()
    }

    fn log(&self) -> PathBuf {
        self.folder.path().join("log.txt")
    }

    /// Where servers here say what they have to say.
    pub(crate) fn log_file(&self) -> File {
        File::options().create(true).append(true).open(self.log()).expect("a log")
    }

    /// What servers here have said on their standard error.
    pub(crate) fn said(&self) -> String {
        fs::read_to_string(self.log()).unwrap_or_default()
    }

    /// The command that serves this folder.
    pub(crate) fn command(&self, resp: &str, http: &str) -> Command {
        let quipu = env!("CARGO_BIN_EXE_quipu");
        let mut words = self.through.iter().map(String::as_str).chain([quipu]);
        let mut command = Command::new(words.next().expect("the binary at least"));
        command.args(words);
        // Nothing from outside decides how the server of a test is set up.
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("QUIPU_"))
        {
            command.env_remove(name);
        }
        command.arg("serve").args(["--resp", resp, "--http", http]);
        match &self.storage {
            Some(keyspace) => {
                let names_link = self.flags.iter().any(|flag| flag == "--link");
                let link = if names_link { &[][..] } else { &["--link", "127.0.0.1:0"] };
                command.args(["--storage", keyspace]).args(link)
            }
            None => command.arg("--data").arg(self.data()),
        };
        command.args(&self.flags).stdin(Stdio::null());
        command
    }

    /// Starts a server on free ports.
    pub(crate) fn start(&self) -> Running {
        self.try_start(&self.free_port()).unwrap_or_else(|| panic!("not ready: {}", self.said()))
    }

    /// Starts a server on the port that an earlier one had.
    pub(crate) fn start_at(&self, resp: SocketAddr) -> Running {
        self.start_at_addresses(&resp.to_string(), &self.free_port())
    }

    /// Starts a server on both ports that an earlier one had.
    pub(crate) fn start_at_both(&self, resp: SocketAddr, http: SocketAddr) -> Running {
        self.start_at_addresses(&resp.to_string(), &http.to_string())
    }

    fn start_at_addresses(&self, resp: &str, http: &str) -> Running {
        let until = Instant::now() + PORT_WITHIN;
        loop {
            if let Some(running) = self.try_start_at(resp, http) {
                return running;
            }
            let said = self.said();
            assert!(said.contains("in use") && Instant::now() < until, "not ready: {said}");
            thread::sleep(Duration::from_millis(100));
        }
    }

    /// Starts a server and kills it so soon that it may not even be ready.
    pub(crate) fn start_and_kill_after(&self, after: Duration) {
        let mut command = self.command(&self.free_port(), &self.free_port());
        let mut child =
            command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the binary starts");
        thread::sleep(after);
        child.kill().expect("it is ours");
        child.wait().expect("it ends");
    }

    /// Starts a server; `None` if it ends before it is ready.
    pub(crate) fn try_start(&self, resp: &str) -> Option<Running> {
        self.try_start_at(resp, &self.free_port())
    }

    fn try_start_at(&self, resp: &str, http: &str) -> Option<Running> {
        let mut child = self
            .command(resp, http)
            .stdout(Stdio::piped())
            .stderr(self.log_file())
            .spawn()
            .expect("the binary starts");
        let out = child.stdout.take().expect("it is piped");
        let (line, lines) = mpsc::channel();
        thread::spawn(move || {
            for read in BufReader::new(out).lines().map_while(Result::ok) {
                // Nobody listens after the first; reading on keeps the pipe open.
                let _ = line.send(read);
            }
        });
        let ready = lines.recv_timeout(READY_WITHIN);
        // From here on it is ended when this is dropped.
        let none = ([127, 0, 0, 1], 0).into();
        let mut running = Running { child, resp: none, http: none, link: None, resp_cluster: None };
        let ready = match ready {
            Ok(ready) => ready,
            Err(mpsc::RecvTimeoutError::Timeout) => panic!("not ready in {READY_WITHIN:?}: {}", self.said()),
            Err(mpsc::RecvTimeoutError::Disconnected) => return None,
        };
        let address = |name: &str| {
            ready.split(' ').find_map(|word| word.strip_prefix(name)?.strip_prefix('=')?.parse().ok())
        };
        running.resp = address("resp").expect("an address");
        running.http = address("http").expect("an address");
        running.link = address("link");
        running.resp_cluster = address("resp-cluster");
        Some(running)
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        if thread::panicking() {
            self.folder.disable_cleanup(true);
            println!("the folder of the test that failed: {}", self.folder.path().display());
        } else if let Some(keyspace) = &self.storage {
            let address = keyspace.parse().expect("it was made");
            // A test may have left the database away; it has room for one more.
            let _ = quipu_storage_cassandra::local::drop_keyspace(&address);
        }
    }
}

/// A server that runs. Dropping it kills it.
#[derive(Debug)]
pub(crate) struct Running {
    child: Child,
    pub(crate) resp: SocketAddr,
    pub(crate) http: SocketAddr,
    /// Where other sites connect, if there are any.
    pub(crate) link: Option<SocketAddr>,
    /// Where clients of a Redis Cluster connect, if they can.
    pub(crate) resp_cluster: Option<SocketAddr>,
}

impl Running {
    pub(crate) fn client(&self) -> Client {
        Client::connect(self.resp).expect("the server takes clients")
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// SIGKILL: no time for anything.
    pub(crate) fn kill(mut self) {
        self.child.kill().expect("it was running");
        self.child.wait().expect("it ends");
    }

    /// Its files cannot grow beyond so many bytes; `None`: as far as they like. Writing more fails, as on a disk that is
    /// full. (Its shell must have it ignore SIGXFSZ.)
    pub(crate) fn limit_files(&self, bytes: Option<u64>) {
        let pid = i32::try_from(self.pid()).ok().and_then(rustix::process::Pid::from_raw);
        let limit = rustix::process::Rlimit { current: bytes, maximum: None };
        let limited = rustix::process::prlimit(pid, rustix::process::Resource::Fsize, limit);
        limited.expect("it is ours");
    }

    /// Sends a signal by its name, such as `TERM`.
    pub(crate) fn signal(&self, name: &str) {
        signal(self.pid(), name);
    }

    /// Waits until it has ended by itself, and says how and after how long.
    pub(crate) fn wait(mut self, at_most: Duration) -> (ExitStatus, Duration) {
        let start = Instant::now();
        while start.elapsed() < at_most {
            if let Some(status) = self.child.try_wait().expect("it can be asked") {
                return (status, start.elapsed());
            }
            thread::sleep(Duration::from_millis(5));
        }
        panic!("the server has not ended within {at_most:?}");
    }

    /// An orderly end.
    pub(crate) fn stop(self) {
        self.signal("TERM");
        let (status, _) = self.wait(Duration::from_secs(30));
        assert!(status.success(), "{status}");
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sends a signal to one process.
pub(crate) fn signal(pid: u32, name: &str) {
    let status =
        Command::new("sh").args(["-c", "kill -s \"$1\" \"$2\"", "kill", name, &pid.to_string()]).status();
    assert!(status.expect("a shell").success(), "process {pid} could not be sent {name}");
}
