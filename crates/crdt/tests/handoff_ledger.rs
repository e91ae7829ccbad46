//! The handshake moves values for whoever implements [`Ledger`]: here a shelf of rows, as a database has them,
//! in place of the paper's counter.

use quipu_crdt::handoff::{Addressee, Handoff, Handshake, Ledger, Report, Rules, Tiers, Token, ViewOf};
use quipu_crdt::testing::Random;
use quipu_crdt::{Overflow, Tally};
use std::collections::BTreeMap;

type Deltas = BTreeMap<&'static str, u64>;
type Message = ViewOf<u32, Deltas, Report<u32, Deltas>>;

/// Rows that belong to a site; what arrives is entered into them.
#[derive(Default)]
struct Rows {
    rows: Deltas,
    entries: usize,
}

impl Ledger for Rows {
    type Id = u32;
    type Amount = Deltas;
    type Report = Report<u32, Deltas>;

    fn credit(&mut self, token: &Token<u32, Deltas>) -> Result<(), Overflow> {
        self.rows.try_add(&token.value)?;
        self.entries += 1;
        Ok(())
    }

    fn withdraw(&mut self) -> Deltas {
        unreachable!("a site has nobody to hand over to")
    }

    fn merge_vectors(&mut self, _: Tiers, _: &Self::Report) {}

    fn aggregate(&mut self, _: Tiers, _: &Self::Report) {}
}

/// A site with rows and an ordinary site, each with edges of their own that do the same.
#[test]
fn rows_and_the_map_of_counters_end_up_with_the_same() {
    let mut random = Random::new(3);
    let (mut handshake, mut rows) = (Handshake::<u32, Deltas>::new(0, 0, Rules::Quipu), Rows::default());
    let mut site = Handoff::<u32, Deltas>::new(0, 0);
    let mut pairs: Vec<_> = (1..5).map(|id| (Handoff::new(id, 1), Handoff::new(id, 1))).collect();
    let report = Handoff::<u32, Deltas>::new(9, 0).view_for(&1, 1).report().clone();

    for _ in 0..2_000 {
        let (to_rows, to_site) = &mut pairs[random.below(4)];
        if random.chance(0.4) {
            let key = *random.pick(&["likes", "views", "plays"]);
            to_rows.increment(key, 1).expect("a small number");
            to_site.increment(key, 1).expect("a small number");
        }
        let view: Message = to_rows.view_for(&0, 0);
        handshake.merge(&mut rows, &view).expect("no twin");
        site.merge(&to_site.view_for(&0, 0)).expect("no twin");
        if random.chance(0.7) {
            let id = *to_rows.id();
            to_rows.merge(&handshake.reply_to(&view, report.clone(), false)).expect("no twin");
            to_site.merge(&site.view_for(&id, 1)).expect("no twin");
        }
        assert_eq!(rows.rows, *site.own());
        assert_eq!(handshake.desk(), site.handshake().desk());
        assert_eq!(to_rows.handshake(), to_site.handshake());
    }
    assert!(rows.entries > 100, "values were handed over: {}", rows.entries);
    let unasked = handshake.view(&Addressee { id: &1, tier: 1, stands_for: &[] }, report, false);
    assert!(!unasked.wants_slot());
}
