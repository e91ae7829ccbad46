//! Which shard a key belongs to: by the hash slots of Redis Cluster, so that its clients can tell it by themselves.

use std::ops::RangeInclusive;

use quipu_storage::ShardId;

/// How many hash slots there are.
pub const SLOTS: u16 = 16_384;

/// CRC-16/XMODEM, byte by byte.
const CRC: [u16; 256] = {
    let mut table = [0u16; 256];
    let mut byte: u16 = 0;
    while byte < 256 {
        let mut crc = byte << 8;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 };
            bit += 1;
        }
        table[byte as usize] = crc;
        byte += 1;
    }
    table
};

fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc: u16, byte| (crc << 8) ^ CRC[usize::from((crc >> 8) ^ u16::from(*byte))])
}

/// The part of the key that decides: what stands between the first `{` and the next `}`, if there is something.
pub fn hash_tag(key: &[u8]) -> &[u8] {
    let Some(open) = key.iter().position(|byte| *byte == b'{') else { return key };
    let inside = &key[open + 1..];
    match inside.iter().position(|byte| *byte == b'}') {
        None | Some(0) => key,
        Some(close) => &inside[..close],
    }
}

/// The hash slot of a key.
pub fn slot_of(key: &[u8]) -> u16 {
    crc16(hash_tag(key)) % SLOTS
}

/// How the slots are divided: a shard is a range of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shards {
    count: u16,
}

impl Shards {
    /// Unless a cluster was created with another number.
    pub const DEFAULT: Self = Self { count: 64 };

    /// A power of two, up to the number of slots.
    pub fn new(count: u16) -> Option<Self> {
        (count.is_power_of_two() && count <= SLOTS).then_some(Self { count })
    }

    /// How many there are.
    pub fn count(self) -> u16 {
        self.count
    }

    /// The shard of a key.
    pub fn of(self, key: &[u8]) -> ShardId {
        self.of_slot(slot_of(key))
    }

    /// The shard of a hash slot.
    pub fn of_slot(self, slot: u16) -> ShardId {
        ShardId(slot / (SLOTS / self.count))
    }

    /// The hash slots of a shard.
    pub fn slots(self, shard: ShardId) -> RangeInclusive<u16> {
        let each = SLOTS / self.count;
        shard.0 * each..=shard.0 * each + (each - 1)
    }

    /// All of them.
    pub fn all(self) -> impl Iterator<Item = ShardId> {
        (0..self.count).map(ShardId)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_of_redis_cluster() {
        assert_eq!(crc16(b"123456789"), 0x31C3);
        assert_eq!(slot_of(b"foo"), 12182);
        assert_eq!(slot_of(b"bar"), 5061);
        assert_eq!(slot_of(b"{user1000}.following"), slot_of(b"{user1000}.followers"));
        assert_eq!(hash_tag(b"foo{}{bar}"), b"foo{}{bar}");
        assert_eq!(hash_tag(b"foo{{bar}}zap"), b"{bar");
        assert_eq!(hash_tag(b"foo{bar}{zap}"), b"bar");
    }

    #[test]
    fn every_shard_has_the_same_number_of_slots() {
        let shards = Shards::new(64).unwrap();
        let mut slots = [0; 64];
        for slot in 0..SLOTS {
            let shard = shards.of_slot(slot);
            slots[usize::from(shard.0)] += 1;
            assert!(shards.slots(shard).contains(&slot));
        }
        assert_eq!(slots, [256; 64]);
        assert!(shards.all().flat_map(|shard| shards.slots(shard)).eq(0..SLOTS));
        assert_eq!(Shards::new(48), None);
        assert_eq!(Shards::new(0), None);
    }
}
