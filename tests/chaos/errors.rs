//! Real errors of the kernel on the way out: each costs datagrams, none ends or slows a listener.

use std::time::Duration;

use tidegate_client::State;

use crate::Scale;
use crate::backend::{Backend, Manner};
use crate::gate::{Gate, PLAYERS, Setup};
use crate::players::Players;

/// What is done to the namespace of the program, and undone.
const TROUBLES: [(&str, &[&str], &[&str]); 6] = [
    (
        "EACCES: the route prohibits",
        &["ip route add prohibit 10.77.0.2/32"],
        &["ip route del prohibit 10.77.0.2/32"],
    ),
    (
        "EHOSTUNREACH: the route says unreachable",
        &["ip route add unreachable 10.77.0.2/32"],
        &["ip route del unreachable 10.77.0.2/32"],
    ),
    (
        "EINVAL: the route swallows",
        &["ip route add blackhole 10.77.0.2/32"],
        &["ip route del blackhole 10.77.0.2/32"],
    ),
    (
        "ENETUNREACH: the interface is down",
        &["ip link set gate down"],
        &["ip link set gate up"],
    ),
    (
        "EMSGSIZE: a batch over a small MTU",
        &["ip link set gate mtu 576"],
        &["ip link set gate mtu 1500"],
    ),
    (
        "EPERM: the packet filter drops",
        &["iptables -A OUTPUT -p udp -j DROP"],
        &["iptables -D OUTPUT -p udp -j DROP"],
    ),
];

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
        eprintln!("chaos udp_errors: no iptables here, EPERM IS NOT TESTED");
    }
    for _ in 0..scale.pick(1, 10) {
        for (name, make, mend) in TROUBLES {
            if name.starts_with("EPERM") && !has_filter {
                continue;
            }
            let (_, before) = gate.usage();
            apply(&gate, make);
            players.play(Duration::from_millis(700), |_| false);
            apply(&gate, mend);
            // The neighbour and the route went with the interface.
            gate.space
                .run("ip", &["route", "replace", "default", "via", PLAYERS]);
            let heard: u32 = players.all().iter().map(|player| player.heard).sum();
            let again = |all: &[crate::players::Player]| {
                all.iter().map(|player| player.heard).sum::<u32>() > heard + 100
            };
            assert!(
                players.play(Duration::from_secs(6), again),
                "{name}: nothing is heard any more"
            );
            let (_, after) = gate.usage();
            assert!(after - before < Duration::from_secs(3), "{name}: it spins");
        }
    }
    players.settle();
    for player in players.all() {
        assert_eq!(player.state(), State::Connected);
    }
    assert_eq!(gate.said(&["\"level\":\"ERROR\""]), 0);
    gate.stop();
}

fn apply(gate: &Gate, commands: &[&str]) {
    for command in commands {
        let words: Vec<_> = command.split_whitespace().collect();
        gate.space.run(words[0], &words[1..]);
    }
}
