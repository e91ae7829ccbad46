//! A shard and its host reach for no clock, randomness, thread or socket: not in their own code, which clippy checks
//! (`clippy.toml`), and not through what they depend on, which is this short list. The store is given to them.

const ALLOWED: [&str; 7] =
    ["quipu-crdt", "quipu-storage", "foldhash", "hashbrown", "minicbor", "thiserror", "xxhash-rust"];

#[test]
fn the_dependencies_are_few() {
    let manifest = include_str!("../Cargo.toml");
    let section =
        manifest.split("\n[").find(|section| section.starts_with("dependencies]")).expect("a section");
    let names: Vec<&str> = section
        .lines()
        .skip(1)
        .filter_map(|line| line.split(['.', '=', ' ']).next())
        .filter(|name| !name.is_empty())
        .collect();
    assert_eq!(names, ALLOWED, "a new dependency must be as pure as a shard, and is then added here");
}

#[test]
fn clippy_denies_the_rest() {
    let denied = include_str!("../clippy.toml");
    for what in [
        "time::Instant",
        "time::SystemTime",
        "thread::spawn",
        "net::TcpStream",
        "fs::File",
        "std::hash::RandomState",
        "foldhash::fast::RandomState",
        "std::collections::HashMap",
    ] {
        assert!(denied.contains(what), "{what} is denied in clippy.toml");
    }
}
