//! A Bloom filter that forgets: which operation ids were seen lately, in a few bits each.
//!
//! After "Idempotent Distributed Counters Using a Forgetful Bloom Filter" (Subramanyam, Gupta, Leslie and
//! Wang). Start with [`Forgetful`]. It is made of [`Bloom`] filters, which take elements as [`ElementHash`].
//! [`model`] says how often it errs, [`Adaptive`] resizes it when that is too often or needlessly rare, and
//! [`RecyclableBloom`] is the baseline that the paper compares it with.

mod adaptive;
mod filter;
mod forgetful;
mod hash;
pub mod model;
mod recyclable;
mod settings;
mod wire;

pub use adaptive::{Adaptive, Limits, LimitsError, SCALE_DOWN_AT, SCALE_UP_AT, Step};
pub use filter::{BITS_MAX, Bloom, HASHES_MAX, SizeError};
pub use forgetful::Forgetful;
pub use hash::ElementHash;
pub use recyclable::{RecyclableBloom, RecyclableError};
pub use settings::{FILTERS_MAX, PAST_MAX, Settings, SettingsError};
