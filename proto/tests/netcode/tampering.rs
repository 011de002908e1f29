//! Altered and forged packets: every single bit counts, and failure changes nothing.

use tidegate_proto::session::Reject;
use tidegate_proto::yojimbo::netcode::packet::{self, Beyond, Role, keep_alive_bytes, proof_bytes};
use tidegate_proto::yojimbo::netcode::wire::{Kind, Sizes};
use tidegate_proto::yojimbo::netcode::{Key, Outcome};

use crate::world::*;

/// Each kind of encrypted packet, with every bit of it changed in turn.
#[test]
fn every_single_bit_of_every_packet_is_protected() {
    let key = Key::new([3; 32]);
    let proof = proof_bytes(77, &[5; 300]);
    let keep_alive = keep_alive_bytes(1, 2);
    for (role, kind, plain) in [
        (Role::Client, Kind::Denied, &[][..]),
        (Role::Client, Kind::Challenge, &proof),
        (Role::Server, Kind::Response, &proof),
        (Role::Server, Kind::KeepAlive, &keep_alive),
        (Role::Server, Kind::Payload, &[9; 1200]),
        (Role::Client, Kind::Disconnect, &[]),
        (Role::Client, Kind::GcmPayload, &[9; 1200]),
    ] {
        let mut beyond = Beyond::new(Sizes::STANDARD, true);
        for sequence in [0, 0x0102, 1 << 63 | 5] {
            let mut datagram = Vec::new();
            packet::emit(&mut datagram, &key, PROTOCOL, kind, sequence, plain);
            let mut unchanged = datagram.clone();
            let opened = packet::open(role, &key, PROTOCOL, &mut beyond, None, &mut unchanged);
            assert!(opened.is_ok(), "unchanged, it opens");
            for bit in 0..datagram.len() * 8 {
                let mut changed = datagram.clone();
                changed[bit / 8] ^= 1 << (bit % 8);
                let opened = packet::open(role, &key, PROTOCOL, &mut beyond, None, &mut changed);
                assert!(opened.is_err(), "{kind:?} {sequence}: bit {bit}");
            }
            for length in 0..datagram.len() {
                let cut = &mut datagram.clone()[..length];
                assert!(
                    packet::open(role, &key, PROTOCOL, &mut beyond, None, cut).is_err(),
                    "{length} bytes"
                );
            }
        }
    }
}

/// A connection request, through the whole handshake.
#[test]
fn every_single_bit_of_a_request_is_protected() {
    let mut request = Vec::new();
    mint(1, 1, EPOCH).emit_request(&mut request);
    let mut server = Server::new();
    for bit in 0..request.len() * 8 {
        let mut changed = request.clone();
        changed[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(
            server.receive(at(0), address(HOME), &changed),
            None,
            "bit {bit}"
        );
    }
    assert_eq!(server.rejects.len(), request.len() * 8);
    assert_eq!(server.roster.remembered(), 0, "none left a trace");
    assert!(
        server.receive(at(0), address(HOME), &request).is_some(),
        "unchanged, it is good"
    );
}

/// A forged number, however high, moves no window and refreshes no timer.
#[test]
fn forged_packets_change_nothing() {
    let mut server = Server::new();
    let from = address(HOME);
    let (link, _) = connect(&mut server, 0, from, mint(1, 1, EPOCH));
    let mut link = link.unwrap();
    let first = seal(&mut link, at(200), b"first");
    server.receive(at(200), from, &first);
    let before = format!("{:?}", server.peers[&from].link);

    let wrong = Key::new([0xee; 32]);
    for sequence in [0, 1, 1 << 32, u64::MAX - 1, u64::MAX] {
        for (kind, plain) in [
            (Kind::Payload, &[1; 30][..]),
            (Kind::KeepAlive, &[0; 8]),
            (Kind::Disconnect, &[]),
            (Kind::Response, &[0; 308]),
        ] {
            let mut forged = Vec::new();
            packet::emit(&mut forged, &wrong, PROTOCOL, kind, sequence, plain);
            assert!(!server.peers[&from].link.vouches_for(&forged));
            server.receive(at(4_000), from, &forged);
        }
    }
    assert!(
        server
            .rejects
            .iter()
            .all(|r| matches!(r, Reject::DecryptFailed | Reject::Replayed | Reject::Stale))
    );
    assert_eq!(server.rejects.len(), 20);
    assert_eq!(format!("{:?}", server.peers[&from].link), before);
    let second = seal(&mut link, at(4_000), b"second");
    server.receive(at(4_100), from, &second);
    assert_eq!(server.delivered, [&b"first"[..], b"second"]);
}

/// A session reads no other session's packets, not even on the same server.
#[test]
fn sessions_do_not_leak_into_each_other() {
    let mut server = Server::new();
    let other = address("192.0.2.2:2");
    let (first, _) = connect(&mut server, 0, address(HOME), mint(1, 1, EPOCH));
    let (second, _) = connect(&mut server, 0, other, mint(2, 2, EPOCH));
    let (mut first, mut second) = (first.unwrap(), second.unwrap());
    let packet = seal(&mut first, at(300), b"mine");
    assert!(!server.peers[&other].link.vouches_for(&packet));
    server.receive(at(300), other, &packet);
    assert_eq!(server.rejects, [Reject::DecryptFailed]);
    let mut down = server.send(at(300), other, b"yours");
    assert_eq!(
        first.open(at(300), &mut down[0].clone()),
        Err(Reject::DecryptFailed)
    );
    assert!(second.open(at(300), &mut down[0]).is_ok());
}

/// A stranger's garbage, of any length: no state, no answer, no panic.
#[test]
fn garbage_is_worth_nothing() {
    let mut server = Server::new();
    for length in 0..1400 {
        for first in [0u8, 0x13, 0x15, 0x84, 0xff] {
            let mut garbage = vec![0xa5; length];
            if let Some(byte) = garbage.first_mut() {
                *byte = first;
            }
            let mut reply = Vec::new();
            let outcome: Result<Outcome, Reject> =
                server.judge(at(0), address(HOME), &mut garbage, &mut reply);
            assert!(outcome.is_err() && reply.is_empty());
        }
    }
    assert_eq!(server.handshake.pending(), 0);
}
