//! The handoff paper's Example 1, as the report shows it.

use super::filters::{axis, comparison, no_references, short};
use super::handoff::{PAPER, ours};
use super::{
    Cell, Comparison, Experiment, Mark, Panel, Place, Reference, Scale, Series, Spread, Table, Verdict,
};
use crate::handoff::example1::{Params, run, table};

pub(super) static EXPERIMENTS: [Experiment; 1] = [Experiment {
    name: "example1",
    title: "Sites, relays and edges: what each keeps",
    paper: PAPER,
    figure: "Example 1",
    setting: "5 data centers with two sites each (tier 0), 50 relays for each data center (tier 1), 1,000 edges for each \
              relay (tier 2) that count all the time. A relay hands over to a site of its data center, an edge to its \
              relay. After 10 s counting stops, and everything is handed over.",
    command: "quipu sim example1",
    run: |scale, seed, watch| {
        let edges_per_relay = if scale == Scale::Full { 1_000 } else { 20 };
        let params = Params { edges_per_relay, seed, ..Params::default() };
        Ok(table(&run(&params, watch)?.rows))
    },
    x: axis("time_s", "virtual time in s", Spread::Linear),
    panels: &[
        Panel {
            label: "entries of a node, on average",
            spread: Spread::Log,
            series: &[
                Series { column: "ids", label: "naive version vector", mark: Mark::Dashes, colour: 6 },
                Series { column: "relay_slots", label: "slots of a relay", mark: Mark::Line, colour: 0 },
                Series { column: "site_slots", label: "slots of a site", mark: Mark::Line, colour: 1 },
                Series { column: "site_entries", label: "entries of a site", mark: Mark::Line, colour: 2 },
                Series { column: "edge_tokens", label: "tokens of an edge", mark: Mark::Line, colour: 3 },
            ],
        },
        Panel {
            label: "bytes of a node, on average",
            spread: Spread::Log,
            series: &[
                Series { column: "relay_bytes", label: "relay", mark: Mark::Line, colour: 0 },
                Series { column: "site_bytes", label: "site", mark: Mark::Line, colour: 1 },
                Series { column: "edge_bytes", label: "edge", mark: Mark::Line, colour: 3 },
            ],
        },
    ],
    references: |table| match edges_per_relay(table) {
        Some(edges) => vec![Reference {
            panel: 0,
            place: Place::Across(edges / 2.0),
            label: "paper, figure 6: a slot for two clients".to_owned(),
        }],
        None => no_references(table),
    },
    compare,
    remarks: "The paper states the ten permanent entries and the clients; what a server keeps it measures in its figure 6, \
              where a server has as many clients as here: a slot for two of them. One slot for each is the most it can \
              have. The last line is from after the end: no slot and no token is left anywhere.",
}];

/// The nodes of the naive vector are 10 sites, 250 relays and all edges.
fn edges_per_relay(table: &Table) -> Option<f64> {
    Some((table.max("ids")? - 260.0) / 250.0).filter(|edges| *edges >= 1.0)
}

/// While edges count: the mean over the second half, without the line from after the end.
fn running(table: &Table, column: &str) -> Option<f64> {
    let all: Vec<f64> = table.column(column).filter_map(Cell::value).collect();
    let (_, counting) = all.split_last()?;
    let late = &counting[counting.len() / 2..];
    Some(late.iter().sum::<f64>() / late.len() as f64)
}

fn compare(table: &Table) -> Vec<Comparison> {
    let entries = running(table, "site_entries");
    let mut rows = vec![comparison(
        "entries of the permanent version vector, at a site",
        "10",
        short(entries),
        Verdict::agrees_if(entries == Some(10.0)),
    )];
    if let Some(edges) = edges_per_relay(table) {
        let (slots, most) = (running(table, "relay_slots"), table.max("relay_slots_max"));
        rows.push(comparison(
            "slots of a relay",
            &format!("about {:.0}, by figure 6", edges / 2.0),
            short(slots),
            Verdict::agrees_if(slots.is_some_and(|slots| slots > edges / 4.0 && slots < edges)),
        ));
        rows.push(comparison(
            "the most slots of one relay at any time",
            &format!("at most {edges:.0}, one for each client"),
            short(most),
            Verdict::agrees_if(most.is_some_and(|most| most <= edges)),
        ));
    }
    rows.push(ours("entries of a naive version vector", short(table.last("ids"))));
    for (who, column) in [("a site", "site_bytes"), ("a relay", "relay_bytes"), ("an edge", "edge_bytes")] {
        rows.push(ours(&format!("bytes of {who}, while counting"), short(running(table, column))));
    }
    let left = ["site_slots", "relay_slots", "relay_tokens", "edge_tokens"];
    let left: Option<f64> = left.iter().map(|column| table.last(column)).sum();
    rows.push(ours("slots and tokens per node after the end", short(left)));
    rows
}
