//! A worker: a thread that runs its share of the clients.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use mio::{Events, Poll, Token};
use tidegate_proto::endpoint::Timers;
use tidegate_proto::{Now, Timestamp};

use super::client::Client;
use super::plan::{Plan, Timetable};
use super::progress::Progress;
use super::tally::Tally;
use super::workspace::Workspace;
use crate::clock::Clock;
use crate::udp::Received;

/// One thread's clients, and what they share.
pub(super) struct Worker {
    plan: Arc<Plan>,
    progress: Arc<Progress>,
    clock: Clock,
    poll: Poll,
    index: usize,
    clients: Vec<Client>,
    timers: Timers<usize>,
    readable: VecDeque<usize>,
    received: Received,
    workspace: Workspace,
    table: Option<Timetable>,
}

impl Worker {
    pub(super) fn new(
        plan: Arc<Plan>,
        progress: Arc<Progress>,
        clock: Clock,
        members: Vec<usize>,
    ) -> io::Result<Self> {
        let mut timers = Timers::default();
        let mut clients = Vec::with_capacity(members.len());
        for (slot, number) in members.iter().enumerate() {
            let place = *number as f64 / plan.load.clients.max(1) as f64;
            let dials = plan.began + plan.load.ramp.mul_f64(place);
            let mut client = Client::new(*number as u32, dials);
            timers.schedule(slot, dials, &mut client.scheduled);
            clients.push(client);
        }
        Ok(Self {
            index: members.first().copied().unwrap_or(0),
            plan,
            progress,
            clock,
            poll: Poll::new()?,
            clients,
            timers,
            readable: VecDeque::new(),
            received: Received::default(),
            workspace: Workspace::default(),
            table: None,
        })
    }

    /// Until everything came back, or too long after the end.
    pub(super) fn run(mut self) -> anyhow::Result<Tally> {
        let mut events = Events::with_capacity(1024);
        let mut next_look = Timestamp::ZERO;
        while !self.progress.is_stopped() {
            let now = self.clock.now();
            self.begin_when_told(now);
            self.receive(now)?;
            self.take_turns(now)?;
            if now.mono >= next_look {
                next_look = now.mono + LOOK_EVERY;
                self.progress.publish(self.index, &self.tally());
                if self.is_over(now.mono) {
                    break;
                }
            }
            let wait = match self.timers.next() {
                _ if !self.readable.is_empty() => Duration::ZERO,
                Some(at) => at.since(now.mono).min(TURN_MAX),
                None => TURN_MAX,
            };
            match self.poll.poll(&mut events, Some(wait)) {
                Err(error) if error.kind() != io::ErrorKind::Interrupted => {
                    return Err(error.into());
                }
                Ok(()) | Err(_) => {}
            }
            self.readable
                .extend(events.iter().map(|event| event.token().0));
        }
        let now = self.clock.now();
        for client in &mut self.clients {
            client.finish(now, &self.plan, &mut self.workspace);
        }
        Ok(self.tally())
    }

    /// Everything counted so far, by sessions under way too.
    fn tally(&self) -> Tally {
        let mut tally = self.workspace.tally.clone();
        for stats in self.clients.iter().filter_map(Client::stats) {
            tally.in_bad_mode += u64::from(stats.in_bad_mode);
            tally.stats.absorb(&stats);
        }
        tally
    }

    fn begin_when_told(&mut self, now: Now) {
        let go = self.progress.go.load(Ordering::Relaxed);
        if self.table.is_some() || go == 0 {
            return;
        }
        let begin = Timestamp::from_nanos(go);
        let table = Timetable {
            begin,
            end: begin + self.plan.load.duration,
        };
        self.table = Some(table);
        for slot in 0..self.clients.len() {
            self.clients[slot].begin(table, &self.plan);
            self.schedule(now, slot);
        }
    }

    /// One batch of each client that has any.
    fn receive(&mut self, now: Now) -> anyhow::Result<()> {
        for _ in 0..self.readable.len() {
            let Some(slot) = self.readable.pop_front() else {
                break;
            };
            let Some(client) = self.clients.get_mut(slot) else {
                continue;
            };
            if client.receive(now, &mut self.received, &mut self.workspace)? {
                self.readable.push_back(slot);
            }
            self.turn(now, slot)?;
        }
        Ok(())
    }

    fn take_turns(&mut self, now: Now) -> anyhow::Result<()> {
        while let Some((at, slot)) = self.timers.pop_due(now.mono) {
            let client = &mut self.clients[slot];
            if client.scheduled.take(at) {
                self.turn(now, slot)?;
            }
        }
        Ok(())
    }

    fn turn(&mut self, now: Now, slot: usize) -> anyhow::Result<()> {
        let registry = self.poll.registry();
        let client = &mut self.clients[slot];
        client.turn(now, &self.plan, &mut self.workspace, registry, Token(slot))?;
        self.schedule(now, slot);
        Ok(())
    }

    fn schedule(&mut self, now: Now, slot: usize) {
        let client = &mut self.clients[slot];
        if let Some(at) = client.next_turn(now.mono, &self.plan) {
            // At least a moment later: a deadline that is not met at once is looked at again soon.
            let at = at.max(now.mono + TURN_MIN);
            self.timers.schedule(slot, at, &mut client.scheduled);
        }
    }

    fn is_over(&self, now: Timestamp) -> bool {
        let Some(table) = self.table else {
            return false;
        };
        let mut clients = self.clients.iter();
        now >= table.end + self.plan.load.settle
            || now >= table.end && clients.all(|client| client.is_settled(now, &self.plan))
    }
}

/// How often what was counted is published.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Orders are noticed within this.
const TURN_MAX: Duration = Duration::from_millis(20);
const TURN_MIN: Duration = Duration::from_micros(100);
