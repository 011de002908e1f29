//! Of the backends: what takes no players, and what went away under them.

use std::time::Duration;

use tidegate_proto::Now;

use super::{Findings, Level};
use crate::admin::units::age;
use crate::backend::{Failing, Shut, TargetState};
use crate::board::{Snapshot, TargetSnapshot};

/// A crash is shown for as long as its alert goes on.
const CRASH_SHOWN: Duration = Duration::from_secs(15 * 60);

pub(super) fn find(found: &mut Findings, snapshot: &Snapshot) {
    for backend in &snapshot.backends {
        let name = &backend.name;
        for target in backend.in_use() {
            crashed(found, snapshot.now, name, target);
        }
        if let Some(why) = backend.shut() {
            let of_late = match why {
                Shut::Down => last_down(snapshot.now, backend.in_use()),
                Shut::Drained | Shut::DownOrDrained => String::new(),
            };
            let text = format!(
                "no target of backend {name} {}: nobody can join{of_late}",
                why.text()
            );
            found.add(Level::Bad, Some("TidegateNoBackend"), text);
            continue;
        }
        for target in backend.in_use() {
            let who = format!("target {} of backend {name}", target.name);
            let up = target.state.up;
            // Who drains a game server wants to stop it: that it is down then is no trouble.
            if target.state.draining {
                let down = if up { "" } else { ", and down" };
                let text = format!("{who} is drained by hand{down}");
                found.add(Level::Info, None, text);
            } else if !up {
                let since = last_down(snapshot.now, [target].into_iter());
                let text = format!("{who} is down{since}");
                found.add(Level::Warn, Some("TidegateBackendDown"), text);
            }
        }
    }
}

/// How long none of these has been there, and why the last one is not; nothing where no checks say so.
fn last_down<'a>(now: Now, targets: impl Iterator<Item = &'a TargetSnapshot>) -> String {
    let failing = targets.filter_map(|target| target.state.failing);
    let last = failing.max_by_key(|failing| failing.since);
    last.map_or_else(String::new, |Failing { since, why }| {
        let secs = now.mono.since(since).as_secs_f64();
        format!(" (not there for {}: {})", age(secs), why.label())
    })
}

/// Its supervisor has mostly started it again before anybody looks, and nothing else here shows then why so many left.
fn crashed(found: &mut Findings, now: Now, backend: &str, target: &TargetSnapshot) {
    let TargetState {
        crashes,
        last_crash,
        draining,
        ..
    } = target.state;
    let since = last_crash.map(|crash| now.mono.since(crash));
    let Some(since) = since.filter(|since| *since < CRASH_SHOWN && !draining) else {
        return;
    };
    let ago = age(since.as_secs_f64());
    let times = match crashes {
        1 => String::new(),
        many => format!(", the last of {many} times since the start"),
    };
    let text = format!(
        "target {} of backend {backend} ended many sessions at once {ago} ago{times}, and took no connection right \
         after: it crashed, or was restarted under its players. Its own log has why",
        target.name
    );
    found.add(Level::Warn, Some("TidegateBackendCrashed"), text);
}
