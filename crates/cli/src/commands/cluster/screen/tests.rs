//! What is on the screen, without a terminal.

use super::*;
use crate::commands::cluster::{cable::Cable, snapshot::Behind};
use ratatui::{
    Terminal,
    backend::TestBackend,
    buffer::Buffer,
    crossterm::event::{KeyCode, KeyEvent, KeyModifiers},
};

fn known(value: i64) -> Value {
    Value::Known { value, rights_to_add: None, rights_to_subtract: None }
}

fn snapshot() -> Snapshot {
    let site = |number: u16, process, behind| SiteNow {
        number,
        process,
        resp: ([127, 0, 0, 1], 7000 + number).into(),
        http: ([127, 0, 0, 1], 8000 + number).into(),
        behind,
    };
    let link = |one, other, cable, is_up, heard_seconds| LinkNow {
        one,
        other,
        cable,
        is_up,
        heard_seconds,
        passed: 5 * 1024 + 1,
    };
    let seats = Value::Known { value: 120, rights_to_add: Some(9), rights_to_subtract: Some(40) };
    let counter = |key: &str, cells| CounterNow { key: key.to_owned(), cells, is_bounded: key == "seats" };
    Snapshot {
        sites: vec![
            site(1, Some(41), Some(Behind::new())),
            site(2, Some(42), Some([("1".to_owned(), 7), ("3".to_owned(), 12)].into())),
            site(3, None, None),
        ],
        links: vec![
            link(1, 2, Cable::Cut, false, Some(12.34)),
            link(1, 3, Cable::Whole, true, Some(0.1)),
            link(2, 3, Cable::Whole, false, None),
        ],
        counters: vec![
            counter("hits", vec![known(12), known(5), Value::Unknown]),
            counter("seats", vec![seats, known(120), Value::Unknown]),
            counter("late", vec![known(3), Value::Absent, Value::Unknown]),
        ],
    }
}

fn drawn(view: &View, width: u16, height: u16) -> Buffer {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a terminal");
    terminal.draw(|frame| draw(frame, view)).expect("it is drawn");
    terminal.backend().buffer().clone()
}

fn lines(buffer: &Buffer) -> Vec<String> {
    let width = usize::from(buffer.area.width);
    buffer.content.chunks(width).map(|row| row.iter().map(ratatui::buffer::Cell::symbol).collect()).collect()
}

/// The line that has this, with single spaces, and the colour of the cell where `word` begins in it.
fn find(buffer: &Buffer, part: &str, word: &str) -> (String, Color) {
    let lines = lines(buffer);
    let row =
        lines.iter().position(|line| line.contains(part)).unwrap_or_else(|| panic!("{part}: {lines:#?}"));
    let byte = lines[row].find(word).unwrap_or_else(|| panic!("{word}: {}", lines[row]));
    let column = lines[row][..byte].chars().count();
    let at = row * usize::from(buffer.area.width) + column;
    let text = lines[row].split_whitespace().collect::<Vec<_>>().join(" ");
    (text, buffer.content[at].fg)
}

fn view() -> View {
    View {
        snapshot: snapshot(),
        choice: Choice { site: 2, link: 1 },
        answer: Err("no such thing".to_owned()),
    }
}

#[test]
fn it_shows_sites_links_values_rights_and_what_differs() {
    let buffer = drawn(&view(), 110, 28);
    let found = |part, word| find(&buffer, part, word);
    let site = "│> 2 up, process 42 1:7 3:12 127.0.0.1:7002 http://127.0.0.1:8002 │";
    assert_eq!(found("process 42", "1:7"), (site.to_owned(), Color::Yellow));
    assert_eq!(found("7003", "down").1, Color::Red);
    assert_eq!(found("1 - 2", "cut"), ("│ 1 - 2 cut 12.3 s ago 5 KiB │".to_owned(), Color::Red));
    assert_eq!(found("1 - 3", "up"), ("│> 1 - 3 up 0.1 s ago 5 KiB │".to_owned(), Color::Green));
    assert_eq!(found("2 - 3", "down"), ("│ 2 - 3 down never 5 KiB │".to_owned(), Color::Red));
    assert_eq!(found("hits  ", "12"), ("│hits 12 5 ? │".to_owned(), Color::Yellow));
    assert_eq!(found("seats  ", "120"), ("│seats 120 ↑9 ↓40 120 ? │".to_owned(), Color::Reset));
    assert_eq!(found("late", "-"), ("│late 3 - ? │".to_owned(), Color::Yellow));
    assert_eq!(found("error: ", "no such thing").1, Color::Red);
    found("redis-cli -p 7002 incrby", "hits");
    found("1-3 site", "q quit");
}

#[test]
fn a_small_terminal_and_an_empty_snapshot_are_no_trouble() {
    for (width, height) in [(1, 1), (20, 5), (80, 24), (200, 60)] {
        assert_eq!(drawn(&view(), width, height).area.width, width);
        let empty = View {
            snapshot: Snapshot::default(),
            choice: Choice::FIRST,
            answer: Ok("all sites run".to_owned()),
        };
        assert_eq!(drawn(&empty, width, height).area.height, height);
    }
}

#[test]
fn keys_choose_and_order() {
    let snapshot = snapshot();
    let mut choice = Choice::FIRST;
    let mut press = |code| choice.press(KeyEvent::new(code, KeyModifiers::NONE), &snapshot);
    let link = |one, other, cable| Some(Order::Link { one, other, cable });
    assert_eq!(press(KeyCode::Up), None);
    assert_eq!(press(KeyCode::Char('c')), link(1, 2, Cable::Whole), "it is cut");
    assert_eq!(press(KeyCode::Char('s')), link(1, 2, Cable::Silent));
    (0..5).for_each(|_| assert_eq!(press(KeyCode::Down), None));
    assert_eq!(press(KeyCode::Char('c')), link(2, 3, Cable::Cut), "the last one");
    assert_eq!(press(KeyCode::Char('k')), Some(Order::Kill { site: 1 }));
    assert_eq!(press(KeyCode::Char('9')), None);
    assert_eq!(press(KeyCode::Char('3')), None);
    assert_eq!(press(KeyCode::Char('k')), Some(Order::Start { site: 3 }), "it does not run");
    let add = |amount| Some(Order::Add { site: 3, key: "demo".to_owned(), amount });
    assert_eq!(press(KeyCode::Char('+')), add(1));
    assert_eq!(press(KeyCode::Char('-')), add(-1));
    assert_eq!(press(KeyCode::Char('q')), Some(Order::Quit));
    let end = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
    assert_eq!(choice.press(end, &snapshot), Some(Order::Quit));
}
