//! Counters that only grow: a read at a site includes what that site has acknowledged, is never less than an earlier one
//! there, across restarts too (unless it has come back with an earlier state), and never more than was asked for anywhere.

use super::{Check, Seen, at};
use crate::core::Millis;
use crate::system::calls::{Act, Key, Kind};
use crate::system::fleet::Who;
use crate::system::plan::Plan;
use quipu_engine::Reply;

/// What is known of a counter.
#[derive(Debug, Clone, Default)]
struct Account {
    /// Sites were asked to add so much.
    asked: i64,
    /// What each site has shown.
    shown: Vec<i64>,
    /// What each site has acknowledged.
    own: Vec<i64>,
}

/// The accounts.
#[derive(Debug)]
pub(in crate::system) struct Reads {
    sites: usize,
    accounts: Vec<Account>,
}

impl Reads {
    pub(in crate::system) fn new(plan: &Plan) -> Self {
        Self { sites: plan.places(), accounts: Vec::new() }
    }

    fn account(&mut self, key: usize) -> &mut Account {
        let sites = self.sites;
        let account = at(&mut self.accounts, key);
        account.shown.resize(sites, 0);
        account.own.resize(sites, 0);
        account
    }
}

impl Check for Reads {
    fn taken(&mut self, seen: Seen<'_>) {
        if let (Kind::Plain, Act::Add { amount, .. }) = (seen.key.kind, seen.call.act) {
            self.account(seen.call.key).asked += amount;
        }
    }

    fn released(&mut self, seen: Seen<'_>, reply: &Reply) -> Result<(), String> {
        if seen.key.kind != Kind::Plain {
            return Ok(());
        }
        let (shown, added) = match reply {
            Reply::Added(added) => (added.value, added.applied),
            Reply::Value(value) => (value.unwrap_or(0), 0),
            _ => return Ok(()),
        };
        let site = seen.site;
        let account = self.account(seen.call.key);
        account.own[site] += added;
        let problem = if shown < account.shown[site] {
            format!("after {}", account.shown[site])
        } else if shown < account.own[site] {
            format!("and has itself acknowledged {}", account.own[site])
        } else if shown > account.asked {
            format!("and only {} was asked for", account.asked)
        } else {
            account.shown[site] = shown;
            return Ok(());
        };
        Err(format!("site {} shows {shown} for {}, {problem}", site + 1, seen.name()))
    }

    fn issued(&mut self, number: usize, key: &Key, amount: i64) {
        if key.kind == Kind::Plain {
            self.account(number).asked += amount;
        }
    }

    fn shown_elsewhere(&self, who: Who, number: usize, key: &Key, value: i64) -> Result<(), String> {
        let asked = self.accounts.get(number).map_or(0, |account| account.asked);
        if value <= asked {
            return Ok(());
        }
        let name = String::from_utf8_lossy(&key.name);
        Err(format!("{who} shows {value} for {name}, and only {asked} was asked for"))
    }

    fn set_back(&mut self, site: usize, _: bool, _: Millis) {
        for account in self.accounts.iter_mut().filter(|account| !account.shown.is_empty()) {
            (account.shown[site], account.own[site]) = (0, 0);
        }
    }
}
