//! No bytes make a decoder panic, and what is encoded is decoded.

use proptest::prelude::*;
use quipu_storage::{
    Position, ShardId,
    embedded::{
        Disk, DiskFile, LogConfig, Logs,
        frame::{
            Checksum, Entry, Header, Kind, SegmentId, decode_entries, decode_frame, encode_entry,
            encode_frame,
        },
    },
    testing::sim_disk::SimDisk,
};

const ID: SegmentId = SegmentId { store: 9, worker: 0, number: 1 };

type Parts = (bool, u16, u64, u64, Vec<u8>);

fn entries() -> impl Strategy<Value = Vec<Parts>> {
    prop::collection::vec(
        (any::<bool>(), any::<u16>(), any::<u64>(), any::<u64>(), prop::collection::vec(any::<u8>(), 0..40)),
        0..6,
    )
}

fn entry(parts: &Parts) -> Entry<'_> {
    let (batch, shard, epoch, position, record) = parts;
    let kind = if *batch { Kind::Batch } else { Kind::Checkpoint };
    let record = if *batch { &record[..] } else { &[] };
    Entry { kind, shard: ShardId(*shard), epoch: *epoch, position: Position(*position), record }
}

proptest! {
    #[test]
    fn frames_and_entries_round_trip(parts in entries(), sequence: u64, synced: u64) {
        let mut payload = Vec::new();
        for part in &parts {
            encode_entry(&mut payload, entry(part));
        }
        let mut bytes = Vec::new();
        encode_frame(&mut bytes, ID, sequence, synced, &payload, Checksum::Whole);
        let frame = decode_frame(&bytes, 0, ID, Checksum::Whole).expect("sound");
        prop_assert_eq!((frame.sequence, frame.synced, frame.bytes), (sequence, synced, bytes.len()));
        let expected: Vec<Entry<'_>> = parts.iter().map(entry).collect();
        prop_assert_eq!(decode_entries(frame.payload).expect("entries"), expected);
        for cut in 0..payload.len() {
            let _ = decode_entries(&payload[..cut]);
        }
        for cut in 0..bytes.len() {
            prop_assert_eq!(decode_frame(&bytes[..cut], 0, ID, Checksum::Whole), None);
        }
    }

    #[test]
    fn arbitrary_bytes_are_refused_or_read(bytes in prop::collection::vec(any::<u8>(), 0..300), at in 0usize..400) {
        let _ = decode_entries(&bytes);
        let _ = Header::decode(&bytes, ID);
        prop_assert_eq!(decode_frame(&bytes, at, ID, Checksum::Whole), None);
    }

    /// A segment whose header and frames are sound, but hold anything.
    #[test]
    fn opening_anything_gives_an_answer(
        first: u64,
        frames in prop::collection::vec((any::<u64>(), any::<u64>(), entries()), 0..4),
        follow: bool,
        junk in prop::collection::vec(any::<u8>(), 0..100),
    ) {
        let mut bytes = Header { id: ID, first }.encode().to_vec();
        for (at, (sequence, synced, parts)) in (0u64..).zip(&frames) {
            let mut payload = Vec::new();
            for part in parts {
                encode_entry(&mut payload, entry(part));
            }
            let sequence = if follow { first.wrapping_add(at) } else { *sequence };
            encode_frame(&mut bytes, ID, sequence, *synced, &payload, Checksum::Whole);
        }
        bytes.extend_from_slice(&junk);
        let disk = SimDisk::new();
        let text = format!("quipu-storage 1\nstore {:016x}\n", ID.store);
        disk.create("FORMAT").unwrap().write_at(0, text.as_bytes()).unwrap();
        disk.create("w0-0000000001.log").unwrap().write_at(0, &bytes).unwrap();
        let config = LogConfig { segment_bytes: 512, ..LogConfig::default() };
        let _ = Logs::open(disk.clone(), disk, config);
    }
}
