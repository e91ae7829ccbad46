//! Virtual time: a queue of events, and a network that delays, loses, repeats, reorders and splits.
//!
//! Nothing here knows what is simulated: an event is any type, a node is a number. A simulation is a loop:
//! take a [batch](Queue::next_batch) of events that are due, let each change the state, let what it sends go
//! through the [`Network`] into the [`Queue`] again.
//!
//! All randomness comes from [streams](quipu_crdt::testing::Random::stream) of one seed, one for each purpose,
//! so that a change in one of them, say a higher loss, does not shift the numbers of another.
//!
//! ```
//! use quipu_sim::core::{Constant, Faults, Network, Queue};
//! let mut queue = Queue::new();
//! let mut network = Network::new(Constant { ms: 40 }, Faults::NONE, 7);
//! network.send(&mut queue, 0, 1, "ping");
//! let mut batch = queue.next_batch(1_000).expect("a message is under way");
//! assert_eq!((queue.now(), batch.as_slice()), (40, &["ping"][..]));
//! queue.recycle(&mut batch);
//! assert!(queue.next_batch(1_000).is_none());
//! assert_eq!(queue.now(), 1_000);
//! ```

mod budget;
mod delay;
mod latency;
mod network;
mod queue;

pub(crate) use budget::Budget;
pub use budget::Watching;
pub use delay::Delay;
pub use latency::{Backbone, Constant, Latency, Sites};
pub use network::{Faults, Network};
pub use queue::Queue;

/// Virtual milliseconds, since the start of a simulation or between two events.
pub type Millis = u64;

/// A node of the simulated network.
pub type Node = u32;
