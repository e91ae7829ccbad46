//! What the protocol costs per command, without sockets and counters: `cargo bench -p quipu-server --bench resp`.
//!
//! A pipeline of 16 commands is parsed, understood and answered with an integer each; the figure is per pipeline, and
//! the throughput per command.

use std::hint::black_box;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use quipu_engine::slot_of;
use quipu_server::resp::{
    ClientFacts, ClusterNode, Endpoint, Mode, Parsed, Parser, Reply, Request, ServerFacts, Session, Setting,
    SlotMap, Step, integer,
};

const DEPTH: u64 = 16;

struct Server;

impl ServerFacts for Server {
    fn version(&self) -> &str {
        "0.1.0"
    }
    fn password_required(&self) -> bool {
        false
    }
    fn authenticate(&self, _user: &[u8], _password: &[u8]) -> bool {
        true
    }
    fn settings(&self) -> Vec<Setting> {
        Vec::new()
    }
    fn clients(&self) -> Vec<ClientFacts> {
        Vec::new()
    }
    fn info(&self, _sections: &[&str], _mode: Mode) -> String {
        String::new()
    }
    fn reset_statistics(&self) {}
    fn slot_map(&self) -> SlotMap {
        let endpoint = Endpoint { host: "127.0.0.1".to_owned(), port: 7382 };
        SlotMap { own: ClusterNode::new(1, endpoint), others: Vec::new() }
    }
    fn redirect(&self, _slot: u16) -> Option<Endpoint> {
        None
    }
}

/// Commands as `redis-benchmark` sends them.
fn pipeline(command: impl Fn(u64) -> Vec<String>) -> Vec<u8> {
    (0..DEPTH)
        .flat_map(|number| {
            let arguments = command(number);
            let mut bytes = format!("*{}\r\n", arguments.len());
            for argument in arguments {
                bytes += &format!("${}\r\n{argument}\r\n", argument.len());
            }
            bytes.into_bytes()
        })
        .collect()
}

fn serve(parser: &mut Parser, session: &mut Session, received: &[u8], out: &mut Vec<u8>) -> u64 {
    let (mut at, mut sum) = (0, 0);
    while let Ok(Parsed::Command { arguments, consumed }) = parser.parse(&received[at..], session.peer()) {
        if let Step::Run(Request::Add { key, amount, .. }) = session.step(arguments, out, &Server) {
            sum += u64::from(slot_of(key));
            Reply::new(out, session.protocol()).integer(amount + 123_456);
        }
        at += consumed;
    }
    sum
}

fn pipelines(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("resp");
    group.throughput(Throughput::Elements(DEPTH));
    let key = |number: u64| format!("key:{:012}", number * 7919);
    for (name, received) in [
        ("incr", pipeline(|number| vec!["INCR".into(), key(number)])),
        ("incrby", pipeline(|number| vec!["INCRBY".into(), key(number), number.to_string()])),
        (
            "incr with id",
            pipeline(|number| {
                vec!["INCR".into(), key(number), "IDMP".into(), "web-1".into(), format!("order-{number}")]
            }),
        ),
    ] {
        let (mut parser, mut session, mut out) = (Parser::new(), Session::new(1, &Server), Vec::new());
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                out.clear();
                black_box(serve(&mut parser, &mut session, black_box(&received), &mut out))
            });
        });
        assert!(!out.is_empty(), "the pipeline was answered");
    }
    group.finish();
}

fn parts(criterion: &mut Criterion) {
    let key = b"key:000000007919";
    criterion.bench_function("slot of a key of 16 bytes", |bencher| bencher.iter(|| slot_of(black_box(key))));
    criterion.bench_function("write an integer of 6 digits", |bencher| {
        bencher.iter_batched_ref(
            || Vec::with_capacity(32),
            |out| integer::write(out, black_box(123_456)),
            BatchSize::SmallInput,
        );
    });
}

criterion_group!(benches, pipelines, parts);
criterion_main!(benches);
