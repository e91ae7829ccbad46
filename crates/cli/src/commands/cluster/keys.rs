//! What keys do.

use super::{cable::Cable, order::Order, snapshot::Snapshot};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// The counter that `+` and `-` count.
pub(super) const DEMO: &str = "demo";

/// What is chosen on the screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Choice {
    /// The number of a site.
    pub(super) site: u16,
    /// The place of a link in the list.
    pub(super) link: usize,
}

impl Choice {
    pub(super) const FIRST: Self = Self { site: 1, link: 0 };

    /// Takes a key: it chooses something, or is an order.
    pub(super) fn press(&mut self, key: KeyEvent, snapshot: &Snapshot) -> Option<Order> {
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return (key.code == KeyCode::Char('c')).then_some(Order::Quit);
        }
        let site = self.site;
        match key.code {
            KeyCode::Char('q') | KeyCode::Esc => return Some(Order::Quit),
            KeyCode::Char('+' | '=') => return Some(Order::Add { site, key: DEMO.to_owned(), amount: 1 }),
            KeyCode::Char('-') => return Some(Order::Add { site, key: DEMO.to_owned(), amount: -1 }),
            KeyCode::Char('c') => return self.toggle(Cable::Cut, snapshot),
            KeyCode::Char('s') => return self.toggle(Cable::Silent, snapshot),
            KeyCode::Char('k') => {
                let runs = snapshot.sites.iter().any(|it| it.number == site && it.process.is_some());
                return Some(if runs { Order::Kill { site } } else { Order::Start { site } });
            }
            KeyCode::Char(digit) => {
                let number = digit.to_digit(10).and_then(|digit| u16::try_from(digit).ok());
                let site = snapshot.sites.iter().find(|site| Some(site.number) == number);
                self.site = site.map_or(self.site, |site| site.number);
            }
            KeyCode::Up | KeyCode::Left => self.link = self.link.saturating_sub(1),
            KeyCode::Down | KeyCode::Right => {
                self.link = (self.link + 1).min(snapshot.links.len().saturating_sub(1));
            }
            _ => {}
        }
        None
    }

    /// The chosen link becomes like this, or whole if it is like this.
    fn toggle(self, cable: Cable, snapshot: &Snapshot) -> Option<Order> {
        let link = snapshot.links.get(self.link)?;
        let cable = if link.cable == cable { Cable::Whole } else { cable };
        Some(Order::Link { one: link.one, other: link.other, cable })
    }
}
