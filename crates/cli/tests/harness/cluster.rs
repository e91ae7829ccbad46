//! Several sites on this machine, every two of them connected by lines that can be cut.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
    thread,
    time::{Duration, Instant},
};

use super::{Cable, Client, Line, Running, Site, Value, Way};

/// On a machine with much else to do.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Tries again and again until it is true.
pub(crate) fn wait(what: &str, mut is_true: impl FnMut() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !is_true() {
        assert!(Instant::now() < until, "{what} does not come true within {PATIENCE:?}");
        thread::sleep(Duration::from_millis(10));
    }
}

/// A copy of a site's folder that lacks what the site has stored since.
pub(crate) struct OldCopy {
    data: PathBuf,
    kept: PathBuf,
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a folder");
    for entry in fs::read_dir(from).expect("a folder") {
        let entry = entry.expect("an entry");
        let target = to.join(entry.file_name());
        if entry.file_type().expect("a kind").is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).expect("copied");
        }
    }
}

pub(crate) struct Cluster {
    pub(crate) sites: BTreeMap<u16, Site>,
    running: BTreeMap<u16, Running>,
    /// From whom to whom.
    lines: BTreeMap<(u16, u16), Line>,
}

impl Cluster {
    /// Sites 1 to `size`; none runs yet. `flags` are for all of them.
    pub(crate) fn new(size: u16, flags: &str) -> Self {
        Self::on(size, flags, |_, flags| Site::new(flags))
    }

    /// The same, where each site has its place: given its number and its flags.
    pub(crate) fn on(size: u16, flags: &str, site: impl Fn(u16, &str) -> Site) -> Self {
        let mut lines = BTreeMap::new();
        let mut sites = BTreeMap::new();
        for number in 1..=size {
            let others = (1..=size).filter(|other| *other != number);
            let peers: Vec<String> = others
                .map(|other| {
                    let line =
                        lines.entry((number, other)).or_insert_with(|| Line::new().expect("a free port"));
                    format!("{other}@{}", line.address)
                })
                .collect();
            let flags =
                format!("--site {number} --link 127.0.0.1:0 --peers {} --workers 2 {flags}", peers.join(","));
            sites.insert(number, site(number, &flags));
        }
        Self { sites, running: BTreeMap::new(), lines }
    }

    /// Sites that reach each other by themselves; none runs yet.
    pub(crate) fn of(sites: BTreeMap<u16, Site>) -> Self {
        Self { sites, running: BTreeMap::new(), lines: BTreeMap::new() }
    }

    /// The same, and all run.
    pub(crate) fn start(size: u16, flags: &str) -> Self {
        let mut cluster = Self::new(size, flags);
        (1..=size).for_each(|number| cluster.start_site(number));
        cluster
    }

    pub(crate) fn start_site(&mut self, number: u16) {
        self.enter(number, self.sites[&number].start());
    }

    /// One of the sites runs from now on: the others find it.
    pub(crate) fn enter(&mut self, number: u16, running: Running) {
        let link = running.link.expect("it has peers");
        self.lines.iter().filter(|((_, to), _)| *to == number).for_each(|(_, line)| line.aim(link));
        self.running.insert(number, running);
    }

    /// A site that was started elsewhere belongs to the cluster.
    pub(crate) fn take_in(&mut self, number: u16, site: Site, running: Running) {
        self.sites.insert(number, site);
        self.running.insert(number, running);
    }

    /// Takes a site out of the cluster's hands: to be stopped, killed or signalled.
    pub(crate) fn take(&mut self, number: u16) -> Running {
        self.running.remove(&number).expect("it runs")
    }

    /// Stops a site, keeps a copy of its folder, and starts it again.
    pub(crate) fn copy_folder(&mut self, number: u16) -> OldCopy {
        self.take(number).stop();
        let data = self.sites[&number].data();
        let kept = data.with_file_name("kept");
        copy(&data, &kept);
        self.start_site(number);
        OldCopy { data, kept }
    }

    /// A site is killed, and the old copy takes the place of its folder.
    pub(crate) fn put_back(&mut self, number: u16, copy: &OldCopy) {
        self.take(number).kill();
        fs::remove_dir_all(&copy.data).expect("removed");
        fs::rename(&copy.kept, &copy.data).expect("moved");
    }

    pub(crate) fn running(&self, number: u16) -> &Running {
        &self.running[&number]
    }

    pub(crate) fn client(&self, number: u16) -> Client {
        self.running[&number].client()
    }

    pub(crate) fn line(&self, from: u16, to: u16) -> &Line {
        &self.lines[&(from, to)]
    }

    /// What happens between two sites from now on, in both directions.
    pub(crate) fn set(&self, one: u16, other: u16, cable: Cable) {
        self.line(one, other).set(cable);
        self.line(other, one).set(cable);
    }

    /// Holds up what one site says to another, or does not any more; the other direction works.
    pub(crate) fn stall(&self, from: u16, to: u16, stalled: bool) {
        self.line(from, to).stall(Way::Forth, stalled);
        self.line(to, from).stall(Way::Back, stalled);
    }

    /// Between two sites everything comes so much later from now on.
    pub(crate) fn delay(&self, one: u16, other: u16, delay: Duration) {
        self.line(one, other).delay(delay);
        self.line(other, one).delay(delay);
    }

    /// Is this site in the cluster's hands?
    pub(crate) fn is_running(&self, number: u16) -> bool {
        self.running.contains_key(&number)
    }

    /// What a site says of the others.
    pub(crate) fn info(&self, number: u16) -> String {
        let info = self.client(number).call("INFO replication");
        match info {
            Value::Bulk(text) => String::from_utf8(text).expect("text"),
            other => panic!("no text: {other:?}"),
        }
    }

    pub(crate) fn wait_for_info(&self, number: u16, part: &str) {
        wait(&format!("{part:?} at site {number}"), || self.info(number).contains(part));
    }

    /// Waits until there is a link between two sites, seen from both.
    pub(crate) fn wait_for_link(&self, one: u16, other: u16) {
        self.wait_for_info(one, &format!("peer{other}:link=up"));
        self.wait_for_info(other, &format!("peer{one}:link=up"));
    }

    /// What `quipu audit` says of all that run.
    pub(crate) fn audit(&self, more: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_quipu"));
        command.arg("audit").args(more);
        for running in self.running.values() {
            command.args(["--server", &format!("http://{}", running.http)]);
        }
        command.output().expect("it runs")
    }

    /// Waits until `quipu audit` finds that the books balance: nothing is in flight, nothing provisional.
    pub(crate) fn balance(&self) {
        let until = Instant::now() + PATIENCE;
        loop {
            let Output { status, stdout, stderr } = self.audit(&[]);
            if status.code() == Some(0) {
                return;
            }
            let [out, said] = [stdout, stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
            assert!(Instant::now() < until, "the books do not balance within {PATIENCE:?}:\n{out}{said}");
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// Waits until all that run show the same value, and it is this.
    pub(crate) fn agree(&self, key: &str, value: i64) {
        for number in self.running.keys() {
            let mut client = self.client(*number);
            let until = Instant::now() + PATIENCE;
            loop {
                let found = client.call(&format!("GET {key}")).count();
                if found == value {
                    break;
                }
                let info = self.info(*number);
                assert!(Instant::now() < until, "site {number} shows {found} for {key}, not {value}; {info}");
                thread::sleep(Duration::from_millis(10));
            }
        }
    }
}
