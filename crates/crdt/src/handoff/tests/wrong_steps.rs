//! Each of the eight steps left out or done wrongly is caught by the checks of a trace.

use super::{assert_caught, violation};
use crate::handoff::ledger::{Ledger, Owned};
use crate::handoff::{Handoff, MergeError, Rules, Slot, Tiers};
use crate::testing::trace::{Conduct, Replica, Seen};

/// The eight steps, one of them done as `step` says. They all are the real ones but that.
struct Steps<'a> {
    handshake: &'a mut crate::handoff::Handshake<u32, u64>,
    ledger: Owned<'a, u32, u64>,
    view: &'a Seen,
    tiers: Tiers,
}

impl Steps<'_> {
    fn run(&mut self, numbers: &[u8]) {
        for number in numbers {
            match number {
                1 => self.handshake.fill_slots(&mut self.ledger, self.view),
                2 => self.handshake.discard_slot(self.view),
                3 => self.handshake.create_slot(self.view),
                4 => self.ledger.merge_vectors(self.tiers, &self.view.report),
                5 => self.ledger.aggregate(self.tiers, &self.view.report),
                6 => self.handshake.discard_tokens(self.view),
                7 => self.handshake.create_token(&mut self.ledger, self.view),
                8 => self.handshake.cache_tokens(self.view),
                _ => unreachable!("there are eight steps"),
            }
        }
    }
}

fn with_steps(
    replica: &mut Replica,
    view: &Seen,
    act: impl FnOnce(&mut Steps<'_>),
) -> Result<(), MergeError> {
    let own_id = replica.handshake.id;
    if own_id != view.id {
        let Handoff { handshake, ledger } = replica;
        let tiers = Tiers { ours: handshake.tier, theirs: view.tier };
        act(&mut Steps { handshake, ledger: Owned { own_id: &own_id, ledger }, view, tiers });
    }
    Ok(())
}

/// Under the paper's rules, where the eight steps are all there is.
fn conduct(merge: fn(&mut Replica, &Seen) -> Result<(), MergeError>) -> Conduct {
    Conduct { new: |id, tier| Handoff::with_rules(id, tier, Rules::Paper), merge, ..Conduct::default() }
}

fn caught(name: &str, merge: fn(&mut Replica, &Seen) -> Result<(), MergeError>, expected: &[&str]) {
    assert_caught(name, conduct(merge), false, expected);
}

#[test]
fn all_eight_steps_in_order_are_not_caught() {
    let all = conduct(|r, v| with_steps(r, v, |s| s.run(&[1, 2, 3, 4, 5, 6, 7, 8])));
    assert_eq!(violation(all, false), None);
}

#[test]
fn a_skipped_step_is_caught() {
    caught(
        "no filling",
        |r, v| with_steps(r, v, |s| s.run(&[2, 3, 4, 5, 6, 7, 8])),
        &["were issued, but", "reports"],
    );
    caught(
        "no discarding of slots",
        |r, v| with_steps(r, v, |s| s.run(&[1, 3, 4, 5, 6, 7, 8])),
        &["still has", "reports"],
    );
    caught("no slots", |r, v| with_steps(r, v, |s| s.run(&[1, 2, 4, 5, 6, 7, 8])), &["reports"]);
    caught("no merging of vectors", |r, v| with_steps(r, v, |s| s.run(&[1, 2, 3, 5, 6, 7, 8])), &["reports"]);
    caught("no aggregation", |r, v| with_steps(r, v, |s| s.run(&[1, 2, 3, 4, 6, 7, 8])), &["reports"]);
    caught(
        "no discarding of tokens",
        |r, v| with_steps(r, v, |s| s.run(&[1, 2, 3, 4, 5, 7, 8])),
        &["still has", "reports"],
    );
    caught("no tokens", |r, v| with_steps(r, v, |s| s.run(&[1, 2, 3, 4, 5, 6, 8])), &["reports"]);
}

/// Without step 8 nothing is lost, but nobody can leave while its server is away.
#[test]
fn without_cached_tokens_a_client_must_wait_for_its_server() {
    let leaves_early = |merge: fn(&mut Replica, &Seen) -> Result<(), MergeError>| {
        let (mut away, mut near) = (Replica::new(1, 1), Replica::new(2, 1));
        let mut client = Replica::new(3, 2);
        client.add(&5).expect("a small number");
        merge(&mut away, &client.view_for(&1, 1)).expect("no twin");
        merge(&mut client, &away.view_for(&3, 2)).expect("no twin");
        merge(&mut near, &client.view_for(&2, 1)).expect("no twin");
        let reply = near.reply_to(&client.view_for(&2, 1));
        client.merge(&reply).expect("no twin");
        client.may_leave_early(|_, _| true)
    };
    assert!(leaves_early(Handoff::merge));
    assert!(!leaves_early(|r, v| with_steps(r, v, |s| s.run(&[1, 2, 3, 4, 5, 6, 7]))));
}

#[test]
fn discarding_before_filling_is_caught() {
    caught(
        "discarding slots before filling them",
        |r, v| {
            with_steps(r, v, |s| {
                // Step 2 itself spares a slot whose token is at hand: this one does not.
                s.handshake.desk.slots.retain(|id, slot| *id != v.id || slot.source_clock >= v.source_clock);
                s.run(&[1, 3, 4, 5, 6, 7, 8]);
            })
        },
        &["were issued, but"],
    );
}

#[test]
fn a_step_done_wrongly_is_caught() {
    caught(
        "filling whatever slot there is for the source",
        |r, v| {
            with_steps(r, v, |s| {
                for token in s.view.tokens().iter().filter(|token| token.target == s.handshake.id) {
                    if s.handshake.desk.slots.remove(&token.source).is_some() {
                        s.ledger.credit(token).expect("small numbers");
                    }
                }
                s.run(&[2, 3, 4, 5, 6, 7, 8]);
            })
        },
        &["were issued, but", "only"],
    );
    caught(
        "keeping the slot that was filled",
        |r, v| {
            with_steps(r, v, |s| {
                for token in s.view.tokens().iter().filter(|token| token.target == s.handshake.id) {
                    if s.handshake.desk.fits(token) {
                        s.ledger.credit(token).expect("small numbers");
                    }
                }
                s.run(&[2, 3, 4, 5, 6, 7, 8]);
            })
        },
        &["were issued, but", "only"],
    );
    caught(
        "discarding a slot that is still current",
        |r, v| {
            with_steps(r, v, |s| {
                s.run(&[1]);
                s.handshake.desk.slots.remove(&s.view.id);
                s.run(&[3, 4, 5, 6, 7, 8]);
            })
        },
        &["were issued, but"],
    );
    caught(
        "opening slots with one target clock",
        |r, v| {
            with_steps(r, v, |s| {
                s.run(&[1, 2, 3]);
                s.handshake.desk.target_clock = s.handshake.desk.target_clock.min(1);
                s.run(&[4, 5, 6, 7, 8]);
            })
        },
        &["were issued, but", "only", "reports", "still has", "dropped"],
    );
    caught(
        "summing vectors instead of joining them",
        |r, v| {
            with_steps(r, v, |s| {
                s.run(&[1, 2, 3]);
                if s.tiers.ours == 0 && s.tiers.theirs == 0 {
                    for (id, theirs) in v.report.vals.iter().filter(|(id, _)| *id != *s.ledger.own_id) {
                        *s.ledger.ledger.others.entry(*id).or_default() += theirs;
                    }
                }
                s.run(&[5, 6, 7, 8]);
            })
        },
        &["reports"],
    );
    caught(
        "making a token for a slot of another time",
        |r, v| {
            with_steps(r, v, |s| {
                s.run(&[1, 2, 3, 4, 5, 6]);
                if let Some(Slot { source_clock, .. }) = v.slot_for(&s.handshake.id) {
                    s.handshake.source_clock = source_clock;
                }
                s.run(&[7, 8]);
            })
        },
        &["were issued, but", "dropped", "another replica", "still has", "reports"],
    );
    caught(
        "keeping the value that went into a token",
        |r, v| {
            with_steps(r, v, |s| {
                let own = s.ledger.ledger.own;
                s.run(&[1, 2, 3, 4, 5, 6, 7, 8]);
                if s.ledger.ledger.own == 0 {
                    s.ledger.ledger.own = own;
                }
            })
        },
        &["were issued, but"],
    );
}

/// Every message of a source carries its token for the addressee: steps 2 and 6 rest on it.
#[test]
fn a_view_without_the_token_for_its_addressee_is_caught() {
    let view = |replica: &Replica, to: &crate::handoff::Addressee<'_, u32>| {
        let mut view = replica.view(to);
        if view.source_clock.is_multiple_of(2) {
            view.tokens.retain(|token| token.target != *to.id);
        }
        view
    };
    assert_caught(
        "a view without its token",
        Conduct { view, ..Conduct::default() },
        false,
        &["were issued, but"],
    );
}
