//! Each of our own rules left out is caught by the checks of a trace in which replicas come and go.

use super::assert_caught;
use crate::handoff::handshake::Handshake;
use crate::handoff::ledger::Owned;
use crate::handoff::retirement::Phase;
use crate::handoff::{Addressee, Handoff, RetireError};
use crate::testing::trace::{Conduct, Replica};

const LOST: &[&str] = &["were issued, but", "dropped the token", "the last copy"];
const KEPT_FOR_EVER: &[&str] = &["still has", "still keeps", "tokens are still under way", "reports"];
const ANY: &[&str] = &["were issued, but", "dropped the token", "the last copy", "only", "still", "reports"];

fn caught(name: &str, conduct: Conduct, expected: &[&str]) {
    assert_caught(name, conduct, true, expected);
}

fn with_ledger<T>(
    replica: &mut Replica,
    act: impl FnOnce(&mut Handshake<u32, u64>, &mut Owned<'_, u32, u64>) -> T,
) -> T {
    let own_id = replica.handshake.id;
    let Handoff { handshake, ledger } = replica;
    act(handshake, &mut Owned { own_id: &own_id, ledger })
}

#[test]
fn cached_tokens_dropped_on_a_missing_slot_are_caught() {
    let right = Conduct::default();
    caught(
        "dropping cached tokens as the paper does",
        Conduct {
            merge: |replica, view| {
                replica.merge(view)?;
                let clock = view.target_clock;
                replica.handshake.drop_cached(&view.id, |token| {
                    view.slot_for(&token.source).is_none() && clock > token.slot.target_clock
                });
                Ok(())
            },
            ..right
        },
        LOST,
    );
}

#[test]
fn cached_tokens_that_are_not_delivered_are_caught() {
    let view = |replica: &Replica, to: &Addressee<'_, u32>| {
        let mut view = replica.view(to);
        let id = view.id;
        view.tokens.retain(|token| token.source == id || token.source == *to.id);
        view
    };
    caught("cached tokens that stay where they are", Conduct { view, ..Conduct::default() }, KEPT_FOR_EVER);

    let reply_to = |replica: &Replica, view: &_| {
        let mut reply = replica.reply_to(view);
        reply.closed.clear();
        reply
    };
    caught("never saying closed", Conduct { reply_to, ..Conduct::default() }, KEPT_FOR_EVER);
}

#[test]
fn leaving_before_tokens_are_cached_is_caught() {
    let may_leave_early = |replica: &Replica| *replica.own() == 0;
    caught("leaving with tokens", Conduct { may_leave_early, ..Conduct::default() }, LOST);
    let may_leave_early = |replica: &Replica| replica.handshake.may_leave_early(true, |_, _| true);
    caught("leaving with a value", Conduct { may_leave_early, ..Conduct::default() }, LOST);
}

#[test]
fn a_notice_that_is_not_whole_is_caught() {
    let retire = |replica: &mut Replica, servers: &[u32]| {
        let mut notice = replica.retire(servers.iter().copied()).cloned()?;
        notice.tokens.clear();
        Ok(notice)
    };
    caught("a notice without its tokens", Conduct { retire, ..Conduct::default() }, LOST);

    let act_on_notice = |replica: &mut Replica, notice: &_| {
        let notice: &crate::handoff::Notice<u32, u64> = notice;
        replica.handshake.desk.slots.remove(&notice.client);
        replica.act_on_notice(notice)
    };
    caught("slots dropped before tokens are tried", Conduct { act_on_notice, ..Conduct::default() }, LOST);
}

/// A relay that goes on serving after it has written its estate.
#[test]
fn a_relay_that_does_not_stop_is_caught() {
    let right = Conduct::default();
    caught(
        "going on with all steps",
        Conduct {
            merge: |replica, view| {
                let phase = std::mem::replace(&mut replica.handshake.phase, Phase::Active);
                let merged = replica.merge(view);
                replica.handshake.phase = phase;
                merged
            },
            ..right
        },
        ANY,
    );
    type Step = fn(&mut Handshake<u32, u64>, &mut Owned<'_, u32, u64>, &crate::testing::trace::Seen);
    fn also(replica: &mut Replica, view: &crate::testing::trace::Seen, step: Step) {
        if matches!(replica.handshake.phase, Phase::Stopped { .. }) && view.id != replica.handshake.id {
            with_ledger(replica, |handshake, ledger| step(handshake, ledger, view));
        }
    }
    caught(
        "going on to fill slots",
        Conduct {
            merge: |replica, view| {
                also(replica, view, |handshake, ledger, view| handshake.fill_slots(ledger, view));
                replica.merge(view)
            },
            ..right
        },
        ANY,
    );
    caught(
        "going on to drop slots",
        Conduct {
            merge: |replica, view| {
                also(replica, view, |handshake, _, view| {
                    handshake.desk.slots.remove(&view.id);
                });
                replica.merge(view)
            },
            ..right
        },
        LOST,
    );
    caught(
        "going on to open slots",
        Conduct {
            merge: |replica, view| {
                also(replica, view, |handshake, _, view| handshake.create_slot(view));
                replica.merge(view)
            },
            ..right
        },
        ANY,
    );
    caught(
        "going on to cache tokens",
        Conduct {
            merge: |replica, view| {
                also(replica, view, |handshake, _, view| handshake.cache_tokens(view));
                replica.merge(view)
            },
            ..right
        },
        LOST,
    );
    caught(
        "going on to act on notices",
        Conduct {
            act_on_notice: |replica, notice| {
                let phase = std::mem::replace(&mut replica.handshake.phase, Phase::Active);
                let done = replica.act_on_notice(notice);
                replica.handshake.phase = phase;
                done
            },
            ..right
        },
        ANY,
    );
}

#[test]
fn a_careless_heir_is_caught() {
    let right = Conduct::default();
    caught(
        "adopting an estate again",
        Conduct {
            adopt: |replica, estate| {
                if estate.heir == replica.handshake.id {
                    with_ledger(replica, |handshake, ledger| handshake.take_over(ledger, estate));
                }
                replica.adopt(estate)
            },
            ..right
        },
        ANY,
    );
    caught(
        "keeping the estate under one's own name",
        Conduct {
            adopt: |replica, estate| {
                let fresh = replica.handshake.desk_of(&estate.from).is_none();
                let answer = replica.adopt(estate);
                if fresh && let Some(desk) = estate.desks.get(&estate.from) {
                    for (source, slot) in &desk.slots {
                        replica.handshake.desk.slots.insert(*source, *slot);
                    }
                }
                answer
            },
            ..right
        },
        ANY,
    );
    caught(
        "adopting while leaving oneself",
        Conduct {
            adopt: |replica, estate| {
                let phase = std::mem::replace(&mut replica.handshake.phase, Phase::Active);
                let answer = replica.adopt(estate);
                replica.handshake.phase = phase;
                answer
            },
            ..right
        },
        ANY,
    );
}

#[test]
fn a_hasty_relay_is_caught() {
    let right = Conduct::default();
    caught(
        "naming a second heir before the first has refused",
        Conduct {
            bequeath: |replica, heir| {
                if let Phase::Stopped { heir } = &mut replica.handshake.phase {
                    *heir = None;
                }
                replica.bequeath(heir)
            },
            ..right
        },
        ANY,
    );
    caught(
        "leaving before the estate is adopted",
        Conduct { may_leave: |replica| !replica.must_hand_off(), ..right },
        ANY,
    );
    caught(
        "leaving with a value",
        Conduct { may_leave: |replica| replica.handshake.may_leave(true), ..right },
        LOST,
    );
    caught(
        "bequeathing before it has stopped",
        Conduct {
            stop: |_| Ok(()),
            bequeath: |replica, heir| {
                let phase =
                    std::mem::replace(&mut replica.handshake.phase, Phase::Stopped { heir: Some(*heir) });
                let estate = replica.bequeath(heir);
                replica.handshake.phase = phase;
                estate.or(Err(RetireError::NotStopped))
            },
            ..right
        },
        ANY,
    );
}

#[test]
fn folding_without_the_floor_is_caught() {
    let right = Conduct::default();
    caught(
        "views that tell no floor",
        Conduct {
            view: |replica, to| {
                let mut view = replica.view(to);
                view.floor = 0;
                view
            },
            reply_to: |replica, view| {
                let mut reply = replica.reply_to(view);
                reply.floor = 0;
                reply
            },
            ..right
        },
        LOST,
    );
    let fold = |replica: &mut Replica, source: &u32| replica.handshake.desk.slots.remove(source).is_some();
    caught("forgetting slots instead of folding them", Conduct { fold, ..right }, LOST);
}
