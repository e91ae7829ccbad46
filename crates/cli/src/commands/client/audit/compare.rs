//! What the books of all sites say together.

use super::{
    Report,
    books::{Amounts, Books, Known, Site},
};
use std::collections::{BTreeMap, BTreeSet};

/// Do they balance?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Balanced,
    /// Something is in flight or provisional.
    Unbalanced,
    /// Somebody was not asked, or did not answer.
    Unknown,
}

/// Everything that was found.
#[derive(Debug)]
pub(super) struct Findings {
    pub(super) sites: Vec<SiteBooks>,
    /// What one site knows of another, where the two do not agree.
    pub(super) gaps: Vec<Gap>,
    /// Operations that were not counted exactly once, as any site knows it.
    pub(super) suspicious: BTreeSet<String>,
    /// Why it cannot be told.
    pub(super) problems: Vec<String>,
}

/// The books of one site in total.
#[derive(Debug)]
pub(super) struct SiteBooks {
    pub(super) site: Site,
    pub(super) server: String,
    pub(super) issued: Amounts,
    pub(super) set: Amounts,
    pub(super) cancelled: Amounts,
    pub(super) counted: Amounts,
    /// How many of its ids are not settled, as anybody knows.
    pub(super) provisional_ids: u64,
}

/// What is in flight from one site to another in a shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Gap {
    /// Whose counts.
    pub(super) owner: Site,
    /// Who does not know of all of them.
    pub(super) observer: Site,
    pub(super) shard: u16,
    /// Negative where the other one was asked later and knows of more.
    pub(super) added: i64,
    pub(super) subtracted: i64,
    /// So many changes of the shard.
    pub(super) changes: i64,
}

impl Gap {
    fn of(shard: u16, owner: Site, observer: Site, theirs: Known, known: Known) -> Option<Self> {
        let gap = Self {
            owner,
            observer,
            shard,
            added: difference(theirs.counted.added, known.counted.added),
            subtracted: difference(theirs.counted.subtracted, known.counted.subtracted),
            changes: difference(theirs.position, known.position),
        };
        (gap.added != 0 || gap.subtracted != 0 || gap.changes != 0).then_some(gap)
    }

    /// The two have got to the same change and have counted differently.
    pub(super) fn is_odd(&self) -> bool {
        self.changes == 0
    }
}

/// Of two sums modulo 2^64 that are not far apart.
fn difference(one: u64, other: u64) -> i64 {
    one.wrapping_sub(other).cast_signed()
}

impl Findings {
    pub(super) fn of(reports: &[Report]) -> Self {
        let mut findings =
            Self { sites: Vec::new(), gaps: Vec::new(), suspicious: BTreeSet::new(), problems: Vec::new() };
        let mut answers: BTreeMap<Site, (&str, &Books)> = BTreeMap::new();
        for Report { server, books } in reports {
            match books {
                Err(problem) => findings.problems.push(problem.clone()),
                Ok(books) => {
                    if let Some((first, _)) = answers.insert(books.site, (server, books)) {
                        let site = books.site;
                        findings
                            .problems
                            .push(format!("{first} and {server} both say that they are site {site}"));
                    }
                }
            }
        }
        let all: Vec<&Books> = answers.values().map(|(_, books)| *books).collect();
        findings.check_membership(&all);
        findings.gaps = gaps(&all);
        let suspicious = all.iter().flat_map(|books| books.shards.iter().flat_map(|shard| &shard.suspicious));
        findings.suspicious = suspicious.map(ToString::to_string).collect();
        for books in &all {
            let further: u64 = books.shards.iter().filter_map(|shard| shard.suspicious_further).sum();
            if further > 0 {
                findings.suspicious.insert(format!("{further} more operations, at site {}", books.site));
            }
        }
        findings.sites = answers.values().map(|(server, books)| total(server, books, &all)).collect();
        findings
    }

    fn check_membership(&mut self, all: &[&Books]) {
        let asked: BTreeSet<Site> = all.iter().map(|books| books.site).collect();
        let members: BTreeSet<Site> = all.iter().flat_map(|books| &books.members).copied().collect();
        for missing in members.difference(&asked) {
            self.problems.push(format!("site {missing} was not asked; name its server with --server"));
        }
        let counts: BTreeSet<usize> = all.iter().map(|books| books.shard_count).collect();
        if counts.len() > 1 {
            let counts: Vec<_> = counts.iter().map(usize::to_string).collect();
            self.problems
                .push(format!("the sites are not of one cluster: they have {} shards", counts.join(" and ")));
        }
    }

    pub(super) fn verdict(&self) -> Verdict {
        if !self.problems.is_empty() || self.sites.is_empty() {
            Verdict::Unknown
        } else if !self.gaps.is_empty()
            || !self.suspicious.is_empty()
            || self.sites.iter().any(|site| site.provisional_ids > 0)
        {
            Verdict::Unbalanced
        } else {
            Verdict::Balanced
        }
    }
}

fn total(server: &str, books: &Books, all: &[&Books]) -> SiteBooks {
    let site = books.site;
    let mut total = SiteBooks {
        site,
        server: server.to_owned(),
        issued: Amounts::default(),
        set: Amounts::default(),
        cancelled: Amounts::default(),
        counted: Amounts::default(),
        provisional_ids: 0,
    };
    for shard in &books.shards {
        total.issued = total.issued.plus(shard.issued);
        total.set = total.set.plus(shard.set);
        total.cancelled = total.cancelled.plus(shard.cancelled);
        total.counted = total.counted.plus(books.known(shard.shard, site).counted);
    }
    for shard in shards(all) {
        let open = all.iter().map(|books| books.known(shard, site).open);
        total.provisional_ids += open.max().unwrap_or(0);
    }
    total
}

/// All shards in which something was counted.
fn shards(all: &[&Books]) -> BTreeSet<u16> {
    all.iter().flat_map(|books| books.shards.iter().map(|shard| shard.shard)).collect()
}

/// What every site counts is compared with what the others know of it. Of a site that does not belong to the cluster any
/// more, whoever knows most knows all.
fn gaps(all: &[&Books]) -> Vec<Gap> {
    let known = all.iter().flat_map(|books| books.shards.iter().flat_map(|shard| &shard.sites));
    let owners: BTreeSet<Site> =
        known.map(|known| known.site).chain(all.iter().map(|books| books.site)).collect();
    let members: BTreeSet<Site> = all.iter().flat_map(|books| &books.members).copied().collect();
    let mut gaps = Vec::new();
    for owner in owners {
        let own = all.iter().find(|books| books.site == owner);
        if own.is_none() && members.contains(&owner) {
            // It was not asked, and nobody else can say how much it has counted.
            continue;
        }
        for shard in shards(all) {
            let most = all.iter().max_by_key(|books| books.known(shard, owner).position);
            let Some(best) = own.or(most) else { continue };
            let theirs = best.known(shard, owner);
            let others = all.iter().filter(|books| books.site != best.site);
            gaps.extend(
                others
                    .filter_map(|books| Gap::of(shard, owner, books.site, theirs, books.known(shard, owner))),
            );
        }
    }
    gaps
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    /// What a site knows of another: added, position, open.
    type Row = (&'static str, u64, u64, u64);

    fn report(site: &str, members: &[&str], rows: &[Row]) -> Report {
        let amounts = |added: u64| json!({"added": added, "subtracted": 0});
        let sites: Vec<Value> = rows
            .iter()
            .map(|(site, added, position, open)| {
                json!({"site": site, "counted": amounts(*added), "position": position, "settled": 0, "open": open})
            })
            .collect();
        let own = rows.iter().find(|row| row.0 == site).map_or(0, |row| row.1);
        let shard = json!({
            "shard": 3, "issued": amounts(own), "set": amounts(0), "cancelled": amounts(0), "sites": sites,
        });
        let books = json!({"site": site, "members": members, "shard_count": 64, "shards": [shard]});
        Report { server: format!("http://{site}"), books: Ok(serde_json::from_value(books).expect("books")) }
    }

    fn verdict(reports: &[Report]) -> Verdict {
        Findings::of(reports).verdict()
    }

    #[test]
    fn sites_that_know_of_each_other_balance() {
        let one = report("1", &["1", "2"], &[("1", 5, 2, 0), ("2", 7, 4, 0)]);
        let two = report("2", &["1", "2"], &[("1", 5, 2, 0), ("2", 7, 4, 0)]);
        let findings = Findings::of(&[one, two]);
        assert_eq!(findings.verdict(), Verdict::Balanced, "{findings:?}");
        assert_eq!(findings.sites[1].counted, Amounts { added: 7, subtracted: 0 });
    }

    #[test]
    fn what_another_does_not_know_of_is_in_flight() {
        let one = report("1", &["1", "2"], &[("1", 5, 2, 0), ("2", 1, 1, 0)]);
        let two = report("2", &["1", "2"], &[("1", 5, 2, 0), ("2", 7, 4, 0)]);
        let findings = Findings::of(&[one, two]);
        assert_eq!(findings.verdict(), Verdict::Unbalanced);
        let [gap] = findings.gaps[..] else { panic!("{findings:?}") };
        assert_eq!((gap.owner.to_string(), gap.observer.to_string()), ("2".to_owned(), "1".to_owned()));
        assert_eq!((gap.shard, gap.added, gap.subtracted, gap.changes), (3, 6, 0, 3));
        assert!(!gap.is_odd());
    }

    #[test]
    fn sums_go_round() {
        let one = report("1", &["1", "2"], &[("1", 2, 9, 0), ("2", 0, 0, 0)]);
        let two = report("2", &["1", "2"], &[("1", u64::MAX, 8, 0), ("2", 0, 0, 0)]);
        assert_eq!(Findings::of(&[one, two]).gaps[0].added, 3);
    }

    #[test]
    fn the_same_change_and_another_count_is_odd() {
        let one = report("1", &["1", "2"], &[("1", 5, 2, 0)]);
        let two = report("2", &["1", "2"], &[("1", 4, 2, 0)]);
        let findings = Findings::of(&[one, two]);
        assert!(findings.gaps[0].is_odd());
        assert_eq!(findings.verdict(), Verdict::Unbalanced);
    }

    #[test]
    fn an_id_that_is_not_settled_does_not_balance() {
        let one = report("1", &["1", "2"], &[("1", 5, 2, 0)]);
        let two = report("2", &["1", "2"], &[("1", 5, 2, 1)]);
        let findings = Findings::of(&[one, two]);
        assert_eq!((findings.sites[0].provisional_ids, findings.verdict()), (1, Verdict::Unbalanced));
    }

    #[test]
    fn an_operation_that_was_not_counted_once_does_not_balance() {
        let one = |suspicious: Value| {
            let mut it = report("1", &["1"], &[("1", 5, 2, 0)]);
            let books = it.books.as_mut().expect("books");
            books.shards[0].suspicious = serde_json::from_value(suspicious).expect("suspicious");
            it
        };
        assert_eq!(verdict(&[one(json!([]))]), Verdict::Balanced);
        let twice = json!([{"key": "stock", "what": "counted_twice", "sites": ["1", "3"]}]);
        let findings = Findings::of(&[one(twice)]);
        assert_eq!(findings.verdict(), Verdict::Unbalanced);
        let text = findings.suspicious.first().expect("one");
        assert_eq!(text, "an operation on \"stock\" is counted at site 1 and 3");
        let lost = json!([{"key_base64": "/w==", "what": "lost", "sites": ["2"]}]);
        assert_eq!(verdict(&[one(lost)]), Verdict::Unbalanced);
        let mut more = one(json!([]));
        more.books.as_mut().expect("books").shards[0].suspicious_further = Some(7);
        let findings = Findings::of(&[more]);
        assert_eq!(findings.suspicious.first().expect("one"), "7 more operations, at site 1");
    }

    #[test]
    fn without_all_sites_it_cannot_be_told() {
        let one = || report("1", &["1", "2"], &[("1", 5, 2, 0), ("2", 7, 4, 0)]);
        let findings = Findings::of(&[one()]);
        assert_eq!(findings.verdict(), Verdict::Unknown);
        assert!(findings.problems[0].contains("site 2 was not asked"), "{findings:?}");
        let silent = Report { server: "http://2".to_owned(), books: Err("there is no server".to_owned()) };
        assert_eq!(verdict(&[one(), silent]), Verdict::Unknown);
        assert_eq!(verdict(&[]), Verdict::Unknown);
        let findings = Findings::of(&[one(), one()]);
        assert!(findings.problems[0].contains("both say that they are site 1"), "{findings:?}");
    }

    #[test]
    fn of_a_site_that_has_left_all_know_the_same() {
        let members = ["1", "2"];
        let one = || report("1", &members, &[("1", 0, 0, 0), ("3.1", 9, 5, 0)]);
        let two = |added, position| report("2", &members, &[("2", 0, 0, 0), ("3.1", added, position, 0)]);
        assert_eq!(verdict(&[one(), two(9, 5)]), Verdict::Balanced);
        let findings = Findings::of(&[one(), two(4, 3)]);
        assert_eq!(findings.verdict(), Verdict::Unbalanced);
        assert_eq!((findings.gaps[0].observer.to_string(), findings.gaps[0].added), ("2".to_owned(), 5));
    }
}
