//! What concerns all shards: done page by page on the thread of the front ends, so that no worker is held up.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Mutex, PoisonError},
};

use quipu_engine::{Listing, Refusal};
use quipu_storage::ShardId;

use super::{
    Node,
    acks::Written,
    mail::{Cleared, ListShard, Mail},
    wait::{Wait, Waited},
};
use crate::{
    http::Counters,
    resp::{Protocol, Reply, Request, glob},
};

/// How many counters are looked at in one go.
const PAGE: usize = 1000;
/// So many unfinished scans are remembered; beyond, the oldest is forgotten.
const CURSORS_MAX: usize = 65_536;

/// Whose counters are meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scope {
    /// All of this site.
    Site,
    /// Those of the shards that this node has.
    Node,
}

/// Something that clients ask of several shards.
#[derive(Debug)]
pub(super) enum Job {
    Scan { scope: Scope, cursor: u64, pattern: Option<Vec<u8>>, count: usize, wants_strings: bool },
    Keys { scope: Scope, pattern: Vec<u8> },
    Count(Scope),
    Clear(Scope),
    Wait(Wait),
}

/// The answer to a job.
#[derive(Debug, Default)]
pub(super) struct Rendered {
    pub(super) bytes: Vec<u8>,
    /// What has become known of what the connection has written.
    pub(super) written: Vec<Written>,
}

impl Job {
    pub(super) fn of(request: &Request<'_>, scope: Scope) -> Self {
        match *request {
            Request::Scan { cursor, pattern, count, type_name } => Self::Scan {
                scope,
                cursor,
                pattern: pattern.map(<[u8]>::to_vec),
                count: usize::try_from(count).unwrap_or(PAGE),
                // To those who ask by type, counters are strings, as in Redis.
                wants_strings: type_name.is_none_or(|name| name.eq_ignore_ascii_case(b"string")),
            },
            Request::Keys { pattern } => Self::Keys { scope, pattern: pattern.to_vec() },
            Request::Flush => Self::Clear(scope),
            _ => Self::Count(scope),
        }
    }

    /// Does it, and writes the reply.
    pub(super) async fn run(self, node: &Node, protocol: Protocol) -> Rendered {
        let (mut out, mut learned) = (Vec::new(), Vec::new());
        let done = match self {
            // A relay knows no more counters than those that wait there.
            Self::Scan { .. } | Self::Keys { .. } | Self::Count(_) | Self::Clear(_)
                if node.shared.relay.is_some() =>
            {
                Err(format!("HANDOFF {}", Refusal::OnlyAtSites))
            }
            Self::Scan { scope, cursor, pattern, count, wants_strings } => {
                node.scan(scope, cursor, pattern.as_deref(), count).await.map(|(next, keys)| {
                    let keys = if wants_strings { keys } else { Vec::new() };
                    let mut reply = Reply::new(&mut out, protocol);
                    reply.array(2);
                    reply.bulk(next.to_string().as_bytes());
                    write_keys(&keys, &mut reply);
                })
            }
            Self::Keys { scope, pattern } => {
                let keys = node.keys(scope, &pattern).await;
                keys.map(|keys| write_keys(&keys, &mut Reply::new(&mut out, protocol)))
            }
            Self::Count(scope) => {
                let count = match scope {
                    Scope::Site => node.size().await,
                    Scope::Node => node.count_here().await.iter().map(|(_, count)| count).sum(),
                };
                let count = i64::try_from(count).unwrap_or(i64::MAX);
                Reply::new(&mut out, protocol).integer(count);
                Ok(())
            }
            Self::Clear(scope) => match node.clear(scope).await {
                Ok(0) => {
                    Reply::new(&mut out, protocol).ok();
                    Ok(())
                }
                Ok(kept) => Err(format!(
                    "BOUNDED {kept} bounded counters cannot be deleted and were left as they are; all others were deleted"
                )),
                Err(error) => Err(error),
            },
            Self::Wait(wait) => {
                let Waited { sites, written } = wait.run(node).await;
                Reply::new(&mut out, protocol).integer(i64::try_from(sites).unwrap_or(i64::MAX));
                learned = written;
                Ok(())
            }
        };
        if let Err(error) = done {
            Reply::new(&mut out, protocol).error(&error);
        }
        Rendered { bytes: out, written: learned }
    }
}

fn write_keys(keys: &[Vec<u8>], reply: &mut Reply<'_>) {
    reply.array(keys.len());
    keys.iter().for_each(|key| reply.bulk(key));
}

/// Where a scan goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    shard: ShardId,
    after: Option<Vec<u8>>,
}

/// Scans that are not finished. A cursor of the Redis protocol is a number, and a key is not.
#[derive(Debug, Default)]
pub(super) struct Cursors {
    inner: Mutex<CursorsInner>,
}

#[derive(Debug, Default)]
struct CursorsInner {
    last: u64,
    places: BTreeMap<u64, Place>,
    order: VecDeque<u64>,
}

impl Cursors {
    fn keep(&self, place: Place) -> u64 {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.last += 1;
        let cursor = inner.last;
        inner.places.insert(cursor, place);
        inner.order.push_back(cursor);
        if inner.order.len() > CURSORS_MAX
            && let Some(oldest) = inner.order.pop_front()
        {
            inner.places.remove(&oldest);
        }
        cursor
    }

    /// It stays: a client may ask for the same page again.
    fn find(&self, cursor: u64) -> Option<Place> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner).places.get(&cursor).cloned()
    }
}

/// What a client is told when a page could not be listed or deleted: it may try again if the shard has moved, or may have.
fn not_done(refusal: Refusal) -> String {
    match refusal {
        Refusal::NotHere => format!("TRYAGAIN {refusal}"),
        refusal => format!("ERR {refusal}"),
    }
}

/// What every key that matches the pattern begins with.
fn literal_prefix(pattern: &[u8]) -> &[u8] {
    let end = pattern.iter().position(|byte| b"*?[\\".contains(byte)).unwrap_or(pattern.len());
    &pattern[..end]
}

impl Node {
    /// The next keys of a scan, and where it goes on; 0 at its end.
    async fn scan(
        &self,
        scope: Scope,
        cursor: u64,
        pattern: Option<&[u8]>,
        count: usize,
    ) -> Result<(u64, Vec<Vec<u8>>), String> {
        let cursors = &self.shared.cursors;
        let mut place = match cursor {
            0 => Place { shard: ShardId(0), after: None },
            cursor => cursors.find(cursor).ok_or("ERR invalid cursor")?,
        };
        let prefix = pattern.map_or(&b""[..], literal_prefix).to_vec();
        let mut keys = Vec::new();
        let mut looked = 0;
        while looked < count {
            let limit = (count - looked).min(PAGE);
            let listing = match (scope, self.list_shard(scope, &place, &prefix, limit).await) {
                // Whoever asks all nodes hears of these from another one.
                (Scope::Node, Err(Refusal::NotHere)) if self.shared.is_elsewhere(place.shard) => {
                    Listing { counters: Vec::new(), next: None }
                }
                (_, listing) => listing.map_err(not_done)?,
            };
            looked += listing.counters.len();
            let listed = listing.counters.into_iter().map(|(key, _)| key);
            keys.extend(listed.filter(|key| {
                pattern.is_none_or(|pattern| glob::matches(pattern, key, glob::Case::Sensitive))
            }));
            place = match listing.next {
                Some(next) => Place { shard: place.shard, after: Some(next) },
                None if place.shard.0 + 1 == self.shared.shards.count() => return Ok((0, keys)),
                None => Place { shard: ShardId(place.shard.0 + 1), after: None },
            };
        }
        Ok((cursors.keep(place), keys))
    }

    async fn list_shard(
        &self,
        scope: Scope,
        place: &Place,
        prefix: &[u8],
        limit: usize,
    ) -> Result<Listing, Refusal> {
        let Place { shard, after } = place.clone();
        let request = ListShard { shard, prefix: prefix.to_vec(), after, limit };
        match scope {
            Scope::Site => self.list_page(request).await,
            Scope::Node if self.shared.is_elsewhere(shard) => Err(Refusal::NotHere),
            Scope::Node => {
                self.ask(self.shared.owner(shard), |answer| Mail::List { request, answer }).await?
            }
        }
    }

    /// All keys like this.
    async fn keys(&self, scope: Scope, pattern: &[u8]) -> Result<Vec<Vec<u8>>, String> {
        let mut keys = Vec::new();
        let mut cursor = 0;
        loop {
            let (next, page) = self.scan(scope, cursor, Some(pattern), PAGE * 10).await?;
            keys.extend(page);
            cursor = next;
            if cursor == 0 {
                return Ok(keys);
            }
        }
    }

    async fn clear_page_here(&self, request: ListShard) -> Result<Cleared, Refusal> {
        let worker = self.shared.owner(request.shard);
        self.ask(worker, |answer| Mail::Clear { request, answer }).await?
    }

    /// Deletes all counters that can be. Returns how many cannot.
    async fn clear(&self, scope: Scope) -> Result<u64, String> {
        let mut kept = 0;
        let is_meant = |shard: &ShardId| scope == Scope::Site || !self.shared.is_elsewhere(*shard);
        for shard in self.shared.shards.all().filter(is_meant) {
            let mut after = None;
            loop {
                let request = ListShard { shard, prefix: Vec::new(), after, limit: PAGE };
                let cleared = match scope {
                    Scope::Site => self.clear_page(request).await,
                    Scope::Node => self.clear_page_here(request).await,
                };
                let cleared = cleared.map_err(not_done)?;
                kept += cleared.kept;
                after = cleared.next;
                if after.is_none() {
                    break;
                }
            }
        }
        Ok(kept)
    }
}
