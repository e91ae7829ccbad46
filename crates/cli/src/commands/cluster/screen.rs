//! The cluster on one screen. What is drawn depends on nothing but a snapshot and what is chosen.

use super::{
    Told, conduct,
    keys::{Choice, DEMO},
    order::Order,
    sites::Sites,
    snapshot::{Cell as Value, CounterNow, LinkNow, SiteNow, Snapshot},
};
use crate::failure::Failure;
use ratatui::{
    DefaultTerminal, Frame,
    crossterm::event::{self, Event, KeyEventKind},
    layout::{Constraint, Layout},
    style::{Color, Modifier, Style},
    text::{Line, Text},
    widgets::{Block, Cell, Row, Table},
};
use std::{
    io,
    sync::mpsc::{self, Receiver, Sender, TryRecvError},
    thread,
    time::Duration,
};

/// How often the sites are looked at.
const LOOK_EVERY: Duration = Duration::from_millis(400);
/// How long a key is waited for before there may be something new to draw.
const KEY_TIME_MAX: Duration = Duration::from_millis(50);
/// The width of a column with a site's values.
const VALUE_WIDTH: u16 = 18;

/// All that is drawn.
struct View {
    snapshot: Snapshot,
    choice: Choice,
    /// What came of the last key.
    answer: Result<String, String>,
}

/// Runs until it is told to quit.
pub(super) fn run(sites: &mut Sites) -> Result<(), Failure> {
    let failed = |error| Failure::failed(format!("the terminal cannot be used: {error}; try --plain"));
    let mut terminal = ratatui::try_init().map_err(failed)?;
    let (orders, ordered) = mpsc::channel();
    let (tell, told) = mpsc::channel();
    let shown = thread::scope(|scope| {
        // Apart from the keys: a site that does not answer must not hold them up.
        scope.spawn(move || conduct(sites, &ordered, LOOK_EVERY, |news| tell.send(news).is_ok()));
        // They go with the screen, whatever ends it, and that ends the thread.
        show(&mut terminal, orders, told)
    });
    ratatui::restore();
    shown.map_err(failed)
}

#[expect(clippy::needless_pass_by_value, reason = "their end is a message")]
fn show(
    terminal: &mut DefaultTerminal,
    orders: Sender<Result<Order, String>>,
    told: Receiver<Told>,
) -> io::Result<()> {
    let answer = Ok("all sites run".to_owned());
    let mut view = View { snapshot: Snapshot::default(), choice: Choice::FIRST, answer };
    loop {
        loop {
            match told.try_recv() {
                Ok(Told::Answer(answer)) => view.answer = answer,
                Ok(Told::Snapshot(snapshot)) => view.snapshot = snapshot,
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => return Ok(()),
            }
        }
        terminal.draw(|frame| draw(frame, &view))?;
        if !event::poll(KEY_TIME_MAX)? {
            continue;
        }
        if let Event::Key(key) = event::read()?
            && key.kind != KeyEventKind::Release
            && let Some(order) = view.choice.press(key, &view.snapshot)
            && orders.send(Ok(order)).is_err()
        {
            return Ok(());
        }
    }
}

fn draw(frame: &mut Frame<'_>, view: &View) {
    let Snapshot { sites, links, counters } = &view.snapshot;
    let height = |rows: usize| Constraint::Length(u16::try_from(rows).unwrap_or(u16::MAX).saturating_add(3));
    let [top, middle, rest, bottom] = Layout::vertical([
        height(sites.len()),
        height(links.len()),
        Constraint::Min(4),
        Constraint::Length(5),
    ])
    .areas(frame.area());
    frame.render_widget(sites_table(sites, view.choice), top);
    frame.render_widget(links_table(links, view.choice), middle);
    frame.render_widget(counters_table(counters, sites), rest);
    frame.render_widget(hints(view), bottom);
}

fn heading<const N: usize>(names: [&'static str; N]) -> Row<'static> {
    Row::new(names).style(Style::new().add_modifier(Modifier::BOLD))
}

/// A mark tells it where there are no colours.
fn chosen(is_chosen: bool) -> &'static str {
    if is_chosen { ">" } else { "" }
}

fn coloured(text: impl Into<Text<'static>>, colour: Color) -> Cell<'static> {
    Cell::from(text).style(Style::new().fg(colour))
}

fn sites_table(sites: &[SiteNow], choice: Choice) -> Table<'static> {
    let row = |site: &SiteNow| {
        let state = match site.process {
            Some(process) => coloured(format!("up, process {process}"), Color::Green),
            None => coloured("down", Color::Red),
        };
        let behind = match &site.behind {
            None => coloured(site.lacks(), Color::Red),
            Some(behind) if behind.is_empty() => Cell::from(site.lacks()),
            Some(_) => coloured(site.lacks(), Color::Yellow),
        };
        Row::new([
            Cell::from(chosen(site.number == choice.site)),
            Cell::from(site.number.to_string()),
            state,
            behind,
            Cell::from(site.resp.to_string()),
            Cell::from(format!("http://{}", site.http)),
        ])
    };
    let widths = [1, 5, 19, 16, 16, 23].map(Constraint::Length);
    Table::new(sites.iter().map(row), widths)
        .header(heading(["", "site", "state", "lacks of site", "Redis clients", "HTTP clients"]))
        .block(Block::bordered().title(" sites: the server of `quipu serve`, each in a process of its own "))
}

fn links_table(links: &[LinkNow], choice: Choice) -> Table<'static> {
    let row = |(place, link): (usize, &LinkNow)| {
        let colour = if link.state() == "up" { Color::Green } else { Color::Red };
        let heard = link.heard_seconds.map_or_else(|| "never".to_owned(), |it| format!("{it:.1} s ago"));
        Row::new([
            Cell::from(chosen(place == choice.link)),
            Cell::from(format!("{} - {}", link.one, link.other)),
            coloured(link.state(), colour),
            Cell::from(heard),
            Cell::from(format!("{} KiB", link.passed / 1024)),
        ])
    };
    Table::new(links.iter().enumerate().map(row), [1, 7, 10, 14, 14].map(Constraint::Length))
        .header(heading(["", "link", "state", "heard", "passed"]))
        .block(Block::bordered().title(" links "))
}

fn counters_table(counters: &[CounterNow], sites: &[SiteNow]) -> Table<'static> {
    let row = |counter: &CounterNow| {
        let colour = if counter.differs() { Color::Yellow } else { Color::Reset };
        let cells = counter.cells.iter().map(|value| coloured(value_text(value), colour));
        Row::new([Cell::from(counter.key.clone())].into_iter().chain(cells))
    };
    let names = sites.iter().map(|site| format!("at site {}", site.number));
    let header = Row::new(["counter".to_owned()].into_iter().chain(names));
    let widths =
        [Constraint::Min(12)].into_iter().chain(sites.iter().map(|_| Constraint::Length(VALUE_WIDTH)));
    Table::new(counters.iter().map(row), widths)
        .header(header.style(Style::new().add_modifier(Modifier::BOLD)))
        .block(
            Block::bordered()
                .title(" counters that changed last; with limits: ↑ and ↓ what a site may add and subtract "),
        )
}

fn value_text(value: &Value) -> String {
    let mut text = value.text();
    for (arrow, rights) in [('↑', value.rights_to_add()), ('↓', value.rights_to_subtract())] {
        if let Some(rights) = rights {
            text += &format!(" {arrow}{rights}");
        }
    }
    text
}

fn hints(view: &View) -> Text<'static> {
    let port = view
        .snapshot
        .sites
        .iter()
        .find(|site| site.number == view.choice.site)
        .map_or(0, |it| it.resp.port());
    let answer = match &view.answer {
        Ok(done) => Line::from(done.clone()),
        Err(problem) => Line::styled(format!("error: {problem}"), Style::new().fg(Color::Red)),
    };
    Text::from(vec![
        answer,
        Line::from("From another terminal:"),
        Line::from(format!("  redis-cli -p {port} incrby hits 5")),
        Line::from(format!("  redis-cli -p {port} counter.create seats min 0 value 120")),
        Line::from(format!(
            "1-{} site  + - count {DEMO} there  k kill or start it   ↑↓ link  c cut or heal  s silence   q quit",
            view.snapshot.sites.len()
        )),
    ])
}

#[cfg(test)]
mod tests;
