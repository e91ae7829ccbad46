//! One shard of a counter database.

mod command;
mod site;

pub use command::{
    Action, Add, Added, Beyond, BoundedView, Command, Inspection, Limits, OperationId, Outcome, Refusal,
    Reply, SiteView,
};
pub use site::SiteId;

/// The longest key.
pub const KEY_BYTES_MAX: usize = 512;
