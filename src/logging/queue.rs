//! Lines on their way to the writer. What bounds them is their bytes, not their number: when a process of thousands of
//! players ends, or their network does, all of them are told of at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel};
use std::time::Duration;

use tracing::Level;

/// May wait for the writer: the last lines of 4096 sessions, and half as many more.
pub(super) const BYTES: usize = 4 << 20;

/// What a line takes beside its text.
pub(super) const BESIDE: usize = 64;

/// What the writer is asked for.
pub(super) enum Job {
    Line(Level, Box<str>),
    Flush(SyncSender<()>),
}

/// Where lines go in. Clones are the same.
#[derive(Clone)]
pub(super) struct Queue {
    jobs: Sender<Job>,
    waiting: Arc<AtomicUsize>,
}

/// Where they come out.
pub(super) struct Jobs {
    jobs: Receiver<Job>,
    waiting: Arc<AtomicUsize>,
}

pub(super) fn queue() -> (Queue, Jobs) {
    let (sender, receiver) = channel();
    let waiting = Arc::new(AtomicUsize::new(0));
    let jobs = Jobs {
        jobs: receiver,
        waiting: Arc::clone(&waiting),
    };
    (
        Queue {
            jobs: sender,
            waiting,
        },
        jobs,
    )
}

impl Queue {
    /// False where there is no room for it. Waits for nobody.
    pub(super) fn push(&self, level: Level, line: String) -> bool {
        let line = line.into_boxed_str();
        let takes = line.len() + BESIDE;
        let before = self.waiting.fetch_add(takes, Ordering::Relaxed);
        if before + takes > BYTES {
            self.waiting.fetch_sub(takes, Ordering::Relaxed);
            return false;
        }
        self.jobs.send(Job::Line(level, line)).is_ok()
    }

    /// Has the writer say when everything before this is written. False when there is none.
    pub(super) fn flush(&self, done: SyncSender<()>) -> bool {
        self.jobs.send(Job::Flush(done)).is_ok()
    }

    /// What waits.
    pub(super) fn bytes(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }
}

impl Jobs {
    pub(super) fn next(&self, patience: Duration) -> Result<Job, RecvTimeoutError> {
        let job = self.jobs.recv_timeout(patience)?;
        if let Job::Line(_, line) = &job {
            let takes = line.len() + BESIDE;
            self.waiting.fetch_sub(takes, Ordering::Relaxed);
        }
        Ok(job)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What found no room takes none: the next line is not lost for it.
    #[test]
    fn a_line_that_is_lost_leaves_the_room_to_others() {
        let (queue, jobs) = queue();
        let line = |bytes| "x".repeat(bytes);
        assert!(queue.push(Level::INFO, line(BYTES - 2 * BESIDE - 1)));
        for _ in 0..3 {
            assert!(!queue.push(Level::INFO, line(2)));
        }
        assert!(queue.push(Level::INFO, line(1)));
        assert_eq!(queue.bytes(), BYTES);
        for _ in 0..2 {
            jobs.next(Duration::ZERO).unwrap();
        }
        assert_eq!(queue.bytes(), 0);
    }
}
