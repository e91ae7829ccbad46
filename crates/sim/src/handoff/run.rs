//! One run: rows while it lasts, and the accounts at its end.

use super::audit::Accounts;
use super::fleet::Fleet;
use super::setup::Setup;
use super::{Error, Row, Summary};
use crate::core::Millis;

/// After the end everything must be accounted for within this time.
const SETTLE_MS_MAX: Millis = 120_000;

/// How often that is looked at.
const SETTLE_STEP_MS: Millis = 100;

pub(super) fn run_setup(setup: Setup, sink: &mut dyn FnMut(&Row) -> bool) -> Result<Summary, Error> {
    let mut fleet = Fleet::new(setup);
    let mut summary = Summary::default();
    let outcome = run_to_end(&mut fleet, &mut summary, sink);
    let violation = |what| Error::Violation { seed: setup.seed, time_ms: fleet.queue.now(), what };
    outcome.map(|()| summary).map_err(violation)
}

fn run_to_end(
    fleet: &mut Fleet,
    summary: &mut Summary,
    sink: &mut dyn FnMut(&Row) -> bool,
) -> Result<(), String> {
    let Setup { stats_ms, end_ms, .. } = fleet.setup;
    fleet.start()?;
    for row in 1..=end_ms / stats_ms {
        fleet.run_until(row * stats_ms)?;
        Accounts::of(fleet).balance(fleet.issued)?;
        summary.audits += 1;
        if !sink(&row_of(fleet)) {
            summary.stopped = true;
            report(fleet, summary);
            return Ok(());
        }
    }
    fleet.run_until(end_ms)?;
    report(fleet, summary);
    summary.settled_after_ms = settle(fleet)?;
    report_accounts(fleet, summary);
    Ok(())
}

fn row_of(fleet: &Fleet) -> Row {
    let servers = fleet.servers();
    let slots: usize = servers.iter().map(|server| server.replica.handshake().desk().slots().len()).sum();
    let (clients, active) = fleet.client_counts();
    Row {
        time_ms: fleet.queue.now(),
        clients,
        active,
        ids: fleet.ids_at_servers() as f64 / servers.len() as f64,
        slots: slots as f64 / servers.len() as f64,
    }
}

/// Lets what was counted be handed over, and checks that all of it arrives. Returns how long it took.
pub(super) fn settle(fleet: &mut Fleet) -> Result<Millis, String> {
    fleet.stop_counting();
    let end = fleet.queue.now();
    loop {
        let accounts = Accounts::of(fleet);
        accounts.balance(fleet.issued)?;
        let left = unfinished(fleet, &accounts);
        let took = fleet.queue.now() - end;
        match left {
            None => return Ok(took),
            Some(left) if took >= SETTLE_MS_MAX => return Err(format!("{took} ms after the end {left}")),
            Some(_) => fleet.run_until(end + took + SETTLE_STEP_MS)?,
        }
    }
}

/// What is not yet as it must be in the end.
fn unfinished(fleet: &Fleet, accounts: &Accounts) -> Option<String> {
    if accounts.servers > 0 {
        return Some(format!("{} are still at servers", accounts.servers));
    }
    if accounts.clients > 0 && !fleet.setup.goes_offline {
        return Some(format!("{} are still at clients", accounts.clients));
    }
    let reports = |root: &&super::fleet::Fixed| *root.replica.fetch() != accounts.roots;
    let wrong = fleet.roots().iter().find(reports)?;
    let (id, report) = (wrong.replica.id(), wrong.replica.fetch());
    Some(format!("node {id} of tier 0 reports {report}, but {} were handed off", accounts.roots))
}

/// The figures at the end of the run, before it settles.
fn report(fleet: &Fleet, summary: &mut Summary) {
    summary.issued = fleet.issued;
    summary.messages = fleet.network.sent();
    summary.abandoned = fleet.abandoned;
    for server in fleet.servers() {
        let desk = server.replica.handshake().desk();
        summary.folded += desk.folded_len();
        summary.folded_bytes += desk.folded_bytes() as u64;
    }
}

fn report_accounts(fleet: &Fleet, summary: &mut Summary) {
    let accounts = Accounts::of(fleet);
    summary.handed_off = accounts.roots;
    summary.at_clients = accounts.clients;
    summary.vanished = accounts.vanished;
    summary.reports_checked = fleet.reports_checked;
}
