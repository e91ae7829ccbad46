//! The checks of the fuzz target, on what it begins with and on small changes of that.

use std::{env, fs, path::PathBuf, sync::OnceLock};

use proptest::{prelude::*, sample::Index};
use quipu_engine::Message;

use crate::{check::check, conversation};

fn corpus() -> &'static [(String, Vec<u8>)] {
    static CORPUS: OnceLock<Vec<(String, Vec<u8>)>> = OnceLock::new();
    CORPUS.get_or_init(conversation::corpus)
}

#[test]
fn what_shards_say_to_each_other_is_read() {
    corpus().iter().for_each(|(_, bytes)| check(bytes));
}

/// `QUIPU_WRITE_CORPUS=1` writes the corpus of the fuzzer anew.
#[test]
fn the_corpus_of_the_fuzzer_is_read_or_refused() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/link");
    if env::var_os("QUIPU_WRITE_CORPUS").is_some() {
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).expect("a folder");
        for (name, bytes) in corpus() {
            fs::write(folder.join(name), bytes).expect("written");
        }
    }
    let files = fs::read_dir(folder).expect("the corpus").map(|file| file.expect("a file").path());
    let files: Vec<Vec<u8>> = files.map(|path| fs::read(path).expect("bytes")).collect();
    files.iter().for_each(|bytes| check(bytes));
    let messages = files.iter().filter(|bytes| Message::decode(bytes).is_ok()).count();
    assert!(messages >= 10, "messages have changed: write the corpus anew, with QUIPU_WRITE_CORPUS=1");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 20_000, ..ProptestConfig::default() })]
    #[test]
    fn changed_bytes_are_read_or_refused(
        which in any::<Index>(),
        changes in proptest::collection::vec((any::<Index>(), any::<u8>()), 1..4),
        end in any::<Index>(),
    ) {
        let mut bytes = which.get(corpus()).1.clone();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        // Most stay as long as they are.
        bytes.truncate(end.index(bytes.len() * 4) + 1);
        check(&bytes);
    }
}
