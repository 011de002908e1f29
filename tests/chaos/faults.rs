//! Backends and networks that fail while players play.

use std::time::Duration;

use tidegate_client::{CloseReason, Ended, State};

use crate::Scale;
use crate::backend::{Backend, Manner};
use crate::gate::{Gate, Setup, run};
use crate::players::{Player, Players};
use crate::support::{PATIENCE, wait_until};

const FRAME: Duration = Duration::from_millis(16);
const TOKEN_TIMEOUT: Duration = Duration::from_secs(5);

fn gate(name: &str) -> Gate {
    Gate::start(name, &Setup::default())
}

fn seated(gate: &Gate, count: usize, timeout: Duration) -> Players {
    let mut players = Players::new();
    for _ in 0..count {
        players.join(gate.dial(timeout), Some(FRAME));
    }
    players.play_until_seated();
    players
}

/// One player who dials again whenever the door is shut: health checks need a moment to find that
/// what was missing is back.
pub fn dial_until_seated(gate: &Gate) -> Players {
    wait_until("somebody is let in again", PATIENCE, || {
        let mut players = Players::new();
        players.join(gate.dial(TOKEN_TIMEOUT), Some(FRAME));
        let decided = |all: &[Player]| all[0].state() != State::Connecting;
        players.play(Duration::from_secs(5), decided);
        (players.all()[0].state() == State::Connected).then_some(players)
    })
}

fn all_closed(all: &[Player]) -> bool {
    all.iter().all(|player| player.ended().is_some())
}

/// F2: sessions end within a second, and the next players find the next backend.
pub fn backend_killed(scale: Scale) {
    for round in 0..scale.pick(1, 20) {
        let gate = gate("killed");
        let backend = Backend::start(&gate.backend(), Manner::Echo);
        let mut players = seated(&gate, 10, TOKEN_TIMEOUT);
        players.play(Duration::from_millis(300), |_| false);
        drop(backend);
        assert!(
            players.play(Duration::from_secs(8), all_closed),
            "round {round}"
        );
        for player in players.all() {
            assert_eq!(
                player.ended(),
                Some(Ended::Session(CloseReason::PeerDisconnect)),
                "round {round}"
            );
        }
        let _backend = Backend::start(&gate.backend(), Manner::Echo);
        let mut players = seated(&gate, 2, TOKEN_TIMEOUT);
        players.settle();
        players.leave();
        gate.stop();
    }
}

/// F1: name servers that do not answer keep nobody waiting whose backend has no name: not at the start, and
/// not at the end.
pub fn name_servers_silent(_: Scale) {
    let servers = std::env::temp_dir().join(format!("resolv.conf-{}", std::process::id()));
    // The default route leads to this side, which passes nothing on. As patient as a resolver can be.
    let text = "nameserver 192.0.2.1\noptions timeout:30 attempts:5\n";
    std::fs::write(&servers, text).unwrap();
    let path = servers.to_str().unwrap();
    run("mount", &["--bind", path, "/etc/resolv.conf"]);
    let config = "[listener.named]\nbind = [\"10.77.0.1:40001\"]\nbackend = \"named\"\n\
                  [backend.named]\nframing = \"u16be\"\n\
                  targets = [\"tcp://one.example:7000\", \"tcp://two.example:7000\"]";
    let gate = Gate::start(
        "silent",
        &Setup {
            config,
            ..Setup::default()
        },
    );
    for name in ["one.example", "two.example"] {
        let line = gate.wait_for(&format!("\"target\":\"{name}\""));
        assert!(line.contains("have not answered"), "{line}");
    }
    let _backend = Backend::start(&gate.backend(), Manner::Echo);
    let mut players = seated(&gate, 2, TOKEN_TIMEOUT);
    players.settle();
    players.leave();
    gate.stop();
    run("umount", &["/etc/resolv.conf"]);
    std::fs::remove_file(&servers).unwrap();
}

/// F6: a backend that reads nothing makes its players wait, then loses them; nobody else notices.
pub fn backend_hung(scale: Scale) {
    let gate = gate("hung");
    let _deaf = Backend::start(&gate.backend(), Manner::Deaf);
    let mut players = Players::new();
    for _ in 0..scale.pick(4, 50) {
        players.join(gate.dial(TOKEN_TIMEOUT), Some(Duration::from_micros(500)));
    }
    players.play_until_seated();
    let (before, _) = gate.usage();
    assert!(
        players.play(Duration::from_secs(60), all_closed),
        "they wait for ever"
    );
    let (after, _) = gate.usage();
    gate.wait_for_ends("backend_stalled", players.all().len());
    let each = after.saturating_sub(before) / players.all().len() as u64;
    assert!(
        each < 3 << 20,
        "{each} bytes for each player of a backend that does not read"
    );
    gate.stop();
}

/// F1, F3: nobody is seated in front of a backend that is not there; when it is, the next are, although
/// the checks will say for another minute that it is not.
pub fn backend_refusing(_: Scale) {
    let setup = Setup {
        wrapper: &[
            "env",
            "TIDEGATE__BACKEND__GAME__HEALTH__INTERVAL=600ms",
            "TIDEGATE__BACKEND__GAME__HEALTH__UP_AFTER=100",
        ],
        ..Setup::default()
    };
    let gate = Gate::start("refusing", &setup);
    gate.wait_for("\"event\":\"target_down\"");
    let mut players = Players::new();
    for _ in 0..20 {
        players.join(gate.dial(TOKEN_TIMEOUT), Some(FRAME));
    }
    assert!(
        players.play(Duration::from_secs(15), all_closed),
        "they wait for ever"
    );
    for player in players.all() {
        assert_eq!(player.ended(), Some(Ended::Session(CloseReason::Denied)));
        assert_eq!(player.seated_after, None);
    }
    let _backend = Backend::start(&gate.backend(), Manner::Echo);
    let mut players = dial_until_seated(&gate);
    players.settle();
    assert_eq!(gate.said(&["target_up"]), 0, "the checks found it first");
    players.leave();
    gate.stop();
}

/// F5: a backend that says no more still hears everything that was said before the end.
pub fn backend_half_closing(_: Scale) {
    let gate = gate("half");
    let backend = Backend::start(&gate.backend(), Manner::HalfClose);
    let mut players = Players::new();
    for _ in 0..5 {
        players.join(gate.dial(TOKEN_TIMEOUT), Some(FRAME));
    }
    assert!(
        players.play(Duration::from_secs(15), all_closed),
        "they wait for ever"
    );
    gate.wait_for_ends("backend_closed", 5);
    let said: u32 = players.all().iter().map(|player| player.said).sum();
    assert!(backend.frames() <= u64::from(said));
    gate.stop();
}

/// F6, the other way: a backend that floods waits for its players, who get all of it.
pub fn backend_flooding(scale: Scale) {
    let gate = gate("flooding");
    let frames = scale.pick(1_000, 10_000);
    let _backend = Backend::start(&gate.backend(), Manner::Flood(frames));
    let count = scale.pick(4, 40);
    let mut players = Players::new();
    players.is_echoed = false;
    for _ in 0..count {
        players.join(gate.dial(TOKEN_TIMEOUT), None);
    }
    players.play_until_seated();
    let heard = move |all: &[Player]| all.iter().all(|player| player.heard == frames);
    assert!(
        players.play(Duration::from_secs(scale.pick(30, 300)), heard),
        "not all of it"
    );
    let (memory, _) = gate.usage();
    let most = (40 << 20) + count as u64 * (2 << 20);
    assert!(memory < most, "{memory} bytes resident");
    gate.stop();
}

/// F10, one second: nothing is lost, and it is over soon after.
pub fn partition_short(scale: Scale) {
    let gate = gate("short");
    let _backend = Backend::start(&gate.backend(), Manner::Echo);
    let mut players = seated(&gate, 10, TOKEN_TIMEOUT);
    for _ in 0..scale.pick(1, 20) {
        players.play(Duration::from_millis(500), |_| false);
        run("ip", &["link", "set", "play", "down"]);
        players.play(Duration::from_secs(1), |_| false);
        run("ip", &["link", "set", "play", "up"]);
        gate.space.run(
            "ip",
            &["route", "replace", "default", "via", crate::gate::PLAYERS],
        );
    }
    players.settle();
    for player in players.all() {
        assert_eq!(player.state(), State::Connected);
    }
    players.leave();
    gate.stop();
}

/// F10, longer than the token allows: both sides say so, within a second of each other.
pub fn partition_long(_: Scale) {
    let gate = gate("long");
    let _backend = Backend::start(&gate.backend(), Manner::Echo);
    let mut players = seated(&gate, 10, Duration::from_secs(2));
    run("ip", &["link", "set", "play", "down"]);
    assert!(
        players.play(Duration::from_secs(5), all_closed),
        "they wait for ever"
    );
    let timeout = Some(Ended::Session(CloseReason::PeerTimeout));
    assert!(players.all().iter().all(|player| player.ended() == timeout));
    gate.wait_for_ends("peer_timeout", 10);
    run("ip", &["link", "set", "play", "up"]);
    gate.space.run(
        "ip",
        &["route", "replace", "default", "via", crate::gate::PLAYERS],
    );
    let mut players = seated(&gate, 10, TOKEN_TIMEOUT);
    players.settle();
    players.leave();
    gate.stop();
}

/// F9: the session follows its player to another port, and nothing is lost on the way.
pub fn nat_rebinding(scale: Scale) {
    let gate = gate("nat");
    let _backend = Backend::start(&gate.backend(), Manner::Echo);
    let mut players = seated(&gate, 5, TOKEN_TIMEOUT);
    for _ in 0..scale.pick(3, 100) {
        players.play(Duration::from_millis(400), |_| false);
        for index in 0..5 {
            players.player(index).rebind();
        }
    }
    // Through the last port too, and a goodbye is heard only where its player is known to be.
    players.play(Duration::from_millis(400), |_| false);
    players.settle();
    for player in players.all() {
        assert_eq!(player.state(), State::Connected);
    }
    players.leave();
    gate.stop();
}

/// F26: a process that stood still reads what waited for it before it looks at its clocks.
pub fn stopped_process(_: Scale) {
    let gate = gate("stopped");
    let _backend = Backend::start(&gate.backend(), Manner::Echo);
    // Players are more patient than their tokens say: their clocks are judged by the server.
    let mut players = seated(&gate, 10, Duration::from_secs(4));
    gate.signal("STOP");
    players.play(Duration::from_millis(3_500), |_| false);
    gate.signal("CONT");
    wait_until("it runs", Duration::from_secs(5), || {
        (gate.usage().0 > 0).then_some(())
    });
    players.settle();
    for player in players.all() {
        assert_eq!(player.state(), State::Connected, "{:?}", player.ended());
    }
    players.leave();
    gate.stop();
}
