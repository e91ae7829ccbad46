use std::iter;

use super::*;
use crate::{Membership, Settings, shard::Stored};

fn site(number: u16) -> SiteId {
    SiteId { number, incarnation: 0 }
}

/// The first of two sites, which has no link to the other one.
fn cut_off() -> Shard {
    let settings = Settings { site: site(1), ..Settings::default() };
    let stored = Stored { is_empty: true, ..Stored::default() };
    Shard::recover(settings, &Membership::of([site(1), site(2)]), stored, iter::empty(), 0)
        .expect("nothing is stored")
}

#[test]
fn a_site_that_is_cut_off_forgets_the_rights_that_nobody_waits_for_any_more() {
    let mut shard = cut_off();
    for number in 0..100_u64 {
        let key = format!("key-{number}");
        shard.want(key.as_bytes(), Right::ToAdd, 1, number);
        shard.hasten(key.as_bytes(), 1, number);
    }
    shard.tick(50);
    assert_eq!((shard.waiting.wants.len(), shard.waiting.unmade.len()), (49, 100));
    shard.tick(1_000_000);
    assert_eq!((shard.waiting.wants.len(), shard.waiting.unmade.len()), (0, 0));
    assert_eq!(shard.waiting.ask_ms(0), None);
}
