//! One error type for both traits: what went wrong, and what became of what is stored.

use std::{io, sync::Arc};

use crate::{Position, ShardId};

/// Why something was not done. Each text says what became of the stored state.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum StorageError {
    /// The disk or the quota is exhausted.
    #[error("no space left while {doing}; nothing was stored. Free some space and try again")]
    Full {
        /// What was being done, with the file's name.
        doing: String,
    },
    /// The operating system reported an error.
    #[error("{doing}: {source}; stored data was left as it was")]
    Io {
        /// What was being done, with the file's name.
        doing: String,
        /// What the system said.
        source: Arc<io::Error>,
    },
    /// Committed bytes are not what was written. Nothing was changed or overwritten.
    #[error("{file} is damaged at byte {offset}: {why}. Nothing was changed")]
    Corrupt {
        /// The damaged file.
        file: String,
        /// Where in it.
        offset: u64,
        /// What does not fit.
        why: String,
    },
    /// Files, or parts of them, that belong to a folder are gone. Nothing was changed.
    #[error("something is missing: {}. Nothing was started or changed", missing.join("; "))]
    Missing {
        /// What, in words, each with the name of its file.
        missing: Vec<String>,
    },
    /// A repair of a folder was interrupted.
    #[error(
        "the repair of {folder} was interrupted. Nothing was started or changed; run `quipu repair` on it again, which goes on"
    )]
    Repairing {
        /// The folder.
        folder: String,
    },
    /// A folder that was repaired is like a copy.
    #[error(
        "{folder} was repaired and lacks what was lost: it is like a copy now. Nothing was started; run `quipu restore` on it"
    )]
    Repaired {
        /// The folder.
        folder: String,
    },
    /// A record between the checkpoint and the newest record of a shard is missing.
    #[error("the log of shard {} lacks record {}: the next that it has is {}. Nothing was changed", shard.0, expected.0, found.0)]
    Gap {
        /// The shard.
        shard: ShardId,
        /// The record that should have come next.
        expected: Position,
        /// The record that came.
        found: Position,
    },
    /// Written by a version that this one does not know.
    #[error("{file} has format {found}; this version reads format {known}. Nothing was changed")]
    UnknownFormat {
        /// The file.
        file: String,
        /// The format found.
        found: u32,
        /// The newest format known.
        known: u32,
    },
    /// Another process works in the folder.
    #[error("{folder} is in use by {holder}. Nothing was changed; stop it first, or use another one")]
    Locked {
        /// The folder.
        folder: String,
        /// "process 123", or "another process" if it left no number.
        holder: String,
    },
    /// Somebody else has taken the shard's fence. Nothing of this call was stored for it.
    #[error("shard {} was taken over by another owner; nothing was stored", .0.0)]
    Fenced(ShardId),
    /// The shard was never opened through this log. Nothing was stored.
    #[error("shard {} is not open here; nothing was stored", .0.0)]
    NotOpen(ShardId),
    /// An earlier commit of the shard ended in "unknown". Nothing of this call was stored.
    #[error("an earlier commit of shard {} is not settled yet; nothing was stored", .0.0)]
    Unsettled(ShardId),
    /// Two batches for one shard in one call; the second was not stored.
    #[error("shard {} has a second batch in the same call; it was not stored", .0.0)]
    Twice(ShardId),
    /// Too long a key, row, record or batch. Nothing of it was stored.
    #[error("{what} has {bytes} bytes, at most {max} are stored; nothing was stored")]
    TooLarge {
        /// What is too large.
        what: &'static str,
        /// Its size.
        bytes: usize,
        /// The limit.
        max: usize,
    },
    /// A checkpoint beyond the newest record. The mark was not moved.
    #[error("shard {} has records up to {}, a checkpoint at {} is beyond them; the mark stays", shard.0, last.0, position.0)]
    Beyond {
        /// The shard.
        shard: ShardId,
        /// The position asked for.
        position: Position,
        /// The newest position.
        last: Position,
    },
    /// The table refused or failed.
    #[error(
        "the table failed while {doing}: {why}; the log still holds everything since the last checkpoint"
    )]
    Table {
        /// What was being done.
        doing: String,
        /// What it said.
        why: String,
    },
    /// A store that is reached over a network did not say what became of a request.
    #[error("{doing}: {why}; whether it was done is not known, and doing it again does no harm")]
    Unanswered {
        /// What was being done.
        doing: String,
        /// What is known.
        why: String,
    },
    /// A test asked for it, or this handle died in a crash that a test asked for.
    #[error("injected fault: {0}")]
    Injected(&'static str),
}

impl StorageError {
    /// Is something that was stored not there, or not what it was?
    pub fn is_damage(&self) -> bool {
        matches!(self, Self::Missing { .. } | Self::Corrupt { .. } | Self::Gap { .. })
    }

    /// Wraps what the system said; a full disk gets its own name.
    pub fn io(doing: impl Into<String>, source: io::Error) -> Self {
        let doing = doing.into();
        match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::Full { doing },
            _ => Self::Io { doing, source: Arc::new(source) },
        }
    }
}
