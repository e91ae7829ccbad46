//! How long messages take between which nodes.

use super::{Delay, Millis, Node};
use quipu_crdt::testing::Random;

/// A latency model.
pub trait Latency {
    /// How long this message takes.
    fn draw(&self, from: Node, to: Node, random: &mut Random) -> Millis;
}

/// The same for every message.
#[derive(Debug, Clone, Copy)]
pub struct Constant {
    /// How long.
    pub ms: Millis,
}

impl Latency for Constant {
    fn draw(&self, _: Node, _: Node, _: &mut Random) -> Millis {
        self.ms
    }
}

/// One delay between the first few nodes, which are far apart, and another between all others: the network of
/// “Scalable eventually consistent counters over unreliable networks” (Almeida and Baquero, section 8).
#[derive(Debug, Clone)]
pub struct Backbone {
    backbone: Node,
    between_backbone: Delay,
    elsewhere: Delay,
}

impl Backbone {
    /// Nodes below `backbone` are far apart.
    pub fn new(backbone: Node, between_backbone: Delay, elsewhere: Delay) -> Self {
        Backbone { backbone, between_backbone, elsewhere }
    }

    /// The paper's values: 25 + Weibull(2, 25) ms, and twice that between nodes of tier 0, which are the first
    /// `tier0` nodes.
    pub fn of_the_paper(tier0: Node) -> Self {
        Self::new(tier0, Delay::weibull(50, 2.0, 50.0), Delay::weibull(25, 2.0, 25.0))
    }
}

impl Latency for Backbone {
    #[inline]
    fn draw(&self, from: Node, to: Node, random: &mut Random) -> Millis {
        let both = from < self.backbone && to < self.backbone;
        let delay = if both { &self.between_backbone } else { &self.elsewhere };
        delay.draw(random)
    }
}

/// Nodes at sites, and a delay for each pair of sites.
#[derive(Debug, Clone)]
pub struct Sites {
    site_of: Vec<usize>,
    delays: Vec<Vec<Delay>>,
}

impl Sites {
    /// `site_of[node]` is where a node stands; `delays[a][b]` how long a message takes from site a to site b.
    ///
    /// # Panics
    /// If a node stands at a site that has no row, or a row is too short.
    pub fn new(site_of: Vec<usize>, delays: Vec<Vec<Delay>>) -> Self {
        assert!(delays.iter().all(|row| row.len() == delays.len()), "the matrix of delays is a square");
        assert!(site_of.iter().all(|&site| site < delays.len()), "every node stands at one of the sites");
        Sites { site_of, delays }
    }

    /// Constant delays.
    pub fn constant(site_of: Vec<usize>, delays_ms: &[&[Millis]]) -> Self {
        let row = |row: &&[Millis]| row.iter().map(|&ms| Delay::constant(ms)).collect();
        Self::new(site_of, delays_ms.iter().map(row).collect())
    }

    /// The three sites of “Extending eventually consistent cloud databases for enforcing numeric invariants”
    /// (Balegas and others, section V-A): US-East 0, US-West 1, Europe 2, with the latencies stated there. It
    /// states none within a site; we take 1 ms.
    pub fn of_the_paper(site_of: Vec<usize>) -> Self {
        Self::constant(site_of, &[&[1, 80, 96], &[80, 1, 160], &[96, 160, 1]])
    }
}

impl Latency for Sites {
    fn draw(&self, from: Node, to: Node, random: &mut Random) -> Millis {
        let site = |node: Node| self.site_of[usize::try_from(node).expect("a node is an index")];
        self.delays[site(from)][site(to)].draw(random)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mean_ms(latency: &impl Latency, from: Node, to: Node) -> f64 {
        let mut random = Random::stream(1, "latency");
        (0..100_000).map(|_| latency.draw(from, to, &mut random) as f64).sum::<f64>() / 1e5
    }

    #[test]
    fn messages_between_nodes_of_tier_0_take_twice_as_long() {
        let latency = Backbone::of_the_paper(10);
        // The mean of Weibull(2, s) is s·√π/2; rounding down takes a half.
        let half_root_pi = std::f64::consts::PI.sqrt() / 2.0;
        assert!((mean_ms(&latency, 10, 3) - (24.5 + 25.0 * half_root_pi)).abs() < 0.2);
        assert!((mean_ms(&latency, 10, 500) - (24.5 + 25.0 * half_root_pi)).abs() < 0.2);
        assert!((mean_ms(&latency, 9, 3) - (49.5 + 50.0 * half_root_pi)).abs() < 0.4);
    }

    #[test]
    fn sites_have_a_matrix() {
        let latency = Sites::of_the_paper(vec![0, 0, 1, 2]);
        let mut random = Random::new(1);
        let mut draw = |from, to| latency.draw(from, to, &mut random);
        assert_eq!([draw(0, 1), draw(0, 2), draw(2, 0), draw(1, 3), draw(3, 2)], [1, 80, 80, 96, 160]);
    }
}
