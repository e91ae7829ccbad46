//! `quipu cluster` as a real process: its sites agree, differ while a link is cut, and are gone at the end.

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    path::Path,
    process::{Child, ChildStdin, Command, ExitStatus, Stdio},
    sync::mpsc::{self, Receiver},
    thread,
    time::{Duration, Instant},
};

use tempfile::TempDir;

/// On a machine with much else to do.
const PATIENCE: Duration = Duration::from_secs(90);

/// A cluster that runs. Dropping it ends it, and with it its sites.
struct Cluster {
    child: Child,
    orders: Option<ChildStdin>,
    lines: Receiver<String>,
    /// What it has said.
    said: Vec<String>,
    /// The processes of its sites, at the start.
    processes: Vec<u32>,
}

fn command(temporary: &Path, flags: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_quipu"));
    command.arg("cluster").args(flags).env("TMPDIR", temporary);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    // Settings of others' servers are not for these; with this one they would not start.
    command.env("QUIPU_SITE", "7").env("QUIPU_RESP", "nonsense");
    command
}

impl Cluster {
    fn start(temporary: &Path, flags: &[&str]) -> Self {
        let mut child =
            command(temporary, flags).stderr(Stdio::inherit()).spawn().expect("the binary starts");
        let (out, orders) = (child.stdout.take().expect("it is piped"), child.stdin.take());
        let (line, lines) = mpsc::channel();
        thread::spawn(move || {
            for read in BufReader::new(out).lines().map_while(Result::ok) {
                // Nobody may listen any more; reading on keeps the pipe open.
                let _ = line.send(read);
            }
        });
        let mut cluster = Self { child, orders, lines, said: Vec::new(), processes: Vec::new() };
        cluster.wait("it is ready", |line| line.starts_with("ready"));
        let process =
            |line: &String| line.split_once("process=").map(|(_, it)| it.parse().expect("a number"));
        cluster.processes = cluster.said.iter().filter_map(process).collect();
        cluster
    }

    /// Reads on until a line is as wanted, and gives that line.
    fn wait(&mut self, what: &str, is_it: impl Fn(&str) -> bool) -> String {
        let until = Instant::now() + PATIENCE;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let line = self.lines.recv_timeout(left);
            let line = line.unwrap_or_else(|error| panic!("not {what}: {error}; it said {:#?}", self.said));
            self.said.push(line.clone());
            if is_it(&line) {
                return line;
            }
        }
    }

    /// Waits for a line about all sites that has all these parts.
    fn shows(&mut self, parts: &[&str]) {
        self.wait(&format!("{parts:?}"), |line| {
            let line = format!("{line};");
            line.starts_with("sites ") && parts.iter().all(|part| line.contains(part))
        });
    }

    fn say(&mut self, order: &str) {
        let orders = self.orders.as_mut().expect("it is not closed");
        writeln!(orders, "{order}").expect("it reads");
    }

    /// Where Redis clients of a site connect.
    fn resp(&self, site: u16) -> SocketAddr {
        let start = format!("site {site} resp=");
        let found = self.said.iter().find_map(|line| line.strip_prefix(&start)?.split(' ').next());
        found.expect("it is said").parse().expect("an address")
    }

    /// Gives an order, and waits until it says that this was done.
    fn order(&mut self, order: &str, answer: &str) {
        self.say(order);
        self.wait(answer, |line| line == answer);
    }

    /// Waits until it has ended by itself.
    fn end(mut self) -> ExitStatus {
        let until = Instant::now() + PATIENCE;
        while Instant::now() < until {
            if let Some(status) = self.child.try_wait().expect("it can be asked") {
                return status;
            }
            thread::sleep(Duration::from_millis(20));
        }
        panic!("it has not ended; it said {:#?}", self.said);
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // The end of its input is its end, and an orderly one: its sites are ended with it.
        drop(self.orders.take());
        let until = Instant::now() + PATIENCE;
        while Instant::now() < until && matches!(self.child.try_wait(), Ok(None)) {
            thread::sleep(Duration::from_millis(20));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn runs(process: u32) -> bool {
    let status =
        Command::new("sh").args(["-c", "kill -0 \"$1\" 2>&1", "kill", &process.to_string()]).output();
    status.expect("a shell").status.success()
}

fn is_empty(folder: &Path) -> bool {
    fs::read_dir(folder).expect("a folder").next().is_none()
}

const ALL_UP: [&str; 2] = ["sites 1 up, 2 up, 3 up;", "links 1-2 up, 1-3 up, 2-3 up;"];

#[test]
fn sites_agree_differ_while_one_is_cut_off_and_agree_again() {
    let temporary = TempDir::new().expect("a folder");
    let mut cluster = Cluster::start(temporary.path(), &[]);
    assert_eq!(cluster.processes.len(), 3);
    assert!(cluster.processes.iter().all(|process| runs(*process)));
    assert!(!is_empty(temporary.path()), "the data is there");
    cluster.shows(&ALL_UP);
    cluster.order("add 2 hits 5", "hits is 5 at site 2");
    cluster.shows(&["; behind 0, 0, 0;", "; hits 5 5 5;"]);

    cluster.order("cut 1 3", "the link between 1 and 3 is cut");
    cluster.order("cut 2 3", "the link between 2 and 3 is cut");
    cluster.shows(&["links 1-2 up, 1-3 cut, 2-3 cut;"]);
    cluster.order("add 3 hits -7", "hits is -2 at site 3");
    cluster.order("add 1 hits 10", "hits is 15 at site 1");
    // How many positions a change takes is not said; whose they are is.
    cluster.shows(&["; behind 3:", ", 3:", ", 1:", "; hits 15 15 -2 (differ);"]);

    cluster.order("heal 1 3", "the link between 1 and 3 is healed");
    cluster.order("heal 2 3", "the link between 2 and 3 is healed");
    cluster.shows(&[ALL_UP[0], ALL_UP[1], "; behind 0, 0, 0;", "; hits 8 8 8;"]);

    let processes = cluster.processes.clone();
    cluster.say("quit");
    assert!(cluster.end().success());
    assert!(!processes.iter().any(|process| runs(*process)), "{processes:?}");
    assert!(is_empty(temporary.path()), "nothing is left behind");
}

#[test]
fn a_killed_site_comes_back_at_the_same_address_with_what_it_had() {
    let (temporary, kept) = (TempDir::new().expect("a folder"), TempDir::new().expect("a folder"));
    let data = kept.path().join("cluster");
    let flags = ["--plain", "--sites", "2", "--data", data.to_str().expect("text")];
    let mut cluster = Cluster::start(temporary.path(), &flags);
    cluster.order("add 2 hits 5", "hits is 5 at site 2");
    cluster.shows(&["; hits 5 5;"]);
    let resp = cluster.resp(2);
    assert!(TcpStream::connect(resp).is_ok());
    cluster.order("kill 2", "site 2 is killed");
    assert!(TcpStream::connect(resp).is_err());
    cluster.shows(&["sites 1 up, 2 down;", "links 1-2 down;"]);
    assert!(!runs(cluster.processes[1]));
    cluster.order("kill 2", "error: site 2 does not run");
    cluster.order("add 2 hits 1", "error: site 2 does not run; nothing was counted");
    cluster.order("add 1 hits 2", "hits is 7 at site 1");
    cluster.order("start 2", "site 2 is started again");
    assert!(TcpStream::connect(resp).is_ok());
    cluster.order("start 2", "error: site 2 runs already");
    cluster.shows(&["sites 1 up, 2 up;", "links 1-2 up;", "; hits 7 7;"]);
    cluster.say("what 2");
    cluster.wait("no order", |line| line.starts_with("error: \"what 2\" is no order"));
    // The end of the input is the end, too.
    cluster.orders = None;
    assert!(cluster.end().success());

    let mut again = Cluster::start(temporary.path(), &flags);
    again.shows(&["; hits 7 7;"]);
    again.say("quit");
    assert!(again.end().success());
    let refused = command(temporary.path(), &["--sites", "3", "--data", flags[4]]).output().expect("it runs");
    let problem = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(2), "{problem}");
    assert!(problem.contains("holds a cluster of 2 sites, not of 3; say --sites 2"), "{problem}");
}

#[test]
fn it_shows_the_rights_to_a_counter_with_limits() {
    let temporary = TempDir::new().expect("a folder");
    let mut cluster = Cluster::start(temporary.path(), &["--sites", "2"]);
    cluster.shows(&["links 1-2 up;"]);
    let mut client = TcpStream::connect(cluster.resp(1)).expect("it takes clients");
    client.set_read_timeout(Some(PATIENCE)).expect("a time");
    client.write_all(b"counter.create seats min 0 value 120\r\n").expect("it reads");
    let mut answer = [0; 5];
    client.read_exact(&mut answer).expect("it answers");
    assert_eq!(&answer, b"+OK\r\n");
    // Who has how many is up to the sites; none is lost.
    cluster.wait("120 seats to sell", |line| {
        let rights = line.split_once("; seats 120 120, may subtract ").map(|(_, rights)| rights.split(' '));
        let rights = rights.map(|rights| rights.map(|it| it.parse::<u64>().expect("a number")).sum::<u64>());
        rights == Some(120)
    });
    cluster.say("quit");
    assert!(cluster.end().success());
}

#[test]
fn a_signal_ends_the_sites_too() {
    let temporary = TempDir::new().expect("a folder");
    let cluster = Cluster::start(temporary.path(), &["--sites", "2"]);
    let processes = cluster.processes.clone();
    let kill = Command::new("sh")
        .args(["-c", "kill -s TERM \"$1\"", "kill", &cluster.child.id().to_string()])
        .status();
    assert!(kill.expect("a shell").success());
    assert!(cluster.end().success());
    assert!(!processes.iter().any(|process| runs(*process)), "{processes:?}");
    assert!(is_empty(temporary.path()), "nothing is left behind");
}

#[test]
fn no_more_and_no_fewer_sites_than_fit_on_a_screen() {
    for sites in ["1", "6", "x"] {
        let temporary = TempDir::new().expect("a folder");
        let refused = command(temporary.path(), &["--sites", sites]).output().expect("it runs");
        assert_eq!(refused.status.code(), Some(2));
        assert!(String::from_utf8_lossy(&refused.stderr).contains("--sites"));
        assert!(is_empty(temporary.path()));
    }
}
