//! What fuzzers give bytes to: everything that reads notices and stored councils, and councils that go on with them.

use super::{Change, Council, Notice, Seat};
use crate::SiteId;

/// Gives bytes to everything that reads them. Returns as how many things they can be read.
///
/// # Panics
/// If what was read is not the same after it was written and read again.
pub fn council(bytes: &[u8]) -> usize {
    let notice = Notice::decode(bytes).ok();
    let council = Council::decode(bytes).ok();
    let sites: Vec<SiteId> = (1..=3).map(|number| SiteId { number, incarnation: 0 }).collect();
    if let Some(notice) = &notice {
        assert_eq!(Notice::decode(&notice.encode()).ok().as_ref(), Some(notice));
        let seats = sites.iter().map(|site| (*site, Seat::member("", ""))).collect();
        let first = Council::first(sites[0], seats).expect("three sites");
        for mut council in [first, Council::newcomer(sites[0])] {
            for from in &sites {
                let stored = council.receive(*from, notice).ok().and_then(|step| step.persist);
                assert!(stored.is_none_or(|bytes| Council::decode(&bytes).is_ok()));
            }
        }
    }
    for mut council in council.iter().cloned() {
        assert_eq!(Council::decode(&council.encode()).ok(), Some(council.clone()));
        let add = Change::Add { site: sites[2], name: String::new(), address: String::new() };
        for step in [council.joined(), council.propose(add), Ok(council.withdraw())] {
            let stored = step.ok().and_then(|step| step.persist);
            assert!(stored.is_none_or(|bytes| Council::decode(&bytes).is_ok()));
        }
    }
    usize::from(notice.is_some()) + usize::from(council.is_some())
}
