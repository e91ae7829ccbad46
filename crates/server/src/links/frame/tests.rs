//! Frames as they travel: what is written is read again, and everything else is refused.

use super::*;
use crate::links::{Instance, PROTOCOL, Run};
use proptest::prelude::*;
use quipu_engine::{SiteId, handoff::ClusterId};

fn hello() -> Hello {
    Hello {
        protocol: PROTOCOL,
        cluster: "quipu".to_owned(),
        shards: 64,
        site: SiteId { number: 2, incarnation: 1 },
        to: 1,
        instance: Instance(*b"0123456789abcdef"),
        run: Run { number: 3, nonce: u64::MAX },
        epoch: 1,
        members: vec![SiteId::FIRST, SiteId { number: 2, incarnation: 1 }],
        cluster_id: Some(ClusterId([9; 16])),
        earlier: Some(vec![Run { number: 2, nonce: 7 }]),
    }
}

fn all() -> Vec<Frame<'static>> {
    vec![
        Frame::Hello(hello()),
        Frame::Positions(vec![0, 1, u64::MAX]),
        Frame::Refused(Refused { reason: Reason::Other, text: "no".to_owned() }),
        Frame::Refused(Refused { reason: Reason::OldCopy, text: String::new() }),
        Frame::Shard { shard: ShardId(513), message: b"anything" },
        Frame::Shard { shard: ShardId(0), message: b"" },
        Frame::Beat,
        Frame::Council(b"bytes of its own"),
        Frame::Exchange(b"\x01 visits"),
        Frame::Exchanged(b"\x01 answers"),
        Frame::Estate(b"\x01 slots"),
        Frame::Adopted(b""),
        Frame::Call { number: u64::MAX, command: b"\x01 add" },
        Frame::Called { number: 0, reply: b"" },
        Frame::Ask { number: 1, question: b"\x01 list" },
        Frame::Told { number: u64::MAX, answer: b"\x01 listing" },
        Frame::Node { key: [7; NODE_KEY_BYTES] },
        Frame::Leave { leaves: true },
        Frame::Leave { leaves: false },
        Frame::Draining(Draining {
            leaves: true,
            commands: 1,
            operations: u64::MAX,
            behind: vec![Behind { site: SiteId::FIRST, changes: 7 }],
            kept: 3,
            slots: u64::MAX,
        }),
    ]
}

fn read(bytes: &[u8]) -> Result<Option<String>, BadFrame> {
    let mut inbox = Inbox::default();
    inbox.push(bytes);
    inbox.next(FRAME_BYTES_MAX).map(|frame| frame.map(|frame| format!("{frame:?}")))
}

/// A frame of any content, with the right length and checksum.
fn frame_of(content: &[u8]) -> Vec<u8> {
    let mut bytes = u32::try_from(content.len()).expect("short").to_le_bytes().to_vec();
    bytes.extend(checksum(content).to_le_bytes());
    bytes.extend(content);
    bytes
}

#[test]
fn what_is_written_is_read_again_in_pieces_and_at_once() {
    let frames = all();
    let bytes: Vec<u8> = frames.iter().flat_map(Frame::to_bytes).collect();
    for piece in [1, 2, 7, bytes.len()] {
        let mut inbox = Inbox::default();
        let mut read = 0;
        for piece in bytes.chunks(piece) {
            inbox.push(piece);
            while let Some(frame) = inbox.next(FRAME_BYTES_MAX).expect("sound") {
                assert_eq!(frame, frames[read]);
                read += 1;
            }
        }
        assert_eq!(read, frames.len());
        assert!(!inbox.is_within_a_frame());
    }
}

#[test]
fn every_flipped_bit_is_noticed() {
    for frame in all() {
        let bytes = frame.to_bytes();
        for bit in 0..bytes.len() * 8 {
            let mut broken = bytes.clone();
            broken[bit / 8] ^= 1 << (bit % 8);
            // A length that has grown waits for more; nothing is taken from it.
            assert!(!matches!(read(&broken), Ok(Some(_))), "bit {bit} of {frame:?}");
        }
    }
}

#[test]
fn a_length_is_refused_before_its_bytes_have_come() {
    let mut inbox = Inbox::default();
    inbox.push(&u32::MAX.to_le_bytes());
    let error = inbox.next(FRAME_BYTES_MAX).expect_err("too long");
    assert_eq!(error, BadFrame::TooLong { bytes: 0xffff_ffff, max: FRAME_BYTES_MAX });
    inbox = Inbox::default();
    inbox.push(&Frame::Shard { shard: ShardId(0), message: &[0; HELLO_BYTES_MAX] }.to_bytes()[..4]);
    assert!(matches!(inbox.next(HELLO_BYTES_MAX), Err(BadFrame::TooLong { .. })));
    assert!(matches!(inbox.next(FRAME_BYTES_MAX), Ok(None)));
}

#[test]
fn a_part_of_a_frame_is_waited_for() {
    let bytes = Frame::Hello(hello()).to_bytes();
    for end in 0..bytes.len() {
        assert_eq!(read(&bytes[..end]), Ok(None), "{end}");
    }
}

#[test]
fn what_is_no_frame_is_refused_with_a_reason() {
    for (content, reason) in [
        (b"".as_slice(), "without a kind"),
        (b"\0", "unknown kind 0"),
        (b"\x20", "unknown kind 32"),
        (b"\x01", "a Hello that cannot be read"),
        (b"\x01\x80", "a Hello that cannot be read"),
        (b"\x02\x9b\xff\xff\xff\xff\xff\xff\xff\xff", "Positions that cannot be read"),
        (b"\x02\x80\x00", "bytes follow it"),
        (b"\x03\x82\x01", "a refusal that cannot be read"),
        (b"\x04\x01", "it has no shard"),
        (b"\x05\x00", "a beat that cannot be read"),
        (b"\x0d1234567", "a Call that cannot be read: it has no number"),
        (b"\x0e", "a Called that cannot be read: it has no number"),
        (b"\x07", "neither 0 nor 1"),
        (b"\x07\x02", "neither 0 nor 1"),
        (b"\x08\x80", "a Draining that cannot be read"),
    ] {
        let error = read(&frame_of(content)).expect_err("bad").to_string();
        assert!(error.contains(reason), "{content:?}: {error}");
    }
}

#[test]
fn a_refusal_of_a_stranger_fits_a_line_of_the_log() {
    let text = format!("one\r\ntwo\x1b[2J{}", "ß".repeat(REFUSED_TEXT_BYTES_MAX));
    let bytes = Frame::Refused(Refused { reason: Reason::Other, text }).to_bytes();
    let mut inbox = Inbox::default();
    inbox.push(&bytes);
    let Ok(Some(Frame::Refused(refused))) = inbox.next(FRAME_BYTES_MAX) else { panic!("a refusal") };
    assert!(refused.text.starts_with("one  two [2Jß"));
    assert!(refused.text.len() <= REFUSED_TEXT_BYTES_MAX && !refused.text.contains(char::is_control));
    // A reason of a later version is any reason.
    let later = [&[3, 0x82, 0x18, 0x63, 0x61][..], b"x"].concat();
    let mut inbox = Inbox::default();
    inbox.push(&frame_of(&later));
    let Ok(Some(Frame::Refused(refused))) = inbox.next(FRAME_BYTES_MAX) else { panic!("a refusal") };
    assert_eq!(refused, Refused { reason: Reason::Other, text: "x".to_owned() });
}

#[test]
fn fields_of_a_later_version_are_skipped() {
    let mut body = Vec::new();
    minicbor::encode(hello(), &mut body).expect("memory");
    assert_eq!(body[0], 0x8b, "an array of eleven");
    body[0] = 0x8c;
    body.push(0x07);
    let mut inbox = Inbox::default();
    inbox.push(&frame_of(&[&[1], body.as_slice()].concat()));
    assert_eq!(inbox.next(HELLO_BYTES_MAX), Ok(Some(Frame::Hello(hello()))));
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200), kind in 0_u8..9) {
        let _ = read(&bytes);
        let content = [&[kind], bytes.as_slice()].concat();
        let mut inbox = Inbox::default();
        inbox.push(&frame_of(&content));
        if let Ok(Some(frame)) = inbox.next(FRAME_BYTES_MAX) {
            let again = frame.to_bytes();
            let mut second = Inbox::default();
            second.push(&again);
            prop_assert_eq!(second.next(FRAME_BYTES_MAX), Ok(Some(frame)));
        }
    }
}
