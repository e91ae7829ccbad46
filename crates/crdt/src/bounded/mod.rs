//! Counters that never cross a minimum or a maximum, though nobody asks anybody before counting.
//!
//! The distance between the value and a bound is divided among the replicas as *rights*: whoever holds five
//! rights to subtract may subtract five, alone, whatever the others do meanwhile. Adding makes rights to
//! subtract, subtracting makes rights to add, and rights can be passed on ("Extending Eventually Consistent
//! Cloud Databases for Enforcing Numeric Invariants", Balegas, Serra, Duarte, Ferreira, Shapiro, Rodrigues
//! and Preguiça, section III).
//!
//! [`Definition`] says what the bounds are. [`Bounded`] is the paper's counter, which remembers who passed
//! how much to whom, n² numbers for n replicas; [`CompactBounded`] decides the same with n rows and the
//! transfers still under way. Both send their whole state as the message: a part of it could show a
//! subtraction without the addition that allowed it, and with it a value beyond the bound.

mod change;
mod compact;
mod definition;
mod full;
mod ledger;
mod rights;
mod row;

pub use change::{MergeError, OutOfRights, Prepared, Refused};
pub use compact::{CompactBounded, IN_FLIGHT_TRANSFERS_MAX};
pub use definition::{BadDefinition, Definition};
pub use full::Bounded;
pub use ledger::{Ledger, Summary, Transfer, TransferId};
pub use rights::{Right, Rights};
pub use row::{Fate, Parked, Row, Witness};
