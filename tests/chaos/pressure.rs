//! Too little of what the machine lends: descriptors, disk.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tidegate_client::State;

use crate::Scale;
use crate::backend::{Backend, Manner};
use crate::faults::dial_until_seated;
use crate::gate::{Gate, Setup, run};
use crate::players::{Player, Players};
use crate::support::skipped;

/// F15: newcomers are refused, those who are here play on, and nothing spins.
pub fn descriptors_used_up(scale: Scale) {
    let wrapper = ["prlimit", "--nofile=64:64"];
    let gate = Gate::start(
        "descriptors",
        &Setup {
            wrapper: &wrapper,
            ..Setup::default()
        },
    );
    let _backend = Backend::start(&gate.backend(), Manner::Echo);
    let mut players = Players::new();
    for _ in 0..scale.pick(100, 500) {
        players.join(
            gate.dial(Duration::from_secs(5)),
            Some(Duration::from_millis(50)),
        );
    }
    let decided = |all: &[Player]| {
        let is_decided =
            |player: &Player| player.seated_after.is_some() || player.ended().is_some();
        all.iter().all(is_decided)
    };
    assert!(
        players.play(Duration::from_secs(30), decided),
        "some are left waiting"
    );
    let seated = |all: &[Player]| all.iter().filter(|p| p.state() == State::Connected).count();
    let here = seated(players.all());
    assert!(
        (20..64).contains(&here),
        "{here} are seated with 64 descriptors"
    );
    let (_, before) = gate.usage();
    players.play(Duration::from_secs(2), |_| false);
    let (_, after) = gate.usage();
    assert!(
        after - before < Duration::from_millis(800),
        "it spins: {:?}",
        after - before
    );
    assert_eq!(seated(players.all()), here, "those who are here stay");
    drop(players);
    // Their seats are free once their tokens' time is over.
    gate.wait_for_ends("peer_timeout", here);
    let mut players = dial_until_seated(&gate);
    players.settle();
    players.leave();
    gate.stop();
}

/// F17: what cannot be logged is not logged; the players do not notice.
pub fn log_disk_full(_: Scale) {
    let disk = std::env::temp_dir().join(format!("tidegate-chaos-disk-{}", std::process::id()));
    std::fs::create_dir_all(&disk).unwrap();
    let path = disk.to_str().unwrap();
    // Two pages: the first lines fit. The mount is seen by this process alone.
    run(
        "mount",
        &["-t", "tmpfs", "-o", "size=8k", "tidegate-chaos", path],
    );
    let unmount = Unmount(&disk);
    let log = disk.join("log");
    let gate = Gate::start(
        "disk",
        &Setup {
            log: Some(&log),
            ..Setup::default()
        },
    );
    let _backend = Backend::start(&gate.backend(), Manner::Echo);
    let mut players = Players::new();
    for _ in 0..40 {
        players.join(
            gate.dial(Duration::from_secs(5)),
            Some(Duration::from_millis(16)),
        );
    }
    players.play_until_seated();
    players.play(Duration::from_millis(500), |_| false);
    players.settle();
    for player in players.all() {
        assert_eq!(player.state(), State::Connected);
    }
    let written = std::fs::metadata(&log).unwrap().len();
    assert!(written >= 4_096, "the disk is not full: {written} bytes");
    players.leave();
    gate.stop();
    drop(unmount);
}

/// F16: a backend that reads nothing, and players who say all they can. `queue_memory` holds: those who
/// hold much are held back and nobody is ended for it, those who hold little do not notice, and when the
/// backend reads again all of it arrives, once and in order.
pub fn memory_used_up(scale: Scale) {
    let Some(group) = MemoryGroup::new(96 << 20) else {
        skipped("chaos memory_used_up: no memory group can be made here");
        return;
    };
    let join = format!(
        "echo $$ > {}/cgroup.procs && exec \"$@\"",
        group.0.display()
    );
    let gate = Gate::start(
        "memory",
        &Setup {
            wrapper: &[
                "env",
                "TIDEGATE__RUNTIME__QUEUE_MEMORY=16MiB",
                "TIDEGATE__BACKEND__GAME__QUEUE_TO_BACKEND=1MiB",
                "TIDEGATE__BACKEND__GAME__STALL=60s",
                "sh",
                "-c",
                &join,
                "sh",
            ],
            ..Setup::default()
        },
    );
    let (before, _) = gate.usage();
    let loud = scale.pick(60, 200);
    let backend = Backend::start(&gate.backend(), Manner::Asleep(loud));
    let mut players = Players::new();
    let every = Some(Duration::from_micros(500));
    for _ in 0..loud {
        players.join(gate.dial(Duration::from_secs(5)), every);
    }
    players.play_until_seated();
    for _ in 0..4 {
        let every = Some(Duration::from_millis(16));
        players.join(gate.dial(Duration::from_secs(5)), every);
    }
    players.play_until_seated();
    let is_held_back = || gate.metric("tidegate_peers_held_back", &[]) as usize >= loud * 9 / 10;
    let under_pressure = (0..200).any(|_| {
        players.play(Duration::from_millis(300), |_| false);
        is_held_back()
    });
    assert!(under_pressure, "too little waits to prove anything");
    assert!(gate.metric("tidegate_queued_bytes", &["to_backend"]) >= LIMIT / 4);
    let heard = |players: &Players| {
        let quiet = players.all()[loud..].iter();
        quiet.map(|player| player.heard).sum::<u32>()
    };
    let heard_before = heard(&players);
    players.round_trips.clear();
    players.play(Duration::from_secs(3), |_| false);
    // Only the quiet ones hear anything.
    let (answered, slowest) = (heard(&players) - heard_before, players.quantile(0.9));
    assert!(answered > 200, "the quiet ones heard {answered}");
    assert!(
        slowest < Duration::from_millis(500),
        "the quiet ones wait {slowest:?}"
    );
    let resident = gate.usage().0.saturating_sub(before);
    backend.wake();
    players.settle();
    let stays = |player: &Player| player.state() == State::Connected;
    assert!(players.all().iter().all(stays), "somebody was ended");
    let dropped = gate.metric("tidegate_messages_dropped_total", &[]);
    assert_eq!(dropped, 0, "something was lost");
    let most = gate.metric("tidegate_queued_bytes_most", &[]);
    // What is incomplete could take the last quarter; here nothing is.
    assert!(most <= LIMIT / 4 * 3 + SLACK, "{most} bytes waited");
    assert_eq!(group.kills(), 0);
    println!(
        "  {} KiB waited at most, of {loud} players who say all they can, and made {} KiB resident; \
         nine in ten messages of the others were back within {:.1} ms",
        most / 1024,
        resident / 1024,
        slowest.as_secs_f64() * 1e3
    );
    gate.stop();
}

/// What two workers have not told each other, and a read of a stream or two.
const SLACK: u64 = 128 << 10;

/// `queue_memory` of that scenario.
const LIMIT: u64 = 16 << 20;

/// Processes that have so much memory together; gone when dropped.
struct MemoryGroup(PathBuf);

impl MemoryGroup {
    /// `None` where the kernel or the container does not let us.
    fn new(bytes: u64) -> Option<Self> {
        let name = format!("tidegate-chaos-{}", std::process::id());
        // The two versions of the interface, as they are usually mounted.
        let places = [("memory", "memory.limit_in_bytes"), ("", "memory.max")];
        places.into_iter().find_map(|(controller, limit)| {
            let path = Path::new("/sys/fs/cgroup").join(controller).join(&name);
            std::fs::create_dir(&path).ok()?;
            let group = Self(path);
            std::fs::write(group.0.join(limit), bytes.to_string()).ok()?;
            Some(group)
        })
    }

    /// Processes the kernel ended because there was no more.
    fn kills(&self) -> u64 {
        let files = ["memory.oom_control", "memory.events"];
        let text = files
            .iter()
            .find_map(|file| std::fs::read_to_string(self.0.join(file)).ok());
        let text = text.unwrap();
        let kills = text.lines().find_map(|line| line.strip_prefix("oom_kill "));
        kills.unwrap().parse().unwrap()
    }
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        std::fs::remove_dir(&self.0).ok();
    }
}

struct Unmount<'a>(&'a Path);

impl Drop for Unmount<'_> {
    fn drop(&mut self) {
        std::process::Command::new("umount")
            .arg("-l")
            .arg(self.0)
            .output()
            .ok();
        std::fs::remove_dir(self.0).ok();
    }
}
