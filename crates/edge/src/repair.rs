//! Files that are damaged: what can still be read of them.

use std::path::Path;

use quipu_storage::{
    StorageError,
    file::{Damage, StateFile},
};

use crate::{OpenError, identity::Identity};

/// Why nothing is handed over from what is left of a file.
const REPAIRED: &str =
    "it was repaired, lacks what was damaged, and may have again what was handed over since.";

/// Says what is wrong with the file of an edge that is not in use; `None`: nothing. Changes nothing.
pub fn examine(path: impl AsRef<Path>) -> Result<Option<Damage>, StorageError> {
    StateFile::examine(path.as_ref())
}

/// Makes a file of what stands before the damage; the damaged one stays beside it. Nothing is handed over from it until it
/// is opened [as the original](crate::Options::original). Returns what was wrong.
pub fn repair(path: impl AsRef<Path>) -> Result<Option<Damage>, OpenError> {
    StateFile::repair(path.as_ref(), |table| {
        let mut identity = Identity::read(table)?;
        Ok(identity.set_copy(table, Some(REPAIRED.to_owned()))?)
    })
}
