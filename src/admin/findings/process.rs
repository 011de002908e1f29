//! Of the process as a whole: what it is doing, and what it lacks.

use std::time::Duration;

use tidegate_proto::Now;

use super::{ALMOST_FULL, Finding, Findings, Level};
use crate::admin::units::{age, bytes, span};
use crate::board::{Process, Snapshot, State};
use crate::capture::Recording;
use crate::clock::Pause;
use crate::metrics::Usage;
use crate::sizing::cpu;

/// A pause of this process is shown for so long.
const PAUSE_SHOWN: Duration = Duration::from_secs(15 * 60);

pub(super) fn find(found: &mut Findings, snapshot: &Snapshot, usage: &Usage) {
    for worker in snapshot.stuck() {
        found.add(Level::Bad, None, worker);
    }
    let process = &snapshot.process;
    match process.state {
        State::Serving => {}
        State::Starting => found.add(Level::Info, None, "starting".into()),
        State::Draining => found.add(Level::Info, None, drain(snapshot)),
    }
    if let Some(recording) = &snapshot.recording {
        found.0.push(recorded(recording));
    }
    configuration(found, process);
    records(found, snapshot);
    if let Some(pause) = process.last_pause {
        paused(found, snapshot.now, pause);
    }
    machine(found, process, usage);
}

fn configuration(found: &mut Findings, process: &Process) {
    if let Some(error) = &process.reload_error {
        let text = format!(
            "the last reload was refused, and the configuration before it is in force: {error}"
        );
        found.add(Level::Warn, Some("TidegateReloadFailed"), text);
    }
    if !process.needs_restart.is_empty() {
        let values = process.needs_restart.join(", ");
        let text = format!("new values wait for a restart: {values}");
        found.add(Level::Warn, None, text);
    }
}

/// What is written for later, and does not say what it should.
fn records(found: &mut Findings, snapshot: &Snapshot) {
    let process = &snapshot.process;
    if process.token_histories_given_up > 0 {
        let text = "the file of used tokens cannot be written: a restart now would refuse all tokens from before it";
        found.add(
            Level::Warn,
            Some("TidegateTokenHistoryFailing"),
            text.into(),
        );
    }
    if process.log_loses_lines {
        let text = format!(
            "lines of the log are lost, {} since the start: standard error is not read fast enough or cannot be written",
            process.log_lines_dropped
        );
        found.add(Level::Warn, Some("TidegateLogLinesLost"), text);
    }
    let violations: u64 = snapshot
        .listeners
        .iter()
        .map(|listener| listener.counters.invariant_violations)
        .sum();
    if violations > 0 {
        let text = "books do not balance: a bug in tidegate, please report it with the log";
        found.add(Level::Warn, Some("TidegateInvariantViolated"), text.into());
    }
}

/// What the machine has too little of.
fn machine(found: &mut Findings, process: &Process, usage: &Usage) {
    let throttled = process.cpu_throttled_lately;
    if throttled >= cpu::MANY {
        let secs = cpu::LATELY.as_secs();
        let text = format!(
            "the control group's CPU limit stopped this process {throttled} times in {secs} s: everybody waits"
        );
        found.add(Level::Bad, Some("TidegateCpuThrottled"), text);
    }
    if let (Some(taken), Some(limit)) = (usage.resident_bytes, usage.memory_limit_bytes)
        && taken as f64 > ALMOST_FULL * limit as f64
    {
        let (taken, limit) = (bytes(taken as f64), bytes(limit as f64));
        let text = format!(
            "{taken} of memory are taken of the {limit} that the control group has: beyond, the kernel ends this \
             process, or holds it up, and every session with it"
        );
        found.add(Level::Bad, Some("TidegateMemoryAlmostUsed"), text);
    }
    if let (Some(open), Some(most)) = (usage.open_fds, usage.max_fds)
        && open as f64 > ALMOST_FULL * most as f64
    {
        let text = format!("{open} of {most} descriptors are open");
        found.add(Level::Warn, Some("TidegateDescriptorsAlmostUsed"), text);
    }
}

/// Whoever looks why so many left at once finds no game server that crashed, and no network that changed.
fn paused(found: &mut Findings, now: Now, pause: Pause) {
    let since = now.mono.since(pause.ended);
    if since < PAUSE_SHOWN {
        let (took, ago) = (age(pause.took.as_secs_f64()), age(since.as_secs_f64()));
        let text = format!(
            "this process did not run for {took}, until {ago} ago: it was stopped, or the machine was suspended or had no \
             processor time for it. Players whose timeout is shorter may be gone"
        );
        found.add(Level::Warn, None, text);
    }
}

/// What ends a drain by hand.
const AGAIN: &str = "`tidegate ctl undrain` lets newcomers in again";

/// Only a stop ends the process. A drain by hand ends sessions, if it has a deadline, and no more.
fn drain(snapshot: &Snapshot) -> String {
    let process = &snapshot.process;
    let left = process
        .drain_deadline
        .map(|end| end.since(snapshot.now.mono).as_secs_f64());
    let what = match left {
        Some(left) if process.stopping => {
            let left = span(left);
            format!("no new peers, and the process ends in {left} at the latest")
        }
        None if process.stopping => "no new peers, and the process ends".into(),
        Some(left) if left < 1.0 => "no new peers, and those who are left are told to go".into(),
        Some(left) => {
            let left = span(left);
            format!("no new peers, and those who are left in {left} are told to go")
        }
        None if snapshot.peers() > 0 => {
            format!("no new peers; those who are here stay, and {AGAIN}")
        }
        None => format!("nobody is here, and the process stays until it is stopped; {AGAIN}"),
    };
    format!("draining: {what}")
}

/// Somebody wanted it so, and may have forgotten; with messages it holds what players say.
pub(super) fn recorded(recording: &Recording) -> Finding {
    let what = match recording.content {
        true => "with the messages, decrypted",
        false => "without the messages",
    };
    let file = recording.file.display();
    let size = bytes(recording.bytes as f64);
    let sessions = recording.sessions;
    let (level, text) = match &recording.ended {
        None => (
            Level::Info,
            format!("sessions are recorded, {what}, to {file}: {sessions} so far, {size}"),
        ),
        Some(why) => (
            Level::Warn,
            format!("the recording to {file}, {what}, has ended by itself: {why}"),
        ),
    };
    Finding {
        level,
        text,
        alert: None,
    }
}
