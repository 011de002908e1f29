//! Too little of what the machine lends: descriptors, disk.

use std::path::Path;
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
