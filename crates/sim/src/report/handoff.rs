//! The experiments with handoff counters, as the report shows them.

use super::{
    Axis, Cell, Comparison, Experiment, Mark, Panel, Place, Reference, Scale, Series, Spread, Table, Verdict,
};
use crate::handoff::{Cleanup, Error, Row, Summary, clients, reconnect, retire, sessions};
use crate::run::{RunError, Watch};

pub(super) const PAPER: &str = "Scalable eventually consistent counters over unreliable networks";

/// In the order of the paper's figures.
pub(super) static EXPERIMENTS: [Experiment; 4] = [CLIENTS, SESSIONS, RECONNECT, RETIRE];

const TIME: Axis = Axis { column: "time_s", label: "virtual time in s", spread: Spread::Linear };

/// Runs several settings one after the other and puts what `pick` takes of each row beside each other.
struct Runs<'a, 'w> {
    watch: &'a mut Watch<'w>,
    settings: usize,
    columns: Vec<(String, Vec<Cell>)>,
    times: Vec<Cell>,
    done: usize,
}

type Sink<'a> = &'a mut dyn FnMut(&Row) -> bool;

/// A column, and what it shows of a row.
type Pick = (&'static str, fn(&Row) -> Cell);

impl<'a, 'w> Runs<'a, 'w> {
    fn new(settings: usize, watch: &'a mut Watch<'w>) -> Self {
        Runs { watch, settings, columns: Vec::new(), times: Vec::new(), done: 0 }
    }

    fn add(
        &mut self,
        end_ms: u64,
        picks: &[Pick],
        run: impl FnOnce(Sink<'_>) -> Result<Summary, Error>,
    ) -> Result<(), RunError> {
        let (settings, done) = (self.settings as f64, self.done as f64);
        let mut rows: Vec<Row> = Vec::new();
        let watch = &mut self.watch;
        let summary = run(&mut |row| {
            rows.push(*row);
            watch((done + row.time_ms as f64 / end_ms as f64) / settings)
        })
        .map_err(|error| RunError::Failed(error.to_string()))?;
        if summary.stopped {
            return Err(RunError::Stopped);
        }
        self.done += 1;
        self.times = rows.iter().map(|row| Cell::Number(row.time_ms as f64 / 1_000.0)).collect();
        for (name, pick) in picks {
            self.columns.push(((*name).to_owned(), rows.iter().map(pick).collect()));
        }
        Ok(())
    }

    fn table(self) -> Table {
        let names =
            std::iter::once("time_s".to_owned()).chain(self.columns.iter().map(|(name, _)| name.clone()));
        let mut table = Table::new(names);
        for (row, &time) in self.times.iter().enumerate() {
            let cells =
                self.columns.iter().map(|(_, cells)| cells.get(row).copied().unwrap_or(Cell::Missing));
            table.push(std::iter::once(time).chain(cells).collect());
        }
        table
    }
}

/// The paper's value beside ours, agreeing within a factor of `within`.
pub(super) fn near(what: &str, paper: f64, ours: Option<f64>, within: f64) -> Comparison {
    let agrees = ours.is_some_and(|ours| ours <= paper * within && ours >= paper / within);
    Comparison {
        what: what.to_owned(),
        paper: format!("about {paper:.0}"),
        ours: ours.map_or("not measured".to_owned(), |ours| format!("{ours:.1}")),
        verdict: Verdict::agrees_if(agrees),
    }
}

pub(super) fn ours(what: &str, ours: String) -> Comparison {
    Comparison { what: what.to_owned(), paper: String::new(), ours, verdict: Verdict::Ours }
}

const CLIENTS: Experiment = Experiment {
    name: "clients",
    title: "Ever more clients",
    paper: PAPER,
    figure: "Figure 6",
    setting: "10 nodes of tier 0; 100 and 1,000 servers; a client arrives every 10 ms, up to 100,000, and stays active. \
              Latency 25 ms plus Weibull(2, 25 ms), twice that between nodes of tier 0.",
    command: "quipu sim clients",
    run: |scale, seed, watch| {
        let clients = if scale == Scale::Full { 100_000 } else { 4_000 };
        let mut runs = Runs::new(2, watch);
        for (servers, ids, slots) in [(100, "ids_100", "slots_100"), (1_000, "ids_1000", "slots_1000")] {
            let params = clients::Params { clients, servers, seed, ..clients::Params::default() };
            let mut picks: Vec<Pick> =
                vec![(ids, |row| Cell::Number(row.ids)), (slots, |row| Cell::Number(row.slots))];
            if servers == 100 {
                picks.insert(0, ("clients", |row| Cell::Count(row.clients)));
            }
            runs.add(params.end(), &picks, |sink| clients::run(&params, sink))?;
        }
        Ok(runs.table())
    },
    x: TIME,
    panels: &[Panel {
        label: "average per server",
        spread: Spread::Log,
        series: &[
            Series { column: "clients", label: "clients", mark: Mark::Dashes, colour: 6 },
            Series { column: "ids_100", label: "ids, 100 servers", mark: Mark::Line, colour: 1 },
            Series { column: "ids_1000", label: "ids, 1,000 servers", mark: Mark::Dashes, colour: 3 },
            Series { column: "slots_100", label: "slots, 100 servers", mark: Mark::Line, colour: 0 },
            Series { column: "slots_1000", label: "slots, 1,000 servers", mark: Mark::Line, colour: 2 },
        ],
    }],
    references: |table| {
        let Some(clients) = table.last("clients") else { return Vec::new() };
        [(0.005, "paper, 100 servers: 5 slots for 1,000 clients"), (0.0005, "paper, 1,000 servers")]
            .map(|(share, label)| Reference {
                panel: 0,
                place: Place::Across(share * clients),
                label: label.to_owned(),
            })
            .to_vec()
    },
    compare: |table| {
        let clients = table.last("clients").unwrap_or(f64::NAN);
        vec![
            near("slots per server in the end, 100 servers", 0.005 * clients, table.last("slots_100"), 1.25),
            near(
                "slots per server in the end, 1,000 servers",
                0.0005 * clients,
                table.last("slots_1000"),
                1.5,
            ),
            near("entries of a naive version vector", clients, table.last("ids_100"), 1.1),
        ]
    },
    remarks: "The paper's end values are those of 100,000 clients; smaller runs are compared in proportion. The ids are \
              the entries that a naive version vector would have at a server, carried by the very same messages.",
};

const SESSIONS: Experiment = Experiment {
    name: "sessions",
    title: "Clients that are active for a part of the time",
    paper: PAPER,
    figure: "Figure 7",
    setting: "As before with 100 servers; each client counts in sessions of 1, 10 or 100 % of a period of 100 s.",
    command: "quipu sim sessions",
    run: |scale, seed, watch| {
        let clients = if scale == Scale::Full { 100_000 } else { 4_000 };
        let mut runs = Runs::new(3, watch);
        for (percent, active, slots) in
            [(1, "active_1", "slots_1"), (10, "active_10", "slots_10"), (100, "active_100", "slots_100")]
        {
            let clients = clients::Params { clients, seed, ..clients::Params::default() };
            let end_ms = clients.end();
            let params = sessions::Params { clients, active_percent: percent, ..sessions::Params::default() };
            let picks: [Pick; 2] =
                [(active, |row| Cell::Count(row.active)), (slots, |row| Cell::Number(row.slots))];
            runs.add(end_ms, &picks, |sink| sessions::run(&params, sink))?;
        }
        Ok(runs.table())
    },
    x: TIME,
    panels: &[
        Panel {
            label: "active clients",
            spread: Spread::Log,
            series: &[
                Series { column: "active_1", label: "1 %", mark: Mark::Line, colour: 0 },
                Series { column: "active_10", label: "10 %", mark: Mark::Line, colour: 1 },
                Series { column: "active_100", label: "100 %", mark: Mark::Line, colour: 2 },
            ],
        },
        Panel {
            label: "slots per server",
            spread: Spread::Log,
            series: &[
                Series { column: "slots_1", label: "1 %", mark: Mark::Line, colour: 0 },
                Series { column: "slots_10", label: "10 %", mark: Mark::Line, colour: 1 },
                Series { column: "slots_100", label: "100 %", mark: Mark::Line, colour: 2 },
            ],
        },
    ],
    references: |_| Vec::new(),
    compare: |table| {
        let per_active = |slots: &str, active: &str| Some(1_000.0 * table.last(slots)? / table.last(active)?);
        let always = per_active("slots_100", "active_100");
        let tenth = per_active("slots_10", "active_10");
        let same =
            always.zip(tenth).is_some_and(|(always, tenth)| tenth < 2.0 * always && tenth > 0.5 * always);
        let show =
            |number: Option<f64>| number.map_or("not measured".to_owned(), |number| format!("{number:.2}"));
        vec![
            Comparison {
                what: "slots per server for 1,000 active clients: 10 % against 100 % of the time".to_owned(),
                paper: "roughly the same".to_owned(),
                ours: format!("{} against {}", show(tenth), show(always)),
                verdict: Verdict::agrees_if(same),
            },
            ours("the same at 1 %", show(per_active("slots_1", "active_1"))),
        ]
    },
    remarks: "What a server remembers follows the active clients, not all that ever came.",
};

const RECONNECT: Experiment = Experiment {
    name: "reconnect",
    title: "Clients that go offline without a word",
    paper: PAPER,
    figure: "Figure 8",
    setting: "100 servers, 1,000 clients for 600 s: a second online, a second offline, then a random server. Naive: a \
              client forgets its old servers. Smart: it also sends to those for which it has tokens, and servers to \
              clients for which they have slots, every 100 ms.",
    command: "quipu sim reconnect --exchange smart",
    run: |scale, seed, watch| {
        let end_ms = if scale == Scale::Full { 600_000 } else { 20_000 };
        let mut runs = Runs::new(3, watch);
        let settings: [(&'static str, reconnect::Exchange, u32); 3] = [
            ("naive", reconnect::Exchange::Naive, 50),
            ("smart", reconnect::Exchange::Smart, 50),
            ("never_offline", reconnect::Exchange::Naive, 100),
        ];
        for (name, exchange, active_percent) in settings {
            let params =
                reconnect::Params { exchange, active_percent, end_ms, seed, ..reconnect::Params::default() };
            runs.add(end_ms, &[(name, |row| Cell::Number(row.slots))], |sink| reconnect::run(&params, sink))?;
        }
        Ok(runs.table())
    },
    x: TIME,
    panels: &[Panel {
        label: "slots per server",
        spread: Spread::Log,
        series: &[
            Series { column: "naive", label: "naive", mark: Mark::Line, colour: 1 },
            Series { column: "smart", label: "smart", mark: Mark::Line, colour: 0 },
            Series { column: "never_offline", label: "never offline", mark: Mark::Line, colour: 2 },
        ],
    }],
    references: |_| {
        [
            (564.0, "paper, naive after 600 s: 564"),
            (10.0, "paper, smart: 10"),
            (5.0, "paper, never offline: 5"),
        ]
        .map(|(slots, label)| Reference { panel: 0, place: Place::Across(slots), label: label.to_owned() })
        .to_vec()
    },
    compare: |table| {
        let naive = match table.last("time_s") {
            Some(end) if end > 590.0 => {
                near("naive, slots per server after 600 s", 564.0, table.last("naive"), 1.25)
            }
            _ => ours(
                "naive, slots per server in the end of a short run",
                table.last("naive").map_or("not measured".to_owned(), |slots| format!("{slots:.1}")),
            ),
        };
        vec![
            naive,
            near("smart, slots per server", 10.0, table.last("smart"), 1.5),
            near("never offline, slots per server", 5.0, table.last("never_offline"), 1.5),
        ]
    },
    remarks: "With the naive exchange slots pile up for as long as the run lasts; with the smart one they do not.",
};

const RETIRE: Experiment = Experiment {
    name: "retire",
    title: "Clients that retire, some of them cut off",
    paper: PAPER,
    figure: "Figure 9",
    setting: "100 servers, 1,000 clients; every 10 ms one arrives and a random one begins to retire, for 1,000 s. Of \
              those that retire 1 or 10 % are cut off and vanish. Beside the paper: with the clean-up of its section \
              7.4 they hand over to another server; with folding a server keeps of their slots one bit each.",
    command: "quipu sim retire",
    run: |scale, seed, watch| {
        let end_ms = if scale == Scale::Full { 1_000_000 } else { 30_000 };
        let fold_after_ms = if scale == Scale::Full { 60_000 } else { 5_000 };
        let mut runs = Runs::new(5, watch);
        let settings: [(&'static str, u32, Cleanup); 5] = [
            ("cut_off_0", 0, Cleanup::Off),
            ("cut_off_1", 1, Cleanup::Off),
            ("cut_off_10", 10, Cleanup::Off),
            ("clean_up", 10, Cleanup::On),
            ("fold", 10, Cleanup::Fold),
        ];
        for (name, partition_percent, cleanup) in settings {
            let params = retire::Params {
                partition_percent,
                cleanup,
                fold_after_ms,
                end_ms,
                seed,
                ..retire::Params::default()
            };
            let mut picks: Vec<Pick> = vec![(name, |row| Cell::Number(row.slots))];
            if name == "cut_off_10" {
                picks.push(("ids", |row| Cell::Number(row.ids)));
            }
            runs.add(end_ms, &picks, |sink| retire::run(&params, sink))?;
        }
        Ok(runs.table())
    },
    x: TIME,
    panels: &[Panel {
        label: "average per server",
        spread: Spread::Log,
        series: &[
            Series { column: "ids", label: "ids", mark: Mark::Dashes, colour: 6 },
            Series { column: "cut_off_10", label: "slots, 10 % cut off", mark: Mark::Line, colour: 1 },
            Series { column: "cut_off_1", label: "slots, 1 % cut off", mark: Mark::Line, colour: 3 },
            Series { column: "fold", label: "slots, 10 % cut off, folded", mark: Mark::Line, colour: 2 },
            Series {
                column: "clean_up",
                label: "slots, 10 % cut off, cleaned up",
                mark: Mark::Line,
                colour: 0,
            },
            Series { column: "cut_off_0", label: "slots, none cut off", mark: Mark::Dashes, colour: 4 },
        ],
    }],
    references: |_| Vec::new(),
    compare: |table| {
        let (ids, ten, one) = (table.last("ids"), table.last("cut_off_10"), table.last("cut_off_1"));
        let show =
            |number: Option<f64>| number.map_or("not measured".to_owned(), |number| format!("{number:.1}"));
        let orders = ids.zip(ten).is_some_and(|(ids, ten)| ids > 10.0 * ten);
        let (none, cleaned) = (table.last("cut_off_0"), table.last("clean_up"));
        vec![
            Comparison {
                what: "slots against ids, 10 % cut off".to_owned(),
                paper: "orders of magnitude below".to_owned(),
                ours: format!("{} against {}", show(ten), show(ids)),
                verdict: Verdict::agrees_if(orders),
            },
            ours("slots, 1 % cut off", show(one)),
            ours(
                "slots with the clean-up, against none cut off",
                format!("{} against {}", show(cleaned), show(none)),
            ),
            ours("slots with folding", show(table.last("fold"))),
        ]
    },
    remarks: "The paper leaves the slots of clients that vanish for ever. A client that only lost its server can leave a \
              notice; of one that vanished without a word a server keeps a bit or two.",
};
