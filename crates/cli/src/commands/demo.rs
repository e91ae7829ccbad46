//! `quipu demo`: the idea in one screen.
//!
//! Two sites and an edge, with the very replicas that a server and an edge run. Messages are handed from one
//! to the other by this file, so that it can lose and repeat them.

use crate::failure::Failure;
use quipu_crdt::handoff::{Handoff, View};
use std::fmt::Write;

/// Two sites, an edge, a partition, a retry, a handoff and a retirement, step by step in this terminal
///
/// Each line shows what happens and what every replica then reports.
#[derive(clap::Args)]
pub(crate) struct Args {}

type Replica = Handoff<&'static str, u64>;

/// The three replicas, each `None` when it is gone.
struct Stage {
    lima: Replica,
    cusco: Replica,
    edge: Option<Replica>,
    text: String,
}

pub(crate) fn run(_: &Args) -> Result<(), Failure> {
    print!("{}", play().map_err(Failure::failed)?);
    Ok(())
}

/// The whole play, as text.
fn play() -> Result<String, Box<dyn std::error::Error>> {
    let mut stage = Stage::new();
    stage.say("Two sites count on their own; neither waits for the other.");
    stage.lima.add(&3)?;
    stage.show("3 added at lima")?;
    stage.cusco.add(&4)?;
    stage.show("4 added at cusco")?;
    stage.sites_meet()?;
    stage.show("the sites exchange what they have")?;

    stage.say("A partition. Both stay writable; each is behind, neither is wrong.");
    stage.lima.add(&10)?;
    stage.show("10 added at lima, cusco cannot hear it")?;
    stage.cusco.add(&20)?;
    stage.show("20 added at cusco, lima cannot hear it")?;

    stage.say("An edge, say a phone, counts while it is offline.");
    stage.edge = Some(Handoff::new("edge", 1));
    stage.edge()?.add(&5)?;
    stage.show("5 added at the edge")?;

    stage.say(
        "It hands them to a site: ask for a slot, put the value into a token, be told that it was taken.",
    );
    let ask = stage.edge()?.view_for(&"lima", 0);
    stage.lima.merge(&ask)?;
    stage.show("lima opens a slot")?;
    let slot = stage.lima.reply_to(&ask);
    stage.edge()?.merge(&slot)?;
    stage.show("the edge moves its 5 into a token for that slot")?;
    let token = stage.edge()?.view_for(&"lima", 0);
    stage.lima.merge(&token)?;
    stage.show("lima takes the token; its answer is lost")?;

    stage.say("No answer, so the edge sends it again, as every client does. Elsewhere this counts twice.");
    stage.lima.merge(&token)?;
    stage.show("the token arrives again: its slot is gone")?;
    let answer = stage.lima.reply_to(&token);
    stage.edge()?.merge(&answer)?;
    stage.show("this answer gets through")?;
    stage.retire_edge(&answer)?;
    stage.show("the edge has nothing left to hand over, and retires")?;

    stage.say("The partition heals.");
    stage.sites_meet()?;
    stage.show("the sites exchange what they have")?;
    stage.say("3 + 4 + 10 + 20 + 5 = 42 at both sites, and nothing is left of the edge at either.");
    Ok(stage.text)
}

impl Stage {
    fn new() -> Self {
        let mut stage = Stage {
            lima: Handoff::new("lima", 0),
            cusco: Handoff::new("cusco", 0),
            edge: None,
            text: String::new(),
        };
        let _ = writeln!(stage.text, "{:<58}{:>8}{:>8}{:>8}", "", "lima", "cusco", "edge");
        stage
    }

    fn edge(&mut self) -> Result<&mut Replica, &'static str> {
        self.edge.as_mut().ok_or("the edge is gone")
    }

    fn say(&mut self, sentence: &str) {
        let _ = writeln!(self.text, "\n{sentence}");
    }

    fn show(&mut self, event: &str) -> Result<(), std::fmt::Error> {
        let edge = self.edge.as_ref().map_or("-".to_owned(), |edge| edge.fetch().to_string());
        writeln!(
            self.text,
            "  {event:<56}{:>8}{:>8}{edge:>8}{}",
            self.lima.fetch(),
            self.cusco.fetch(),
            self.handoffs()
        )
    }

    /// Slots and tokens, where there are any.
    fn handoffs(&self) -> String {
        let slots = self.lima.handshake().desk().slots().len();
        let tokens = self.edge.as_ref().map_or(0, |edge| edge.handshake().tokens().len());
        match (slots, tokens) {
            (0, 0) => String::new(),
            (1, 0) => "   slot at lima".to_owned(),
            (0, _) => "   token at the edge".to_owned(),
            (_, _) => "   slot at lima, token at the edge".to_owned(),
        }
    }

    fn sites_meet(&mut self) -> Result<(), Box<dyn std::error::Error>> {
        self.cusco.merge(&self.lima.view_for(&"cusco", 0))?;
        self.lima.merge(&self.cusco.view_for(&"lima", 0))?;
        Ok(())
    }

    fn retire_edge(&mut self, answer: &View<&'static str, u64>) -> Result<(), Box<dyn std::error::Error>> {
        let mut edge = self.edge.take().ok_or("the edge is gone")?;
        edge.merge(answer)?;
        if edge.must_hand_off() {
            return Err("the edge still has something to hand over".into());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_play_ends_with_42_at_both_sites_and_without_a_trace_of_the_edge() {
        let text = super::play().expect("the play works");
        let last = text.lines().rev().find(|line| line.contains("exchange")).expect("the last event");
        let numbers: Vec<&str> = last.split_whitespace().rev().take(3).collect();
        assert_eq!(numbers, ["-", "42", "42"]);
    }
}
