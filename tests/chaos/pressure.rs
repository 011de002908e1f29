//! Too little of what the machine lends: descriptors, disk.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tidegate_client::State;

use crate::Scale;
use crate::backend::{Backend, Manner};
use crate::faults::dial_until_seated;
use crate::gate::{Gate, Setup, run};
use crate::players::{Player, Players};

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
    gate.stop();
    drop(unmount);
}

/// F16: with backends that read nothing and players who say all they can, those that hold most are ended
/// soon after `queue_memory` is used up, so the kernel never has to kill; who comes afterwards plays.
pub fn memory_used_up(scale: Scale) {
    let Some(group) = MemoryGroup::new(96 << 20) else {
        eprintln!("chaos memory_used_up: SKIPPED, no memory group can be made here");
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
                "sh",
                "-c",
                &join,
                "sh",
            ],
            ..Setup::default()
        },
    );
    let deaf = Backend::start(&gate.backend(), Manner::Deaf);
    let mut players = Players::new();
    let count = scale.pick(60, 200);
    for _ in 0..count {
        players.join(
            gate.dial(Duration::from_secs(5)),
            Some(Duration::from_micros(500)),
        );
    }
    players.play_until_seated();
    let mut most = 0;
    let all_closed = |all: &[Player]| all.iter().all(|player| player.ended().is_some());
    for _ in 0..200 {
        most = most.max(gate.metric("tidegate_queued_bytes", &[]));
        if players.play(Duration::from_millis(300), all_closed) {
            break;
        }
    }
    assert!(all_closed(players.all()), "they wait for ever");
    assert!(
        most > 8 << 20,
        "too little waited to prove anything: {most}"
    );
    assert!(gate.metric("tidegate_peer_disconnects_total", &["overload"]) > 0);
    assert_eq!(group.kills(), 0);
    drop(deaf);
    let _backend = Backend::start(&gate.backend(), Manner::Echo);
    let mut players = dial_until_seated(&gate);
    players.settle();
    gate.stop();
    println!("  {} KiB waited at most, of {count} players", most / 1024);
}

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
