//! Payloads under the second cipher: docs/wire/netcode.md, section 13.

use tidegate_proto::session::Reject;
use tidegate_proto::yojimbo::netcode::gcm::EPOCH_PACKETS;
use tidegate_proto::yojimbo::netcode::packet::{self, Beyond, Packet, Role};
use tidegate_proto::yojimbo::netcode::wire::{Kind, Sizes};
use tidegate_proto::yojimbo::netcode::{Key, Link, Received};

use crate::world::*;

/// What [`Link::begin_gcm`] and [`Link::seal`] make of a payload.
fn seal_gcm(link: &mut Link, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let sealing = link.begin_gcm(&mut out);
    out.extend_from_slice(payload);
    link.seal(at(200), &mut out, sealing);
    out
}

fn takes_gcm() -> Beyond {
    Beyond::new(Sizes::STANDARD, true)
}

fn read<'a>(key: &Key, beyond: &mut Beyond, datagram: &'a mut [u8]) -> Result<Packet<'a>, Reject> {
    packet::open(Role::Server, key, ID, beyond, None, datagram)
}

const ID: u64 = 0x1122_3344_5566_7788;

/// Made by another implementation of HMAC, SHA-256 and AES-GCM, from the text of section 13.
const VECTORS: [(u64, &str); 4] = [
    (
        5,
        "1f05112f298df54389dfe90c681ef355b537c3ba68dc09946a59d6d8d00354e925e5",
    ),
    (
        EPOCH_PACKETS - 1,
        "3fffff0fbc8e4f1e95c2bbdb1056f5ba7eeedbf5a6f95e43e47db24518cb88500fd8b2fb",
    ),
    (
        EPOCH_PACKETS,
        "3f000010a89b00ea97388efb9cf4f8af18488608e3d363a0c0635974c6b34d28027839db",
    ),
    (
        0x0123_4567_89ab,
        "6fab896745230105515578e512e1ad77496f909641e7111045756702747cc6d8a18a188cff8554",
    ),
];

#[test]
fn packets_are_those_of_another_implementation() {
    let key = Key::new(std::array::from_fn(|n| n as u8));
    let plain = b"bulk goes faster";
    let mut beyond = takes_gcm();
    for (sequence, hex) in VECTORS {
        let mut datagram = Vec::new();
        packet::emit(&mut datagram, &key, ID, Kind::GcmPayload, sequence, plain);
        let written: String = datagram.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(written, hex, "sequence {sequence}");
        let opened = read(&key, &mut beyond, &mut datagram).unwrap();
        let bytes = &plain[..];
        assert_eq!(opened, Packet::Payload { sequence, bytes });
    }
}

/// Packets of two epochs that overtake each other, and forged ones of others in between.
#[test]
fn keys_change_with_the_sequence_in_any_order() {
    let key = Key::new([9; 32]);
    let mut beyond = takes_gcm();
    for step in [0, 1, 0, 1, 2, 0, 500, 1] {
        for sequence in [step * EPOCH_PACKETS, (step + 1) * EPOCH_PACKETS - 1] {
            let mut datagram = Vec::new();
            packet::emit(&mut datagram, &key, ID, Kind::GcmPayload, sequence, b"late");
            let mut forged = datagram.clone();
            let last = forged.len() - 1;
            forged[last] ^= 1;
            let opened = read(&key, &mut beyond, &mut forged);
            assert_eq!(opened, Err(Reject::DecryptFailed));
            assert!(read(&key, &mut beyond, &mut datagram).is_ok(), "{sequence}");
        }
    }
}

/// The other cipher, the other direction's key, another epoch: none of them opens it.
#[test]
fn a_key_opens_what_it_sealed_and_nothing_else() {
    let (key, other) = (Key::new([9; 32]), Key::new([8; 32]));
    let mut datagram = Vec::new();
    packet::emit(&mut datagram, &key, ID, Kind::GcmPayload, 5, &[0; 64]);
    assert!(read(&key, &mut takes_gcm(), &mut datagram.clone()).is_ok());
    assert!(read(&other, &mut takes_gcm(), &mut datagram.clone()).is_err());
    for (byte, value) in [(0, 0x15), (1, 6)] {
        let mut changed = datagram.clone();
        changed[byte] = value;
        assert!(
            read(&key, &mut takes_gcm(), &mut changed).is_err(),
            "byte {byte}"
        );
    }
    let mut elsewhere = datagram.clone();
    let id = ID + 1;
    let opened = packet::open(
        Role::Server,
        &key,
        id,
        &mut takes_gcm(),
        None,
        &mut elsewhere,
    );
    assert!(opened.is_err(), "another game");
}

/// Unknown to all but those who agreed, and then like any other payload: once, and vouched for.
#[test]
fn who_did_not_agree_does_not_read_it() {
    let mut server = Server::new();
    let (client, _) = connect(&mut server, 0, address(HOME), mint(1, 1, EPOCH));
    let mut client = client.expect("connected");
    let link = &mut server.peers.get_mut(&address(HOME)).unwrap().link;
    let packet = seal_gcm(&mut client, b"fast");
    let open = |link: &mut Link| match link.open(at(210), &mut packet.clone()) {
        Ok(Received::Payload { bytes, .. }) => Ok(bytes.to_vec()),
        Ok(other) => panic!("{other:?}"),
        Err(reject) => Err(reject),
    };
    assert!(!link.vouches_for(&packet));
    assert_eq!(open(link), Err(Reject::Malformed));
    link.go_beyond(takes_gcm());
    assert!(link.vouches_for(&packet));
    assert_eq!(open(link), Ok(b"fast".to_vec()));
    assert_eq!(open(link), Err(Reject::Replayed));
    assert!(!link.vouches_for(&packet));
}
