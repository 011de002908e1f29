//! A worker that hangs: said in the log, because whoever restarts the process for it, as systemd's watchdog does, takes away
//! all else that knows which one it was.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use crate::board::Board;
use crate::clock::Clock;

/// Warns while one does. Never ends.
pub async fn watch(board: Arc<Board>, mut clock: Clock) {
    let mut looks = Looks::default();
    loop {
        sleep(EVERY).await;
        let stuck = board.snapshot(clock.now()).stuck();
        match looks.news(&stuck) {
            Some(News::Hangs) => tracing::error!(
                event = "worker_hangs",
                error = stuck.join("; "),
                help = "unless a debugger holds it, this is a bug: please report it, if it still hangs with what `gdb --batch \
                        -ex 'thread apply all bt' -p PID` prints",
                "nobody of its players is served; what asks /livez, and systemd's watchdog, restart the process if it lasts"
            ),
            Some(News::TurnsAgain) => tracing::info!(event = "worker_turns_again"),
            None => {}
        }
    }
}

/// Well before a watchdog's ten seconds are over.
const EVERY: Duration = Duration::from_secs(1);

#[derive(Default)]
struct Looks {
    /// The last one found a worker that hangs.
    found: bool,
    told: bool,
}

#[derive(Debug, PartialEq, Eq)]
enum News {
    Hangs,
    TurnsAgain,
}

impl Looks {
    /// Where the whole process stood still, the first look after it may come before the workers' first turn: it takes two.
    fn news(&mut self, stuck: &[String]) -> Option<News> {
        let finds = !stuck.is_empty();
        let found = std::mem::replace(&mut self.found, finds);
        match (self.told, found, finds) {
            (false, true, true) => {
                self.told = true;
                Some(News::Hangs)
            }
            (true, _, false) => {
                self.told = false;
                Some(News::TurnsAgain)
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_that_hangs_is_told_once_and_so_is_that_it_turns() {
        let mut looks = Looks::default();
        let stuck = ["worker 1 of listener game has been silent for 5 s".to_owned()];
        assert_eq!(looks.news(&[]), None);
        assert_eq!(looks.news(&stuck), None, "the process may have stood still");
        assert_eq!(looks.news(&[]), None);
        assert_eq!(looks.news(&stuck), None);
        assert_eq!(looks.news(&stuck), Some(News::Hangs));
        assert_eq!(looks.news(&stuck), None);
        assert_eq!(looks.news(&[]), Some(News::TurnsAgain));
        assert_eq!(looks.news(&[]), None);
    }
}
