//! Real errors of the kernel on the way out: each costs datagrams, none ends or slows a listener.

use std::net::SocketAddr;
use std::time::Duration;

use tidegate::udp::{Options, Outgoing, Sent, UdpError, UdpSocket};
use tidegate_client::State;

use crate::backend::{Backend, Manner};
use crate::gate::{Gate, PLAYERS, Setup};
use crate::players::Players;
use crate::support::skipped;
use crate::{PROBE, Scale};

/// One way to make the kernel refuse a datagram.
struct Trouble {
    /// What is done to the namespace of the program, and undone.
    make: &'static str,
    mend: &'static str,
    /// What a plain datagram then gets, and what becomes of four that were to leave as one.
    plain: Option<i32>,
    batch: &'static str,
    /// Bytes of the longest datagram that leaves all the same.
    longest: usize,
    /// What the program counts it as, when it comes to that.
    counted: Option<&'static str>,
}

impl Trouble {
    /// Long enough to be counted, or to be told of: that nothing leaves is, after two seconds.
    fn lasts(&self) -> Duration {
        match self.counted {
            Some("unreachable") => Duration::from_millis(3_000),
            _ => Duration::from_millis(700),
        }
    }
}

const TROUBLES: [Trouble; 6] = [
    Trouble {
        make: "ip route add prohibit 10.77.0.2/32",
        mend: "ip route del prohibit 10.77.0.2/32",
        plain: Some(libc::EACCES),
        batch: DENIED,
        longest: 0,
        counted: Some("denied"),
    },
    Trouble {
        make: "ip route add unreachable 10.77.0.2/32",
        mend: "ip route del unreachable 10.77.0.2/32",
        plain: Some(libc::EHOSTUNREACH),
        batch: UNREACHABLE,
        longest: 0,
        counted: Some("unreachable"),
    },
    Trouble {
        make: "ip route add blackhole 10.77.0.2/32",
        mend: "ip route del blackhole 10.77.0.2/32",
        plain: Some(libc::EINVAL),
        batch: INVALID,
        longest: 0,
        counted: Some("invalid"),
    },
    Trouble {
        make: "ip link set gate down",
        mend: "ip link set gate up",
        plain: Some(libc::ENETUNREACH),
        batch: UNREACHABLE,
        longest: 0,
        counted: Some("unreachable"),
    },
    // EMSGSIZE, for those that leave as one: they must fit. The kernel cuts a plain datagram, so they leave as several.
    Trouble {
        make: "ip link set gate mtu 576",
        mend: "ip link set gate mtu 1500",
        plain: None,
        batch: AS_ONE,
        // As long as every link of IPv6 takes it: that much may be cut.
        longest: 1_232,
        counted: None,
    },
    Trouble {
        make: "iptables -A OUTPUT -p udp -j DROP",
        mend: "iptables -D OUTPUT -p udp -j DROP",
        plain: Some(libc::EPERM),
        batch: DENIED,
        longest: 0,
        counted: Some("denied"),
    },
];

const AS_ONE: &str = "4 left in 1 calls ";
const DENIED: &str = "0 left in 0 calls denied";
const UNREACHABLE: &str = "0 left in 0 calls unreachable";
const INVALID: &str = "0 left in 0 calls invalid";

/// In the namespace of the program: sends, and prints what the kernel said.
pub fn probe() {
    let to = SocketAddr::new(PLAYERS.parse().unwrap(), 9);
    let plain = std::net::UdpSocket::bind("0.0.0.0:0").unwrap();
    let errno = plain
        .send_to(&[0; 1_000], to)
        .err()
        .and_then(|error| error.raw_os_error());
    let any = SocketAddr::from(([0; 4], 0));
    let mut socket = UdpSocket::bind(any, Options::default()).unwrap();
    let (mut outgoing, mut sent) = (Outgoing::default(), Sent::default());
    for _ in 0..4 {
        outgoing.bytes().extend([0; 1_000]);
        outgoing.push(to, None);
    }
    socket.send(&outgoing, &mut sent);
    let kinds = UdpError::ALL
        .into_iter()
        .filter(|kind| sent.errors.of(*kind) > 0);
    let kinds: Vec<_> = kinds.map(UdpError::label).collect();
    let Sent {
        datagrams, calls, ..
    } = sent;
    println!(
        "{} {datagrams} left in {calls} calls {}",
        errno.unwrap_or(0),
        kinds.join(",")
    );
    println!("longest {}", longest_that_left(to));
}

/// Of datagrams that the kernel would rather cut than refuse: which of them leave whole, on a socket that lets
/// none be cut.
fn longest_that_left(to: SocketAddr) -> usize {
    let any = SocketAddr::from(([0; 4], 0));
    let lengths = [1_232, 1_233, 1_472, 1_473, 8_226];
    let left = lengths.into_iter().filter(|&length| {
        // A socket of its own for each: what one knows of the way it believes for a while.
        let options = Options {
            never_cut: true,
            ..Options::default()
        };
        let mut socket = UdpSocket::bind(any, options).unwrap();
        let (mut outgoing, mut sent) = (Outgoing::default(), Sent::default());
        outgoing.bytes().extend(vec![0; length]);
        outgoing.push(to, None);
        socket.send(&outgoing, &mut sent);
        sent.datagrams == 1
    });
    left.max().unwrap_or(0)
}

/// Section "UDP errors" of docs/RELIABILITY.md, on a socket that serves everybody.
pub fn udp_errors(scale: Scale) {
    let gate = Gate::start("errors", &Setup::default());
    let _backend = Backend::start(&gate.backend(), Manner::Echo);
    let mut players = Players::new();
    for _ in 0..10 {
        players.join(
            gate.dial(Duration::from_secs(8)),
            Some(Duration::from_millis(16)),
        );
    }
    players.play_until_seated();
    let has_filter = std::process::Command::new("iptables")
        .arg("--version")
        .output()
        .is_ok();
    if !has_filter {
        skipped("chaos udp_errors: there is no iptables here to try EPERM with");
    }
    let calm = gate.space.run_self(PROBE, "errors");
    assert_eq!(calm.trim(), format!("0 {AS_ONE}\nlongest 1472"));
    for _ in 0..scale.pick(1, 10) {
        for trouble in TROUBLES {
            let Trouble { make, mend, .. } = trouble;
            if make.starts_with("iptables") && !has_filter {
                continue;
            }
            let counted = |kind| gate.metric("tidegate_udp_send_errors_total", &[kind]);
            let counted_before = trouble.counted.map(counted);
            let (_, before) = gate.usage();
            apply(&gate, make);
            let said = gate.space.run_self(PROBE, "errors");
            players.play(trouble.lasts(), |_| false);
            apply(&gate, mend);
            // The neighbour and the route went with the interface.
            gate.space
                .run("ip", &["route", "replace", "default", "via", PLAYERS]);
            let (plain, longest) = (trouble.plain.unwrap_or(0), trouble.longest);
            let expected = format!("{plain} {}\nlongest {longest}", trouble.batch);
            assert_eq!(said.trim(), expected, "{make}");
            let heard: u32 = players.all().iter().map(|player| player.heard).sum();
            let again = |all: &[crate::players::Player]| {
                all.iter().map(|player| player.heard).sum::<u32>() > heard + 100
            };
            assert!(
                players.play(Duration::from_secs(6), again),
                "{make}: nothing is heard any more"
            );
            let (_, after) = gate.usage();
            assert!(after - before < Duration::from_secs(3), "{make}: it spins");
            let counted = trouble.counted.map(counted);
            if let Some(reason @ ("denied" | "unreachable")) = trouble.counted {
                gate.wait_for(&format!("\"reason\":\"{reason}\",\"lost\":"));
            }
            assert!(
                counted.is_none() || counted > counted_before,
                "{make}: {counted_before:?} and then {counted:?}"
            );
        }
    }
    players.settle();
    for player in players.all() {
        assert_eq!(player.state(), State::Connected);
    }
    players.leave();
    assert_eq!(gate.said(&["\"level\":\"ERROR\""]), 0);
    gate.stop();
}

fn apply(gate: &Gate, command: &str) {
    let words: Vec<_> = command.split_whitespace().collect();
    gate.space.run(words[0], &words[1..]);
}
