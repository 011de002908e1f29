//! Datagrams whose source nobody can have, and errors that no router sent: nobody is to hear of them, or feel them.

use std::net::Ipv4Addr;
use std::time::Duration;

use socket2::{Domain, Protocol, SockAddr, Socket, Type};

use crate::Scale;
use crate::backend::{Backend, Manner};
use crate::gate::{Gate, PLAYERS, SERVER, Setup, address};
use crate::players::{Player, Players};
use crate::support::{PATIENCE, wait_until};

/// Sources that no answer can go to. The kernel drops some of them by itself, and takes the broadcast address of its own
/// network for anybody's, where `rp_filter` is off.
const SOURCES: [([u8; 4], u16); 6] = [
    ([10, 77, 0, 255], 5_000),
    ([255, 255, 255, 255], 5_000),
    ([224, 0, 0, 1], 5_000),
    ([0, 0, 0, 0], 5_000),
    ([127, 0, 0, 9], 5_000),
    ([10, 77, 0, 9], 0),
];

/// A32: where anybody gets an answer, to a probe, whoever says that he is everybody is not answered, and not told of. A
/// socket of IPv6 that takes IPv4 as well is no different.
pub fn forged_sources(_scale: Scale) {
    let bind = |port: u16| format!("bind = [\"{SERVER}:{port}\", \"[::]:{}\"]", port + 1);
    let plain = |name, port| {
        let bind = bind(port);
        format!("[listener.{name}]\nprotocol = \"{name}\"\nbackend = \"game\"\n{bind}\n")
    };
    let config = plain("rudp", 40_003) + &plain("gaffer", 40_005);
    let setup = Setup {
        config: &config,
        ..Setup::default()
    };
    let gate = Gate::start("forged", &setup);
    let open = "for file in /proc/sys/net/ipv4/conf/*/rp_filter; do echo 0 >$file; done";
    gate.space.run("sh", &["-c", open]);
    let rejected = |reason: &str| gate.metric("tidegate_udp_rejected_packets_total", &[reason]);
    let denied = || gate.metric("tidegate_udp_send_errors_total", &["denied"]);
    let socket = Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::from(255))).unwrap();
    let to = SockAddr::from(address());
    let send = || {
        for source in SOURCES {
            for (port, said) in [
                // A message of one byte, and the header of a packet that is long enough to be answered.
                (40_003, &[5, 0, 0, 65][..]),
                (40_004, &[5, 0, 0, 65]),
                (40_005, b"tide\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"),
                (40_006, b"tide\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"),
            ] {
                socket.send_to(&packet(source, port, said), &to).unwrap();
            }
        }
    };
    // Each protocol answers on both of its sockets, and asks again from time to time.
    wait_until("answers that cannot leave", PATIENCE, || {
        send();
        (denied() >= 8 && rejected("bad_source") >= 8).then_some(())
    });
    let said = ["warn", "error"].map(|level| gate.said(&[&format!("\"level\":\"{level}\"")]));
    // That anybody may come is said at the start.
    assert_eq!(said, [2, 0], "{:#?}", gate.log());
    assert_eq!(gate.said(&["insecure_listener"]), 2);
    gate.stop();
}

/// Whoever knows the addresses of a session may forge what routers and hosts say of it: that nobody is there, that it is
/// forbidden, that less fits. Nothing of it ends, holds up or costs a log line.
pub fn forged_errors(scale: Scale) {
    let gate = Gate::start("forged-errors", &Setup::default());
    let socket = Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::from(255))).unwrap();
    let to = SockAddr::from(address());
    for (kind, code, more) in ERRORS {
        let error = icmp(kind, code, more, 5_000);
        socket.send_to(&error, &to).unwrap();
    }
    // A router's word is believed for ten minutes. Here it is not, as long as nothing tries what the path takes.
    let believed = format!("ip route get {PLAYERS} | grep mtu");
    gate.space.run("sh", &["-c", &format!("! {believed}")]);
    let _backend = Backend::start(&gate.backend(), Manner::Echo);
    let mut players = Players::new();
    for _ in 0..5 {
        let every = Duration::from_millis(16);
        players.join(gate.dial(Duration::from_secs(5)), Some(every));
    }
    players.play_until_seated();
    for _ in 0..scale.pick(20, 500) {
        for port in own_ports() {
            for (kind, code, more) in ERRORS {
                let error = icmp(kind, code, more, port);
                socket.send_to(&error, &to).unwrap();
            }
        }
        players.play(Duration::from_millis(20), |_| false);
    }
    let heard: Vec<u32> = players.all().iter().map(|player| player.heard).collect();
    let all_hear = |all: &[Player]| {
        let mut both = all.iter().zip(&heard);
        both.all(|(player, heard)| player.heard > heard + 20)
    };
    assert!(players.play(Duration::from_secs(6), all_hear), "held up");
    for level in ["warn", "error"] {
        let said = gate.said(&[&format!("\"level\":\"{level}\"")]);
        assert_eq!(said, 0, "{:#?}", gate.log());
    }
    assert_eq!(gate.said(&["segmentation"]), 0);
    players.settle();
    players.leave();
    gate.stop();
}

/// Type and code, and what stands behind the checksum: "unreachable" of each kind, two with the MTU of the next link, and
/// what else routers send back.
const ERRORS: [(u8, u8, [u8; 4]); 10] = [
    (3, 0, [0; 4]),
    (3, 1, [0; 4]),
    (3, 2, [0; 4]),
    (3, 3, [0; 4]),
    (3, 4, [0, 0, 0, 68]),
    (3, 4, [0, 0, 2, 40]),
    (3, 13, [0; 4]),
    (4, 0, [0; 4]),
    (11, 0, [0; 4]),
    (12, 0, [0; 4]),
];

/// UDP ports of this side, in decimal where the kernel tells them in hexadecimal.
fn own_ports() -> Vec<u16> {
    let text = std::fs::read_to_string("/proc/self/net/udp").unwrap();
    let locals = text.lines().skip(1).map(|line| {
        let local = line.split_whitespace().nth(1).unwrap();
        let (_, port) = local.rsplit_once(':').unwrap();
        u16::from_str_radix(port, 16).unwrap()
    });
    let ports: Vec<_> = locals.collect();
    assert!(!ports.is_empty(), "{text}");
    ports
}

/// An error about what the program sent to this port.
fn icmp(kind: u8, code: u8, more: [u8; 4], port: u16) -> Vec<u8> {
    let program = SERVER.parse::<Ipv4Addr>().unwrap().octets();
    let mut about = packet((program, address().port()), port, &[0; 8]);
    let ours: Ipv4Addr = PLAYERS.parse().unwrap();
    about[16..20].copy_from_slice(&ours.octets());
    let mut error = vec![kind, code, 0, 0];
    error.extend(more);
    error.extend(about);
    let sum = checksum(&error);
    error[2..4].copy_from_slice(&sum.to_be_bytes());
    let mut packet = vec![0x45, 0, 0, 0, 0, 0, 0, 0, 64, 1, 0, 0];
    packet[2..4].copy_from_slice(&(20 + error.len() as u16).to_be_bytes());
    packet.extend(ours.octets());
    packet.extend(program);
    packet.extend(error);
    packet
}

/// The Internet's, of an even number of bytes.
fn checksum(bytes: &[u8]) -> u16 {
    let words = bytes
        .chunks(2)
        .map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1]));
    let mut sum: u32 = words.sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// IPv4 and UDP, without a checksum, as IPv4 allows.
fn packet((source, port): ([u8; 4], u16), to: u16, said: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x45, 0, 0, 0, 0, 0, 0, 0, 64, 17, 0, 0];
    packet[2..4].copy_from_slice(&(28 + said.len() as u16).to_be_bytes());
    packet.extend(source);
    packet.extend(SERVER.parse::<Ipv4Addr>().unwrap().octets());
    packet.extend(port.to_be_bytes());
    packet.extend(to.to_be_bytes());
    packet.extend((8 + said.len() as u16).to_be_bytes());
    packet.extend([0; 2]);
    packet.extend(said);
    packet
}
