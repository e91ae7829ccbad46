//! Asks all sites how they stand, and remembers which counters have changed last.

use super::{
    api::{Api, Info, PeerLink, Positions},
    site::Site,
    sites::Sites,
    snapshot::{Behind, Cell, CounterNow, LinkNow, SiteNow, Snapshot},
};
use crate::commands::client::shown;
use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};

/// How many counters are shown: those that changed last.
const SHOWN_MAX: usize = 8;

/// The counters of a site; nothing if it does not answer.
type Values = Option<BTreeMap<Vec<u8>, i64>>;

#[derive(Debug, Default)]
pub(super) struct Watcher {
    /// Grows with every look.
    look: u64,
    seen: BTreeMap<Vec<u8>, Seen>,
}

#[derive(Debug)]
struct Seen {
    /// At each site that answers, the last one otherwise.
    values: Vec<Option<i64>>,
    changed_at: u64,
}

/// What the sites have answered, each at its place.
struct Answers {
    values: Vec<Values>,
    links: Vec<BTreeMap<u16, PeerLink>>,
    positions: Vec<Option<Positions>>,
}

impl Watcher {
    pub(super) fn look(&mut self, sites: &mut Sites) -> Snapshot {
        self.look += 1;
        let processes: Vec<Option<u32>> = sites.all.iter_mut().map(Site::process).collect();
        let apis: Vec<Option<&Api>> = sites.all.iter().map(Site::api).collect();
        let answers = Answers {
            values: apis.iter().map(|api| api.and_then(|api| api.values().ok())).collect(),
            links: apis.iter().map(|api| api.and_then(|api| api.links().ok()).unwrap_or_default()).collect(),
            positions: apis.iter().map(|api| api.and_then(|api| api.positions().ok())).collect(),
        };
        self.note(&answers.values);
        let mut counters = Vec::new();
        for key in self.latest() {
            let infos: Vec<Option<Info>> = apis
                .iter()
                .zip(&answers.values)
                .map(|(api, values)| {
                    // A site that does not know the counter yet is one that knows nothing of it.
                    let is_there = values.as_ref()?.contains_key(&key);
                    if is_there { (*api)?.info(&key).ok() } else { Some(Info::default()) }
                })
                .collect();
            counters.push(counter(&key, &answers.values, &infos));
        }
        let site = |(site, (process, behind)): (&Site, (Option<u32>, Option<Behind>))| SiteNow {
            number: site.number,
            process,
            resp: site.resp,
            http: site.http,
            behind,
        };
        let behind = missing(&answers.positions);
        let now = sites.all.iter().zip(processes.into_iter().zip(behind)).map(site).collect();
        Snapshot { sites: now, links: links(sites, &answers.links), counters }
    }

    /// Remembers what has changed.
    fn note(&mut self, values: &[Values]) {
        let keys: BTreeSet<&Vec<u8>> = values.iter().flatten().flat_map(BTreeMap::keys).collect();
        // What a site that does not answer had is not forgotten: it may come back.
        if values.iter().all(Option::is_some) {
            self.seen.retain(|key, _| keys.contains(key));
        }
        for key in keys {
            let seen = self
                .seen
                .entry(key.clone())
                .or_insert_with(|| Seen { values: vec![None; values.len()], changed_at: self.look });
            for (before, now) in seen.values.iter_mut().zip(values) {
                let Some(now) = now else { continue };
                let now = now.get(key).copied();
                if *before != now {
                    (*before, seen.changed_at) = (now, self.look);
                }
            }
        }
    }

    fn latest(&self) -> Vec<Vec<u8>> {
        let mut keys: Vec<(&Vec<u8>, &Seen)> = self.seen.iter().collect();
        keys.sort_by_key(|(key, seen)| (Reverse(seen.changed_at), *key));
        keys.into_iter().take(SHOWN_MAX).map(|(key, _)| key.clone()).collect()
    }
}

/// For each site what it lacks of the streams of others, compared with whoever has most.
fn missing(positions: &[Option<Positions>]) -> Vec<Option<Behind>> {
    let mut most = Positions::new();
    for (stream, position) in positions.iter().flatten().flatten() {
        let known = most.entry(stream.clone()).or_default();
        *known = (*known).max(*position);
    }
    let missing = |here: &Positions| {
        let mut behind = Behind::new();
        for (stream, position) in &most {
            let lacks = position.saturating_sub(here.get(stream).copied().unwrap_or(0));
            if lacks > 0 {
                *behind.entry(stream.0.clone()).or_default() += lacks;
            }
        }
        behind
    };
    positions.iter().map(|here| here.as_ref().map(missing)).collect()
}

fn counter(key: &[u8], values: &[Values], infos: &[Option<Info>]) -> CounterNow {
    let cell = |number: usize, values: &Values, info: &Option<Info>| {
        let Some(values) = values else { return Cell::Unknown };
        let Some(value) = values.get(key) else { return Cell::Absent };
        // What a site says of its own rights is exact; of others' it may be late.
        let own = info.as_ref().and_then(|info| info.sites.get(&number.to_string()));
        Cell::Known {
            value: *value,
            rights_to_add: own.and_then(|own| own.rights_to_add),
            rights_to_subtract: own.and_then(|own| own.rights_to_subtract),
        }
    };
    let sites = (1..).zip(values.iter().zip(infos));
    CounterNow {
        key: shown(key),
        cells: sites.map(|(number, (values, info))| cell(number, values, info)).collect(),
        is_bounded: infos.iter().flatten().any(|info| info.is_bounded),
    }
}

fn links(sites: &Sites, answers: &[BTreeMap<u16, PeerLink>]) -> Vec<LinkNow> {
    let seen = |at: u16, of: u16| answers.get(usize::from(at) - 1).and_then(|links| links.get(&of)).copied();
    let link = |(one, other, cable, passed)| {
        let ends = [seen(one, other), seen(other, one)];
        let is_up = ends.iter().all(|end| end.is_some_and(|end| end.is_up));
        let heard = ends.iter().flatten().filter_map(|end| end.heard_seconds);
        LinkNow { one, other, cable, is_up, heard_seconds: heard.reduce(f64::max), passed }
    };
    sites.links().map(link).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn positions(streams: &[(&str, u64, u64)]) -> Option<Positions> {
        Some(
            streams.iter().map(|(site, shard, position)| (((*site).to_owned(), *shard), *position)).collect(),
        )
    }

    #[test]
    fn a_site_lacks_what_any_other_has() {
        let all = [
            positions(&[("1", 0, 5), ("1", 1, 2), ("2", 0, 1)]),
            positions(&[("1", 0, 5), ("2", 0, 4)]),
            None,
            positions(&[]),
        ];
        let behind = |lacks: &[(&str, u64)]| {
            Some(lacks.iter().map(|(site, lacks)| ((*site).to_owned(), *lacks)).collect::<Behind>())
        };
        let expected = [behind(&[("2", 3)]), behind(&[("1", 2)]), None, behind(&[("1", 7), ("2", 4)])];
        assert_eq!(missing(&all), expected);
    }

    fn values(counters: &[(&str, i64)]) -> Values {
        Some(counters.iter().map(|(key, value)| (key.as_bytes().to_vec(), *value)).collect())
    }

    #[test]
    fn what_changed_last_comes_first_and_what_is_gone_goes() {
        let mut watcher = Watcher::default();
        let mut look = |values: &[Values]| {
            watcher.look += 1;
            watcher.note(values);
            watcher.latest().into_iter().map(|key| String::from_utf8(key).expect("text")).collect::<Vec<_>>()
        };
        assert_eq!(look(&[values(&[("a", 1), ("b", 1)]), values(&[])]), ["a", "b"]);
        assert_eq!(look(&[values(&[("a", 1), ("b", 2)]), values(&[])]), ["b", "a"]);
        assert_eq!(look(&[values(&[("a", 1), ("b", 2)]), values(&[("a", 1)])]), ["a", "b"]);
        assert_eq!(look(&[None, values(&[("a", 1)])]), ["a", "b"], "a site that is away has not changed");
        assert_eq!(look(&[values(&[("a", 1)]), values(&[("a", 1)])]), ["a"]);
    }
}
