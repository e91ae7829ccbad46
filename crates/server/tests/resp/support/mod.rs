//! A server for tests: the protocol in front of a map of numbers.

pub(crate) mod check;

use std::{cell::Cell, collections::BTreeMap};

use quipu_server::resp::{
    ClientFacts, ClusterNode, DEFAULT_USER, Endpoint, Identity, Mode, Parsed, Parser, Queued, Reply, Request,
    ServerFacts, Session, Setting, SlotMap, Step, glob,
};

/// A server with or without a password.
#[derive(Default)]
pub(crate) struct Facts {
    pub(crate) password: Option<&'static str>,
    pub(crate) resets: Cell<u32>,
}

impl ServerFacts for Facts {
    fn version(&self) -> &str {
        "1.2.3"
    }
    fn password_required(&self) -> bool {
        self.password.is_some()
    }
    fn authenticate(&self, user: &[u8], password: &[u8]) -> bool {
        user == DEFAULT_USER.as_bytes()
            && self.password.is_none_or(|expected| expected.as_bytes() == password)
    }
    fn settings(&self) -> Vec<Setting> {
        [("appendonly", "no"), ("maxclients", "10000"), ("save", "")]
            .map(|(name, value)| Setting { name, value: value.to_owned() })
            .into()
    }
    fn clients(&self) -> Vec<ClientFacts> {
        (1..=2)
            .map(|id| ClientFacts {
                id,
                address: format!("127.0.0.1:{id}"),
                local_address: "127.0.0.1:7379".to_owned(),
                age_seconds: 5,
                idle_seconds: 1,
                identity: Identity::default(),
            })
            .collect()
    }
    fn info(&self, sections: &[&str], mode: Mode) -> String {
        match sections {
            ["cluster"] if mode == Mode::Cluster => "# Cluster\r\ncluster_enabled:1\r\n".to_owned(),
            [] | ["server"] => "# Server\r\nredis_version:7.0.15\r\n".to_owned(),
            _ => String::new(),
        }
    }
    fn reset_statistics(&self) {
        self.resets.set(self.resets.get() + 1);
    }
    fn slot_map(&self) -> SlotMap {
        let node = |id, host: &str, port| ClusterNode::new(id, Endpoint { host: host.to_owned(), port });
        let (mut own, mut second) = (node(1, "127.0.0.1", 7001), node(2, "two.example.org", 7002));
        own.add(0..=8191);
        second.add(8192..=12_287);
        own.add(12_288..=16_382);
        second.add(16_383..=16_383);
        SlotMap { own, others: vec![second, node(3, "::1", 7003)] }
    }
    fn redirect(&self, slot: u16) -> Option<Endpoint> {
        let has_it = |node: &&ClusterNode| node.slots().iter().any(|range| range.contains(&slot));
        self.slot_map().others.iter().find(has_it).map(|node| node.endpoint.clone())
    }
}

/// One client and its server.
pub(crate) struct Conversation {
    pub(crate) facts: Facts,
    pub(crate) session: Session,
    parser: Parser,
    received: Vec<u8>,
    counters: BTreeMap<Vec<u8>, i64>,
    pub(crate) out: Vec<u8>,
    pub(crate) closed: bool,
}

impl Conversation {
    pub(crate) fn new(password: Option<&'static str>) -> Self {
        Self::in_mode(Mode::Alone, password)
    }

    pub(crate) fn in_mode(mode: Mode, password: Option<&'static str>) -> Self {
        let facts = Facts { password, ..Facts::default() };
        let session = Session::in_mode(mode, 1, &facts);
        let (parser, counters) = (Parser::new(), BTreeMap::new());
        Self { facts, session, parser, received: Vec::new(), counters, out: Vec::new(), closed: false }
    }

    /// Receives some bytes and replies to what is whole. Returns all replies so far.
    pub(crate) fn receive(&mut self, bytes: &[u8]) -> &[u8] {
        self.received.extend_from_slice(bytes);
        while !self.closed {
            let (arguments, consumed) = match self.parser.parse(&self.received, self.session.peer()) {
                Ok(Parsed::Command { arguments, consumed }) => (arguments, consumed),
                Ok(Parsed::Incomplete { consumed }) => {
                    self.received.drain(..consumed);
                    break;
                }
                Err(error) => {
                    Reply::new(&mut self.out, self.session.protocol()).error(&error);
                    self.closed = true;
                    break;
                }
            };
            let step = self.session.step(arguments, &mut self.out, &self.facts);
            let mut reply = Reply::new(&mut self.out, self.session.protocol());
            match step {
                Step::Replied => {}
                Step::Run(request) => run(&mut self.counters, request, &mut reply),
                Step::RunAll(all) => {
                    reply.array(all.len());
                    for queued in all {
                        match queued {
                            Queued::Run(request) => run(&mut self.counters, request.get(), &mut reply),
                            Queued::Reply(bytes) => reply.raw(&bytes),
                        }
                    }
                }
                Step::ReplyThenClose => self.closed = true,
            }
            self.received.drain(..consumed);
        }
        &self.out
    }

    /// Sends commands, each as words apart by spaces, and returns the replies to them as text.
    pub(crate) fn say(&mut self, commands: &[&str]) -> String {
        self.out.clear();
        for command in commands {
            self.receive(&encode(&command.split(' ').collect::<Vec<_>>()));
        }
        String::from_utf8(self.out.clone()).expect("text")
    }
}

/// A command as clients send it.
pub(crate) fn encode(arguments: &[impl AsRef<[u8]>]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", arguments.len()).into_bytes();
    for argument in arguments {
        bytes.extend(format!("${}\r\n", argument.as_ref().len()).bytes());
        bytes.extend(argument.as_ref());
        bytes.extend(b"\r\n");
    }
    bytes
}

fn run(counters: &mut BTreeMap<Vec<u8>, i64>, request: Request<'_>, reply: &mut Reply<'_>) {
    let count = |count: usize| i64::try_from(count).expect("small");
    match request {
        Request::Add { key, amount, .. } => {
            let value = counters.entry(key.to_vec()).or_default();
            *value = value.wrapping_add(amount);
            reply.integer(*value);
        }
        Request::Get { key } => match counters.get(key) {
            Some(value) => reply.bulk_integer(*value),
            None => reply.null(),
        },
        Request::GetAll { keys } => {
            reply.array(keys.len());
            for key in keys.iter() {
                run(counters, Request::Get { key }, reply);
            }
        }
        Request::Set { key, value } => {
            counters.insert(key.to_vec(), value);
            reply.ok();
        }
        Request::Exists { keys } => {
            reply.integer(count(keys.iter().filter(|key| counters.contains_key(*key)).count()));
        }
        Request::Delete { keys } => {
            reply.integer(count(keys.iter().filter(|key| counters.remove(*key).is_some()).count()));
        }
        Request::Type { key } => reply.simple(if counters.contains_key(key) { "string" } else { "none" }),
        Request::Scan { pattern, type_name, .. } => {
            reply.array(2);
            reply.bulk(b"0");
            let pattern =
                if type_name.is_none_or(|name| name == b"string") { pattern.unwrap_or(b"*") } else { b"" };
            run(counters, Request::Keys { pattern }, reply);
        }
        Request::Keys { pattern } => {
            let keys = counters.keys().filter(|key| glob::matches(pattern, key, glob::Case::Sensitive));
            reply.array(keys.clone().count());
            keys.for_each(|key| reply.bulk(key));
        }
        Request::Count => reply.integer(count(counters.len())),
        Request::Flush => {
            counters.clear();
            reply.ok();
        }
        other => reply.simple(&format!("{other:?}")),
    }
}
