//! What servers pass on to each other for those who hand over: copies of tokens, last words, and that they have arrived.
//! Sites do so with the messages between them, a relay with its visits to a site and the answers to these.
//!
//! All of it may be forgotten, lost and repeated: whoever keeps a token or last words says so again until it is told that
//! they have arrived.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use quipu_crdt::handoff::Handshake;

use super::{Shard, handoff::Rows};
use crate::{
    EXCHANGE_BYTES_MAX, Membership, Moment, Rule, SiteId,
    coverage::{Branch, reached},
    handoff::{Answer, Deltas, Guest, Key, Name, Notice, NoticeDone, PassedOn, Token, TokenName},
};

/// What is kept is passed on again after so many milliseconds,
const PASS_ON_EVERY_MS: u64 = 1_000;
/// and what is for a relay, to all sites, because it is not known which of them the relay comes to.
const PASS_ON_WIDELY_EVERY_MS: u64 = 5_000;
/// So many relays are remembered that are to be told something.
const RELAYS_MAX: usize = 1024;
/// So many closed tokens are remembered, and so many last words that were acted on.
const REMEMBERED_MAX: usize = 4096;
/// So many things one is to be told. What is forgotten beyond that is passed on again, and told again.
const TOLD_MAX: usize = 4096;

/// What was said to whom.
#[derive(Debug, Default)]
pub(super) struct Passing {
    /// Other sites, relays that come here, and the servers that a relay comes to.
    others: BTreeMap<Name, Other>,
    /// Tokens of which copies were here, and whose slots are closed: who still brings them is told. The latest last.
    closed: VecDeque<TokenName>,
    /// And who has acted on whose last words.
    done: VecDeque<NoticeDone>,
    /// Edges whose last words another site keeps, too, and which.
    kept: BTreeMap<Name, SiteId>,
}

#[derive(Debug, Default)]
struct Other {
    /// When it was last passed on what is kept here.
    sent_ms: Option<u64>,
    /// And when with what is for relays.
    sent_widely_ms: Option<u64>,
    /// What it is to be told.
    closed: Vec<TokenName>,
    done: Vec<NoticeDone>,
    /// Edges whose last words it has passed on, and are kept here.
    kept: Vec<Name>,
    /// Something is kept for it.
    keeps: bool,
    /// Something is kept for a relay.
    keeps_widely: bool,
}

impl Other {
    fn is_due(&self, now_ms: u64) -> bool {
        self.sent_ms.is_none_or(|sent_ms| now_ms >= sent_ms + PASS_ON_EVERY_MS)
    }

    fn is_widely_due(&self, now_ms: u64) -> bool {
        self.sent_widely_ms.is_none_or(|sent_ms| now_ms >= sent_ms + PASS_ON_WIDELY_EVERY_MS)
    }

    fn tell(&mut self, closed: &[TokenName], done: &[NoticeDone]) {
        self.closed.extend_from_slice(&closed[..closed.len().min(TOLD_MAX - self.closed.len())]);
        self.done.extend_from_slice(&done[..done.len().min(TOLD_MAX - self.done.len())]);
    }

    fn wake_ms(&self) -> Option<u64> {
        let soon = self.sent_ms.filter(|_| self.keeps).map(|sent_ms| sent_ms + PASS_ON_EVERY_MS);
        let late = self.sent_widely_ms.filter(|_| self.keeps_widely);
        soon.into_iter().chain(late.map(|sent_ms| sent_ms + PASS_ON_WIDELY_EVERY_MS)).min()
    }
}

impl Passing {
    /// When something is to be passed on again to one of those that can be reached.
    fn wake_ms(&self, is_reached: impl Fn(Name) -> bool) -> Option<u64> {
        let reached = self.others.iter().filter(|(name, _)| is_reached(**name));
        reached.filter_map(|(_, other)| other.wake_ms()).min()
    }

    /// What this one is to be told.
    fn take(&mut self, name: Name) -> PassedOn {
        let Some(other) = self.others.get_mut(&name) else { return PassedOn::default() };
        let (closed, done) = (std::mem::take(&mut other.closed), std::mem::take(&mut other.done));
        let kept = std::mem::take(&mut other.kept);
        PassedOn { closed, done, kept: (!kept.is_empty()).then_some(kept), ..PassedOn::default() }
    }

    /// Remembers what has arrived: another one that still keeps it would else bring it again and again.
    fn remember(&mut self, closed: &[TokenName], done: &[NoticeDone]) {
        self.closed.extend(closed.iter().cloned());
        self.done.extend(done.iter().cloned());
        self.closed.drain(..self.closed.len().saturating_sub(REMEMBERED_MAX));
        self.done.drain(..self.done.len().saturating_sub(REMEMBERED_MAX));
    }

    fn of(&mut self, name: Name) -> &mut Other {
        let relays = self.others.keys().filter(|name| name.site().is_none()).count();
        if relays >= RELAYS_MAX && !self.others.contains_key(&name) && name.site().is_none() {
            let first = self.others.keys().find(|name| name.site().is_none()).copied();
            first.and_then(|first| self.others.remove(&first));
        }
        self.others.entry(name).or_default()
    }
}

/// How many bytes a token takes, roughly.
fn bytes_of(token: &Token) -> usize {
    64 + token.value.keys().map(|key: &Key| key.bytes().len() + 24).sum::<usize>()
}

/// Luggage for so much.
pub(super) struct Luggage(usize);

impl Luggage {
    pub(super) fn new() -> Self {
        Self(0)
    }

    /// One that does not fit goes alone.
    pub(super) fn admits(&mut self, token: &Token) -> bool {
        let is_first = self.0 == 0;
        self.0 += bytes_of(token);
        is_first || self.0 <= EXCHANGE_BYTES_MAX
    }

    fn admits_notice(&mut self, notice: &Notice) -> bool {
        let is_first = self.0 == 0;
        self.0 += 64 + notice.tokens().iter().map(bytes_of).sum::<usize>();
        is_first || self.0 <= EXCHANGE_BYTES_MAX
    }
}

impl Shard {
    /// What a peer is to hear now of what is kept here.
    pub(super) fn pass_on(&mut self, site: SiteId, now_ms: u64) -> Option<Box<PassedOn>> {
        let name = Name::of_site(site);
        let mut passed_on = self.passing.take(name);
        if self.desk.keeps_for_others() {
            self.pass_on_kept(site, now_ms, &mut passed_on);
            self.links.wake_ms = self.links.wake_ms.into_iter().chain(self.passes_on_at_ms()).min();
        } else if let Some(other) = self.passing.others.get_mut(&name) {
            (other.keeps, other.keeps_widely) = (false, false);
        }
        (!passed_on.is_empty()).then(|| Box::new(passed_on))
    }

    /// When a peer is to hear again of what is kept here.
    pub(super) fn passes_on_at_ms(&self) -> Option<u64> {
        let peers = &self.links.peers;
        let is_peer = |site| peers.get(&site).is_some_and(|peer| peer.connected);
        self.passing.wake_ms(|name| name.site().is_some_and(is_peer))
    }

    fn pass_on_kept(&mut self, site: SiteId, now_ms: u64, passed_on: &mut PassedOn) {
        let name = Name::of_site(site);
        let other = self.passing.of(name);
        let (is_due, is_widely_due) = (other.is_due(now_ms), other.is_widely_due(now_ms));
        let peers = &self.links.peers;
        // Who has a link to the target is not known, so all are told for whom there is none here.
        let is_for_site = |target: Name| {
            self.site_for(target).is_some_and(|target| {
                target == site || peers.get(&target).is_some_and(|peer| !peer.connected)
            })
        };
        let is_for_relay = |target: Name| target.site().is_none();
        let goes = |target| is_due && is_for_site(target) || is_widely_due && is_for_relay(target);
        let is_alone = |notice: &Notice| self.has_words_alone(notice);
        let keeps = self.keeps_for(is_for_site, is_alone);
        let keeps_widely = self.keeps_for(is_for_relay, |_| false);
        self.collect_kept(goes, goes, |notice| is_due && is_alone(notice), passed_on);
        let other = self.passing.of(name);
        (other.keeps, other.keeps_widely) = (keeps, keeps_widely);
        if is_due && keeps {
            other.sent_ms = Some(now_ms);
        }
        if is_widely_due && keeps_widely {
            other.sent_widely_ms = Some(now_ms);
        }
    }

    /// Is something kept here for such a target, or such last words?
    fn keeps_for(&self, target: impl Fn(Name) -> bool, words: impl Fn(&Notice) -> bool) -> bool {
        self.desk.handshakes().any(|(_, handshake)| {
            handshake.cached().any(|token| target(token.target))
                || handshake
                    .notices()
                    .any(|(notice, pending)| pending.iter().any(|server| target(*server)) || words(notice))
        })
    }

    /// Has this site alone the tokens of these last words, as far as it knows? An edge is not told that last words are kept
    /// while that is so: should this site be lost, nobody would count them.
    fn has_words_alone(&self, notice: &Notice) -> bool {
        let peers = &self.links.peers;
        if self.settings.transient.is_some() || peers.is_empty() {
            return false;
        }
        let client = *notice.client();
        let waits = |handshake: &Handshake<Name, Deltas>| {
            let mut targets = notice.tokens().iter().map(|token| token.target);
            targets.any(|server| handshake.is_pending(&NoticeDone { client, server }))
        };
        let is_kept = || self.passing.kept.get(&client).is_some_and(|site| peers.contains_key(site));
        self.settings.rules.keep(Rule::LastWordsOutliveOne)
            && self.desk.handshakes().any(|(_, handshake)| waits(handshake))
            && !is_kept()
    }

    /// May an edge be told that its last words are kept here, or done? Its state is gone then. So another site must have
    /// what they bring, should this one be lost: it keeps them, too, or knows that their tokens were taken.
    pub(super) fn words_outlive_this_site(&mut self, notice: &Notice) -> bool {
        if !self.settings.rules.keep(Rule::LastWordsOutliveOne) {
            return true;
        }
        let is_alone = self.has_words_alone(notice);
        self.links.restless |= is_alone;
        let is_known = !is_alone && notice.tokens().iter().all(|token| self.may_say_closed(&token.name()));
        if !is_known {
            reached(Branch::LastWordsWait);
        }
        is_known
    }

    /// Of what is kept here, the tokens for such targets, the last words for such servers, and these last words, as much as
    /// should go at once.
    fn collect_kept(
        &self,
        tokens_for: impl Fn(Name) -> bool,
        notices_for: impl Fn(Name) -> bool,
        words: impl Fn(&Notice) -> bool,
        into: &mut PassedOn,
    ) {
        let mut luggage = Luggage::new();
        let travels = self.settings.rules.keep(Rule::CopiesTravel);
        for (_, handshake) in self.desk.handshakes() {
            let tokens = handshake.cached().filter(|token| travels && tokens_for(token.target));
            into.tokens.extend(tokens.filter(|token| luggage.admits(token)).cloned());
            let notices = handshake.notices();
            let notices = notices.filter(|(notice, pending)| {
                pending.iter().any(|server| notices_for(*server)) || words(notice)
            });
            let notices = notices.map(|(notice, _)| notice).filter(|notice| luggage.admits_notice(notice));
            into.notices.extend(notices.cloned());
        }
    }

    /// Takes in what another server passes on.
    pub(super) fn take_passed_on(&mut self, shard: u16, from: Name, passed_on: PassedOn, now: Moment) {
        let PassedOn { mut tokens, closed, notices, done, kept } = passed_on;
        if let Some((site, clients)) = from.site().zip(kept) {
            self.hear_kept(site, clients);
        }
        let mut closed_here = self.known_closed(&tokens);
        tokens.retain(|token| !closed_here.iter().any(|name| *name == token.name()));
        let mut names: Vec<Name> = tokens.iter().map(|token| token.source).collect();
        names.extend(closed.iter().map(|name| name.source));
        names.extend(notices.iter().map(|notice| *notice.client()));
        names.extend(done.iter().map(|done| done.client));
        let known_done: Vec<NoticeDone> = notices.iter().flat_map(|notice| self.known_done(notice)).collect();
        let folded = self.folded_len(shard);
        let mut handshake = self.desk.take(shard);
        let mut rows = Rows::taking(self, now);
        let (mut done_here, mut kept_here) = (Vec::new(), Vec::new());
        for token in &tokens {
            reached(Branch::TokenPassedOn);
            closed_here.extend(handshake.take_passed_on(&mut rows, token));
        }
        for notice in &notices {
            if !handshake.keep_notice(&mut rows, notice) {
                continue;
            }
            reached(Branch::LastWordsKept);
            known_done.iter().for_each(|done| handshake.notice_done(done));
            let client = *notice.client();
            let acted = notice.servers().iter().map(|server| NoticeDone { client, server: *server });
            let (waits, acted): (Vec<_>, Vec<_>) = acted.partition(|done| handshake.is_pending(done));
            kept_here.extend((!waits.is_empty()).then_some(client));
            done_here.extend(acted);
        }
        let closed: Vec<TokenName> = closed.into_iter().filter(|name| handshake.token_closed(name)).collect();
        closed.iter().for_each(|_| reached(Branch::TokenClosed));
        let done: Vec<NoticeDone> = done.into_iter().filter(|it| handshake.is_pending(it)).collect();
        for it in &done {
            reached(Branch::LastWordsDone);
            handshake.notice_done(it);
        }
        self.desk.put_back(shard, handshake);
        self.desk.note(shard, names, Guest::default());
        if self.folded_len(shard) != folded {
            self.desk.note_archives(shard);
        }
        closed_here.retain(|name| self.may_say_closed(name));
        done_here.retain(|done| {
            let of_client = |notice: &&Notice| *notice.client() == done.client;
            notices.iter().filter(of_client).all(|notice| self.may_say_done(notice, done))
        });
        self.is_heard_of(from, &closed, &done);
        // Also if there is nothing to tell yet: it waits for that.
        let other = self.passing.of(from);
        other.tell(&closed_here, &done_here);
        if from.site().is_some() {
            kept_here.truncate(TOLD_MAX - other.kept.len());
            other.kept.append(&mut kept_here);
        }
    }

    /// Another site keeps the last words of these edges, too.
    fn hear_kept(&mut self, site: SiteId, clients: Vec<Name>) {
        self.passing.kept.extend(clients.into_iter().map(|client| (client, site)));
        if self.passing.kept.len() > REMEMBERED_MAX {
            let notices = self.desk.handshakes().flat_map(|(_, handshake)| handshake.notices());
            let here: BTreeSet<Name> = notices.map(|(notice, _)| *notice.client()).collect();
            self.passing.kept.retain(|client, _| here.contains(client));
        }
    }

    /// Of these tokens, those that are known to be closed elsewhere.
    pub(super) fn known_closed(&self, tokens: &[Token]) -> Vec<TokenName> {
        let closed = &self.passing.closed;
        let names = tokens.iter().filter(|_| !closed.is_empty()).map(Token::name);
        names.filter(|name| closed.contains(name)).collect()
    }

    /// Who is known to have acted on these last words.
    pub(super) fn known_done(&self, notice: &Notice) -> Vec<NoticeDone> {
        let done = self.passing.done.iter();
        done.filter(|done| done.client == *notice.client()).cloned().collect()
    }

    /// How many slots are folded, at whatever desk here.
    pub(super) fn folded_len(&mut self, shard: u16) -> u64 {
        let handshake = self.desk.handshake(shard);
        let inherited = handshake.inherited().map(|(_, desk)| desk.folded_len()).sum::<u64>();
        handshake.desk().folded_len() + inherited
    }

    /// A site that does not belong to the cluster any more has nothing to hear.
    pub(super) fn let_gone_servers_be(&mut self) {
        if !self.desk.keeps_for_others() || self.settings.transient.is_some() {
            return; // A relay does not know who belongs to the cluster.
        }
        let Membership { members, removed, .. } = &self.links.membership;
        // For one that was removed its heir decides.
        let is_known = |site: SiteId| members.contains(&site) || removed.contains_key(&site);
        let is_gone = |server: &Name| server.site().is_some_and(|site| !is_known(site));
        // One that was lost before it could tell which of its slots were closed: what it has not to say of tokens is done.
        let is_mute = |server: &Name| {
            let is_heir = |site: SiteId| removed.contains_key(&site) && self.links.answers_for(site);
            server.site().is_some_and(is_heir) && !self.decides_for(server)
        };
        let gone = self.desk.handshakes().flat_map(|(shard, handshake)| {
            let notices = handshake.notices();
            notices.flat_map(move |(notice, pending)| {
                let client = *notice.client();
                pending.iter().map(move |server| {
                    let has_token = notice.tokens().iter().any(|token| token.target == *server);
                    (shard, has_token, NoticeDone { client, server: *server })
                })
            })
        });
        let is_done = |has_token: bool, server: &Name| is_gone(server) || !has_token && is_mute(server);
        let gone: Vec<_> = gone.filter(|(_, has_token, done)| is_done(*has_token, &done.server)).collect();
        for (shard, _, done) in gone {
            reached(Branch::LastWordsToGone);
            self.desk.handshake(shard).notice_done(&done);
            self.desk.note(shard, [done.client], Guest::default());
        }
    }

    /// Tokens are closed here, and last words acted on: what was news is told to all.
    pub(super) fn is_heard_of(&mut self, from: Name, closed: &[TokenName], done: &[NoticeDone]) {
        self.passing.remember(closed, done);
        self.tell_others(from, closed, done);
    }

    /// What was news here is told to all.
    fn tell_others(&mut self, from: Name, closed: &[TokenName], done: &[NoticeDone]) {
        if closed.is_empty() && done.is_empty() {
            return;
        }
        let peers = self.links.peers.keys().map(|site| Name::of_site(*site));
        let relays = self.passing.others.keys().copied().filter(|name| name.site().is_none());
        for name in peers.chain(relays).filter(|name| *name != from).collect::<Vec<_>>() {
            self.passing.of(name).tell(closed, done);
        }
    }

    /// What a relay that has come is to hear: what has become of what it has passed on, and last words for it.
    pub(super) fn answer_to_relay(&mut self, relay: Name) -> Option<Box<PassedOn>> {
        let mut passed_on = self.passing.take(relay);
        if self.desk.keeps_for_others() {
            // Tokens for it are in the view.
            self.collect_kept(|_| false, |server| server == relay, |_| false, &mut passed_on);
        }
        (!passed_on.is_empty()).then(|| Box::new(passed_on))
    }

    /// What a relay passes on to a server that it comes to. The tokens for that one are in its view.
    pub(super) fn pass_to_parent(
        &mut self,
        parent: Name,
        is_chosen: bool,
        now_ms: u64,
    ) -> Option<Box<PassedOn>> {
        let mut passed_on = self.passing.take(parent);
        if self.keeps_for_parent(parent, is_chosen, now_ms) {
            let goes = |server| is_chosen || server == parent;
            self.collect_kept(|target| is_chosen && target != parent, goes, |_| false, &mut passed_on);
            self.passing.of(parent).sent_ms = Some(now_ms);
        }
        (!passed_on.is_empty()).then(|| Box::new(passed_on))
    }

    /// Has a relay something to say to a server for others?
    pub(super) fn has_word_for(&self, parent: Name, is_chosen: bool, now_ms: u64) -> bool {
        let other = self.passing.others.get(&parent);
        other.is_some_and(|other| !other.closed.is_empty() || !other.done.is_empty())
            || self.keeps_for_parent(parent, is_chosen, now_ms)
    }

    fn keeps_for_parent(&self, parent: Name, is_chosen: bool, now_ms: u64) -> bool {
        let is_due = self.passing.others.get(&parent).is_none_or(|other| other.is_due(now_ms));
        is_due
            && self.desk.keeps_for_others()
            && self.keeps_for(|target| is_chosen || target == parent, |_| false)
    }

    /// What a relay learns of an answer besides what concerns itself.
    pub(super) fn hear_parent(&mut self, shard: u16, parent: Name, answer: &Answer, now: Moment) {
        // Tokens for slots here, that were kept there, have just been tried.
        let closed = self.desk.handshake(shard).closed_among(&answer.view);
        let mut names: Vec<Name> = answer.view.tokens().iter().map(|token| token.source).collect();
        let mut done_here = Vec::new();
        if let Some(PassedOn { closed, notices, done, .. }) = answer.passed_on.as_deref() {
            names.extend(closed.iter().map(|name| name.source));
            names.extend(notices.iter().map(|notice| *notice.client()));
            names.extend(done.iter().map(|done| done.client));
            let mut handshake = self.desk.take(shard);
            let mut rows = Rows::taking(self, now);
            for notice in notices {
                done_here.extend(handshake.act_on_notice(&mut rows, notice));
            }
            let closed: Vec<_> = closed.iter().filter(|name| handshake.token_closed(name)).cloned().collect();
            done.iter().for_each(|done| handshake.notice_done(done));
            self.desk.put_back(shard, handshake);
            self.passing.remember(&closed, &[]);
        }
        self.desk.note(shard, names, Guest::default());
        self.passing.of(parent).tell(&closed, &done_here);
    }
}
