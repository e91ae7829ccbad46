//! A borrowed identity against handoff, as the report shows it.

use super::filters::{axis, no_references, short};
use super::handoff::ours;
use super::{Comparison, Experiment, Mark, Panel, Scale, Series, Spread, Table};
use crate::borrow::{Params, by_loss, over_time, run};

const PAPER: &str = "Borrowing an Identity for a Distributed Counter (Enes and others)";

pub(super) static EXPERIMENTS: [Experiment; 2] = [STATE, TOTALS];

const SETTING: &str = "5 permanent nodes that send to each other every second; a client arrives every 100 ms, counts four times a \
                       second for about 10 s and leaves as soon as it may; one in ten vanishes without a word. The first \
                       node is cut off for 30 s in the middle of 180 s, and clients that do not hear of it for 2 s go on \
                       with another.";

fn params(scale: Scale, seed: u64) -> Params {
    let full = Params { seed, ..Params::default() };
    match scale {
        Scale::Full => full,
        Scale::Quick => {
            Params { end_ms: 24_000, outage_ms: 6_000, stay_ms: 3_000, fold_after_ms: 8_000, ..full }
        }
    }
}

const STATE: Experiment = Experiment {
    name: "borrow-state",
    title: "Borrow or handoff: what a permanent node keeps",
    paper: PAPER,
    figure: "beyond the paper",
    setting: SETTING,
    command: "quipu sim borrow --over-time --loss 10",
    run: |scale, seed, watch| {
        Ok(over_time(&run(&Params { loss_percent: vec![10], ..params(scale, seed) }, watch)?))
    },
    x: axis("time_s", "virtual time in s", Spread::Linear),
    panels: &[
        Panel {
            label: "entries of a node, on average",
            spread: Spread::Linear,
            series: &[
                Series { column: "clients", label: "clients that are there", mark: Mark::Dashes, colour: 6 },
                Series { column: "handoff_entries", label: "handoff", mark: Mark::Line, colour: 0 },
                Series { column: "borrow_entries", label: "borrow", mark: Mark::Line, colour: 1 },
            ],
        },
        Panel {
            label: "bytes of a node, on average",
            spread: Spread::Log,
            series: &[
                Series { column: "handoff_bytes", label: "handoff", mark: Mark::Line, colour: 0 },
                Series { column: "borrow_bytes", label: "borrow", mark: Mark::Line, colour: 1 },
            ],
        },
    ],
    references: no_references,
    compare: |table| {
        let sides = |what: &str, handoff: Option<f64>, borrow: Option<f64>| {
            ours(what, format!("handoff {}, borrow {}", short(handoff), short(borrow)))
        };
        vec![
            sides("most entries of a node", table.max("handoff_entries"), table.max("borrow_entries")),
            sides("most bytes of a node", table.max("handoff_bytes"), table.max("borrow_bytes")),
            sides(
                "entries of a node when all clients are gone",
                table.last("handoff_entries"),
                table.last("borrow_entries"),
            ),
            sides(
                "bytes of a node when all clients are gone",
                table.last("handoff_bytes"),
                table.last("borrow_bytes"),
            ),
        ]
    },
    remarks: "Every permanent node has every borrowed identity, but only the node that a client uses has a slot for it. Of \
              clients that vanish borrowed identities stay, at every node; slots are folded into bits. The last line is \
              from after the end, when all clients are gone.",
};

const TOTALS: Experiment = Experiment {
    name: "borrow",
    title: "Borrow or handoff: what clients need",
    paper: PAPER,
    figure: "beyond the paper",
    setting: SETTING,
    command: "quipu sim borrow",
    run: |scale, seed, watch| Ok(by_loss(&run(&params(scale, seed), watch)?)),
    x: axis("loss_percent", "messages lost in %", Spread::Linear),
    panels: &[
        Panel {
            label: "ms until a client may leave",
            spread: Spread::Log,
            series: &[
                Series { column: "handoff_leave_ms", label: "handoff, median", mark: Mark::Line, colour: 0 },
                Series {
                    column: "handoff_leave_ms_max",
                    label: "handoff, longest",
                    mark: Mark::Dashes,
                    colour: 0,
                },
                Series { column: "borrow_leave_ms", label: "borrow, median", mark: Mark::Line, colour: 1 },
                Series {
                    column: "borrow_leave_ms_max",
                    label: "borrow, longest",
                    mark: Mark::Dashes,
                    colour: 1,
                },
            ],
        },
        Panel {
            label: "bytes to and from a client",
            spread: Spread::Log,
            series: &[
                Series { column: "handoff_bytes", label: "handoff", mark: Mark::Line, colour: 0 },
                Series { column: "borrow_bytes", label: "borrow, whole states", mark: Mark::Line, colour: 1 },
                Series { column: "parts_bytes", label: "borrow, parts of them", mark: Mark::Line, colour: 5 },
            ],
        },
        Panel {
            label: "counts lost with a client that vanishes",
            spread: Spread::Linear,
            series: &[
                Series { column: "handoff_lost", label: "handoff", mark: Mark::Line, colour: 0 },
                Series { column: "borrow_lost", label: "borrow", mark: Mark::Line, colour: 1 },
            ],
        },
    ],
    references: no_references,
    compare: |table| {
        let mut rows = Vec::new();
        for (what, column) in [
            ("ms until a client can count, median", "ready_ms"),
            ("ms until a client may leave, median", "leave_ms"),
            ("the longest", "leave_ms_max"),
            ("messages to and from a client", "messages"),
            ("bytes to and from a client", "bytes"),
            ("bytes between nodes for each client", "node_bytes"),
            ("counts lost with a client that vanishes", "lost"),
        ] {
            rows.extend(side_by_side(table, what, column));
        }
        rows
    },
    remarks: "To give back a borrowed identity a client must reach its lender, be it through other nodes; when the lender is \
              cut off, it waits. What it counted is safe before that, once any permanent node has it. With handoff any node \
              will do. A borrowed identity carries the whole count of its client in every message, so that less is lost \
              with clients that vanish; a handoff takes two round trips.",
};

/// The two designs with the least and the most loss.
fn side_by_side(table: &Table, what: &str, column: &str) -> Option<Comparison> {
    let losses: Vec<f64> = table.column("loss_percent").filter_map(super::Cell::value).collect();
    let (least, most) = (*losses.first()?, *losses.last()?);
    let of = |design: &str| {
        let column = format!("{design}_{column}");
        let mut cells = table.column(&column);
        let first = cells.next().and_then(super::Cell::value);
        format!("{design} {} and {}", short(first), short(table.last(&column)))
    };
    let numbers = [of("handoff"), of("borrow"), of("parts")].join("; ");
    Some(ours(&format!("{what}, with {least:.0} and {most:.0} % lost"), numbers))
}
