//! The cluster as lines of text, and orders as lines of text: for scripts and tests.

use super::{
    Told, conduct, order,
    sites::Sites,
    snapshot::{Cell, CounterNow, SiteNow, Snapshot},
};
use crate::failure::Failure;
use std::{
    io::{BufRead as _, Write as _},
    sync::mpsc,
    thread,
    time::Duration,
};

/// How often there is a line.
const LINE_EVERY: Duration = Duration::from_secs(1);

/// Runs until it is told to quit, the input ends, or nobody reads what it says.
pub(super) fn run(sites: &mut Sites) -> Result<(), Failure> {
    for site in &mut sites.all {
        let process = site.process().unwrap_or_default();
        let (number, resp, http) = (site.number, site.resp, site.http);
        say(&format!("site {number} resp={resp} http={http} process={process}"));
    }
    say(&format!("ready; say {}", order::ORDERS));
    let count = u16::try_from(sites.all.len()).unwrap_or(u16::MAX);
    let (sender, orders) = mpsc::channel();
    // Not joined: it may wait for input for ever.
    thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            if sender.send(order::parse(&line, count)).is_err() {
                return;
            }
        }
    });
    conduct(sites, &orders, LINE_EVERY, |told| match told {
        Told::Answer(Ok(done)) => say(&done),
        Told::Answer(Err(problem)) => say(&format!("error: {problem}")),
        Told::Snapshot(snapshot) => say(&line(&snapshot)),
    });
    Ok(())
}

/// Whether somebody still reads.
fn say(line: &str) -> bool {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}").and_then(|()| out.flush()).is_ok()
}

/// All in one line, its parts apart by semicolons.
fn line(snapshot: &Snapshot) -> String {
    let list = |parts: Vec<String>| parts.join(", ");
    let sites = snapshot
        .sites
        .iter()
        .map(|site| format!("{} {}", site.number, if site.process.is_some() { "up" } else { "down" }));
    let links = snapshot.links.iter().map(|link| format!("{}-{} {}", link.one, link.other, link.state()));
    let behind = snapshot.sites.iter().map(SiteNow::lacks);
    let mut line = format!(
        "sites {}; links {}; behind {}",
        list(sites.collect()),
        list(links.collect()),
        list(behind.collect())
    );
    for counter in &snapshot.counters {
        line += "; ";
        write_counter(counter, &mut line);
    }
    line
}

fn write_counter(counter: &CounterNow, line: &mut String) {
    *line += &counter.key;
    for cell in &counter.cells {
        *line += &format!(" {}", cell.text());
    }
    if counter.differs() {
        *line += " (differ)";
    }
    if counter.is_bounded {
        write_rights("add", counter.cells.iter().map(Cell::rights_to_add).collect(), line);
        write_rights("subtract", counter.cells.iter().map(Cell::rights_to_subtract).collect(), line);
    }
}

/// What each site may still do; nothing if there is no such limit.
fn write_rights(verb: &str, rights: Vec<Option<u128>>, line: &mut String) {
    if rights.iter().any(Option::is_some) {
        *line += &format!(", may {verb}");
        rights.into_iter().for_each(|rights| *line += &format!(" {}", known(rights)));
    }
}

fn known(amount: Option<u128>) -> String {
    amount.map_or_else(|| "?".to_owned(), |amount| amount.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::cluster::{cable::Cable, snapshot::LinkNow};

    #[test]
    fn all_is_in_one_line() {
        let site = |number, process, behind| {
            let address = ([127, 0, 0, 1], number).into();
            SiteNow { number, process, resp: address, http: address, behind }
        };
        let link =
            LinkNow { one: 1, other: 2, cable: Cable::Silent, is_up: true, heard_seconds: None, passed: 0 };
        let seats = Cell::Known { value: 120, rights_to_add: None, rights_to_subtract: Some(40) };
        let hits = Cell::Known { value: 5, rights_to_add: None, rights_to_subtract: None };
        let counter = |key: &str, cells, is_bounded| CounterNow { key: key.to_owned(), cells, is_bounded };
        let snapshot = Snapshot {
            sites: vec![site(1, Some(41), Some([("2".to_owned(), 5)].into())), site(2, None, None)],
            links: vec![link],
            counters: vec![
                counter("seats", vec![seats, Cell::Unknown], true),
                counter("hits", vec![hits, Cell::Absent], false),
            ],
        };
        assert_eq!(
            line(&snapshot),
            "sites 1 up, 2 down; links 1-2 silent; behind 2:5, ?; seats 120 ?, may subtract 40 ?; hits 5 - (differ)"
        );
    }
}
