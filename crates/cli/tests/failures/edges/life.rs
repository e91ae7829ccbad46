//! What processes do with the state of an edge, one after the other, until they are killed.

use std::{
    process::{Child, Command, Output, Stdio},
    thread,
    time::Duration,
};

use super::{
    Edge,
    books::{Fate, place},
    program::{BEGUN, COUNTED, INSIDE, SERVERS, STATE, TROUBLE},
};
use crate::{harness::random::Random, kills::index};

/// One edge in so many is worked by commands, the others by programs.
const COMMANDS_ONE_IN: usize = 4;
/// A program lives for at most so long.
const PROGRAM_MS_MAX: u64 = 4_000;
/// A command that is killed is so within this time.
const COMMAND_MS_MAX: u64 = 60;
/// So many commands are a life.
const COMMANDS_MAX: u64 = 8;
/// How long a command tries to hand over while servers are killed, and when they are not any more.
const DEADLINE: &str = "500ms";
const DEADLINE_AT_LAST: &str = "60s";
/// What must never be said to anybody: nobody copies a state here, and all servers are honest.
const ALARMS: [&str; 2] = ["used twice", "nonsense"];

/// Where processes find the servers, and what they are like.
pub(super) struct Life {
    servers: Vec<String>,
    random: Random,
}

impl Life {
    pub(super) fn new(servers: Vec<String>, random: Random) -> Self {
        Self { servers, random }
    }

    pub(super) fn live(&mut self, edge: &mut Edge) {
        // Each tries the servers in another order.
        let from = index(&mut self.random, self.servers.len());
        self.servers.rotate_left(from);
        if edge.number.is_multiple_of(COMMANDS_ONE_IN) {
            (0..1 + self.random.below(COMMANDS_MAX)).for_each(|_| self.command(edge));
        } else {
            self.program(edge);
        }
    }

    /// A program that counts until it is killed.
    fn program(&mut self, edge: &mut Edge) {
        let mut command = Command::new(std::env::current_exe().expect("this test has a file"));
        let task = format!("{} {} {}", edge.number, edge.books.next(), self.random.next());
        command.env_clear().env(INSIDE, task);
        let child = self.start(command, edge);
        thread::sleep(Duration::from_millis(self.random.below(PROGRAM_MS_MAX)));
        let output = kill(child);
        edge.kills += 1;
        let said = String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.code(), None, "it has ended by itself: {said}{}", err(&output));
        let mut begun = false;
        for line in said.lines() {
            let (what, of) = line.split_once(' ').expect("two words");
            assert_ne!(what, TROUBLE, "edge {}: {of}", edge.number);
            assert_eq!(of, edge.books.next().to_string(), "the adds come in turn");
            match what {
                BEGUN if !begun => begun = true,
                COUNTED if begun => {
                    edge.books.note(Fate::Reported);
                    begun = false;
                }
                _ => panic!("{line:?}"),
            }
        }
        if begun {
            edge.books.note(Fate::InDoubt);
        }
    }

    /// One command, which may be killed.
    fn command(&mut self, edge: &mut Edge) {
        let is_killed = self.random.below(2) == 0;
        let after = is_killed.then(|| Duration::from_millis(self.random.below(COMMAND_MS_MAX)));
        // A state that is there, else there is nothing to flush or to retire.
        let choice = if edge.state.exists() { self.random.below(16) } else { 0 };
        match choice {
            _ if edge.retires => self.retire(edge, after, DEADLINE),
            14 => self.retire(edge, after, DEADLINE),
            12 | 13 => {
                // Whether it succeeds or not.
                self.run(edge, &["flush", "--deadline", DEADLINE], after);
            }
            _ => self.add(edge, after),
        }
    }

    fn add(&mut self, edge: &mut Edge, killed_after: Option<Duration>) {
        let (key, amount) = place(edge.number, edge.books.next());
        let what = if amount < 0 { "subtract" } else { "add" };
        let amount = amount.unsigned_abs().to_string();
        let mut words = vec![what, &key, &amount];
        if self.random.below(4) == 0 {
            words.push("--offline");
        }
        let output = self.run(edge, &words, killed_after);
        let fate = match output.status.code() {
            Some(0) => Fate::Reported,
            None => Fate::InDoubt,
            Some(code) => panic!("{words:?}: {code}, {}", err(&output)),
        };
        edge.books.note(fate);
    }

    /// When it succeeds, the edge is gone, and there is another one in a new file.
    fn retire(&self, edge: &mut Edge, killed_after: Option<Duration>, deadline: &str) {
        edge.retires = true;
        let output = self.run(edge, &["retire", "--deadline", deadline], killed_after);
        // If it is killed in its last moment, its file alone tells that it had succeeded.
        if output.status.success() || !edge.state.exists() {
            assert!(!edge.state.exists(), "{}", err(&output));
            edge.retires = false;
            edge.retired += 1;
        }
    }

    /// Hands over everything, whatever is open, and retires.
    pub(super) fn leave(&mut self, edge: &mut Edge) {
        if edge.state.exists() {
            self.retire(edge, None, DEADLINE_AT_LAST);
        }
        assert!(!edge.state.exists(), "edge {} has not retired within {DEADLINE_AT_LAST}", edge.number);
    }

    fn run(&self, edge: &mut Edge, words: &[&str], killed_after: Option<Duration>) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_quipu"));
        command.env_clear().arg("edge").args(words);
        let child = self.start(command, edge);
        let output = match killed_after {
            Some(after) => {
                thread::sleep(after);
                kill(child)
            }
            None => child.wait_with_output().expect("it ends"),
        };
        edge.kills += u64::from(output.status.code().is_none());
        let said = err(&output);
        assert!(!ALARMS.iter().any(|alarm| said.contains(alarm)), "edge {}: {said}", edge.number);
        output
    }

    fn start(&self, mut command: Command, edge: &Edge) -> Child {
        command.env(STATE, &edge.state).env(SERVERS, self.servers.join(","));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().expect("it starts")
    }
}

/// SIGKILL. It may have ended by itself.
fn kill(mut child: Child) -> Output {
    child.kill().expect("it is ours");
    child.wait_with_output().expect("it ends")
}

fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}
