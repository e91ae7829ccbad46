//! A site that leaves must not take along what others have left there.

use crate::world::Node;

#[test]
fn a_site_is_not_finished_while_it_keeps_tokens_for_another() {
    let [mut here, mut target] = [1, 2].map(|number| Node::one_of(2, number));
    let mut edge = Node::edge(1);
    // One that was started opens no slots before another one has spoken to it.
    let talk = |here: &mut Node, target: &mut Node| {
        for turn in 0..20 {
            let now_ms = turn * 500;
            for letter in here.letters(now_ms) {
                target.read(here.id(), letter, now_ms);
            }
            for letter in target.letters(now_ms) {
                here.read(target.id(), letter, now_ms);
            }
        }
    };
    talk(&mut here, &mut target);
    assert!(here.host.unfinished().is_nothing());
    edge.add(b"hits", 5, 0);
    edge.exchange(&mut target, true, 0);
    assert_eq!(target.host.handoff_stats().slots, 1, "there is a slot");
    assert!(target.host.unfinished().is_nothing(), "and nobody knows whether the edge comes back");
    // It goes to another server with its token, and is never seen again.
    edge.exchange(&mut here, true, 0);
    let unfinished = here.host.unfinished();
    assert_eq!(unfinished.kept, 1);
    assert!(!unfinished.is_nothing());
    talk(&mut here, &mut target);
    assert_eq!((target.value(b"hits"), here.value(b"hits")), (5, 5));
    let unfinished = here.host.unfinished();
    assert!(unfinished.is_nothing(), "{unfinished:?}");
    assert_eq!(target.host.handoff_stats().slots, 0, "the token has filled it");
}
