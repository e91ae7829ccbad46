//! The data types reach for no clock, randomness, thread or socket: not in their own code, which clippy
//! checks (`clippy.toml`), and not through what they depend on, which is this short list.

const ALLOWED: [&str; 5] = ["minicbor", "roaring", "smallvec", "thiserror", "xxhash-rust"];

#[test]
fn the_dependencies_are_few_and_pure() {
    let manifest = include_str!("../Cargo.toml");
    let section =
        manifest.split("\n[").find(|section| section.starts_with("dependencies]")).expect("a section");
    let names: Vec<&str> = section
        .lines()
        .skip(1)
        .filter_map(|line| line.split(['.', '=', ' ']).next())
        .filter(|name| !name.is_empty())
        .collect();
    assert_eq!(names, ALLOWED, "a new dependency must be as pure as the types, and is then added here");
}

#[test]
fn clippy_denies_the_rest() {
    let denied = include_str!("../clippy.toml");
    for what in
        ["time::Instant", "time::SystemTime", "thread::spawn", "net::TcpStream", "RandomState", "HashMap"]
    {
        assert!(denied.contains(what), "{what} is denied in clippy.toml");
    }
}
