//! Asks all sites how they stand, and remembers which counters have changed last.

use super::{
    api::{Api, Info, PeerLink},
    site::Site,
    sites::Sites,
    snapshot::{Cell, CounterNow, LinkNow, SiteNow, Snapshot},
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
}

impl Watcher {
    pub(super) fn look(&mut self, sites: &mut Sites) -> Snapshot {
        self.look += 1;
        let processes: Vec<Option<u32>> = sites.all.iter_mut().map(Site::process).collect();
        let apis: Vec<Option<&Api>> = sites.all.iter().map(Site::api).collect();
        let answers = Answers {
            values: apis.iter().map(|api| api.and_then(|api| api.values().ok())).collect(),
            links: apis.iter().map(|api| api.and_then(|api| api.links().ok()).unwrap_or_default()).collect(),
        };
        self.note(&answers.values);
        let mut counters = Vec::new();
        let mut behind: Vec<Option<u128>> = answers.values.iter().map(|it| it.as_ref().map(|_| 0)).collect();
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
            for (all, of_counter) in behind.iter_mut().zip(missing(&infos)) {
                *all = all.zip(of_counter).map(|(all, more)| all.saturating_add(more));
            }
            counters.push(counter(&key, &answers.values, &infos));
        }
        let site = |(site, (process, behind)): (&Site, (&Option<u32>, &Option<u128>))| SiteNow {
            number: site.number,
            process: *process,
            resp: site.resp,
            http: site.http,
            behind: *behind,
        };
        let now = sites.all.iter().zip(processes.iter().zip(&behind)).map(site).collect();
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

/// For each site how much of a counter it does not know of all that some site knows.
fn missing(infos: &[Option<Info>]) -> Vec<Option<u128>> {
    let mut known = BTreeMap::<&str, u128>::new();
    for (name, site) in infos.iter().flatten().flat_map(|info| &info.sites) {
        let most = known.entry(name).or_default();
        *most = (*most).max(site.counted);
    }
    let missing = |info: &Info| {
        let of_site = |(name, most): (&&str, &u128)| {
            most.saturating_sub(info.sites.get(*name).map_or(0, |site| site.counted))
        };
        known.iter().map(of_site).fold(0, u128::saturating_add)
    };
    infos.iter().map(|info| info.as_ref().map(missing)).collect()
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
    use crate::commands::cluster::api::SiteInfo;

    fn info(counted: &[(&str, u128)]) -> Option<Info> {
        let sites = counted.iter().map(|(name, counted)| {
            ((*name).to_owned(), SiteInfo { counted: *counted, ..SiteInfo::default() })
        });
        Some(Info { is_bounded: false, sites: sites.collect() })
    }

    #[test]
    fn a_site_lacks_what_any_other_knows() {
        let infos = [info(&[("1", 5), ("2", 1)]), info(&[("2", 4)]), None, info(&[])];
        assert_eq!(missing(&infos), [Some(3), Some(5), None, Some(9)]);
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
