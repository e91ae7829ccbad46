//! Counting where there is no server, or not always: in programs, short-lived jobs and devices.
//!
//! ```
//! # // The same program, with a server and a folder that are there for the time of the test.
//! # let site = quipu_edge::testing::Site::start("example")?;
//! # let folder = tempfile::tempdir()?;
//! use quipu_edge::Edge;
//! use std::time::Duration;
//!
//! let (state, server) = ("counts.quipu", "http://127.0.0.1:7380");
//! # let (state, server) = (folder.path().join(state), site.url());
//! let edge = Edge::open(&state, [server])?;
//! edge.add("visits", 3)?; // stored here, whether there is a server or not
//! edge.subtract("visits", 1)?;
//! println!("{} here", edge.value("visits")?.value);
//! edge.flush(Duration::from_secs(5))?; // all is handed over, or the error says what is not
//! println!("{} in all", edge.value("visits")?.value);
//! edge.retire(Duration::from_secs(5))?; // nothing is left of it, here or there
//! # assert_eq!(site.value("visits"), 2);
//! # assert!(!state.exists());
//! # assert_eq!((site.stats().slots, site.stats().notices), (0, 0));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! An [`Edge`] is a replica. What it counts is stored in its file before `add` returns, and is handed over to a server of
//! the list, any of them, in the background. Requests and answers may be lost, repeated and late, processes may be killed
//! at any moment, the server may be another one each time: each count arrives once. `docs/edges.md` says what that rests
//! on, and what cannot be known about copies of a file.
//!
//! Where to go on: [`Options`] for limits, times and passwords; [`AsyncEdge`] for asynchronous programs; [`SyncError`] and
//! [`NotHandedOver`] for what may go wrong, each of which says what became of the counts.

mod address;
mod asynchronous;
mod backoff;
mod courier;
mod edge;
mod error;
mod http;
mod identity;
mod keeper;
mod options;
mod promise;
mod random;
mod repair;
#[cfg(feature = "testing")]
pub mod testing;
mod watch;

pub use quipu_storage::file::Damage;

pub use self::{
    address::{Address, BadAddress},
    asynchronous::AsyncEdge,
    edge::{Edge, Reading, Status},
    error::{CountError, InFlight, NotHandedOver, OpenError, RetireError, SyncError},
    options::Options,
    repair::{examine, repair},
    watch::Watch,
};
