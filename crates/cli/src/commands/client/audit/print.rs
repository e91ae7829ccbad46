//! What was found, for people and for programs.

use super::{
    super::say,
    books::{Amounts, Site},
    compare::{Findings, Gap, Verdict},
};
use crate::failure::Failure;
use serde_json::{Value, json};
use std::{collections::BTreeMap, fmt::Display};

pub(super) fn json(findings: &Findings) -> Value {
    let sites = findings.sites.iter().map(|site| {
        json!({
            "site": site.site.to_string(),
            "server": site.server,
            "issued": site.issued,
            "set": site.set,
            "cancelled": site.cancelled,
            "counted": site.counted,
            "provisional_ids": site.provisional_ids,
        })
    });
    let gaps = findings.gaps.iter().map(|gap| {
        json!({
            "owner": gap.owner.to_string(),
            "observer": gap.observer.to_string(),
            "shard": gap.shard,
            "added": gap.added,
            "subtracted": gap.subtracted,
            "changes": gap.changes,
        })
    });
    let balanced = match findings.verdict() {
        Verdict::Balanced => Some(true),
        Verdict::Unbalanced => Some(false),
        Verdict::Unknown => None,
    };
    json!({
        "balanced": balanced,
        "sites": sites.collect::<Vec<_>>(),
        "in_flight": gaps.collect::<Vec<_>>(),
        "not_counted_once": findings.suspicious,
        "problems": findings.problems,
    })
}

pub(super) fn people(findings: &Findings, with_shards: bool) -> Result<(), Failure> {
    let heads = ["site", "issued", "set", "cancelled", "counted", "provisional ids", "server"];
    let rows = findings.sites.iter().map(|site| {
        [
            site.site.to_string(),
            signed(site.issued),
            signed(site.set),
            signed(site.cancelled),
            signed(site.counted),
            site.provisional_ids.to_string(),
            site.server.clone(),
        ]
    });
    table(heads, &rows.collect::<Vec<_>>())?;
    for ((owner, observer), gaps) in pairs(&findings.gaps) {
        let sum = |of: fn(&Gap) -> i64| gaps.iter().map(|gap| i128::from(of(gap))).sum::<i128>();
        say(format_args!(
            "in flight from site {owner} to {observer}: {} ({} in {})",
            signed_parts(sum(|gap| gap.added), sum(|gap| gap.subtracted)),
            several(sum(|gap| gap.changes), "change"),
            several(gaps.len(), "shard"),
        ))?;
        if gaps.iter().any(Gap::is_odd) {
            say(format_args!(
                "  the two have got to the same change and count differently: if this stays, report it as a fault"
            ))?;
        }
        for gap in gaps.iter().filter(|_| with_shards) {
            let amounts = signed_parts(gap.added, gap.subtracted);
            say(format_args!("  shard {}: {amounts} ({})", gap.shard, several(gap.changes, "change")))?;
        }
    }
    for suspicious in &findings.suspicious {
        say(format_args!("not counted once: {suspicious}"))?;
    }
    if findings.verdict() == Verdict::Balanced {
        say("the books balance: what the sites have issued is counted at all of them")?;
    }
    Ok(())
}

fn pairs(gaps: &[Gap]) -> BTreeMap<(Site, Site), Vec<Gap>> {
    let mut pairs: BTreeMap<(Site, Site), Vec<Gap>> = BTreeMap::new();
    for gap in gaps {
        pairs.entry((gap.owner, gap.observer)).or_default().push(*gap);
    }
    pairs
}

/// A number of things.
fn several(count: impl Display, thing: &str) -> String {
    let count = count.to_string();
    let s = if count == "1" { "" } else { "s" };
    format!("{count} {thing}{s}")
}

fn signed(amounts: Amounts) -> String {
    signed_parts(amounts.added, amounts.subtracted)
}

fn signed_parts(added: impl Display, subtracted: impl Display) -> String {
    format!("+{added} -{subtracted}")
}

/// Columns as wide as what stands in them; the last one is as long as it is.
fn table<const N: usize>(heads: [&str; N], rows: &[[String; N]]) -> Result<(), Failure> {
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].len());
        cells.chain([heads[column].len()]).max().unwrap_or(0)
    };
    let line = |cells: [&str; N]| {
        let mut line = String::new();
        for (column, cell) in cells.iter().enumerate() {
            line += &format!("{cell:<width$}  ", width = width(column));
        }
        line.trim_end().to_owned()
    };
    say(line(heads))?;
    rows.iter().try_for_each(|row| say(line(row.each_ref().map(String::as_str))))
}
