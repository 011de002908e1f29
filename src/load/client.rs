//! One client: its session, its socket, its timetable.
//!
//! ```text
//!   Waiting ──dial──▶ Dialing ──Connected──▶ In ──end of the run, or put out──▶ Out
//!      ▲                 │ not let in, patience left                            ▲
//!      └─────a second────┴───────────── no answer, denied for good ──────────────┘
//! ```

use std::io;
use std::time::Duration;

use mio::{Registry, Token};
use tidegate_proto::endpoint::Scheduled;
use tidegate_proto::{CloseReason, Event, Now, SendError, Session, Stats, Timestamp};

use super::Pace;
use super::content::Kind;
use super::echo_check::EchoCheck;
use super::plan::{Plan, Timetable};
use super::tally::micros;
use super::workspace::Workspace;
use crate::udp::{Options, Received, UdpError, UdpSocket};

enum Stage {
    /// Dials at that time.
    Waiting(Timestamp),
    Dialing,
    In,
    Out,
}

pub(super) struct Client {
    stage: Stage,
    /// When it first dialled, or will.
    first_dial: Timestamp,
    /// It was answered once, and not let in.
    denied: bool,
    connection: Option<Connection>,
    echoes: EchoCheck,
    /// Messages by the timetable so far.
    asked: u64,
    next_due: Timestamp,
    table: Option<Timetable>,
    /// A message is due that the session did not take.
    blocked: bool,
    /// When it has its next turn.
    pub(super) scheduled: Scheduled,
}

/// A session and its socket, connected to the server.
struct Connection {
    session: Box<dyn Session>,
    socket: UdpSocket,
}

impl Client {
    pub(super) fn new(number: u32, first_dial: Timestamp) -> Self {
        Self {
            stage: Stage::Waiting(first_dial),
            first_dial,
            denied: false,
            connection: None,
            echoes: EchoCheck::new(number),
            asked: 0,
            next_due: Timestamp::MAX,
            table: None,
            blocked: false,
            scheduled: Scheduled::default(),
        }
    }

    /// The measurement is fixed. Who is not in yet begins when it is.
    pub(super) fn begin(&mut self, table: Timetable, plan: &Plan) {
        self.table = Some(table);
        if matches!(self.stage, Stage::In) {
            self.line_up(table.begin, plan);
        }
    }

    /// Clients speak in turn, not all in the same millisecond.
    fn line_up(&mut self, begin: Timestamp, plan: &Plan) {
        let place = f64::from(self.echoes.number) / plan.load.clients.max(1) as f64;
        let phase = match plan.load.pace {
            Pace::Every(interval) => interval.mul_f64(place),
            Pace::Window(_) => Duration::ZERO,
        };
        self.next_due = begin + phase;
    }

    /// Takes what the socket has; true when there may be more.
    pub(super) fn receive(
        &mut self,
        now: Now,
        received: &mut Received,
        workspace: &mut Workspace,
    ) -> io::Result<bool> {
        let Some(Connection { session, socket }) = &mut self.connection else {
            return Ok(false);
        };
        match socket.receive(received) {
            Ok(()) => {}
            Err(UdpError::Broken) => return Err(io::Error::other("a socket is broken")),
            Err(UdpError::Blocked) => return Ok(false),
            // Nobody listens there (yet), or a router says no: the session tries again, or gives up. Datagrams may wait
            // behind the error, of which the poll does not tell again.
            Err(_) => return Ok(true),
        }
        workspace.tally.overrun += socket.new_drops(received);
        for index in 0..received.len() {
            for datagram in received.take(index).1 {
                workspace.tally.datagrams_received += 1;
                // What the session refuses it has counted.
                session.handle_datagram(now, datagram).ok();
                if session.is_urgent() {
                    workspace.transmit(now, session.as_mut(), socket);
                }
            }
        }
        Ok(received.may_have_left())
    }

    /// Does what is due.
    pub(super) fn turn(
        &mut self,
        now: Now,
        plan: &Plan,
        workspace: &mut Workspace,
        registry: &Registry,
        token: Token,
    ) -> anyhow::Result<()> {
        if let Stage::Waiting(at) = self.stage
            && at <= now.mono
        {
            self.dial(now, plan, registry, token)?;
        }
        if let Some(Connection { session, .. }) = &mut self.connection
            && session
                .poll_timeout()
                .is_some_and(|deadline| deadline.at <= now.mono)
        {
            session.handle_timeout(now);
        }
        self.follow(now, plan, workspace);
        if matches!(self.stage, Stage::Dialing) && now.mono >= self.first_dial + plan.load.patience
        {
            self.leave(now, workspace, CloseReason::ConnectTimeout);
            self.put_out(now, CloseReason::ConnectTimeout, plan, workspace);
        }
        self.speak(now, plan, workspace);
        self.listen(now, plan, workspace);
        if let Some(Connection { session, socket }) = &mut self.connection {
            workspace.transmit(now, session.as_mut(), socket);
        }
        if matches!(self.stage, Stage::Out | Stage::Waiting(_)) {
            self.hang_up(workspace, registry);
        }
        Ok(())
    }

    /// When to look again, if nothing arrives.
    pub(super) fn next_turn(&self, now: Timestamp, plan: &Plan) -> Option<Timestamp> {
        let session = self
            .connection
            .as_ref()
            .and_then(|connection| connection.session.poll_timeout());
        let session = session.map(|deadline| deadline.at);
        let own = match self.stage {
            Stage::Waiting(at) => Some(at),
            Stage::Dialing => Some(self.first_dial + plan.load.patience),
            Stage::In if self.blocked => Some(now + BLOCKED_LOOK),
            Stage::In => match (self.table, plan.load.pace) {
                (Some(table), Pace::Every(_)) => Some(self.next_due).filter(|at| *at < table.end),
                (Some(table), Pace::Window(_)) if now < table.begin => Some(table.begin),
                (_, Pace::Every(_) | Pace::Window(_)) => None,
            },
            Stage::Out => None,
        };
        [session, own].into_iter().flatten().min()
    }

    /// What its session counted, while it has one.
    pub(super) fn stats(&self) -> Option<Stats> {
        let connection = self.connection.as_ref()?;
        Some(connection.session.stats())
    }

    /// Whether nothing more is expected of it.
    pub(super) fn is_settled(&self, now: Timestamp, plan: &Plan) -> bool {
        let Some(table) = self.table else {
            return false;
        };
        if matches!(self.stage, Stage::Out) {
            return true;
        }
        if now < table.end {
            return false;
        }
        // What got lost on the unreliable channel will not come.
        let waits = self.echoes.unreliable.open() > 0 && now < table.end + STRAGGLERS;
        let under_way = match (&self.connection, plan.load.echoed) {
            (Some(connection), false) => connection.session.stats().outbox_messages > 0,
            (_, _) => self.echoes.reliable.open() > 0,
        };
        !waits && !under_way
    }

    /// Says goodbye, and adds up what is left to add.
    pub(super) fn finish(&mut self, now: Now, plan: &Plan, workspace: &mut Workspace) {
        if matches!(self.stage, Stage::Dialing | Stage::Waiting(_)) {
            let why = self.kept_out_by(CloseReason::ConnectTimeout);
            *workspace.tally.refused.entry(why).or_default() += 1;
        }
        self.leave(now, workspace, CloseReason::Shutdown);
        let tally = &mut workspace.tally;
        self.echoes
            .finish(plan.shape, tally, &mut workspace.scratch);
        tally.due += match (self.table, plan.load.pace) {
            (Some(table), Pace::Every(interval)) if self.next_due < Timestamp::MAX => {
                let end = table.end.min(now.mono);
                let left = end.since(self.next_due).as_nanos();
                self.asked + left.div_ceil(interval.as_nanos().max(1)) as u64
            }
            (_, Pace::Every(_) | Pace::Window(_)) => self.asked,
        };
    }

    fn dial(
        &mut self,
        now: Now,
        plan: &Plan,
        registry: &Registry,
        token: Token,
    ) -> anyhow::Result<()> {
        let connect_token = plan.tokens.token(self.echoes.number as usize)?;
        let Some(session) = plan.dialer.dial(now, connect_token)? else {
            anyhow::bail!("no connect token for client {}", self.echoes.number);
        };
        let options = Options {
            receive_buffer: CLIENT_BUFFER,
            never_cut: plan.dialer.tries_longer_datagrams(),
            ..Options::default()
        };
        let mut socket = UdpSocket::connect(plan.remote, options)?;
        socket.register(registry, token)?;
        self.connection = Some(Connection { session, socket });
        self.stage = Stage::Dialing;
        Ok(())
    }

    fn follow(&mut self, now: Now, plan: &Plan, workspace: &mut Workspace) {
        while let Some(event) = self
            .connection
            .as_mut()
            .and_then(|connection| connection.session.poll_event())
        {
            match event {
                Event::Authenticated => {
                    if let Some(connection) = &mut self.connection {
                        connection.session.admit(now);
                    }
                }
                Event::Connected => {
                    self.stage = Stage::In;
                    workspace.tally.connected += 1;
                    workspace.tally.ever_connected += 1;
                    let took = now.mono.since(self.first_dial);
                    workspace.tally.handshake.saturating_record(micros(took));
                    if let Some(table) = self.table {
                        self.line_up(table.begin.max(now.mono), plan);
                    }
                }
                Event::Closed(reason) => self.put_out(now, reason, plan, workspace),
            }
        }
    }

    /// Why it is not in, when its last try ended with this reason. Its patience may end in the middle of a try: where one
    /// before it was answered, somebody is there.
    fn kept_out_by(&self, last: CloseReason) -> CloseReason {
        match last {
            CloseReason::ConnectTimeout if self.denied => CloseReason::Denied,
            _ => last,
        }
    }

    /// It is out, or tries again if it was only denied or not answered.
    fn put_out(&mut self, now: Now, reason: CloseReason, plan: &Plan, workspace: &mut Workspace) {
        let tally = &mut workspace.tally;
        self.denied |= reason == CloseReason::Denied;
        match self.stage {
            Stage::Dialing
                if matches!(reason, CloseReason::Denied | CloseReason::ConnectTimeout)
                    && plan.tokens.can_redial()
                    && now.mono + REDIAL_AFTER < self.first_dial + plan.load.patience =>
            {
                tally.redials += 1;
                self.stage = Stage::Waiting(now.mono + REDIAL_AFTER);
            }
            Stage::Dialing => {
                *tally.refused.entry(self.kept_out_by(reason)).or_default() += 1;
                self.stage = Stage::Out;
            }
            Stage::In => {
                tally.connected -= 1;
                *tally.ended.entry(reason).or_default() += 1;
                self.stage = Stage::Out;
            }
            Stage::Waiting(_) | Stage::Out => {}
        }
    }

    fn leave(&mut self, now: Now, workspace: &mut Workspace, reason: CloseReason) {
        if let Some(Connection { session, socket }) = &mut self.connection {
            session.close(now, reason);
            workspace.transmit(now, session.as_mut(), socket);
        }
    }

    fn hang_up(&mut self, workspace: &mut Workspace, registry: &Registry) {
        if let Some(mut connection) = self.connection.take() {
            let stats = connection.session.stats();
            workspace.tally.stats.absorb(&stats);
            // The socket closes anyway.
            connection.socket.deregister(registry).ok();
        }
    }

    fn speak(&mut self, now: Now, plan: &Plan, workspace: &mut Workspace) {
        let (Stage::In, Some(table)) = (&self.stage, self.table) else {
            return;
        };
        match plan.load.pace {
            Pace::Every(interval) => {
                while self.next_due <= now.mono && self.next_due < table.end {
                    if !self.say(now, self.next_due, plan, workspace) {
                        self.blocked = true;
                        return;
                    }
                    if !self.blocked {
                        let late = now.mono.since(self.next_due);
                        workspace.tally.lateness.saturating_record(micros(late));
                    }
                    self.next_due += interval;
                }
                self.blocked = false;
            }
            Pace::Window(count) => {
                let open = |echoes: &EchoCheck| echoes.reliable.open() + echoes.unreliable.open();
                while (table.begin..table.end).contains(&now.mono) && open(&self.echoes) < count {
                    if !self.say(now, now.mono, plan, workspace) {
                        return;
                    }
                }
            }
        }
    }

    /// Sends the next message; false when the session takes none now.
    fn say(&mut self, now: Now, due: Timestamp, plan: &Plan, workspace: &mut Workspace) -> bool {
        let Some(Connection { session, .. }) = &mut self.connection else {
            return false;
        };
        let number = self.echoes.number;
        // The share is kept to a message at every moment, not only on average.
        let share = |asked: u64| (asked as f64 * plan.load.unreliable) as u64;
        let wanted = share(self.asked + 1) > share(self.asked);
        let (kind, outstanding, channel) =
            match (wanted, plan.channels.reliable, plan.channels.unreliable) {
                (false, Some(channel), _) => (Kind::Reliable, &mut self.echoes.reliable, channel),
                (_, _, Some(channel)) => (Kind::Unreliable, &mut self.echoes.unreliable, channel),
                (_, _, None) => return false,
            };
        if kind == Kind::Reliable && !session.has_room() {
            return false;
        }
        plan.shape
            .write(number, kind, outstanding.next(), &mut workspace.scratch);
        match session.send(now, channel, &workspace.scratch) {
            Ok(()) => {}
            Err(
                SendError::Full
                | SendError::Closed
                | SendError::TooLarge { .. }
                | SendError::NoSuchChannel,
            ) => return false,
        }
        outstanding.on_sent(due);
        let messages = match kind {
            Kind::Reliable => &mut workspace.tally.reliable,
            Kind::Unreliable => &mut workspace.tally.unreliable,
        };
        messages.sent += 1;
        if !plan.load.echoed {
            outstanding.give_up_beyond(0);
        } else if kind == Kind::Unreliable {
            messages.missing += outstanding.give_up_beyond(UNRELIABLE_REMEMBERED);
        }
        self.asked += 1;
        true
    }

    fn listen(&mut self, now: Now, plan: &Plan, workspace: &mut Workspace) {
        let Some(Connection { session, .. }) = &mut self.connection else {
            return;
        };
        while let Some(message) = session.poll_message() {
            if plan.load.echoed {
                self.echoes.on_message(
                    now,
                    message,
                    plan.shape,
                    &mut workspace.tally,
                    &mut workspace.scratch,
                );
            } else {
                workspace.tally.unasked += 1;
            }
        }
        session.confirm_written(now);
    }
}

/// One client's share of what the server sends between two turns.
const CLIENT_BUFFER: usize = 256 * 1024;
/// A denied player who tries again at once would be an attack.
const REDIAL_AFTER: Duration = Duration::from_secs(1);
/// A session without room says so by what arrives; this is for those that do not.
const BLOCKED_LOOK: Duration = Duration::from_millis(20);
/// For unreliable messages under way when the time is over.
const STRAGGLERS: Duration = Duration::from_secs(1);
/// Unreliable messages of a client that may still come back.
const UNRELIABLE_REMEMBERED: usize = 4_096;
