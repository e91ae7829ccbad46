//! Which site can send to which: the topology, less what is cut.

use super::plan::Topology;

/// Links between sites, each direction on its own.
#[derive(Debug)]
pub(super) struct Links {
    topology: Topology,
    sites: usize,
    /// A copy that runs beside a site: its place, and that of the site.
    beside: Option<(usize, usize)>,
    /// How many troubles cut this direction now.
    cuts: Vec<u32>,
    /// How many of them are noticed by both ends.
    noticed: Vec<u32>,
    /// How many troubles hold messages back in this direction now.
    stalls: Vec<u32>,
    /// Do both ends take it for connected? (The lower site first.)
    connected: Vec<bool>,
}

impl Links {
    /// Between so many places. `beside` is the place of a copy that runs beside a site, and that of the site.
    pub(super) fn new(topology: Topology, sites: usize, beside: Option<(usize, usize)>) -> Self {
        Self {
            topology,
            sites,
            beside,
            cuts: vec![0; sites * sites],
            noticed: vec![0; sites * sites],
            stalls: vec![0; sites * sites],
            connected: vec![false; sites * sites],
        }
    }

    /// Is there a link between these two places when nothing is cut?
    fn links(&self, a: usize, b: usize) -> bool {
        let site = |at: usize| self.beside.filter(|(copy, _)| *copy == at).map_or(at, |(_, site)| site);
        self.topology.links(site(a), site(b))
    }

    /// All directions of all links that there are when nothing is cut.
    pub(super) fn all(&self) -> impl Iterator<Item = (usize, usize)> + use<> {
        let sites = self.sites;
        let all = (0..sites * sites).map(|at| (at / sites, at % sites));
        all.filter(|&(a, b)| self.links(a, b)).collect::<Vec<_>>().into_iter()
    }

    /// Does a message get through?
    pub(super) fn carries(&self, from: usize, to: usize) -> bool {
        self.links(from, to) && self.cuts[from * self.sites + to] == 0
    }

    /// Is there a link that nobody has noticed to be cut?
    pub(super) fn seems_up(&self, a: usize, b: usize) -> bool {
        self.links(a, b) && self.noticed[a * self.sites + b] == 0 && self.noticed[b * self.sites + a] == 0
    }

    /// Are the two connected?
    pub(super) fn is_connected(&self, a: usize, b: usize) -> bool {
        self.connected[a.min(b) * self.sites + a.max(b)]
    }

    /// Connects or disconnects the two. Returns whether that is new.
    pub(super) fn set_connected(&mut self, a: usize, b: usize, connected: bool) -> bool {
        std::mem::replace(&mut self.connected[a * self.sites + b], connected) != connected
    }

    /// Cuts one direction.
    pub(super) fn cut(&mut self, from: usize, to: usize, noticed: bool) {
        let at = from * self.sites + to;
        self.cuts[at] += 1;
        self.noticed[at] += u32::from(noticed);
    }

    /// Takes all cuts and stalls back.
    pub(super) fn heal(&mut self) {
        self.cuts.fill(0);
        self.noticed.fill(0);
        self.stalls.fill(0);
    }

    /// Are messages held back in this direction?
    pub(super) fn is_stalled(&self, from: usize, to: usize) -> bool {
        self.stalls[from * self.sites + to] > 0
    }

    /// Holds messages back in this direction, once more.
    pub(super) fn stall(&mut self, from: usize, to: usize) {
        self.stalls[from * self.sites + to] += 1;
    }

    /// Takes one stall back.
    pub(super) fn go_on(&mut self, from: usize, to: usize) {
        self.stalls[from * self.sites + to] -= 1;
    }

    /// Takes one cut back.
    pub(super) fn mend(&mut self, from: usize, to: usize, noticed: bool) {
        let at = from * self.sites + to;
        self.cuts[at] -= 1;
        self.noticed[at] -= u32::from(noticed);
    }
}
