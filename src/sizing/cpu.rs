//! Processor time: how often the control group's limit stops the process.
//!
//! Where there is one (`CPUQuota=`, a container's CPU limit) and all threads together have used up what it allows for a
//! period, which is 100 ms mostly, the kernel stops them until the next one begins. Nobody is served meanwhile, and to a
//! session that looks like a network with a queue.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::board::Board;
use crate::cgroup;

/// Keeps the board told of it, and warns. Never ends.
pub async fn watch(board: Arc<Board>) {
    let mut before = cgroup::cpu_throttled().unwrap_or(0);
    let mut warnings = Warnings::default();
    loop {
        sleep(LATELY).await;
        let now = cgroup::cpu_throttled().unwrap_or(before);
        let lately = now.saturating_sub(before);
        before = now;
        board.update_process(|process| {
            process.cpu_throttled += lately;
            process.cpu_throttled_lately = lately;
        });
        if warnings.is_due(Instant::now(), lately) {
            tracing::warn!(
                event = "cpu_throttled",
                periods = lately,
                in_s = LATELY.as_secs(),
                help = "remove the limit of processor time: CPUQuota= of a unit, the CPU limit of a container or pod",
                "the control group's CPU limit stopped this process, and everybody who plays waited each time"
            );
        }
    }
}

/// What is lately.
pub const LATELY: Duration = Duration::from_secs(10);

/// So many periods lately are more than a start or a moment's work: one in ten.
pub const MANY: u64 = 10;

/// A limit that is too low stays too low: one line says it, and another now and then to whoever looks at the end of the
/// log alone.
const AGAIN: Duration = Duration::from_secs(600);

#[derive(Default)]
struct Warnings {
    last: Option<Instant>,
}

impl Warnings {
    fn is_due(&mut self, now: Instant, lately: u64) -> bool {
        let is_due = lately >= MANY && self.last.is_none_or(|last| now >= last + AGAIN);
        if is_due {
            self.last = Some(now);
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_that_stays_too_low_is_a_line_each_ten_minutes() {
        let began = Instant::now();
        let mut warnings = Warnings::default();
        let mut lines = |from: u64, to: u64, lately| -> Vec<u64> {
            let looks = (from..to).step_by(10);
            looks
                .filter(|&secs| warnings.is_due(began + Duration::from_secs(secs), lately))
                .collect()
        };
        let none: [u64; 0] = [];
        assert_eq!(lines(0, 100, MANY - 1), none);
        assert_eq!(lines(100, 1_400, MANY), [100, 700, 1_300]);
        assert_eq!(lines(1_400, 3_000, 0), none);
        assert_eq!(lines(3_000, 3_100, MANY), [3_000]);
    }
}
