//! The loop: one thread, its listeners, one poll. Readers are elsewhere; what they need to know is
//! published, what they want done comes as a command (`handle.rs`).
//!
//! ```text
//!   loop {  1. wait, for events or the next clock, with nothing changed meanwhile
//!           2. read the clocks, once
//!           3. commands
//!           4. datagrams  ─┐  listener/receive.rs
//!           5. timeouts    │  listener/timeouts.rs
//!           6. streams     │  listener/pump.rs
//!           7. datagrams   │  listener/transmit.rs
//!           8. strangers  ─┘  listener/strangers.rs; for each listener, each step bounded
//!           9. publish, four times a second
//!   }
//! ```

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::Duration;

use mio::{Events, Poll, Registry, Waker};
use tidegate_proto::{Now, Timestamp};

use crate::backend::Scratch;
use crate::clock::Clock;
use crate::listener::{Dial, Listener, Parts, Turn, meaning};
use crate::udp::{Outgoing, Received};

mod handle;

pub(crate) use handle::THREAD;
pub use handle::{Command, Handle, Remote, Visit};

struct Worker {
    poll: Poll,
    waker: Arc<Waker>,
    events: Events,
    clock: Clock,
    commands: Receiver<Command>,
    listeners: Vec<Listener>,
    /// Indices are not used again: the poll may still speak of a listener that is gone.
    next_index: usize,
    buffers: Buffers,
    published: Timestamp,
    /// For so many turns after a pause, what waits in the sockets comes before what is overdue.
    behind: u32,
    /// Set once the worker is to end: it does when the last peer is gone, and at this time at the latest.
    ends: Option<Timestamp>,
}

/// What listeners borrow for a turn.
struct Buffers {
    received: Received,
    outgoing: Outgoing,
    scratch: Scratch,
    reply: Vec<u8>,
}

impl Buffers {
    fn turn<'a>(&'a mut self, now: Now, registry: &'a Registry) -> Turn<'a> {
        Turn {
            now,
            registry,
            received: &mut self.received,
            outgoing: &mut self.outgoing,
            scratch: &mut self.scratch,
            reply: &mut self.reply,
        }
    }
}

impl Worker {
    fn new(
        poll: Poll,
        waker: Arc<Waker>,
        mut clock: Clock,
        commands: Receiver<Command>,
        listeners: Vec<Parts>,
    ) -> io::Result<Self> {
        let mut listeners: Vec<_> = listeners
            .into_iter()
            .enumerate()
            .map(|(index, parts)| Listener::new(index, parts))
            .collect();
        for listener in &mut listeners {
            listener.register(poll.registry(), &waker)?;
        }
        let max_frame = listeners.iter().map(Listener::max_frame).max();
        Ok(Self {
            published: clock.now().mono,
            behind: 0,
            poll,
            waker,
            events: Events::with_capacity(EVENTS_PER_TURN),
            clock,
            commands,
            next_index: listeners.len(),
            listeners,
            buffers: Buffers {
                received: Received::default(),
                outgoing: Outgoing::default(),
                scratch: Scratch::new(max_frame.unwrap_or(0)),
                reply: Vec::new(),
            },
            ends: None,
        })
    }

    /// Until told to stop, or until a socket is lost. What is still here by then is told of.
    fn run(&mut self) -> io::Result<()> {
        let outcome = self.take_turns();
        let now = self.clock.now();
        let mut turn = self.buffers.turn(now, self.poll.registry());
        for listener in &mut self.listeners {
            listener.remove_all(&mut turn);
            listener.publish_last(now);
        }
        outcome
    }

    fn take_turns(&mut self) -> io::Result<()> {
        let mut now = self.clock.now();
        while !self.is_done(now) {
            self.wait(now)?;
            let before = now;
            now = self.clock.now();
            self.find_pause(before.mono, now.mono);
            if let Some(secs) = self.clock.take_step() {
                log_clock_step(secs);
            }
            self.turn(now)?;
            let took = self.clock.now().mono.since(now.mono);
            for listener in &mut self.listeners {
                listener.on_turn(took);
            }
        }
        Ok(())
    }

    /// An interrupted poll reports no events, and what follows looks at timeouts: when a process was stopped and goes on, it
    /// would time out peers whose datagrams wait in the socket. So it looks again, and no longer waits: one that is stopped
    /// time and again, as `cpulimit` does it, would wait for ever.
    fn wait(&mut self, now: Now) -> io::Result<()> {
        let mut timeout = self.timeout(now);
        loop {
            match self.poll.poll(&mut self.events, Some(timeout)) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {
                    timeout = Duration::ZERO;
                }
                outcome => return outcome,
            }
        }
    }

    fn turn(&mut self, now: Now) -> io::Result<()> {
        if self.hand_out_events() {
            self.take_commands(now);
        }
        let mut turn = self.buffers.turn(now, self.poll.registry());
        for listener in &mut self.listeners {
            listener.receive(&mut turn);
            if self.behind == 0 || !listener.has_datagrams() {
                listener.handle_timeouts(&mut turn);
            }
            listener.pump(&mut turn);
            listener.transmit(&mut turn);
            listener.handle_strangers(&mut turn);
            if listener.is_broken() {
                return Err(io::Error::other("a listener lost its socket"));
            }
        }
        self.behind = self.behind.saturating_sub(1);
        self.let_go(now);
        if now.mono.since(self.published) >= PUBLISH_INTERVAL {
            self.publish(now);
        }
        Ok(())
    }

    /// Tells the listeners what the poll has for them. Returns whether somebody woke the worker itself.
    fn hand_out_events(&mut self) -> bool {
        let mut woken = false;
        for event in &self.events {
            let Some((index, what)) = meaning(event.token()) else {
                woken = true;
                continue;
            };
            if let Some(listener) = find(&mut self.listeners, index) {
                listener.on_event(what, event);
            }
        }
        woken
    }

    /// No wait is longer than a quarter of a second: if more time has passed between two turns, this
    /// process stood still, and its peers spoke meanwhile.
    fn find_pause(&mut self, last_turn: Timestamp, this_turn: Timestamp) {
        let paused = this_turn.since(last_turn);
        if paused < PAUSE {
            return;
        }
        self.behind = TURNS_BEHIND;
        if self.clock.note_pause(last_turn, this_turn) {
            log_pause(paused);
        }
    }

    fn take_commands(&mut self, now: Now) {
        loop {
            match self.commands.try_recv() {
                Ok(command) => self.handle_command(now, command),
                Err(TryRecvError::Empty | TryRecvError::Disconnected) => return,
            }
        }
    }

    fn handle_command(&mut self, now: Now, command: Command) {
        match command {
            Command::Visit(visit) => {
                visit(now, &mut self.listeners);
                // New rules may allow longer frames.
                let frames = self.listeners.iter().map(Listener::max_frame);
                self.buffers.scratch.fit(frames.max().unwrap_or(0));
            }
            Command::Add(parts) => self.add(now, *parts),
            Command::Dial(index, dial) => self.dial(now, index, *dial),
            Command::Drain { linger } => {
                for listener in &mut self.listeners {
                    listener.drain(now, linger);
                }
                self.ends = Some(Timestamp::MAX);
            }
            Command::Stop => {
                for listener in &mut self.listeners {
                    listener.stop(now);
                }
                self.ends = Some(now.mono + STOP_TIME);
            }
        }
    }

    fn add(&mut self, now: Now, parts: Parts) {
        if self.ends.is_some() {
            return;
        }
        let mut listener = Listener::new(self.next_index, parts);
        let serving = self.listeners.iter().filter(|elder| !elder.is_retiring());
        if let Some(elder) = serving.max_by_key(|elder| elder.name() == listener.name()) {
            listener.inherit(elder);
        }
        if let Err(error) = listener.register(self.poll.registry(), &self.waker) {
            let name = listener.name();
            tracing::error!(event = "listener_failed", listener = name, %error);
            // It is not registered; what counts is that nobody waits for its reports.
            listener.close(now, self.poll.registry());
            return;
        }
        self.next_index += 1;
        self.buffers.scratch.fit(listener.max_frame());
        self.listeners.push(listener);
    }

    /// Closes what a reload took away, once nobody is left in it.
    fn let_go(&mut self, now: Now) {
        let registry = self.poll.registry();
        self.listeners.retain_mut(|listener| {
            if !listener.poll_retired(now) {
                return true;
            }
            // The address is free when the last worker lets go of it.
            if listener.close(now, registry) {
                tracing::info!(
                    event = "listener_closed",
                    listener = listener.name(),
                    address = listener.held_address().map(|held| held.address.to_string()),
                );
            }
            false
        });
    }

    fn dial(&mut self, now: Now, index: usize, dial: Dial) {
        let Some(listener) = find(&mut self.listeners, index) else {
            return;
        };
        let mut turn = self.buffers.turn(now, self.poll.registry());
        if let Err(error) = listener.dial(&mut turn, dial) {
            tracing::warn!(event = "dial_failed", tunnel = listener.name(), %error);
        }
    }

    fn timeout(&mut self, now: Now) -> Duration {
        if self.listeners.iter().any(Listener::has_work) {
            return Duration::ZERO;
        }
        let publish = self.published + PUBLISH_INTERVAL;
        let clocks = self.listeners.iter().filter_map(Listener::poll_timeout);
        let next = clocks.chain(self.ends).min();
        next.map_or(publish, |at| at.min(publish)).since(now.mono)
    }

    fn is_done(&self, now: Now) -> bool {
        self.ends
            .is_some_and(|at| now.mono >= at || self.listeners.iter().all(Listener::is_over))
    }

    fn publish(&mut self, now: Now) {
        self.published = now.mono;
        for listener in &mut self.listeners {
            listener.publish(now);
        }
    }
}

fn log_pause(paused: Duration) {
    tracing::warn!(
        event = "process_paused",
        for_s = paused.as_secs_f32(),
        "this process did not run: it was stopped, or got no processor time (a CPU limit, a busy or \
         suspended machine). Peers whose timeout is shorter are gone"
    );
}

fn log_clock_step(secs: i64) {
    tracing::warn!(
        event = "clock_set",
        by_s = secs,
        reason = if secs > 0 { "forward" } else { "back" },
        "sessions go on; connect tokens are judged by the calendar as it is now"
    );
}

/// There are a handful at most.
fn find(listeners: &mut [Listener], index: usize) -> Option<&mut Listener> {
    listeners
        .iter_mut()
        .find(|listener| listener.index() == index)
}

const EVENTS_PER_TURN: usize = 1024;
const PUBLISH_INTERVAL: Duration = Duration::from_millis(250);

/// Longer than any wait and any turn, and shorter than anybody's timeout.
const PAUSE: Duration = Duration::from_secs(2);

/// After a pause: in each turn a few hundred datagrams are read, and a socket holds some thousands. Then clocks
/// count again, however much still comes.
const TURNS_BEHIND: u32 = 32;

/// How long peers and backends get to hear that a stop is now.
const STOP_TIME: Duration = Duration::from_millis(500);
