//! Whatever is written reads back, and reads only as it was written.

use proptest::prelude::*;
use tidegate_proto::session::Reject;
use tidegate_proto::yojimbo::netcode::packet::{self, Beyond, Packet, Role};
use tidegate_proto::yojimbo::netcode::replay::Replay;
use tidegate_proto::yojimbo::netcode::wire::{Kind, Prefix, Request, RequestHead, emit_request};
use tidegate_proto::yojimbo::netcode::{ConnectToken, Key};

use crate::world::*;

/// The longest datagram that is read uses its sequence up, as everything does whose tag is right; a longer one is
/// not opened.
#[test]
fn datagrams_of_more_than_1300_bytes_are_not_opened() {
    let key = Key::new([7; 32]);
    let mut replay = Replay::default();
    for (length, again) in [(1300, Reject::Replayed), (1301, Reject::Malformed)] {
        let mut sealed = Vec::new();
        let plain = vec![7; length - 2 - 16];
        packet::emit(&mut sealed, &key, PROTOCOL, Kind::Payload, 9, &plain);
        assert_eq!(sealed.len(), length);
        for expected in [Reject::Malformed, again] {
            let (mut beyond, datagram) = (Beyond::default(), &mut sealed.clone()[..]);
            let window = Some(&mut replay);
            let opened = packet::open(Role::Server, &key, PROTOCOL, &mut beyond, window, datagram);
            assert_eq!(opened, Err(expected), "{length} bytes");
        }
        replay = Replay::default();
    }
}

/// A request of netcode 1.01 is 16 bytes shorter, and still no junk: its version says why nobody gets in.
#[test]
fn a_request_of_another_version_is_told_from_junk() {
    let request = |version: &[u8], length| {
        let mut request = [&[0], version].concat();
        request.extend(PROTOCOL.to_le_bytes());
        request.resize(length, 7);
        request
    };
    for (version, length, expected) in [
        (b"NETCODE 1.01\0", 1062, Reject::WrongProtocol),
        (b"NETCODE 1.00\0", 1062, Reject::WrongProtocol),
        (b"NETCODE 1.03\0", 1078, Reject::WrongProtocol),
        (b"NETCODE 1.02\0", 1062, Reject::Malformed),
        (b"NETCODF 1.01\0", 1062, Reject::Malformed),
    ] {
        let mut datagram = request(version, length);
        let head = RequestHead::parse(&datagram, PROTOCOL).map(|_| ());
        assert_eq!(
            head,
            Err(expected),
            "{} of {length}",
            version.escape_ascii()
        );
        let whole = Request::parse(&mut datagram, PROTOCOL).map(|_| ());
        assert_eq!(
            whole,
            Err(expected),
            "{} of {length}",
            version.escape_ascii()
        );
    }
    for short in 0..14 {
        let cut = RequestHead::parse(&request(b"NETCODE 1.01\0", 1062)[..short], PROTOCOL);
        assert_eq!(cut.map(|_| ()), Err(Reject::Malformed), "{short} bytes");
    }
}

proptest! {
    #[test]
    fn a_prefix_is_as_short_as_it_can_be(sequence: u64, bits in 0u32..64, kind in 1u8..7) {
        let sequence = sequence >> bits;
        let kind = Kind::from_number(kind).unwrap();
        let prefix = Prefix::new(kind, sequence);
        let mut out = Vec::new();
        prefix.emit(&mut out);
        prop_assert_eq!(out.len(), prefix.size());
        prop_assert!(out.len() == 2 || out[out.len() - 1] != 0, "no high zero bytes");
        out.resize(out.len() + 16, 0);
        prop_assert_eq!(Prefix::parse(&out), Ok(prefix));
    }

    /// One way to write each packet that our own side writes.
    #[test]
    fn packets_read_back_and_write_again(
        key: [u8; 32],
        sequence: u64,
        payload in proptest::collection::vec(any::<u8>(), 1..=1200),
    ) {
        let key = Key::new(key);
        let mut datagram = Vec::new();
        packet::emit(&mut datagram, &key, PROTOCOL, Kind::Payload, sequence, &payload);
        let mut opened = datagram.clone();
        let opened = packet::open(Role::Server, &key, PROTOCOL, &mut Beyond::default(), None, &mut opened).unwrap();
        prop_assert_eq!(&opened, &Packet::Payload { sequence, bytes: &payload });
        let mut again = Vec::new();
        packet::emit(&mut again, &key, PROTOCOL, Kind::Payload, sequence, &payload);
        prop_assert_eq!(again, datagram);
    }

    #[test]
    fn requests_read_back(protocol: u64, expire: u64, nonce: [u8; 24], fill: u8) {
        let private = [fill; 1024];
        let mut out = Vec::new();
        emit_request(&mut out, protocol, expire, &nonce, &private);
        prop_assert_eq!(out.len(), 1078);
        let request = Request::parse(&mut out, protocol).unwrap();
        prop_assert_eq!((request.expire, request.nonce), (expire, nonce));
        prop_assert_eq!(&*request.private, &private);
        prop_assert!(Request::parse(&mut out, protocol ^ 1).is_err());
    }

    /// Any 2048 bytes that read as a token write back as themselves, apart from the padding.
    #[test]
    fn tokens_are_canonical(
        ports in proptest::collection::vec((any::<[u8; 16]>(), any::<bool>(), any::<u16>()), 1..=32),
        flip in 0usize..2048,
        with: u8,
    ) {
        let mut parts = mint_parts(1, 1, EPOCH);
        parts.servers = ports
            .into_iter()
            .map(|(ip, is_v6, port)| {
                let v4 = [ip[0], ip[1], ip[2], ip[3]];
                (if is_v6 { ip.into() } else { std::net::IpAddr::from(v4) }, port).into()
            })
            .collect();
        let token = ConnectToken::mint(parts, &private_key()).unwrap();
        let mut bytes = token.to_bytes().to_vec();
        bytes[flip] = with;
        if let Ok(read) = ConnectToken::parse(&bytes) {
            let again = read.to_bytes();
            let used = 1093 + read.servers.iter().map(|s| if s.is_ipv4() { 7 } else { 19 }).sum::<usize>() + 64;
            prop_assert_eq!(&again[..used], &bytes[..used]);
        }
    }
}
