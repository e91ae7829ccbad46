//! The experiments of “Extending eventually consistent cloud databases for enforcing numeric invariants” (Balegas and
//! others, section V), on the engine of `quipu-engine`: what does it cost never to cross a limit?
//!
//! | module | in the paper | question |
//! |---|---|---|
//! | [`latency`] | table I | How long does an operation take where there is little to do? |
//! | [`load`] | figures 4 and 7 | How many operations get through, and how long do they take then? |
//! | [`exhaust`] | figure 5 | What happens when the last units are spent? |
//! | [`excess`] | figure 6 | How many units are spent that there are not? |
//!
//! Each runs the paper's four [configurations](Configuration). All of them are the same engine over the same store in
//! memory, behind the same model of what a server costs ([`Costs`]), on the same network: three sites with the
//! latencies of section V-A, which we take for those of one way: then the 170 ms of a remote client in table I are one
//! round trip. (As two, one to read and one to write, they would not be: even few clients write so much in between that
//! most tries would fail.) Within a site, where the paper states none, we take a quarter of a millisecond.
//!
//! Checked while it runs: bounded counters and conditional writes never cross the limit, at any instant, in all that
//! was counted anywhere and in what any site reports. Checked at the end: every site reports exactly the sum of what
//! was counted. A plain counter that is read, checked and decremented does cross it; by how much is the result.

mod books;
mod client;
pub mod excess;
pub mod exhaust;
pub mod latency;
pub mod load;
mod setup;
mod worker;
mod world;

pub use setup::{CLIENTS_MAX, COUNTERS_MAX, Costs, SECONDS_MAX};

/// The sites, in the order in which rows name them.
pub const SITES: [&str; 3] = ["US-East", "US-West", "Europe"];

/// How the counter is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Configuration {
    /// A plain counter at each site. Who subtracts reads it first, and does not if the limit is reached. Each write
    /// is a commit of its own.
    Weak,
    /// A plain counter at the first site alone, to which the operations of all clients go. There they read it, write
    /// on the condition that nobody else has written since, and begin again if somebody has. Each write is a commit
    /// of its own.
    Strong,
    /// A bounded counter: rights decide at each site. What has come in during a commit shares the next one.
    Ours,
    /// The same, with a commit for each command.
    Unbatched,
}

impl Configuration {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Weak, Self::Strong, Self::Ours, Self::Unbatched];

    /// A name for columns.
    pub fn name(self) -> &'static str {
        match self {
            Self::Weak => "weak",
            Self::Strong => "strong",
            Self::Ours => "ours",
            Self::Unbatched => "unbatched",
        }
    }

    /// Is it a counter that the engine keeps within its limit?
    fn is_bounded(self) -> bool {
        matches!(self, Self::Ours | Self::Unbatched)
    }

    /// The number of sites that have the counter.
    fn servers(self) -> usize {
        if self == Self::Strong { 1 } else { SITES.len() }
    }
}

/// A column of a configuration.
fn column(configuration: Configuration, what: &str) -> String {
    format!("{}_{what}", configuration.name())
}

#[expect(clippy::cast_precision_loss, reason = "far from 2^53")]
fn to_ms(us: u64) -> f64 {
    us as f64 / 1_000.0
}
