//! What a node says of its settings.

use crate::{
    config::{Config, Durability, IdmpMode, format_bytes, format_duration},
    resp::Setting,
};

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
        setting("storage-deadline", format_duration(config.storage_deadline)),
        setting("edge-ttl", format_duration(config.edge_ttl)),
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
