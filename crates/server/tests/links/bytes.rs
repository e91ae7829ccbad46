//! The checks of the fuzz target, on what it begins with and on small changes of that.

use std::{env, fs, path::PathBuf, sync::OnceLock};

use proptest::{prelude::*, sample::Index};

use crate::{check::check, conversation};

fn corpus() -> &'static [(String, Vec<u8>)] {
    static CORPUS: OnceLock<Vec<(String, Vec<u8>)>> = OnceLock::new();
    CORPUS.get_or_init(conversation::corpus)
}

/// `QUIPU_WRITE_CORPUS=1` writes it anew, after the format of messages has changed.
#[test]
fn the_corpus_of_the_fuzzer_is_what_shards_say_to_each_other() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/link");
    if env::var_os("QUIPU_WRITE_CORPUS").is_some() {
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).expect("a folder");
        for (name, bytes) in corpus() {
            fs::write(folder.join(name), bytes).expect("written");
        }
    }
    for (name, bytes) in corpus() {
        assert!(fs::read(folder.join(name)).is_ok_and(|stored| stored == *bytes), "{name} is not as it was");
        check(bytes);
    }
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
