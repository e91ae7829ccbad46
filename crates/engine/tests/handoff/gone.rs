//! Tokens for a site that is gone: its heir counts those which it had not counted, and no others.

use quipu_engine::{Action, Add, Membership, OperationId, Rule, Rules, Settings, SiteId};

use crate::world::Node;

fn site(number: u16) -> SiteId {
    SiteId { number, incarnation: 0 }
}

/// Three sites and an edge that has a token for the third.
struct Cluster {
    sites: Vec<Node>,
    edge: Node,
    now_ms: u64,
}

impl Cluster {
    /// The token is made, and has not left the edge.
    fn new(rules: Rules) -> Self {
        let settings = Settings { rules, ..Settings::default() };
        let sites = (1..=3).map(|number| Node::one_of_with(3, number, settings)).collect();
        let mut cluster = Self { sites, edge: Node::edge(1), now_ms: 0 };
        cluster.talk(&[0, 1, 2]);
        cluster.edge.add(b"hits", 5, 0);
        cluster.edge.add(b"misses", 2, 0);
        let now_ms = cluster.now_ms;
        cluster.edge.exchange(&mut cluster.sites[2], true, now_ms);
        cluster
    }

    /// These sites say to each other what they have to say.
    fn talk(&mut self, who: &[usize]) {
        for _ in 0..12 {
            self.now_ms += 1_100;
            for &from in who {
                self.sites[from].look_after(self.now_ms);
                let id = self.sites[from].id();
                for letter in self.sites[from].letters(self.now_ms) {
                    let to = usize::from(letter.to.number) - 1;
                    if who.contains(&to) {
                        self.sites[to].read(id, letter, self.now_ms);
                    }
                }
            }
        }
    }

    /// The third site is lost and removed, with the first one as heir; then the edge comes to the second.
    fn lose_third(&mut self) {
        let membership = Membership {
            epoch: 2,
            members: [site(1), site(2)].into(),
            joining: [].into(),
            removed: [(site(3), site(1))].into(),
        };
        self.sites[..2].iter_mut().for_each(|site| site.follow(&membership));
        self.talk(&[0, 1]);
        for _ in 0..4 {
            self.edge.exchange(&mut self.sites[1], true, self.now_ms);
            self.talk(&[0, 1]);
        }
    }

    /// What the two sites that are left say, who must agree.
    fn values(&mut self) -> (i64, i64) {
        let [one, two] = [0, 1].map(|at| (self.sites[at].value(b"hits"), self.sites[at].value(b"misses")));
        assert_eq!(one, two);
        one
    }

    fn is_done(&mut self) -> bool {
        self.edge.open_handoffs().is_empty()
    }
}

/// The edge's token comes to the third site, and its answer is lost.
fn taken_by_third(cluster: &mut Cluster) {
    let server = cluster.sites[2].server();
    for (shard, visit) in cluster.edge.visits(server, true, cluster.now_ms) {
        cluster.sites[2].take(shard, visit, cluster.now_ms);
    }
}

#[test]
fn a_token_that_never_arrived_is_counted_by_the_heir() {
    let mut cluster = Cluster::new(Rules::default());
    cluster.lose_third();
    assert_eq!(cluster.values(), (5, 2));
    assert!(cluster.is_done());
    assert_eq!(cluster.sites[1].host.handoff_stats().cached, 0);
}

#[test]
fn a_token_that_was_counted_is_not_counted_again() {
    for settles in [false, true] {
        let mut cluster = Cluster::new(Rules::default());
        taken_by_third(&mut cluster);
        if settles {
            cluster.talk(&[0, 1, 2]);
        } else {
            cluster.tell_once(2, 1);
        }
        cluster.lose_third();
        assert_eq!((cluster.values(), cluster.is_done()), ((5, 2), true), "settled: {settles}");
    }
}

#[test]
fn what_nobody_has_heard_of_is_counted_by_the_heir() {
    let mut cluster = Cluster::new(Rules::default());
    taken_by_third(&mut cluster);
    cluster.lose_third();
    assert_eq!((cluster.values(), cluster.is_done()), ((5, 2), true));
}

impl Cluster {
    /// What one site has to say comes to one other, and that one's answer does not.
    fn tell_once(&mut self, from: usize, to: usize) {
        self.now_ms += 100;
        let id = self.sites[from].id();
        for letter in self.sites[from].letters(self.now_ms) {
            if usize::from(letter.to.number) - 1 == to {
                self.sites[to].read(id, letter, self.now_ms);
            }
        }
    }
}

#[test]
fn an_edge_that_has_left_is_counted_too() {
    let mut cluster = Cluster::new(Rules::default());
    // Its last words are kept at the second site; the third is lost before it hears them.
    cluster.edge.retire();
    cluster.edge.exchange(&mut cluster.sites[1], true, cluster.now_ms);
    cluster.talk(&[0, 1]);
    cluster.edge.exchange(&mut cluster.sites[1], true, cluster.now_ms);
    assert_eq!(cluster.edge.open_handoffs().last_words, 0, "it may disappear");
    cluster.edge = Node::edge(2);
    cluster.lose_third();
    assert_eq!(cluster.values(), (5, 2));
    let stats = cluster.sites[1].host.handoff_stats();
    assert_eq!((stats.cached, stats.notices), (0, 0));
}

impl Cluster {
    /// The edge's last words come to a site, as often as it takes until the edge may disappear; or it may not.
    fn retires_at(&mut self, at: usize) -> bool {
        for _ in 0..3 {
            self.edge.exchange(&mut self.sites[at], true, self.now_ms);
        }
        self.edge.open_handoffs().last_words == 0
    }
}

#[test]
fn an_edge_may_disappear_when_a_second_site_knows_that_its_token_was_taken() {
    let mut cluster = Cluster::new(Rules::default());
    cluster.edge.retire();
    // The third site counts the token, and nobody has heard of it.
    assert!(!cluster.retires_at(2), "should this site be lost, the edge alone has it");
    assert_eq!(cluster.sites[2].value(b"hits"), 5);
    cluster.lose_third();
    assert_eq!((cluster.values(), cluster.edge.open_handoffs().last_words), ((5, 2), 0));

    let mut cluster = Cluster::new(Rules::default());
    cluster.edge.retire();
    assert!(!cluster.retires_at(2));
    cluster.tell_once(2, 1);
    assert!(!cluster.retires_at(2), "nobody has acknowledged it");
    cluster.talk(&[1, 2]);
    assert!(cluster.retires_at(2), "the first site is not needed for that");
    cluster.edge = Node::edge(2);
    cluster.lose_third();
    assert_eq!(cluster.values(), (5, 2));
}

#[test]
fn an_edge_may_disappear_when_a_second_site_keeps_its_last_words() {
    let mut cluster = Cluster::new(Rules::default());
    cluster.edge.retire();
    // The token is for the third site, which hears nobody; the second one keeps it, and the first one hears the second.
    assert!(!cluster.retires_at(1), "should this site be lost, the edge alone has it");
    cluster.talk(&[0, 1]);
    assert!(cluster.retires_at(1));
    cluster.edge = Node::edge(2);
    let membership = Membership {
        epoch: 2,
        members: [site(1), site(3)].into(),
        joining: [].into(),
        removed: [(site(2), site(1))].into(),
    };
    [0, 2].into_iter().for_each(|at| cluster.sites[at].follow(&membership));
    cluster.talk(&[0, 2]);
    for at in [0, 2] {
        assert_eq!((cluster.sites[at].value(b"hits"), cluster.sites[at].value(b"misses")), (5, 2));
        assert_eq!(cluster.sites[at].host.handoff_stats().notices, 0);
    }
}

/// Two sites that have heard each other; the edge has a token for the first one, which is then started again.
fn started_again(rules: Rules) -> (Node, Node, Node) {
    let settings = Settings { rules, ..Settings::default() };
    let sites = (1..=2).map(|number| Node::one_of_with(2, number, settings)).collect();
    let mut cluster = Cluster { sites, edge: Node::edge(1), now_ms: 0 };
    cluster.talk(&[0, 1]);
    cluster.edge.add(b"hits", 5, 0);
    cluster.edge.exchange(&mut cluster.sites[0], true, cluster.now_ms);
    cluster.sites[0].restart(cluster.now_ms);
    cluster.sites[1].connect_all();
    cluster.edge.exchange(&mut cluster.sites[0], true, cluster.now_ms);
    assert_eq!(cluster.edge.open_handoffs().tokens.len(), usize::from(cluster.sites[0].value(b"hits") == 0));
    cluster.talk(&[0, 1]);
    let Cluster { sites, edge, .. } = cluster;
    let [one, two] = <[Node; 2]>::try_from(sites).ok().expect("two sites");
    (one, two, edge)
}

#[test]
fn a_site_that_was_started_counts_no_token_before_another_one_has_spoken_to_it() {
    let (mut one, mut two, mut edge) = started_again(Rules::default());
    assert_eq!((one.value(b"hits"), edge.open_handoffs().tokens.len()), (0, 1), "it may be an old copy");
    edge.exchange(&mut one, true, 60_000);
    assert_eq!((one.value(b"hits"), two.value(b"hits"), edge.open_handoffs().is_empty()), (5, 0, true));

    let (mut one, _, _) = started_again(Rules::without(Rule::HeardTakesTokens));
    assert_eq!(one.value(b"hits"), 5, "an old copy would have counted it, too");
}

#[test]
fn a_restart_of_the_heir_changes_nothing() {
    let mut cluster = Cluster::new(Rules::default());
    taken_by_third(&mut cluster);
    cluster.talk(&[0, 1, 2]);
    for at in 0..2 {
        cluster.sites[at].checkpoint(cluster.now_ms);
        cluster.sites[at].restart(cluster.now_ms);
        cluster.sites[at].connect_all();
    }
    cluster.lose_third();
    assert_eq!((cluster.values(), cluster.is_done()), ((5, 2), true));
}

#[test]
fn an_heir_that_hears_others_before_its_first_batch_speaks_under_the_present_membership() {
    let mut cluster = Cluster::new(Rules::default());
    cluster.lose_third();
    // Before it hears them it does not know that it decides for the lost site, whose table it has told as its own.
    cluster.sites[0].restart(cluster.now_ms);
    cluster.sites[1].connect_all();
    cluster.tell_once(1, 0);
    cluster.sites[1].restart(cluster.now_ms);
    for number in 0..16 {
        let operation = Some(OperationId { producer: b"p", id: b"one" });
        let action = Action::Add { add: Add::of(1), operation };
        cluster.sites[1].run(format!("key-{number}").as_bytes(), action, cluster.now_ms);
    }
    cluster.talk(&[0, 1]);
    for at in 0..2 {
        let audits = cluster.sites[at].host.audit();
        let open = audits.iter().flat_map(|audit| &audit.sites).map(|site| site.open).sum::<u64>();
        assert_eq!(open, 0, "at site {}: nobody settles while the heir is not heard", at + 1);
    }
}

#[test]
fn each_rule_is_needed() {
    // Without it an heir counts what was counted.
    let mut cluster = Cluster::new(Rules::without(Rule::TakenIsTold));
    taken_by_third(&mut cluster);
    cluster.talk(&[0, 1, 2]);
    cluster.lose_third();
    assert_eq!(cluster.values(), (10, 4));

    // Without it an heir decides before the other survivor has told what it knows of the lost site.
    let mut cluster = Cluster::new(Rules::without(Rule::HeirKnowsAll));
    taken_by_third(&mut cluster);
    cluster.tell_once(2, 1);
    let membership = Membership {
        epoch: 2,
        members: [site(1), site(2)].into(),
        joining: [].into(),
        removed: [(site(3), site(1))].into(),
    };
    cluster.sites[0].follow(&membership);
    cluster.edge.exchange(&mut cluster.sites[0], true, cluster.now_ms);
    cluster.sites[1].follow(&membership);
    cluster.talk(&[0, 1]);
    assert_eq!(cluster.values(), (10, 4));

    // Without it an edge disappears with a token that a site has counted which is lost, and nobody else knows.
    let mut cluster = Cluster::new(Rules::without(Rule::LastWordsOutliveOne));
    cluster.edge.retire();
    assert!(cluster.retires_at(2));
    cluster.edge = Node::edge(2);
    cluster.lose_third();
    assert_eq!(cluster.values(), (0, 0));

    // Without it an old copy would open slots under the clocks of others.
    let fresh = |rules| Node::one_of_with(2, 1, Settings { rules, ..Settings::default() });
    for (rules, slots) in [(Rules::default(), 0), (Rules::without(Rule::HeardOpensSlots), 1)] {
        let (mut started, mut edge) = (fresh(rules), Node::edge(1));
        edge.add(b"hits", 1, 0);
        edge.exchange(&mut started, true, 0);
        assert_eq!(started.host.handoff_stats().slots, slots);
    }
}
