//! What goes wrong between us and the store, with what to do about it.

use std::fmt::Display;

use quipu_storage::StorageError;
use scylla::errors::{
    ConnectionError, ConnectionPoolError, ConnectionSetupRequestErrorKind, DbError, MetadataError,
    NewSessionError,
};

/// Why a store was not made or opened.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum SetupError {
    /// None of the hosts answers.
    #[error(
        "no node of {store} answers: {why}. Nothing was changed; check that it runs and that its hosts and ports are right"
    )]
    Unreachable {
        /// The address.
        store: String,
        /// What the driver said.
        why: String,
    },
    /// The user or the password is wrong or missing.
    #[error(
        "{store} does not let us in: {why}. Nothing was changed; give the right --storage-user and password"
    )]
    Denied {
        /// The address.
        store: String,
        /// What the database said.
        why: String,
    },
    /// There is no such keyspace.
    #[error(
        "{store} has no keyspace {keyspace}. Nothing was changed; make it with `quipu storage init`, or correct its name"
    )]
    NoKeyspace {
        /// The address.
        store: String,
        /// The keyspace.
        keyspace: String,
    },
    /// The keyspace has no tables of ours, or not all of them.
    #[error(
        "the keyspace {keyspace} is not (or not completely) set up: {why}. Nothing was changed; run `quipu storage init`"
    )]
    NotInitialised {
        /// The keyspace.
        keyspace: String,
        /// What is missing.
        why: String,
    },
    /// Tables of a version that this one does not know.
    #[error(
        "the keyspace {keyspace} has schema {found}, and this version knows schema {known}. Nothing was changed; use the version of Quipu that made it, or another keyspace"
    )]
    UnknownSchema {
        /// The keyspace.
        keyspace: String,
        /// What it says.
        found: String,
        /// What is known.
        known: u32,
    },
    /// The keyspace of another cluster of sites.
    #[error(
        "the keyspace {keyspace} belongs to the cluster {found:?}, and this is {asked:?}. Nothing was changed; use another keyspace, or the cluster's own name"
    )]
    OtherCluster {
        /// The keyspace.
        keyspace: String,
        /// Whose it is.
        found: String,
        /// Who asks.
        asked: String,
    },
    /// The keyspace exists and is not what was asked for.
    #[error(
        "the keyspace {keyspace} exists already with {what} {found}, and {asked} was asked for. Nothing was changed"
    )]
    Differs {
        /// The keyspace.
        keyspace: String,
        /// What differs.
        what: &'static str,
        /// As it is.
        found: String,
        /// As it should be.
        asked: String,
    },
    /// Conditional writes are safe within one datacenter, and it is not clear which.
    #[error(
        "{store} has the datacenters {found}, and a site lives in one of them. Nothing was changed; {remedy}"
    )]
    Datacenter {
        /// The address.
        store: String,
        /// Those that there are.
        found: String,
        /// What to do.
        remedy: String,
    },
    /// A value that cannot be.
    #[error("{what} is {found}, and must be {must}. Nothing was changed")]
    OutOfRange {
        /// Which value.
        what: &'static str,
        /// What was given.
        found: u64,
        /// What is possible.
        must: &'static str,
    },
    /// The certificates cannot be used.
    #[error("{file}: {why}. Nothing was changed; give a file with the certificates of the authority, in PEM")]
    Certificates {
        /// The file.
        file: String,
        /// What is wrong.
        why: String,
    },
    /// Something that was asked of the store failed.
    #[error(transparent)]
    Storage(#[from] StorageError),
}

/// Something that works, and puts counts at risk.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Warning {
    /// Too few copies.
    #[error(
        "the keyspace {keyspace} has {copies} {}: when one node is down, {}. Use a replication factor of 3",
        if *copies == 1 { "copy" } else { "copies" },
        if *copies == 1 { "the counters on it cannot be used, and when its disk is lost, they are" } else { "nothing can be written" }
    )]
    FewCopies {
        /// The keyspace.
        keyspace: String,
        /// How many there are.
        copies: u32,
    },
    /// Writes are acknowledged before they are on a disk.
    #[error(
        "the store acknowledges writes before they are on a disk (commitlog_sync: {found}): when all copies lose power at once, acknowledged counts are lost. Set commitlog_sync to batch or group"
    )]
    LateSync {
        /// What it is set to.
        found: String,
    },
}

/// A request that got no answer, or none that says what became of it.
pub(crate) fn unanswered(doing: impl Into<String>, why: impl Display) -> StorageError {
    StorageError::Unanswered { doing: doing.into(), why: why.to_string() }
}

/// The same, to be mapped.
pub(crate) fn while_doing<E: Display>(doing: impl Into<String>) -> impl FnOnce(E) -> StorageError {
    move |why| unanswered(doing, why)
}

/// Why no session came about.
pub(crate) fn not_connected(store: String, error: &NewSessionError) -> SetupError {
    match denial(error) {
        Some(why) => SetupError::Denied { store, why },
        None => SetupError::Unreachable { store, why: error.to_string() },
    }
}

fn denial(error: &NewSessionError) -> Option<String> {
    let NewSessionError::MetadataError(MetadataError::ConnectionPoolError(pool)) = error else { return None };
    let ConnectionPoolError::Broken { last_connection_error } = pool else { return None };
    let ConnectionError::ConnectionSetupRequestError(refused) = last_connection_error else { return None };
    match refused.get_error() {
        ConnectionSetupRequestErrorKind::DbError(
            DbError::AuthenticationError | DbError::Unauthorized,
            said,
        ) => Some(said.clone()),
        ConnectionSetupRequestErrorKind::MissingAuthentication => {
            Some("it wants a user and a password, and none were given".to_owned())
        }
        _ => None,
    }
}
