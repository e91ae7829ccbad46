//! The cluster as lines of text, and orders as lines of text: for scripts and tests.

use super::{
    Told, conduct, order,
    sites::Sites,
    snapshot::{Cell, CounterNow, Snapshot},
};
use crate::failure::Failure;
use std::{
    fmt::Write as _,
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
    let behind =
        snapshot.sites.iter().map(|site| site.behind.map_or_else(|| "?".to_owned(), |it| it.to_string()));
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
        // Writing to a text cannot fail.
        let _ = write!(line, " {}", cell.text());
    }
    if counter.differs() {
        *line += " (differ)";
    }
    let rights: [(&str, fn(&Cell) -> Option<u128>); 2] = [
        ("add", |cell| if let Cell::Known { rights_to_add, .. } = cell { *rights_to_add } else { None }),
        ("subtract", |cell| {
            if let Cell::Known { rights_to_subtract, .. } = cell { *rights_to_subtract } else { None }
        }),
    ];
    for (verb, of) in rights {
        if counter.is_bounded && counter.cells.iter().any(|cell| of(cell).is_some()) {
            let each =
                counter.cells.iter().map(|cell| of(cell).map_or_else(|| "?".to_owned(), |it| it.to_string()));
            let _ = write!(line, ", may {verb} {}", each.collect::<Vec<_>>().join(" "));
        }
    }
}
