//! No two packets under one key with one nonce: whoever sees both can read both and forge more.
//!
//! The kind and the sequence of a packet lie in the clear before it. Each client has a token of its
//! own, so a key is a client and a direction.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use crate::sim::{Watch, Way};
use crate::yojimbo::netcode::wire::{Kind, Prefix};

/// A watch that fails as soon as a sequence seals other bytes than before.
pub(super) fn ledger() -> Watch {
    let mut sealed: BTreeMap<(usize, Way, u64), u64> = BTreeMap::new();
    Box::new(move |client, way, datagram| {
        if datagram.first() == Some(&(Kind::Request as u8)) {
            return;
        }
        let prefix = Prefix::parse(datagram).expect("what we send has a prefix");
        let mut hasher = DefaultHasher::new();
        datagram.hash(&mut hasher);
        let bytes = hasher.finish();
        let before = *sealed
            .entry((client, way, prefix.sequence))
            .or_insert(bytes);
        assert_eq!(
            before, bytes,
            "client {client}, {way:?}: sequence {} sealed two packets",
            prefix.sequence
        );
    })
}

#[test]
fn the_ledger_tells_a_repeated_packet_from_a_reused_nonce() {
    let packet = |last: u8| {
        let mut datagram = Vec::new();
        Prefix::new(Kind::Payload, 7).emit(&mut datagram);
        datagram.extend_from_slice(&[last; 20]);
        datagram
    };
    let mut watch = ledger();
    watch(0, Way::Up, &packet(1));
    watch(0, Way::Up, &packet(1));
    watch(0, Way::Down, &packet(2));
    watch(1, Way::Up, &packet(3));
    let reuse = std::panic::AssertUnwindSafe(|| watch(0, Way::Up, &packet(4)));
    assert!(std::panic::catch_unwind(reuse).is_err());
}
