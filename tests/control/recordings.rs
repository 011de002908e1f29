//! Recordings of what arrives, which an operator begins.

use std::path::Path;

use rustix::process::{Pid, Resource, Rlimit, prlimit};

use crate::support::scene::Scene;
use crate::support::{PATIENCE, wait_until};

/// With content it holds what players say: an operator sees that it runs, and where to.
#[test]
fn a_recording_that_runs_is_seen() {
    let scene = Scene::new("recording");
    assert_eq!(scene.ask(&["stats"])["recordings"], serde_json::json!([]));
    let started = scene.ask(&["capture", "start", "seen.pcapng", "--content"]);
    let file = started["file"]
        .as_str()
        .unwrap_or_else(|| panic!("{started}"));
    assert!(
        Path::new(file).is_absolute() && Path::new(file).is_file(),
        "{file}"
    );
    assert_eq!(scene.server.logged("capture_started")["file"], file);
    let _streams = scene.join();
    let recording = wait_until("its session", PATIENCE, || {
        let recording = scene.ask(&["stats"])["recordings"][0].clone();
        (recording["sessions"] == 1).then_some(recording)
    });
    assert_eq!(
        (&recording["file"], &recording["content"]),
        (&file.into(), &true.into())
    );
    assert!(recording["bytes"].as_u64().unwrap() > 0, "{recording}");
    let second = scene.ask(&["capture", "start", "another.pcapng"]);
    let refused = second["error"].as_str().unwrap();
    assert!(refused.contains(file), "{refused}");
    assert_eq!(scene.ask(&["capture", "stop"])["sessions"], 1);
    assert_eq!(scene.ask(&["stats"])["recordings"], serde_json::json!([]));
    assert!(scene.place.path("seen.pcapng").is_file(), "{file}");
}

/// A file that nothing will ever be written to would only be in the way of the next try.
#[test]
fn a_recording_without_a_thread_leaves_no_file() {
    let scene = Scene::new("threadless");
    let file = scene.place.path("never.pcapng");
    // The answering side has a thread after the first question; a recording needs one of its own.
    scene.ask(&["capture", "stop"]);
    let pid = Pid::from_raw(scene.server.pid() as i32);
    let limit = |current| Rlimit {
        current,
        maximum: None,
    };
    let taken = address_space(scene.server.pid());
    // Room for what is small, and for no stack.
    prlimit(pid, Resource::As, limit(Some(taken + (1 << 20)))).unwrap();
    let name = file.to_str().unwrap();
    let refused = scene.ask(&["capture", "start", name]);
    prlimit(pid, Resource::As, limit(None)).unwrap();
    let error = refused["error"].as_str().unwrap_or_default();
    assert!(error.contains("no thread for the recording"), "{refused}");
    assert!(!file.exists());
    assert_eq!(scene.ask(&["capture", "start", name])["ok"], true);
}

/// Bytes of it that this process has.
fn address_space(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let size = status.lines().find_map(|line| line.strip_prefix("VmSize:"));
    let kib = size.unwrap().trim().strip_suffix(" kB").unwrap();
    kib.parse::<u64>().unwrap() * 1024
}
