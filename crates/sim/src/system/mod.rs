//! The whole system in virtual time: the real engine at several sites, over networks that lose, repeat, delay and split,
//! and stores that fail, with clients that retry and go elsewhere. Everything is determined by a seed.
//!
//! A [`Plan`] is what happens, as data; [`run`] lets it happen. Checks apart from the workload look at every answer
//! (module `check`), and after everything has healed all sites must say the same, and exactly what was acknowledged.
//! A [`Violation`] tells its seed, the plan and the last happenings, and [`shrink`] makes the plan smaller.

mod books;
pub(crate) mod calls;
mod changes;
pub(crate) mod check;
pub(crate) mod claims;
pub(crate) mod client;
mod finale;
mod fleet;
mod floor;
pub(crate) mod history;
mod links;
pub(crate) mod plan;
mod shrink;
mod site;
mod trouble;
mod world;
mod wrong;

pub use changes::{Changes, Feature};
pub use finale::{Summary, Violation, run, run_watched};
pub use fleet::{EDGES_MAX, Fleet, Mishap, RELAYS_MAX, Who};
pub use plan::{ACTIVE_MS_MAX, CLIENTS_MAX, Edition, KEYS_MAX, Mix, Plan, SITES_MAX, Topology, Work};
pub use shrink::shrink;
pub use trouble::{Planned, Trouble};
pub use wrong::Wrong;
