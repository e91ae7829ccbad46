//! The page that lays the papers' figures beside ours. One file, without anything from elsewhere.

use super::{Comparison, Experiment, Outcome, ReportError, Scale, Verdict, svg};
use std::fmt::Write;

const HEAD: &str = r#"<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Quipu: the papers' experiments</title>
<style>
:root { color-scheme: light dark; --line: #ccc; --soft: #666; --card: #fff; --good: #00664b; --bad: #a34700; }
@media (prefers-color-scheme: dark) {
  :root { --line: #444; --soft: #aaa; --card: #161616; --good: #4fd1a5; --bad: #ffab66; }
  .plot svg { filter: invert(0.92) hue-rotate(180deg); }
}
body { font: 16px/1.5 system-ui, sans-serif; max-width: 50rem; margin: 0 auto; padding: 1rem; }
h1 { line-height: 1.2; } h2 { margin: 3rem 0 0.3rem; line-height: 1.25; }
.figure, .note { color: var(--soft); margin: 0.2rem 0; }
.plot { overflow-x: auto; margin: 1rem 0; }
.plot svg { display: block; width: 100%; min-width: 32rem; height: auto; border-radius: 4px; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; vertical-align: top; padding: 0.35rem 0.6rem 0.35rem 0; border-bottom: 1px solid var(--line); }
code { font-size: 0.9em; overflow-wrap: anywhere; }
.agrees { color: var(--good); } .differs { color: var(--bad); font-weight: 600; } .ours { color: var(--soft); }
</style>
</head>
<body>
"#;

/// The page. Same outcomes, same bytes.
pub fn index_html(outcomes: &[Outcome], scale: Scale, seed: u64) -> Result<String, ReportError> {
    let mut page = HEAD.to_owned();
    page += "<h1>The papers’ experiments, run by Quipu</h1>\n";
    let runs = match scale {
        Scale::Full => "Full runs",
        Scale::Quick => "Quick runs, smaller than in the papers: numbers are rougher",
    };
    line(
        &mut page,
        &format!(
            "<p>{runs}, with seed {seed}. The same seed gives the same numbers on any machine. \
             “Agrees” means the same direction and within a factor of two.</p>"
        ),
    );
    page += &contents(outcomes);
    for outcome in outcomes {
        section(&mut page, outcome, scale, seed)?;
    }
    page += "</body>\n</html>\n";
    Ok(page)
}

fn contents(outcomes: &[Outcome]) -> String {
    let mut list = "<div class=\"scroll\"><table>\n<tr><th>experiment</th><th>figure</th><th>against the paper</th></tr>\n".to_owned();
    for Outcome { experiment, table } in outcomes {
        let comparisons = (experiment.compare)(table);
        let differ = comparisons.iter().filter(|row| row.verdict == Verdict::Differs).count();
        let agree = comparisons.iter().filter(|row| row.verdict == Verdict::Agrees).count();
        let (class, verdict) = match (agree, differ) {
            (0, 0) => ("ours", "not in the paper".to_owned()),
            (_, 0) => ("agrees", "agrees".to_owned()),
            (_, _) => ("differs", format!("differs in {differ} of {}", agree + differ)),
        };
        line(
            &mut list,
            &format!(
                "<tr><td><a href=\"#{name}\">{title}</a></td><td>{figure}</td><td class=\"{class}\">{verdict}</td></tr>",
                name = experiment.name,
                title = escape(experiment.title),
                figure = escape(experiment.figure),
            ),
        );
    }
    list + "</table></div>\n"
}

fn section(page: &mut String, outcome: &Outcome, scale: Scale, seed: u64) -> Result<(), ReportError> {
    let Outcome { experiment, table } = outcome;
    let Experiment { name, title, paper, figure, setting, remarks, .. } = experiment;
    let plot = svg(experiment, table).map_err(|error| ReportError::Plot { name, error })?;
    line(page, &format!("<h2 id=\"{name}\">{}</h2>", escape(title)));
    line(page, &format!("<p class=\"figure\">{}, “{}”</p>", escape(figure), escape(paper)));
    line(page, &format!("<p>{}</p>", escape(setting)));
    line(page, &format!("<div class=\"plot\" role=\"img\" aria-label=\"{}\">{plot}</div>", escape(title)));
    page.push_str(&comparison_table(&(experiment.compare)(table)));
    line(page, &format!("<p>{}</p>", escape(remarks)));
    let command = match scale {
        Scale::Full => format!("<code>{} --seed {seed}</code>", escape(experiment.command)),
        Scale::Quick => {
            format!("with more points: <code>{} --seed {seed}</code>", escape(experiment.command))
        }
    };
    line(
        page,
        &format!(
            "<p class=\"note\"><a href=\"{name}.tsv\">data</a>, <a href=\"{name}.svg\">plot</a>, {command}</p>"
        ),
    );
    Ok(())
}

fn comparison_table(rows: &[Comparison]) -> String {
    let mut text =
        "<div class=\"scroll\"><table>\n<tr><th></th><th>paper</th><th>Quipu</th><th></th></tr>\n".to_owned();
    for Comparison { what, paper, ours, verdict } in rows {
        let (class, word) = match verdict {
            Verdict::Agrees => ("agrees", "agrees"),
            Verdict::Differs => ("differs", "differs"),
            Verdict::Ours => ("ours", ""),
        };
        let [what, paper, ours] = [what, paper, ours].map(|text| escape(text));
        line(
            &mut text,
            &format!(
                "<tr><td>{what}</td><td>{paper}</td><td>{ours}</td><td class=\"{class}\">{word}</td></tr>"
            ),
        );
    }
    text + "</table></div>\n"
}

fn line(page: &mut String, text: &str) {
    // Writing to a string does not fail.
    let _ = writeln!(page, "{text}");
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
