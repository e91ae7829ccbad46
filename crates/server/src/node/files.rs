//! How many files the process may have open, and who gets them: storage first, because an add that finds no file is
//! lost to its client; what is left is for clients.

use std::io;

use quipu_storage::embedded::TABLE_FILES_MAX;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::ServeError;
use crate::{
    config::{Config, settings},
    http::HttpLimits,
    links,
};

/// For the standard streams, listeners, the table's journals, files that are being merged, and clients that are told
/// that there is no place.
const FILES_OTHERS: usize = 64;
/// A worker's poll, its mailbox, its log, the next file of it, and as much again for a folder used by more workers.
const FILES_PER_WORKER: usize = 8;
/// So many sites may be added while it runs.
const SITES_ADDED: usize = 8;
/// With fewer places for clients than this a server is of no use.
const CLIENTS_MIN: usize = 8;
/// Where there are too few places, HTTP gets one in so many.
const HTTP_SHARE: usize = 4;

/// How many clients there may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Places {
    pub(super) resp: usize,
    pub(super) http: usize,
}

impl Places {
    /// As many as are wanted.
    fn wanted(config: &Config) -> Self {
        let http = HttpLimits::default().connections;
        let resp = config.resp.or(config.resp_cluster);
        Self { resp: resp.map_or(0, |_| config.max_clients), http: config.http.map_or(0, |_| http) }
    }

    fn all(self) -> usize {
        self.resp + self.http
    }

    /// As many of them as there are files.
    fn within(self, files: usize) -> Self {
        let http = self.http.min(files.saturating_sub(self.resp).max(files / HTTP_SHARE));
        Self { resp: self.resp.min(files - http), http }
    }
}

/// Allows the process as many open files as it needs, or as many as it can get, and says how many clients fit.
pub(super) fn provide(config: &Config) -> Result<Places, ServeError> {
    let has_links = config.link_given || !config.peers.is_empty() || !config.join.is_empty();
    let links = match has_links {
        true => links::files_max(config.peers.len() + config.join.len() + SITES_ADDED),
        false => links::files_of_relay(config.parents.len()),
    };
    let reserved = TABLE_FILES_MAX + FILES_OTHERS + FILES_PER_WORKER * config.workers + links;
    let wanted = Places::wanted(config);
    let needed = reserved + wanted.all();
    let allowed = raise(needed);
    let left = allowed.saturating_sub(reserved);
    if left < CLIENTS_MIN.min(wanted.all()) {
        let why = format!(
            "this process may have {allowed} files open, and {reserved} are for storage and for itself; \
             allow {needed} (`ulimit -n {needed}`, or LimitNOFILE={needed} of a systemd unit)"
        );
        return Err(ServeError::System { doing: "making room for clients", why: io::Error::other(why) });
    }
    let places = wanted.within(left);
    if places != wanted {
        tracing::warn!(
            files = allowed,
            resp_clients_max = places.resp,
            http_clients_max = places.http,
            "this process may not have as many files open as {} {} needs, so fewer clients are taken; \
             allow {needed} (`ulimit -n {needed}`, or LimitNOFILE={needed} of a systemd unit)",
            settings::MAX_CLIENTS.flag,
            config.max_clients,
        );
    }
    Ok(places)
}

/// Raises what the process allows itself, up to what it is allowed, and says how much that is now.
fn raise(needed: usize) -> usize {
    let files = |limit: Option<u64>| limit.map_or(usize::MAX, |it| usize::try_from(it).unwrap_or(usize::MAX));
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if files(current) >= needed {
        return files(current);
    }
    let raised = needed.min(files(maximum));
    match setrlimit(Resource::Nofile, Rlimit { current: Some(raised as u64), maximum }) {
        Ok(()) => raised,
        Err(error) => {
            tracing::warn!(%error, "the limit of open files could not be raised to {raised}");
            files(current)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WANTED: Places = Places { resp: 10_000, http: 1_024 };

    #[test]
    fn where_there_is_room_everybody_gets_what_is_wanted() {
        assert_eq!(WANTED.within(11_024), WANTED);
        assert_eq!(WANTED.within(usize::MAX), WANTED);
    }

    #[test]
    fn where_there_is_not_both_get_a_share_and_nobody_more_than_is_wanted() {
        assert_eq!(WANTED.within(100), Places { resp: 75, http: 25 });
        assert_eq!(WANTED.within(11_023), Places { resp: 9_999, http: 1_024 });
        assert_eq!(Places { resp: 20, http: 1_024 }.within(100), Places { resp: 20, http: 80 });
        assert_eq!(Places { resp: 0, http: 1_024 }.within(100), Places { resp: 0, http: 100 });
        assert_eq!(Places { resp: 10_000, http: 0 }.within(100), Places { resp: 100, http: 0 });
        for files in 0..12_000 {
            assert!(WANTED.within(files).all() <= files);
        }
    }
}
