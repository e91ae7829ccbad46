//! Which site can send to which: the topology, less what is cut.

use super::plan::Topology;

/// Links between sites, each direction on its own.
#[derive(Debug)]
pub(super) struct Links {
    topology: Topology,
    sites: usize,
    /// How many troubles cut this direction now.
    cuts: Vec<u32>,
    /// How many of them are noticed by both ends.
    noticed: Vec<u32>,
    /// Do both ends take it for connected? (The lower site first.)
    connected: Vec<bool>,
}

impl Links {
    pub(super) fn new(topology: Topology, sites: usize) -> Self {
        Self {
            topology,
            sites,
            cuts: vec![0; sites * sites],
            noticed: vec![0; sites * sites],
            connected: vec![false; sites * sites],
        }
    }

    /// All directions of all links that there are when nothing is cut.
    pub(super) fn all(&self) -> impl Iterator<Item = (usize, usize)> + use<> {
        let (topology, sites) = (self.topology, self.sites);
        (0..sites * sites).map(move |at| (at / sites, at % sites)).filter(move |&(a, b)| topology.links(a, b))
    }

    /// Does a message get through?
    pub(super) fn carries(&self, from: usize, to: usize) -> bool {
        self.topology.links(from, to) && self.cuts[from * self.sites + to] == 0
    }

    /// Is there a link that nobody has noticed to be cut?
    pub(super) fn seems_up(&self, a: usize, b: usize) -> bool {
        self.topology.links(a, b)
            && self.noticed[a * self.sites + b] == 0
            && self.noticed[b * self.sites + a] == 0
    }

    /// Are the two connected?
    pub(super) fn is_connected(&self, a: usize, b: usize) -> bool {
        self.connected[a * self.sites + b]
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

    /// Takes all cuts back.
    pub(super) fn heal(&mut self) {
        self.cuts.fill(0);
        self.noticed.fill(0);
    }

    /// Takes one cut back.
    pub(super) fn mend(&mut self, from: usize, to: usize, noticed: bool) {
        let at = from * self.sites + to;
        self.cuts[at] -= 1;
        self.noticed[at] -= u32::from(noticed);
    }
}
