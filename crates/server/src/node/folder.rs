//! What a data folder says of itself, and what a node says of its settings.

use minicbor::{Decode, Encode};
use quipu_engine::Shards;
use quipu_storage::{Row, ShardId, Slice, Table, Write, embedded::FjallTable};

use super::ServeError;
use crate::{
    config::{Config, Durability, IdmpMode, SHARDS_DEFAULT, format_bytes, format_duration},
    resp::Setting,
};

/// Stands for the folder where others have a shard.
const FOLDER: ShardId = ShardId(u16::MAX);
const IDENTITY: &[u8] = b"identity";

#[derive(Encode, Decode)]
struct Identity {
    /// Fixed when the folder was made.
    #[n(0)]
    shards: u16,
}

/// How many shards the folder has; a new one gets as many as the configuration says.
pub(super) fn shards(table: &FjallTable, config: &Config) -> Result<Shards, ServeError> {
    let failed = |why| ServeError::Storage { folder: config.data.clone(), why };
    let unreadable = |why: String| {
        failed(quipu_storage::StorageError::Table { doing: "reading the folder's identity".to_owned(), why })
    };
    let found = match table.get(FOLDER, Slice::KEPT, IDENTITY).map_err(failed)? {
        Some(row) => {
            let identity: Identity =
                minicbor::decode(&row.bytes).map_err(|error| unreadable(error.to_string()))?;
            identity.shards
        }
        None => {
            let shards = config.shards.unwrap_or(SHARDS_DEFAULT);
            let bytes = minicbor::to_vec(Identity { shards }).expect("writing to memory does not fail");
            let row = Row { version: 1, bytes };
            let write = Write { slice: Slice::KEPT, key: IDENTITY.to_vec(), row };
            table.put(FOLDER, &[write]).map_err(failed)?;
            shards
        }
    };
    if let Some(asked) = config.shards.filter(|asked| *asked != found) {
        return Err(ServeError::Shards { folder: config.data.clone(), found, asked });
    }
    Shards::new(found).ok_or_else(|| unreadable(format!("{found} shards are not possible")))
}

/// What `CONFIG GET` shows.
pub(super) fn settings(config: &Config, clients_max: usize) -> Vec<Setting> {
    let setting = |name, value: String| Setting { name, value };
    let durability = match config.durability {
        Durability::Always => "always",
        Durability::Interval(_) => "everysec",
    };
    vec![
        // What Redis tools ask for.
        setting("appendonly", "yes".to_owned()),
        setting("appendfsync", durability.to_owned()),
        setting("save", String::new()),
        setting("databases", "1".to_owned()),
        setting("maxclients", clients_max.to_string()),
        setting("tcp-keepalive", config.tcp_keepalive.map_or(0, |it| it.as_secs()).to_string()),
        setting("dir", config.data.display().to_string()),
        // Ours.
        setting("memory", format_bytes(config.memory_bytes)),
        setting("workers", config.workers.to_string()),
        setting("idmp-window", format_duration(config.idmp_window)),
        setting(
            "idmp-mode",
            match config.idmp_mode {
                IdmpMode::Exact => "exact",
                IdmpMode::Filter => "filter",
            }
            .to_owned(),
        ),
        setting("idmp-fpp", config.idmp_fpp.to_string()),
    ]
}
