//! A table of which a file is gone, cut or changed is either served with all its rows or refused, with the name of the file, and
//! nothing is changed.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{Read, Write as _},
    path::{Path, PathBuf},
};

use quipu_storage::{
    Row, Scan, ShardId, Slice, StorageError, Table, Write,
    embedded::{
        Embedded, LogConfig, Remedy,
        flaws::{Flaws, Missing},
    },
    testing::Seeded,
};

const SHARDS: u16 = 3;
const SLICE: Slice = Slice(7);
/// Of journals, which are preallocated, so much is looked at. They hold less.
const BYTES_MAX: u64 = 2 * 1024 * 1024;

fn config() -> LogConfig {
    LogConfig { segment_bytes: 64 * 1024, reserve_bytes: 4096, ..LogConfig::default() }
}

fn write(slice: Slice, at: u64, version: u64) -> Write {
    let bytes = match at {
        // Long values are stored compressed.
        3 => (0..6_000).map(|byte| (byte * version % 251).to_le_bytes()[0]).collect(),
        // Its file is too large to be read at each start.
        5 if slice == Slice::KEPT => noise(20_000, version),
        _ => noise(5, version),
    };
    Write { slice, key: format!("row {at}").into_bytes(), row: Row { version, bytes } }
}

/// The first bytes of a file, and its length.
type Content = (Vec<u8>, u64);

/// What cannot be compressed.
fn noise(words: usize, seed: u64) -> Vec<u8> {
    let mut random = Seeded::new(seed);
    (0..words).flat_map(|_| random.next_u64().to_le_bytes()).collect()
}

type Rows = BTreeMap<(ShardId, Slice, Vec<u8>), Row>;

/// A checkpoint of all shards.
fn checkpoint(embedded: &Embedded, rows: &mut Rows, version: u64) {
    let table = embedded.table();
    for shard in (0..SHARDS).map(ShardId) {
        let writes: Vec<Write> =
            (0..8).flat_map(|at| [write(Slice::KEPT, at, version), write(SLICE, at, version)]).collect();
        table.put(shard, &writes).unwrap();
        rows.extend(writes.into_iter().map(|it| ((shard, it.slice, it.key), it.row)));
    }
}

/// Which rows have become files before the process is killed.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Stage {
    None,
    /// Those that are kept, but no others.
    Kept,
    All,
}

/// A folder whose process was killed, and the rows that were reported to be stored.
fn killed(stage: Stage) -> (tempfile::TempDir, Rows) {
    let (living, mut rows) = (tempfile::tempdir().unwrap(), Rows::new());
    checkpoint(&Embedded::open(living.path(), config()).unwrap(), &mut rows, 1);
    let embedded = Embedded::open(living.path(), config()).unwrap();
    checkpoint(&embedded, &mut rows, 2);
    if stage != Stage::None {
        embedded.table().write_files(Slice::KEPT).unwrap();
    }
    if stage == Stage::All {
        embedded.table().write_files(SLICE).unwrap();
    }
    checkpoint(&embedded, &mut rows, 3);
    embedded.note().unwrap();
    (left_by(living.path()), rows)
}

/// What a process that is killed now leaves behind: all at one moment.
fn left_by(living: &Path) -> tempfile::TempDir {
    loop {
        let folder = tempfile::tempdir().unwrap();
        let before = contents(living);
        before
            .iter()
            .for_each(|(path, content)| put_in(folder.path(), path.strip_prefix(living).unwrap(), content));
        // fjall works in the background.
        if contents(living) == before {
            return folder;
        }
    }
}

fn put_in(folder: &Path, name: &Path, content: &Content) {
    let path = folder.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    put(&path, content);
}

fn paths(folder: &Path) -> Vec<PathBuf> {
    let (mut paths, mut folders) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
            let is_folder = entry.file_type().unwrap().is_dir();
            if is_folder { &mut folders } else { &mut paths }.push(entry.path());
        }
    }
    paths.retain(|path| path.file_name().unwrap() != "LOCK");
    paths.sort();
    paths
}

fn content(path: &Path) -> Content {
    content_of(path).unwrap()
}

/// `None`: it has just gone.
fn content_of(path: &Path) -> Option<Content> {
    let (mut bytes, file) = (Vec::new(), File::open(path).ok()?);
    let length = file.metadata().unwrap().len();
    file.take(BYTES_MAX).read_to_end(&mut bytes).unwrap();
    Some((bytes, length))
}

fn put(path: &Path, (bytes, length): &Content) {
    let mut file = File::create(path).unwrap();
    file.write_all(bytes).unwrap();
    file.set_len(*length).unwrap();
}

fn copy(from: &Path, to: &Path) {
    for path in paths(from) {
        put_in(to, path.strip_prefix(from).unwrap(), &content(&path));
    }
}

fn contents(folder: &Path) -> BTreeMap<PathBuf, Content> {
    paths(folder).into_iter().filter_map(|path| Some((path.clone(), content_of(&path)?))).collect()
}

/// All rows, if the folder opens and they can be read; whether it opened, if not.
fn read(folder: &Path) -> Result<Rows, (bool, StorageError)> {
    read_with(folder, config())
}

fn read_with(folder: &Path, config: LogConfig) -> Result<Rows, (bool, StorageError)> {
    let embedded = Embedded::open(folder, config).map_err(|error| (false, error))?;
    let table = embedded.table();
    let mut rows = Rows::new();
    for shard in (0..SHARDS).map(ShardId) {
        for slice in [Slice::KEPT, SLICE] {
            let scan = Scan { slice, prefix: b"", after: None, rows_max: 1000 };
            let page = table.scan(shard, scan).map_err(|error| (true, error))?;
            rows.extend(page.rows.into_iter().map(|(key, row)| ((shard, slice, key), row)));
            for at in 0..8 {
                let Write { key, .. } = write(slice, at, 0);
                let row = table.get(shard, slice, &key).map_err(|error| (true, error))?;
                assert_eq!(row, rows.get(&(shard, slice, key)).cloned());
            }
        }
    }
    Ok(rows)
}

/// The ways in which a file is harmed: what was done, and what it holds then; `None`: it is gone.
fn harms((bytes, length): &Content) -> Vec<(String, Option<Content>)> {
    let held = bytes.len() - bytes.iter().rev().take_while(|byte| **byte == 0).count();
    let cut = |to: usize| (bytes[..to.min(bytes.len())].to_vec(), to as u64);
    let mut harms = vec![
        ("is gone".to_owned(), None),
        ("is empty".to_owned(), Some(cut(0))),
        (
            "has one byte less".to_owned(),
            Some((bytes[..held.saturating_sub(1)].to_vec(), length.saturating_sub(1))),
        ),
    ];
    for part in 1..5 {
        let to = held * part / 5;
        harms.push((format!("ends at {to}"), Some(cut(to))));
        harms.push((format!("is zero from {to} on"), Some((cut(to).0, *length))));
    }
    for part in (0..12).filter(|_| held > 0) {
        let mut other = bytes.clone();
        let at = (held - 1) * part / 11;
        other[at] ^= 1 << (part % 8);
        harms.push((format!("has another bit at {at}"), Some((other, *length))));
    }
    harms.retain(|(_, harmed)| harmed.as_ref() != Some(&(bytes.clone(), *length)));
    harms
}

fn every_harm_to_every_file(stage: Stage) {
    let (whole, rows) = killed(stage);
    let (mut served, mut refused, mut late) = (0, 0, 0);
    for path in paths(&whole.path().join("table")) {
        let name = path.strip_prefix(whole.path()).unwrap().to_owned();
        for (harm, harmed) in harms(&content(&path)) {
            let case = format!("{stage:?}, {} {harm}", name.display());
            let folder = tempfile::tempdir().unwrap();
            copy(whole.path(), folder.path());
            let target = folder.path().join(&name);
            match &harmed {
                Some(harmed) => put(&target, harmed),
                None => fs::remove_file(&target).unwrap(),
            }
            let before = contents(folder.path());
            match read(folder.path()) {
                Ok(read) => {
                    assert!(read == rows, "{case}: served without all rows");
                    served += 1;
                }
                Err((is_late, error)) => {
                    let said = error.to_string();
                    assert!(error.is_damage(), "{case}: {said}");
                    assert!(said.contains(target.to_str().unwrap()), "{case}: {said}");
                    let after = contents(folder.path());
                    if is_late {
                        assert_eq!(after.get(&target), before.get(&target), "{case}: {said}");
                        late += 1;
                    } else {
                        for (path, content) in &before {
                            let now =
                                after.get(path).unwrap_or_else(|| panic!("{case}: {} went", path.display()));
                            assert!(now == content, "{case}: {} was written to", path.display());
                        }
                        assert_eq!(after.len(), before.len(), "{case}");
                        refused += 1;
                        let findings = Embedded::examine(folder.path()).unwrap();
                        assert_eq!(findings.remedy, Remedy::None, "{case}: {findings:?}");
                        let wrong = findings.wrong.join(" ");
                        assert!(wrong.contains(target.to_str().unwrap()), "{case}: {wrong}");
                    }
                }
            }
        }
    }
    println!("{stage:?}: {served} served, {refused} refused, {late} not read");
    assert!(refused > 50, "{refused}");
}

#[test]
fn a_table_in_journals_is_whole_or_refused() {
    every_harm_to_every_file(Stage::None);
}

#[test]
fn a_table_in_journals_and_files_is_whole_or_refused() {
    every_harm_to_every_file(Stage::Kept);
}

#[test]
fn a_table_in_files_is_whole_or_refused() {
    every_harm_to_every_file(Stage::All);
}

/// A note that is behind what fjall has done since, as after a crash, keeps no whole folder from being served.
#[test]
fn a_whole_table_with_an_older_note_is_served() {
    let (living, mut rows) = (tempfile::tempdir().unwrap(), Rows::new());
    let embedded = Embedded::open(living.path(), config()).unwrap();
    checkpoint(&embedded, &mut rows, 1);
    embedded.note().unwrap();
    let notes = ["NOTED.1", "NOTED.2"].map(|name| (name, fs::read(living.path().join(name)).unwrap()));
    for round in 0..6 {
        checkpoint(&embedded, &mut rows, 2 + round);
        for slice in [SLICE, Slice::KEPT, SLICE].into_iter().skip(usize::from(round % 2 == 1)).take(2) {
            embedded.table().write_files(slice).unwrap();
        }
        let folder = left_by(living.path());
        for (name, bytes) in &notes {
            fs::write(folder.path().join(name), bytes).unwrap();
        }
        match read(folder.path()) {
            Ok(read) => assert!(read == rows, "round {round}"),
            Err((_, error)) => panic!("round {round}: {error}"),
        }
    }
}

/// Who opens the folder without looking first has fewer rows, and deletes what was left of them.
#[test]
fn rows_are_lost_by_opening_without_looking_first() {
    let flaws = Flaws { missing: Missing::Ignored, ..Flaws::default() };
    let (whole, rows) = killed(Stage::Kept);
    let mut lost = 0;
    for path in paths(&whole.path().join("table")) {
        let name = path.strip_prefix(whole.path()).unwrap().to_owned();
        for (_, harmed) in harms(&content(&path)) {
            let folder = left_by(whole.path());
            match &harmed {
                Some(harmed) => put(&folder.path().join(&name), harmed),
                None => fs::remove_file(folder.path().join(&name)).unwrap(),
            }
            let names = paths(folder.path());
            let read = read_with(folder.path(), LogConfig { flaws, ..config() });
            let is_less = read.is_ok_and(|read| read != rows);
            lost += usize::from(is_less || paths(folder.path()).len() + 2 < names.len());
        }
    }
    assert!(lost > 5, "{lost}");
}

#[test]
fn a_table_that_has_dropped_a_slice_is_served() {
    let (living, mut rows) = (tempfile::tempdir().unwrap(), Rows::new());
    let embedded = Embedded::open(living.path(), config()).unwrap();
    checkpoint(&embedded, &mut rows, 1);
    embedded.note().unwrap();
    for shard in (0..SHARDS).map(ShardId) {
        embedded.table().drop_slices(shard, Slice(SLICE.0 + 1)).unwrap();
        rows.retain(|(of, slice, _), _| *of != shard || *slice == Slice::KEPT);
        let folder = left_by(living.path());
        assert!(read(folder.path()).unwrap() == rows, "{shard:?}");
    }
}

/// The same as [`left_by`] for long files.
fn copy_in_full(from: &Path) -> tempfile::TempDir {
    loop {
        let folder = left_by(from);
        for path in paths(folder.path()) {
            let original = from.join(path.strip_prefix(folder.path()).unwrap());
            if fs::metadata(&path).unwrap().len() > BYTES_MAX && original.exists() {
                fs::copy(original, path).unwrap();
            }
        }
        if contents(from).len() == contents(folder.path()).len() {
            return folder;
        }
    }
}

/// A journal goes when all its rows are in files of rows. One that is gone before that is missed, although a later one is there.
#[test]
fn a_journal_that_is_gone_too_early_is_named() {
    let (living, mut rows) = (tempfile::tempdir().unwrap(), Rows::new());
    let embedded = Embedded::open(living.path(), config()).unwrap();
    let table = embedded.table();
    checkpoint(&embedded, &mut rows, 1);
    embedded.note().unwrap();
    let notes = ["NOTED.1", "NOTED.2"].map(|name| (name, fs::read(living.path().join(name)).unwrap()));
    let open = |folder: &Path| {
        let opened = Embedded::open(folder, config())?;
        opened.table().get(ShardId(1), SLICE, &write(SLICE, 2, 0).key)
    };
    let expected = Some(write(SLICE, 2, 1).row);
    let folder = left_by(living.path());
    assert_eq!(open(folder.path()).unwrap(), expected);

    let folder = left_by(living.path());
    let path = folder.path().join("table/0.jnl");
    fs::remove_file(&path).unwrap();
    File::create(path.with_file_name("1.jnl")).unwrap();
    let before = contents(folder.path());
    let error = open(folder.path()).unwrap_err();
    assert!(error.is_damage() && error.to_string().contains(path.to_str().unwrap()), "{error}");
    assert!(contents(folder.path()) == before, "written to");

    // fjall begins another journal after 64 MB, and lets go of the first; a note that is older names it.
    for version in 1.. {
        let row = Row { version, bytes: noise(1_000_000, version) };
        table.put(ShardId(0), &[Write { slice: Slice::KEPT, key: b"long".to_vec(), row }]).unwrap();
        table.write_files(Slice::KEPT).unwrap();
        if !living.path().join("table/0.jnl").exists() {
            break;
        }
    }
    let folder = copy_in_full(living.path());
    for (name, bytes) in &notes {
        fs::write(folder.path().join(name), bytes).unwrap();
    }
    assert_eq!(open(folder.path()).unwrap(), expected);
    assert!(paths(folder.path()).iter().all(|path| !path.to_string_lossy().contains("trial")));
}
