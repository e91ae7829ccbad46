//! Counters that are spent to the end.

use super::{PAPER, comparison, no_references, of_each, ours, short};
use crate::bounded::{excess, exhaust};
use crate::report::{Cell, Comparison, Experiment, Mark, Panel, Scale, Series, Spread, Table, Verdict};

/// An operation of ours that took no longer was decided at its site, in milliseconds.
const LOCAL_MS_MAX: f64 = 10.0;

const SLOWEST: [Series; 4] =
    of_each(["weak_ms_max", "strong_ms_max", "ours_ms_max", "unbatched_ms_max"], Mark::Dots);
const EXCESSES: [Series; 4] =
    of_each(["weak_excess", "strong_excess", "ours_excess", "unbatched_excess"], Mark::Line);

pub(super) const EXHAUST: Experiment = Experiment {
    name: "bounded-exhaust",
    title: "A counter with a limit: the last units",
    paper: PAPER,
    figure: "Figure 5",
    setting: "Three sites, one counter of 6000, all rights at US-East; 5 clients subtract one, 100 ms after the last \
              answer, and go on when nothing is left. The slowest operation of each half second. Costs as before.",
    command: "quipu sim bounded-exhaust",
    run: |scale, seed, watch| {
        let full = exhaust::Params { seed, ..exhaust::Params::default() };
        let params = match scale {
            Scale::Full => full,
            Scale::Quick => exhaust::Params { initial: 600, seconds: 20, ..full },
        };
        Ok(exhaust::table(&exhaust::run(&params, watch)?))
    },
    x: super::axis("time_s", "virtual time in s", Spread::Linear),
    panels: &[Panel { label: "slowest operation in ms", spread: Spread::Log, series: &SLOWEST }],
    references: no_references,
    compare: compare_exhaust,
    remarks: "At first the sites that did not make the counter have to ask for rights; then these are there before they \
              are needed, until few are left. When it is known that nobody has any, operations fail at their site. The \
              paper's figure is not in our copy, so its values cannot be compared. Five clients \
              leave nothing to batch, so that ours is the same with and without. Strong takes longer to spend it: \
              three of its five clients are remote.",
};

fn total(table: &Table, column: &str) -> f64 {
    table.column(column).filter_map(Cell::value).sum()
}

fn compare_exhaust(table: &Table) -> Vec<Comparison> {
    let (waited, counted) = (total(table, "ours_waited"), total(table, "ours_counted"));
    let mut spent = 0.0;
    let mut late = 0.0;
    for (part, waits) in table.column("ours_counted").zip(table.column("ours_waited")) {
        if spent > 0.9 * counted {
            late += waits.value().unwrap_or(0.0);
        }
        spent += part.value().unwrap_or(0.0);
    }
    let (slowest, refused) = (table.last("ours_ms_max"), table.last("ours_refused"));
    let fails_locally = slowest.is_some_and(|ms| ms < LOCAL_MS_MAX) && refused.is_some_and(|it| it > 0.0);
    vec![
        comparison(
            "ours, operations that waited for rights of other sites",
            "“a few peaks”",
            format!("{waited} of {counted}"),
            Verdict::agrees_if(waited > 0.0 && waited < 0.05 * counted),
        ),
        ours("of these while the last tenth was spent", format!("{late}")),
        ours("ours, the slowest operation in ms", short(table.max("ours_ms_max"))),
        comparison(
            "ours, operations when nothing is left: the slowest in ms",
            "fail locally",
            short(slowest),
            Verdict::agrees_if(fails_locally),
        ),
    ]
}

pub(super) const EXCESS: Experiment = Experiment {
    name: "bounded-excess",
    title: "A counter with a limit: what is spent beyond it",
    paper: PAPER,
    figure: "Figure 6",
    setting: "As before, with more and more clients, until nothing was counted for five seconds.",
    command: "quipu sim bounded-excess",
    run: |scale, seed, watch| {
        let full = excess::Params { seed, ..excess::Params::default() };
        let params = match scale {
            Scale::Full => full,
            Scale::Quick => excess::Params { initial: 600, clients: vec![5, 50, 200], ..full },
        };
        Ok(excess::table(&excess::run(&params, watch)?))
    },
    x: super::axis("clients", "clients", Spread::Linear),
    panels: &[Panel { label: "units beyond the limit", spread: Spread::Linear, series: &EXCESSES }],
    references: no_references,
    compare: |table| {
        let weak: Vec<f64> = table.column("weak_excess").filter_map(Cell::value).collect();
        let grows = weak.first().zip(weak.last()).is_some_and(|(first, last)| last > first);
        let others: f64 =
            ["strong_excess", "ours_excess", "unbatched_excess"].iter().map(|it| total(table, it)).sum();
        let left = total(table, "ours_left") + total(table, "unbatched_left");
        vec![
            comparison(
                "weak, units beyond the limit, with few clients and with many",
                "grows with the clients",
                format!("{} and {}", short(weak.first().copied()), short(weak.last().copied())),
                Verdict::agrees_if(grows),
            ),
            comparison(
                "all others, units beyond the limit",
                "0",
                short(Some(others)),
                Verdict::agrees_if(others == 0.0),
            ),
            ours("ours, units that nobody got", short(Some(left))),
        ]
    },
    remarks: "What a plain counter lets through is what is subtracted while a subtraction is on its way to the other \
              sites. The paper's figure is not in our copy, so its values cannot be compared.",
};
