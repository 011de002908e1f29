//! The PROXY header: tells a backend, at the start of each stream, which peer the stream is for.
//!
//! Format: the PROXY protocol specification, versions 1 (a line of text) and 2 (binary). Source is
//! the peer's address, destination the listener's. Version 2 can carry more, as TLVs:
//!
//! | type | content |
//! |---|---|
//! | 0x05 | unique id: the session id, 16 hex digits, the same as in the log |
//! | 0xE0 | name of the listener |
//! | 0xE1 | client id of the connect token, 8 bytes big-endian |
//! | 0xE2 | user data of the connect token, 256 bytes |
//! | 0xE3 | protocol of the listener |
//!
//! A backend must take such headers from tidegate only (a Unix socket or a loopback address):
//! a program that can write one can be anybody.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Which header, and what is in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProxyHeader {
    /// Text or binary.
    pub version: ProxyVersion,
    /// What version 2 says the peer's transport is.
    pub transport: ProxyTransport,
    /// What version 2 says beyond the addresses.
    pub tlvs: ProxyTlvs,
}

/// The version of the PROXY protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProxyVersion {
    /// One line of text.
    V1,
    /// Binary, with TLVs.
    V2,
}

/// The transport named in a version 2 header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ProxyTransport {
    /// "TCP": what carries the header, and the only value most readers take.
    #[default]
    Stream,
    /// "UDP": what the peer really speaks.
    #[serde(rename = "dgram")]
    Datagram,
}

/// Which TLVs a version 2 header carries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProxyTlvs {
    /// The session id.
    pub unique_id: bool,
    /// The listener's name.
    pub listener: bool,
    /// The client id, for protocols that authenticate one.
    pub client_id: bool,
    /// The token's user data, likewise.
    pub user_data: bool,
    /// The listener's protocol.
    pub protocol: bool,
}

/// Whom a stream is for.
#[derive(Clone, Copy, Debug)]
pub struct Proxied<'a> {
    /// The peer's address.
    pub source: SocketAddr,
    /// The listener's address that the peer sent to.
    pub destination: SocketAddr,
    /// The session's random id.
    pub session: u64,
    /// The listener's name.
    pub listener: &'a str,
    /// The listener's protocol.
    pub protocol: &'a str,
    /// The authenticated client id.
    pub client_id: Option<u64>,
    /// The token's user data; empty when there is none.
    pub user_data: &'a [u8],
}

impl ProxyHeader {
    /// Appends the header of one session's stream: at most [`HEADER_BYTES_MAX`] bytes.
    pub fn emit(&self, proxied: &Proxied<'_>, out: &mut Vec<u8>) {
        let addresses = Addresses::new(proxied.source, proxied.destination);
        match self.version {
            ProxyVersion::V1 => out.extend_from_slice(addresses.line().as_bytes()),
            ProxyVersion::V2 => self.emit_binary(&addresses, proxied, out),
        }
    }

    /// Appends the header of a connection of our own, such as a health check: version 2 calls it
    /// LOCAL, version 1 UNKNOWN. The backend then uses the connection's real addresses.
    pub fn emit_local(&self, out: &mut Vec<u8>) {
        match self.version {
            ProxyVersion::V1 => out.extend_from_slice(b"PROXY UNKNOWN\r\n"),
            ProxyVersion::V2 => {
                out.extend_from_slice(&SIGNATURE);
                out.extend_from_slice(&[VERSION_LOCAL, FAMILY_UNSPECIFIED, 0, 0]);
            }
        }
    }

    fn emit_binary(&self, addresses: &Addresses, proxied: &Proxied<'_>, out: &mut Vec<u8>) {
        let start = out.len();
        let transport = match self.transport {
            ProxyTransport::Stream => 1,
            ProxyTransport::Datagram => 2,
        };
        out.extend_from_slice(&SIGNATURE);
        out.extend_from_slice(&[VERSION_PROXY, addresses.family() | transport, 0, 0]);
        addresses.emit(out);
        self.emit_tlvs(proxied, start, out);
        let length = (out.len() - start - FIXED_BYTES) as u16;
        out[start + 14..start + FIXED_BYTES].copy_from_slice(&length.to_be_bytes());
    }

    fn emit_tlvs(&self, proxied: &Proxied<'_>, start: usize, out: &mut Vec<u8>) {
        let mut tlv = |kind: u8, value: &[u8]| {
            // Names that the configuration accepts always fit; the bound is kept here regardless.
            if out.len() - start + 3 + value.len() <= HEADER_BYTES_MAX {
                out.push(kind);
                out.extend_from_slice(&(value.len() as u16).to_be_bytes());
                out.extend_from_slice(value);
            }
        };
        if self.tlvs.unique_id {
            tlv(
                TLV_UNIQUE_ID,
                format!("{:016x}", proxied.session).as_bytes(),
            );
        }
        if self.tlvs.listener {
            tlv(TLV_LISTENER, proxied.listener.as_bytes());
        }
        if let Some(client_id) = proxied.client_id
            && self.tlvs.client_id
        {
            tlv(TLV_CLIENT_ID, &client_id.to_be_bytes());
        }
        if self.tlvs.user_data && !proxied.user_data.is_empty() {
            tlv(TLV_USER_DATA, proxied.user_data);
        }
        if self.tlvs.protocol {
            tlv(TLV_PROTOCOL, proxied.protocol.as_bytes());
        }
    }
}

/// Both addresses in one family, as a header needs them.
enum Addresses {
    V4([u8; 4], [u8; 4], u16, u16),
    V6(Ipv6Addr, Ipv6Addr, u16, u16),
}

impl Addresses {
    /// IPv4 in IPv6 clothes (a dual-stack socket's view) is told as IPv4. Where the families
    /// differ after that, IPv4 is told as a mapped IPv6 address, so that no address is lost.
    fn new(source: SocketAddr, destination: SocketAddr) -> Self {
        let (from, to) = (source.ip().to_canonical(), destination.ip().to_canonical());
        let (from_port, to_port) = (source.port(), destination.port());
        match (from, to) {
            (IpAddr::V4(from), IpAddr::V4(to)) => {
                Self::V4(from.octets(), to.octets(), from_port, to_port)
            }
            (from, to) => Self::V6(in_v6(from), in_v6(to), from_port, to_port),
        }
    }

    fn family(&self) -> u8 {
        match self {
            Self::V4(..) => FAMILY_V4,
            Self::V6(..) => FAMILY_V6,
        }
    }

    fn emit(&self, out: &mut Vec<u8>) {
        let (from_port, to_port) = match self {
            Self::V4(from, to, from_port, to_port) => {
                out.extend_from_slice(from);
                out.extend_from_slice(to);
                (from_port, to_port)
            }
            Self::V6(from, to, from_port, to_port) => {
                out.extend_from_slice(&from.octets());
                out.extend_from_slice(&to.octets());
                (from_port, to_port)
            }
        };
        out.extend_from_slice(&from_port.to_be_bytes());
        out.extend_from_slice(&to_port.to_be_bytes());
    }

    fn line(&self) -> String {
        match self {
            Self::V4(from, to, from_port, to_port) => {
                let (from, to) = (IpAddr::from(*from), IpAddr::from(*to));
                format!("PROXY TCP4 {from} {to} {from_port} {to_port}\r\n")
            }
            Self::V6(from, to, from_port, to_port) => {
                format!("PROXY TCP6 {from} {to} {from_port} {to_port}\r\n")
            }
        }
    }
}

fn in_v6(address: IpAddr) -> Ipv6Addr {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped(),
        IpAddr::V6(address) => address,
    }
}

/// A reader may take its first read for the whole header if it asks for this much: the
/// specification promises that a header of this size arrives in one piece.
pub const HEADER_BYTES_MAX: usize = 536;

const SIGNATURE: [u8; 12] = *b"\r\n\r\n\0\r\nQUIT\n";
/// Signature, version and command, family and transport, length.
const FIXED_BYTES: usize = 16;
const VERSION_LOCAL: u8 = 0x20;
const VERSION_PROXY: u8 = 0x21;
const FAMILY_UNSPECIFIED: u8 = 0x00;
const FAMILY_V4: u8 = 0x10;
const FAMILY_V6: u8 = 0x20;

const TLV_UNIQUE_ID: u8 = 0x05;
const TLV_LISTENER: u8 = 0xe0;
const TLV_CLIENT_ID: u8 = 0xe1;
const TLV_USER_DATA: u8 = 0xe2;
const TLV_PROTOCOL: u8 = 0xe3;

#[cfg(test)]
mod tests {
    use ppp::{v1, v2};
    use proptest::prelude::*;

    use super::*;

    fn proxied<'a>(source: &str, destination: &str) -> Proxied<'a> {
        Proxied {
            source: source.parse().unwrap(),
            destination: destination.parse().unwrap(),
            session: 0x0123_4567_89ab_cdef,
            listener: "game",
            protocol: "yojimbo",
            client_id: Some(7),
            user_data: &[0x55; 256],
        }
    }

    fn emit(version: ProxyVersion, tlvs: ProxyTlvs, proxied: &Proxied<'_>) -> Vec<u8> {
        let header = ProxyHeader {
            version,
            transport: ProxyTransport::Stream,
            tlvs,
        };
        let mut out = Vec::new();
        header.emit(proxied, &mut out);
        out
    }

    const ALL: ProxyTlvs = ProxyTlvs {
        unique_id: true,
        listener: true,
        client_id: true,
        user_data: true,
        protocol: true,
    };

    #[test]
    fn version_1_is_this_line() {
        let none = ProxyTlvs::default();
        let rows = [
            (
                "203.0.113.9:50000",
                "198.51.100.1:40000",
                "TCP4 203.0.113.9 198.51.100.1 50000 40000",
            ),
            (
                "[2001:db8::9]:50000",
                "[2001:db8::1]:40000",
                "TCP6 2001:db8::9 2001:db8::1 50000 40000",
            ),
            (
                "[::ffff:203.0.113.9]:1",
                "198.51.100.1:2",
                "TCP4 203.0.113.9 198.51.100.1 1 2",
            ),
            (
                "203.0.113.9:1",
                "[2001:db8::1]:2",
                "TCP6 ::ffff:203.0.113.9 2001:db8::1 1 2",
            ),
        ];
        for (source, destination, expected) in rows {
            let line = emit(ProxyVersion::V1, none, &proxied(source, destination));
            assert_eq!(line, format!("PROXY {expected}\r\n").as_bytes());
            let read = v1::Header::try_from(line.as_slice()).unwrap();
            assert!(!matches!(read.addresses, v1::Addresses::Unknown));
        }
    }

    /// An independent reader sees in version 2 what was written.
    #[test]
    fn version_2_is_read_by_others() {
        let bytes = emit(
            ProxyVersion::V2,
            ALL,
            &proxied("203.0.113.9:50000", "198.51.100.1:40000"),
        );
        let read = v2::Header::try_from(bytes.as_slice()).unwrap();
        assert_eq!(read.command, v2::Command::Proxy);
        assert_eq!(read.protocol, v2::Protocol::Stream);
        let v2::Addresses::IPv4(addresses) = read.addresses else {
            panic!("not IPv4: {:?}", read.addresses);
        };
        assert_eq!(addresses.source_address.to_string(), "203.0.113.9");
        assert_eq!(addresses.destination_address.to_string(), "198.51.100.1");
        assert_eq!(
            (addresses.source_port, addresses.destination_port),
            (50_000, 40_000)
        );
        let tlvs: Vec<_> = read
            .tlvs()
            .map(|tlv| tlv.unwrap())
            .map(|tlv| (tlv.kind, tlv.value.to_vec()))
            .collect();
        let expected = [
            (0x05, b"0123456789abcdef".to_vec()),
            (0xe0, b"game".to_vec()),
            (0xe1, vec![0, 0, 0, 0, 0, 0, 0, 7]),
            (0xe2, vec![0x55; 256]),
            (0xe3, b"yojimbo".to_vec()),
        ];
        assert_eq!(tlvs, expected);
    }

    #[test]
    fn what_is_not_known_is_left_out() {
        let mut bare = proxied("203.0.113.9:1", "198.51.100.1:2");
        bare.client_id = None;
        bare.user_data = &[];
        let bytes = emit(ProxyVersion::V2, ALL, &bare);
        let read = v2::Header::try_from(bytes.as_slice()).unwrap();
        let kinds: Vec<_> = read.tlvs().map(|tlv| tlv.unwrap().kind).collect();
        assert_eq!(kinds, [0x05, 0xe0, 0xe3]);
    }

    /// What stands before it in the buffer counts for nothing.
    #[test]
    fn a_header_is_written_behind_what_is_there() {
        let whom = proxied("203.0.113.9:1", "198.51.100.1:2");
        let header = ProxyHeader {
            version: ProxyVersion::V2,
            transport: ProxyTransport::Stream,
            tlvs: ALL,
        };
        let mut out = vec![9; HEADER_BYTES_MAX];
        header.emit(&whom, &mut out);
        assert_eq!(out[..HEADER_BYTES_MAX], [9; HEADER_BYTES_MAX]);
        assert_eq!(out[HEADER_BYTES_MAX..], emit(ProxyVersion::V2, ALL, &whom));
    }

    #[test]
    fn the_transport_can_be_datagram() {
        let header = ProxyHeader {
            version: ProxyVersion::V2,
            transport: ProxyTransport::Datagram,
            tlvs: ProxyTlvs::default(),
        };
        let mut out = Vec::new();
        header.emit(&proxied("[2001:db8::9]:1", "198.51.100.1:2"), &mut out);
        assert_eq!(out[13], 0x22, "IPv6 and datagram");
        assert_eq!(out.len(), 16 + 36);
    }

    #[test]
    fn health_checks_are_nobodys() {
        for (version, length) in [(ProxyVersion::V1, 15), (ProxyVersion::V2, 16)] {
            let header = ProxyHeader {
                version,
                transport: ProxyTransport::Stream,
                tlvs: ALL,
            };
            let mut out = Vec::new();
            header.emit_local(&mut out);
            assert_eq!(out.len(), length);
            match version {
                ProxyVersion::V1 => {
                    let read = v1::Header::try_from(out.as_slice()).unwrap();
                    assert_eq!(read.addresses, v1::Addresses::Unknown);
                }
                ProxyVersion::V2 => {
                    let read = v2::Header::try_from(out.as_slice()).unwrap();
                    assert_eq!(read.command, v2::Command::Local);
                }
            }
        }
    }

    proptest! {
        /// No name and no user data makes a header longer than a reader must take, or unreadable.
        #[test]
        fn the_header_stays_below_its_bound(
            listener in "[a-z0-9-]{0,600}",
            user_data in prop::collection::vec(any::<u8>(), 0..700),
            session: u64,
        ) {
            let mut whom = proxied("[2001:db8::9]:1", "[2001:db8::1]:2");
            whom.listener = &listener;
            whom.user_data = &user_data;
            whom.session = session;
            let bytes = emit(ProxyVersion::V2, ALL, &whom);
            prop_assert!(bytes.len() <= HEADER_BYTES_MAX);
            let read = v2::Header::try_from(bytes.as_slice()).unwrap();
            prop_assert!(read.tlvs().all(|tlv| tlv.is_ok()));
        }
    }
}
