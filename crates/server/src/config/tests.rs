//! What is read from where, and what is refused.

use super::*;
use settings::Known;
use std::io::Write;

fn given(values: &[(&Known, &str)]) -> Settings {
    let mut settings = Settings::default();
    for (known, text) in values {
        settings.give(known, *text, Origin::Flag);
    }
    settings
}

fn refusal(values: &[(&Known, &str)]) -> ConfigError {
    Config::new(&given(values)).expect_err(&format!("{:?}", values.iter().map(|it| it.1).collect::<Vec<_>>()))
}

#[test]
fn the_defaults_are_good() {
    let config = Config::new(&Settings::default()).expect("defaults");
    assert_eq!(config.data, PathBuf::from("./quipu-data"));
    assert_eq!(config.resp, "127.0.0.1:7379".parse().ok());
    assert_eq!(config.http, "127.0.0.1:7380".parse().ok());
    assert_eq!(config.storage_deadline, Duration::from_secs(5));
    assert_eq!(config.resp_cluster, None);
    assert_eq!((config.site, config.cluster, config.peers), (None, None, vec![]));
    assert_eq!((config.link, config.link_given), ("127.0.0.1:7381".parse().ok(), false));
    assert_eq!(config.durability, Durability::Always);
    assert_eq!(config.memory_bytes, 1 << 30);
    assert!((1..=WORKERS_MAX).contains(&config.workers));
    assert_eq!(config.shards, None);
    assert_eq!(config.idmp_window, Duration::from_secs(600));
    assert_eq!(config.idmp_mode, IdmpMode::Exact);
    assert_eq!(config.idmp_fpp, 1e-6);
    assert_eq!(config.max_clients, 10_000);
    assert_eq!(config.tcp_keepalive, Some(Duration::from_secs(300)));
    assert!(!config.users.required());
    assert!(!config.insecure);
    assert_eq!((config.log_level, config.log_format), (LogLevel::Info, LogFormat::Text));
}

#[test]
fn every_value_can_be_given() {
    let config = Config::new(&given(&[
        (&settings::DATA, "/var/lib/quipu"),
        (&settings::RESP, "off"),
        (&settings::RESP_CLUSTER, "localhost:7382"),
        (&settings::HTTP, "localhost:0"),
        (&settings::SITE, "2"),
        (&settings::LINK, "127.0.0.1:0"),
        (&settings::PEERS, "1@10.0.0.1:7381, 3@three.example.org:7381,4@[::1]:9"),
        (&settings::CLUSTER, "eu-1.test"),
        (&settings::DURABILITY, "interval:250"),
        (&settings::MEMORY, "64MiB"),
        (&settings::WORKERS, "3"),
        (&settings::SHARDS, "128"),
        (&settings::IDMP_WINDOW, "24h"),
        (&settings::IDMP_MODE, "filter"),
        (&settings::IDMP_FPP, "1e-4"),
        (&settings::MAX_CLIENTS, "5"),
        (&settings::TCP_KEEPALIVE, "0"),
        (&settings::REQUIREPASS, "secret"),
        (&settings::INSECURE, "true"),
        (&settings::LOG_LEVEL, "debug"),
        (&settings::LOG_FORMAT, "json"),
    ]))
    .expect("all good");
    assert_eq!(config.data, PathBuf::from("/var/lib/quipu"));
    assert_eq!((config.resp, config.http), (None, "127.0.0.1:0".parse().ok()));
    assert_eq!(config.resp_cluster, "127.0.0.1:7382".parse().ok());
    assert_eq!((config.site, config.cluster.as_deref()), (Some(2), Some("eu-1.test")));
    assert_eq!((config.link, config.link_given), ("127.0.0.1:0".parse().ok(), true));
    let peers: Vec<_> = config.peers.iter().map(|peer| (peer.number, peer.address.as_str())).collect();
    assert_eq!(peers, [(1, "10.0.0.1:7381"), (3, "three.example.org:7381"), (4, "[::1]:9")]);
    assert_eq!(config.durability, Durability::Interval(Duration::from_millis(250)));
    assert_eq!((config.memory_bytes, config.workers, config.shards), (64 << 20, 3, Some(128)));
    assert_eq!((config.idmp_window, config.idmp_mode), (Duration::from_secs(86_400), IdmpMode::Filter));
    assert_eq!((config.idmp_fpp, config.max_clients, config.tcp_keepalive), (1e-4, 5, None));
    assert_eq!(config.users.check(b"default", b"secret").as_deref(), Some("default"));
    assert!(config.insecure);
    assert_eq!((config.log_level, config.log_format), (LogLevel::Debug, LogFormat::Json));
}

#[test]
fn bad_values_are_refused_with_flag_value_and_remedy() {
    for (known, value, remedy) in [
        (&settings::DATA, "", "such as ./quipu-data"),
        (&settings::RESP, "7379", "127.0.0.1:7380"),
        (&settings::HTTP, "example.org:80", "127.0.0.1:7380"),
        (&settings::SITE, "0", "from 1 to 65535"),
        (&settings::SITE, "two", "from 1 to 65535"),
        (&settings::SITE, "65536", "from 1 to 65535"),
        (&settings::RESP_CLUSTER, "yes", "or off"),
        (&settings::RESP_CLUSTER, "127.0.0.1:7379", "give another port"),
        (&settings::RESP_CLUSTER, "127.0.0.1:7380", "give another port"),
        (&settings::LINK, "everywhere", "or off"),
        (&settings::LINK, "127.0.0.1:7380", "give another port"),
        (&settings::PEERS, "10.0.0.2:7381", "2@10.0.0.2:7381"),
        (&settings::PEERS, "0@10.0.0.2:7381", "from 1 to 65535"),
        (&settings::PEERS, "2@10.0.0.2", "no address"),
        (&settings::PEERS, "2@:7381", "no address"),
        (&settings::PEERS, "2@host:0", "no address"),
        (&settings::PEERS, "2@host:port", "no address"),
        (&settings::PEERS, "2@a b:1", "no address"),
        (&settings::PEERS, "2@::1:7381", "no address"),
        (&settings::PEERS, "2@a:1,", "no peer"),
        (&settings::PEERS, "2@a:1,3@b:2,2@c:3", "site 2 twice, at a:1 and at c:3"),
        (&settings::CLUSTER, "", "letters, digits"),
        (&settings::CLUSTER, "two words", "letters, digits"),
        (&settings::DURABILITY, "sometimes", "interval:100"),
        (&settings::DURABILITY, "interval:soon", "interval:100"),
        (&settings::DURABILITY, "interval:0", "less than 1"),
        (&settings::DURABILITY, "interval:60001", "more than 60000"),
        (&settings::TCP_KEEPALIVE, "5min", "from 0 to 32767"),
        (&settings::TCP_KEEPALIVE, "32768", "more than 32767"),
        (&settings::MEMORY, "1MiB", "less than 16MiB"),
        (&settings::MEMORY, "lots", "such as 512MiB"),
        (&settings::WORKERS, "0", "less than 1"),
        (&settings::WORKERS, "257", "more than 256"),
        (&settings::WORKERS, "65", "64 shards"),
        (&settings::SHARDS, "100", "give 64 or 128"),
        (&settings::SHARDS, "0", "less than 1"),
        (&settings::SHARDS, "32768", "more than 16384"),
        (&settings::SHARDS, "65536", "no whole number from 1 to 16384"),
        (&settings::IDMP_WINDOW, "999ms", "less than 1s"),
        (&settings::IDMP_WINDOW, "8d", "more than 7d"),
        (&settings::STORAGE_DEADLINE, "99ms", "less than 100ms"),
        (&settings::STORAGE_DEADLINE, "1h", "more than 10min"),
        (&settings::EDGE_TTL, "0s", "less than 1s"),
        (&settings::IDMP_MODE, "guess", "exact, filter"),
        (&settings::IDMP_FPP, "0", "not within"),
        (&settings::IDMP_FPP, "0.5", "not within"),
        (&settings::IDMP_FPP, "NaN", "not within"),
        (&settings::IDMP_FPP, "rarely", "such as 0.000001"),
        (&settings::MAX_CLIENTS, "0", "less than 1"),
        (&settings::MAX_CLIENTS, "-1", "no whole number"),
        (&settings::ACL_FILE, "no-such-file.acl", "cannot be read"),
        (&settings::INSECURE, "perhaps", "neither true nor false"),
        (&settings::LOG_LEVEL, "loud", "error, warn, info, debug, trace"),
        (&settings::LOG_FORMAT, "xml", "text, json"),
    ] {
        let error = refusal(&[(known, value)]);
        assert_eq!(error.flag, known.flag);
        let text = error.to_string();
        assert!(text.starts_with(known.flag) && text.contains(&format!("{value:?}")), "{text}");
        assert!(text.contains(remedy), "{text}");
    }
}

#[test]
fn a_site_is_not_its_own_peer() {
    let text = refusal(&[(&settings::SITE, "2"), (&settings::PEERS, "1@a:1,2@b:1")]).to_string();
    assert!(text.starts_with("--peers: \"1@a:1,2@b:1\" names this site itself (2@b:1)"), "{text}");
    assert!(text.contains("another --site"), "{text}");
    let many: Vec<String> = (2..=65).map(|number| format!("{number}@host:{number}")).collect();
    let text = refusal(&[(&settings::PEERS, &many.join(","))]).to_string();
    assert!(text.contains("names 64 sites; a cluster has at most 64"), "{text}");
    assert!(Config::new(&given(&[(&settings::PEERS, "")])).expect("none").peers.is_empty());
}

#[test]
fn there_are_no_more_workers_than_shards() {
    assert_eq!(Config::new(&given(&[(&settings::SHARDS, "1")])).expect("good").workers, 1);
}

#[test]
fn a_bad_password_is_refused_without_showing_it() {
    let long = "hunter2".repeat(100);
    let text = refusal(&[(&settings::REQUIREPASS, &long)]).to_string();
    assert!(text.starts_with("--requirepass: the value has 700 bytes"), "{text}");
    assert!(!text.contains("hunter2"), "{text}");
    assert!(refusal(&[(&settings::REQUIREPASS, "")]).to_string().contains("is empty"));
}

#[test]
fn a_public_address_needs_a_password_or_a_word() {
    for (known, address) in [
        (&settings::RESP, "0.0.0.0:7379"),
        (&settings::RESP_CLUSTER, "192.168.1.5:7382"),
        (&settings::HTTP, "0.0.0.0:7380"),
        (&settings::HTTP, "[::]:7380"),
        (&settings::RESP, "192.168.1.5:7379"),
        (&settings::LINK, "0.0.0.0:7381"),
        (&settings::LINK, "[::]:7381"),
        (&settings::LINK, "192.168.1.5:7381"),
    ] {
        let text = refusal(&[(known, address)]).to_string();
        assert!(
            text.contains(known.flag) && text.contains(address) && text.contains("--requirepass"),
            "{text}"
        );
        for allowed in [(&settings::REQUIREPASS, "secret"), (&settings::INSECURE, "true")] {
            assert!(
                Config::new(&given(&[(known, address), allowed])).is_ok(),
                "{address} with {}",
                allowed.0.name
            );
        }
    }
    assert!(Config::new(&given(&[(&settings::HTTP, "[::1]:7380")])).is_ok());
}

#[test]
fn somebody_must_be_able_to_connect() {
    let text = refusal(&[(&settings::RESP, "off"), (&settings::HTTP, "off")]).to_string();
    assert!(text.contains("nobody could connect"), "{text}");
    let text = refusal(&[(&settings::RESP, "127.0.0.1:7380")]).to_string();
    assert!(text.contains("another port"), "{text}");
    let (off, free) = ("off", "127.0.0.1:0");
    for [resp, cluster, http] in [[free, free, free], [off, free, off]] {
        let values = [(&settings::RESP, resp), (&settings::RESP_CLUSTER, cluster), (&settings::HTTP, http)];
        assert!(Config::new(&given(&values)).is_ok(), "{values:?}");
    }
}

#[test]
fn clients_of_a_cluster_are_told_an_address() {
    let everywhere = [(&settings::RESP_CLUSTER, "0.0.0.0:7382"), (&settings::INSECURE, "true")];
    let text = refusal(&everywhere).to_string();
    assert!(text.contains("--resp-cluster") && text.contains("say which with --advertise"), "{text}");
    let [cluster, insecure] = everywhere;
    let advertised = given(&[cluster, insecure, (&settings::ADVERTISE, "quipu-1.example.com")]);
    assert!(Config::new(&advertised).is_ok());
}

#[test]
fn users_come_from_a_file_or_a_password() {
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    writeln!(file, "user alice wonderland").expect("written");
    let path = file.path().to_str().expect("a name").to_owned();
    let path = path.as_str();
    let config = Config::new(&given(&[(&settings::ACL_FILE, path), (&settings::RESP, "0.0.0.0:1")]));
    let users = config.expect("a password is there").users;
    assert_eq!(users.check(b"alice", b"wonderland").as_deref(), Some("alice"));

    let text = refusal(&[(&settings::ACL_FILE, path), (&settings::REQUIREPASS, "x")]).to_string();
    assert!(text.contains("user default PASSWORD"), "{text}");
    writeln!(file, "user alice again").expect("written");
    let text = refusal(&[(&settings::ACL_FILE, path)]).to_string();
    assert!(text.contains("line 2"), "{text}");
}

#[test]
fn flags_come_before_environment_before_file_before_defaults() {
    let known = &settings::MEMORY;
    let sources = [Origin::File("quipu.toml".into()), Origin::Environment, Origin::Flag];
    for order in [[0, 1, 2], [2, 1, 0], [1, 2, 0]] {
        let mut settings = Settings::default();
        assert_eq!(settings.origin(known), Origin::Default);
        for index in order {
            settings.give(known, format!("{}MiB", 100 + index), sources[index].clone());
        }
        assert_eq!(settings.origin(known), Origin::Flag);
        assert_eq!(Config::new(&settings).expect("good").memory_bytes, 102 << 20);
    }
}

#[test]
fn an_error_tells_where_the_value_stands() {
    for (origin, place) in [
        (Origin::Environment, "(from the environment variable QUIPU_IDMP_WINDOW)"),
        (Origin::File("etc/quipu.toml".into()), "(from etc/quipu.toml)"),
    ] {
        let mut settings = Settings::default();
        settings.give(&settings::IDMP_WINDOW, "soon", origin);
        let text = Config::new(&settings).expect_err("bad").to_string();
        assert!(text.contains(place), "{text}");
    }
}

#[test]
fn a_relay_has_parents_and_nothing_that_only_sites_have() {
    let config = Config::new(&given(&[(&settings::TIER, "1"), (&settings::PARENTS, "a:1, [::1]:7381")]));
    let config = config.expect("good");
    assert!(config.is_relay());
    assert_eq!(config.parents, ["a:1", "[::1]:7381"]);
    assert!(!Config::new(&Settings::default()).expect("defaults").is_relay());
    let parents = (&settings::PARENTS, "a:1");
    let many: Vec<String> = (1..=PARENTS_MAX + 1).map(|port| format!("a:{port}")).collect();
    let many = many.join(",");
    let tier = (&settings::TIER, "1");
    for (values, flag, part) in [
        (&[tier][..], "--parents", "for --tier 1"),
        (&[parents], "--parents", "is for relays"),
        (&[tier, (&settings::PARENTS, "")], "--parents", "for --tier 1"),
        (&[tier, (&settings::PARENTS, &many)], "--parents", "at most 16"),
        (&[tier, (&settings::PARENTS, "a:1,a:1")], "--parents", "twice"),
        (&[tier, (&settings::PARENTS, "1@a:1")], "--parents", "no address"),
        (&[tier, parents, (&settings::PEERS, "2@b:1")], "--peers", "is for sites"),
        (&[tier, parents, (&settings::SITE, "2"), (&settings::JOIN, "3@b:1")], "--join", "is for sites"),
        (&[tier, parents, (&settings::SITE, "2")], "--site", "is for sites"),
        (&[tier, parents, (&settings::LINK, "off")], "--link", "is for sites"),
        (&[(&settings::TIER, "2")], "--tier", "is more than 1"),
    ] {
        let error = refusal(values);
        assert_eq!(error.flag, flag, "{error}");
        assert!(error.problem.contains(part), "{error}");
    }
}
