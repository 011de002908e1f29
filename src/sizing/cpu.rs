//! Processor time: how often the control group's limit stops the process.
//!
//! Where there is one (`CPUQuota=`, a container's CPU limit) and all threads together have used up what it allows for a
//! period, which is 100 ms mostly, the kernel stops them until the next one begins. Nobody is served meanwhile, and to a
//! session that looks like a network with a queue.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use crate::board::Board;
use crate::cgroup;

/// Keeps the board told of it, and warns. Never ends.
pub async fn watch(board: Arc<Board>) {
    let mut before = cgroup::cpu_throttled().unwrap_or(0);
    loop {
        sleep(LATELY).await;
        let now = cgroup::cpu_throttled().unwrap_or(before);
        let lately = now.saturating_sub(before);
        before = now;
        board.update_process(|process| {
            process.cpu_throttled += lately;
            process.cpu_throttled_lately = lately;
        });
        if lately >= MANY {
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
