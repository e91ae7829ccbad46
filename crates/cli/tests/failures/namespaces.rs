//! The same load with a network of its own for every site, made of network namespaces, virtual cables and a bridge. Here
//! the kernel loses packets: nobody is told that a connection has ended.
//!
//! The test runs itself again inside of new namespaces, which end with it however it ends: nothing is left on the
//! machine, and nothing of the machine's own network is touched.

use std::{collections::BTreeSet, env, fs, net::Ipv4Addr, process::Command, sync::Mutex};

use crate::{
    harness::{
        Cluster, Site,
        random::{Random, kills},
        tools,
    },
    kills::{Load, Network, SITES, index},
};

/// Set where the test runs inside.
const INSIDE: &str = "QUIPU_INSIDE_NAMESPACES";
/// New mounts and processes too: named networks and servers vanish with them.
const NEW: [&str; 5] = ["--net", "--mount", "--pid", "--fork", "--kill-child"];
/// What a user needs who is not root.
const AS_USER: [&str; 2] = ["--user", "--map-root-user"];
/// What the test does inside, in short.
const TRY: &str = "mount -t tmpfs none /run && mkdir /run/netns && ip netns add try && \
    ip link add name bridge type bridge && ip link add name cable type veth peer name other netns try && \
    nsenter --net=/run/netns/try ip link set dev lo up";
const LINK_PORT: u16 = 7381;

/// What `unshare` is told on this machine.
pub(crate) fn permitted() -> Result<Vec<&'static str>, String> {
    for program in ["unshare", "nsenter", "ip", "mount"] {
        tools::find(program)?;
    }
    let mut refused = String::new();
    for flags in [NEW.to_vec(), [&AS_USER[..], &NEW[..]].concat()] {
        match tools::output(Command::new("unshare").args(&flags).args(["sh", "-c", TRY])) {
            Ok(_) => return Ok(flags),
            Err(why) => refused = why,
        }
    }
    Err(format!("network namespaces are not permitted here ({})", refused.trim().replace('\n', " ")))
}

pub(crate) fn is_inside() -> bool {
    env::var_os(INSIDE).is_some()
}

pub(crate) fn run(flags: Vec<&'static str>) {
    let program = env::current_exe().expect("this program");
    let status = Command::new("unshare").args(flags).arg(program).env(INSIDE, "1").status();
    let status = status.expect("unshare starts");
    assert!(status.success(), "inside: {status}; why is said above");
}

pub(crate) fn inside() {
    let network = Namespaces::new();
    let sites = (1..=SITES).map(|number| {
        let peers: Vec<String> = (1..=SITES)
            .filter(|other| *other != number)
            .map(|other| format!("{other}@{}:{LINK_PORT}", on_bridge(other)))
            .collect();
        let link = on_bridge(number);
        let flags = format!(
            "--site {number} --link {link}:{LINK_PORT} --peers {} --workers 2 --insecure",
            peers.join(",")
        );
        (number, Site::in_namespace(&name(number), for_clients(number), &flags))
    });
    Load::new("namespaces", Cluster::of(sites.collect()), &network).run(kills(15, 4));
}

fn name(number: u16) -> String {
    format!("site{number}")
}

/// Where other sites reach this one.
fn on_bridge(number: u16) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, 0, u8::try_from(number).expect("a small number"))
}

/// Where clients reach it, on a cable of their own that is never cut.
fn for_clients(number: u16) -> Ipv4Addr {
    Ipv4Addr::new(10, 1, u8::try_from(number).expect("a small number"), 2)
}

/// Something that nothing comes through.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Cut {
    /// The port of a site at the bridge.
    Port(u16),
    /// The way from one site to another; there may be one back.
    Way { from: u16, to: u16 },
}

impl Cut {
    fn all() -> Vec<Self> {
        let ports = (1..=SITES).map(Self::Port);
        let ways = (1..=SITES).flat_map(|from| (1..=SITES).map(move |to| Self::Way { from, to }));
        ports.chain(ways.filter(|way| !matches!(way, Self::Way { from, to } if from == to))).collect()
    }

    fn make(self) {
        match self {
            Self::Port(number) => ip(&format!("link set dev link{number} down")),
            Self::Way { from, to } => ip_at(from, &format!("route add blackhole {}/32", on_bridge(to))),
        }
    }

    fn mend(self) {
        match self {
            Self::Port(number) => ip(&format!("link set dev link{number} up")),
            Self::Way { from, to } => ip_at(from, &format!("route del blackhole {}/32", on_bridge(to))),
        }
    }
}

/// A namespace for each site, and what is cut between them.
#[derive(Debug)]
struct Namespaces(Mutex<BTreeSet<Cut>>);

impl Namespaces {
    fn new() -> Self {
        // A folder of names of our own, which nobody outside sees.
        run_program("mount", "-t tmpfs none /run");
        fs::create_dir("/run/netns").expect("the folder is empty");
        ip("link set dev lo up");
        ip("link add name sites type bridge");
        ip("link set dev sites up");
        for number in 1..=SITES {
            let (name, clients) = (name(number), for_clients(number));
            ip(&format!("netns add {name}"));
            ip(&format!("link add name link{number} type veth peer name link netns {name}"));
            ip(&format!("link set dev link{number} master sites up"));
            ip(&format!("link add name clients{number} type veth peer name clients netns {name}"));
            ip(&format!("addr add 10.1.{number}.1/24 dev clients{number}"));
            ip(&format!("link set dev clients{number} up"));
            ip_at(number, "link set dev lo up");
            ip_at(number, &format!("addr add {}/24 dev link", on_bridge(number)));
            ip_at(number, "link set dev link up");
            ip_at(number, &format!("addr add {clients}/24 dev clients"));
            ip_at(number, "link set dev clients up");
        }
        Self(Mutex::new(BTreeSet::new()))
    }

    /// Cuts it, or mends it if it is cut.
    fn toggle(&self, cut: Cut) {
        let mut cuts = self.0.lock().expect("nothing fails here");
        if cuts.remove(&cut) {
            cut.mend();
        } else {
            cut.make();
            cuts.insert(cut);
        }
    }
}

impl Network for Namespaces {
    fn disturb(&self, _: &Cluster, random: &mut Random) {
        let all = Cut::all();
        self.toggle(all[index(random, all.len())]);
    }

    fn heal(&self, _: &Cluster) {
        let mut cuts = self.0.lock().expect("nothing fails here");
        std::mem::take(&mut *cuts).into_iter().for_each(Cut::mend);
    }
}

fn ip(words: &str) {
    run_program("ip", words);
}

/// The same in the namespace of a site.
fn ip_at(number: u16, words: &str) {
    run_program("ip", &format!("-netns {} {words}", name(number)));
}

fn run_program(program: &str, words: &str) {
    let done = tools::output(Command::new(program).args(words.split(' ')));
    done.unwrap_or_else(|why| panic!("{program} {words}: {why}"));
}
