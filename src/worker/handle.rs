//! A worker, seen from other threads: how it is started, and what it can be told.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use mio::{Poll, Token, Waker};
use tidegate_proto::Now;

use super::Worker;
use crate::clock::Clock;
use crate::listener::{Dial, Listener, Parts};
use crate::sizing::threads;

/// What a worker can be told.
pub enum Command {
    /// Do this between two turns; it must be short.
    Visit(Visit),
    /// Serve this listener too.
    Add(Box<Parts>),
    /// Begin a session in the listener with this index.
    Dial(usize, Box<Dial>),
    /// Take no new peers, deliver what was accepted, say goodbye, end when everybody is gone.
    Drain {
        /// How long sessions may take to deliver.
        linger: Duration,
    },
    /// Say goodbye and end, within a second.
    Stop,
}

/// What an operator wants of the listeners of a worker.
pub type Visit = Box<dyn FnOnce(Now, &mut [Listener]) + Send>;

/// The names of their threads begin with it.
pub(crate) const THREAD: &str = "worker";

/// A worker, seen from outside.
pub struct Handle {
    remote: Remote,
    thread: JoinHandle<io::Result<()>>,
}

impl Handle {
    /// Starts a worker for these listeners. `clock` must be the same for all, since they compare
    /// times with the control plane.
    /// `alive` is dropped when its thread ends, however it does.
    pub fn spawn(
        index: usize,
        clock: Clock,
        listeners: Vec<Parts>,
        alive: impl Send + 'static,
    ) -> anyhow::Result<Self> {
        let poll = Poll::new()?;
        let waker = Arc::new(Waker::new(poll.registry(), WAKER)?);
        let (commands, inbox) = channel();
        let own_waker = Arc::clone(&waker);
        let name = format!("{THREAD} {index}");
        let thread = std::thread::Builder::new().name(name).spawn(move || {
            let _alive = alive;
            Worker::new(poll, own_waker, clock, inbox, listeners)?.run()
        });
        let thread = thread.map_err(|error| threads::unavailable("a worker", &error))?;
        Ok(Self {
            remote: Remote { commands, waker },
            thread,
        })
    }

    /// Tells it; does nothing when it has ended.
    pub fn tell(&self, command: Command) {
        self.remote.tell(command);
    }

    /// Something that can tell it from elsewhere.
    pub fn remote(&self) -> Remote {
        self.remote.clone()
    }

    /// Whether it has ended, for whatever reason.
    pub fn is_finished(&self) -> bool {
        self.thread.is_finished()
    }

    /// Waits for its end. The outer error is a panic.
    pub fn join(self) -> std::thread::Result<io::Result<()>> {
        self.thread.join()
    }
}

/// Commands from another task.
#[derive(Clone)]
pub struct Remote {
    commands: Sender<Command>,
    waker: Arc<Waker>,
}

impl Remote {
    /// Sends a command to the worker and wakes it.
    pub fn tell(&self, command: Command) {
        if self.commands.send(command).is_ok()
            && let Err(error) = self.waker.wake()
        {
            tracing::error!(event = "wake_failed", %error);
        }
    }

    /// Has it do something between two turns; nothing when it has ended.
    pub fn visit(&self, visit: impl FnOnce(Now, &mut [Listener]) + Send + 'static) {
        self.tell(Command::Visit(Box::new(visit)));
    }
}

/// What the poll calls the waker. No socket of a listener has this number.
const WAKER: Token = Token(usize::MAX);
