//! Which of two links stays, and what people are told.

use super::*;
use crate::links::{Instance, Run};

const TWO: SiteId = SiteId { number: 2, incarnation: 0 };

fn board(own: SiteId) -> Board {
    let identity = Identity {
        cluster: "quipu".to_owned(),
        shards: 4,
        site: own,
        instance: Instance([0; 16]),
        run: Run { number: 1, nonce: 1 },
        earlier: Vec::new(),
    };
    Board::new(identity, Membership::of([SiteId::FIRST, TWO]), &BTreeMap::new(), &Metrics::new())
}

fn stays(entered: Entered) -> (Arc<Queue>, bool) {
    match entered {
        Entered::Stays { queue, replaced, .. } => (queue, replaced),
        Entered::Superfluous => panic!("it should stay"),
    }
}

fn is_closed(queue: &Queue) -> bool {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    runtime.block_on(async { tokio::time::timeout(std::time::Duration::ZERO, queue.closed()).await.is_ok() })
}

#[test]
fn of_two_links_both_ends_keep_the_one_that_the_lower_number_dialled() {
    // At site 1 its own dial stays, at site 2 the other's: whichever came first.
    for (own, peer, kept_is_dialled_here) in [(SiteId::FIRST, TWO, true), (TWO, SiteId::FIRST, false)] {
        let first = board(own);
        let (kept, _) = stays(first.enter(peer, kept_is_dialled_here, 0));
        assert!(matches!(first.enter(peer, !kept_is_dialled_here, 0), Entered::Superfluous));
        assert!(!is_closed(&kept));

        let second = board(own);
        let (dropped, _) = stays(second.enter(peer, !kept_is_dialled_here, 0));
        let (kept, replaced) = stays(second.enter(peer, kept_is_dialled_here, 0));
        assert!(replaced && is_closed(&dropped) && !is_closed(&kept));
        assert!(!second.peers()[&peer.number].leave(&dropped, "closed"), "the other one is up");
        assert!(second.facts()[0].is_up);
        assert!(second.peers()[&peer.number].leave(&kept, "closed"));
        assert!(!second.facts()[0].is_up);
    }
}

#[test]
fn a_second_link_of_the_same_side_means_that_the_first_is_dead() {
    let board = board(SiteId::FIRST);
    let (first, replaced) = stays(board.enter(TWO, false, 0));
    assert!(!replaced);
    let (_, replaced) = stays(board.enter(TWO, false, 0));
    assert!(replaced && is_closed(&first));
}

#[test]
fn messages_go_to_the_link_of_their_site_alone() {
    let board = board(SiteId::FIRST);
    let send = |to, text: &[u8]| {
        let mut frames = text.to_vec();
        board.send(to, &mut frames, 1);
        assert!(frames.is_empty());
    };
    send(TWO, b"nobody hears this");
    let (queue, _) = stays(board.enter(TWO, true, 0));
    send(SiteId { incarnation: 1, ..TWO }, b"another incarnation");
    send(SiteId { number: 9, incarnation: 0 }, b"a stranger");
    send(TWO, b"heard");
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let mut taken = Vec::new();
    runtime.block_on(queue.take(&mut taken));
    assert_eq!(taken, b"heard");
    board.fail(TWO, "something wrong".to_owned());
    assert!(is_closed(&queue));
}

#[test]
fn people_are_told_why_there_is_no_link() {
    let board = board(SiteId::FIRST);
    board.note_refusal(Some(2), "refused");
    board.note_refusal(Some(7), "a stranger");
    board.note_trouble(None, "bytes that are no frame");
    let fact = || board.facts().remove(0);
    assert_eq!(fact().trouble.as_deref(), Some("refused"));
    assert_eq!(board.turned_away().as_deref(), Some("bytes that are no frame"));
    assert_eq!(board.peers()[&2].metrics.refusals.get(), 1);
    let (queue, _) = stays(board.enter(TWO, true, 0));
    assert_eq!(fact().trouble, None);
    board.note_trouble(Some(2), "another connection of it failed");
    assert_eq!((fact().trouble, fact().heard_seconds), (None, None));
    board.heard(&board.peers()[&2]);
    assert_eq!(fact().heard_seconds, Some(0));
    assert!(board.peers()[&2].leave(&queue, "silent"));
    assert_eq!(fact().trouble.as_deref(), Some("silent"));
}

#[test]
fn who_comes_and_goes_is_followed() {
    const THREE: SiteId = SiteId { number: 3, incarnation: 0 };
    let board = board(SiteId::FIRST);
    let changes = board.changes();
    let two = board.peers().remove(&2).expect("a peer");
    assert_eq!(*two.wanted().borrow(), Wanted::Wait);
    let (queue, _) = stays(board.enter(TWO, true, 0));
    // Somebody comes; those who stay keep their links.
    let addresses = BTreeMap::from([(2, "two:1".to_owned()), (3, "three:1".to_owned())]);
    board.follow(Membership::of([SiteId::FIRST, TWO, THREE]), &addresses);
    assert!(changes.has_changed().expect("the board is there") && !is_closed(&queue));
    assert!(Arc::ptr_eq(&two, &board.peers()[&2]), "it is the same as before");
    assert_eq!(*two.wanted().borrow(), Wanted::Dial("two:1".to_owned()));
    assert_eq!(*board.peers()[&3].wanted().borrow(), Wanted::Dial("three:1".to_owned()));
    // Another incarnation is another site, under the same number.
    let again = SiteId { number: 2, incarnation: 1 };
    board.follow(Membership::of([SiteId::FIRST, again, THREE]), &addresses);
    assert!(is_closed(&queue) && two.leave(&queue, "closed"));
    let (queue, _) = stays(board.enter(again, true, 0));
    // Somebody goes.
    board.follow(Membership::of([SiteId::FIRST, THREE]), &addresses);
    assert_eq!(*two.wanted().borrow(), Wanted::Gone);
    assert!(is_closed(&queue) && two.leave(&queue, "closed"));
    assert_eq!(board.peers().into_keys().collect::<Vec<_>>(), [3]);
    assert!(matches!(board.enter(again, false, 0), Entered::Superfluous));
}

#[test]
fn a_site_that_has_stopped_talks_to_nobody() {
    let board = board(SiteId::FIRST);
    let (queue, _) = stays(board.enter(TWO, true, 0));
    assert_eq!(board.stopped(), None);
    assert!(board.stop(Halt::OldCopy, "an old copy") && !board.stop(Halt::Removed, "again"));
    assert_eq!(board.refusal(), Some(Refusal::OldCopy("an old copy".to_owned())));
    assert_eq!(board.stopped(), Some("an old copy"));
    assert!(is_closed(&queue));
    assert!(matches!(board.enter(TWO, true, 0), Entered::Superfluous));
    assert_eq!(*board.peers()[&2].wanted().borrow(), Wanted::Gone);
}
