//! Keyspaces that cannot be opened, and what is said then.

use std::path::PathBuf;

use quipu_storage_cassandra::{Access, Address, Cassandra, Options, Schema, SetupError};

use crate::server::{Own, Server, one_copy};

fn refusal(address: &Address, access: &Access, options: Options) -> SetupError {
    Cassandra::open(address, access, options).map(drop).expect_err("it must not open")
}

/// What is told must name what is wrong.
fn tells(error: &SetupError, words: &[&str]) {
    let text = error.to_string();
    for word in words {
        assert!(text.contains(word), "{text:?} does not say {word:?}");
    }
}

pub(crate) fn keyspaces_that_do_not_fit(server: &Server) {
    let open = |address: &Address| refusal(address, &server.access, Options::default());
    let missing = server.name();
    let error = open(&missing);
    assert!(matches!(error, SetupError::NoKeyspace { .. }), "{error:?}");
    tells(&error, &[missing.keyspace(), "quipu storage init"]);

    let address = server.keyspace();
    let keyspace = address.keyspace();
    // Again is no harm; other values are refused, and nothing is changed.
    Cassandra::init(&address, &server.access, &one_copy()).expect("the same again");
    let other = Schema { cluster: "other".to_owned(), ..one_copy() };
    let error = Cassandra::init(&address, &server.access, &other).expect_err("another cluster");
    assert!(matches!(error, SetupError::Differs { what: "cluster", .. }), "{error:?}");
    let other = Schema { buckets: 8, ..one_copy() };
    let error = Cassandra::init(&address, &server.access, &other).expect_err("other partitions");
    assert!(matches!(error, SetupError::Differs { what: "buckets", .. }), "{error:?}");
    assert_eq!(server.open(&address).cluster(), "quipu");

    let options = Options { cluster: Some("mine".to_owned()), ..Options::default() };
    let error = refusal(&address, &server.access, options);
    assert!(matches!(error, SetupError::OtherCluster { .. }), "{error:?}");
    tells(&error, &["\"quipu\"", "\"mine\"", keyspace]);

    server.ask(&format!("UPDATE {keyspace}.meta SET value = '2' WHERE name = 'schema'"));
    let error = open(&address);
    assert!(matches!(error, SetupError::UnknownSchema { known: 1, .. }), "{error:?}");
    tells(&error, &["schema 2", "schema 1"]);
    server.ask(&format!("DELETE FROM {keyspace}.meta WHERE name = 'schema'"));
    let error = open(&address);
    assert!(matches!(error, SetupError::NotInitialised { .. }), "{error:?}");
    server.ask(&format!("DROP TABLE {keyspace}.meta"));
    let error = open(&address);
    assert!(matches!(error, SetupError::NotInitialised { .. }), "{error:?}");
}

pub(crate) fn schemas_that_cannot_be(server: &Server) {
    let address = server.name();
    let make = |schema| Cassandra::init(&address, &server.access, &schema).expect_err("it must be refused");
    for replication in [0, 2] {
        let error = make(Schema { replication, ..Schema::default() });
        assert!(matches!(error, SetupError::OutOfRange { .. }), "{error:?}");
    }
    let error = make(Schema { buckets: 0, ..one_copy() });
    assert!(matches!(error, SetupError::OutOfRange { .. }), "{error:?}");
    let error = make(Schema { datacenter: Some("elsewhere".to_owned()), ..one_copy() });
    assert!(matches!(error, SetupError::Datacenter { .. }), "{error:?}");
    tells(&error, &["elsewhere", "datacenter1"]);
    let authorities = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
    let access = Access { tls_authorities: Some(authorities), ..Access::default() };
    let error = Cassandra::init(&address, &access, &one_copy()).expect_err("no certificates");
    assert!(matches!(error, SetupError::Certificates { .. }), "{error:?}");
    let error = refusal(&address, &server.access, Options::default());
    assert!(matches!(error, SetupError::NoKeyspace { .. }), "nothing was made: {error:?}");
}

pub(crate) fn wrong_doors(own: Own) {
    let server = own.get();
    let address = server.keyspace();
    let wrong = ("cassandra".to_owned(), "wrong".to_owned());
    for user in [None, Some(wrong)] {
        let error = refusal(&address, &Access { user, ..Access::default() }, Options::default());
        assert!(matches!(error, SetupError::Denied { .. }), "{error:?}");
        tells(&error, &["--storage-user"]);
    }
    drop(server.open(&address));
    let nobody: Address = "cassandra://127.0.0.1:1/quipu".parse().expect("an address");
    let error = refusal(&nobody, &Access::default(), Options::default());
    assert!(matches!(error, SetupError::Unreachable { .. }), "{error:?}");
    tells(&error, &["127.0.0.1:1"]);
}
