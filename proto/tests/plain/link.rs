//! Two ends in virtual time, and a bad link between them.

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use tidegate_proto::sim::{Conditions, Done, Link};
use tidegate_proto::{
    Acceptor, CloseReason, Event, Now, Reject, SendError, Session, Stranger, Timestamp, Verdict,
};

pub(crate) fn calm() -> Conditions {
    Conditions {
        delay: Duration::from_millis(20),
        ..Conditions::default()
    }
}

pub(crate) fn storm() -> Conditions {
    Conditions {
        loss: 0.25,
        duplicate: 0.15,
        reorder: (0.5, Duration::from_millis(40)),
        ..calm()
    }
}

/// One end: its session, what it has to send, and what came out of it.
pub(crate) struct End {
    pub(crate) session: Option<Box<dyn Session>>,
    pub(crate) to_send: VecDeque<Vec<u8>>,
    /// Offer at most one message in this time; zero offers whatever has room.
    pub(crate) pace: Duration,
    next_offer: Timestamp,
    pub(crate) received: Vec<Vec<u8>>,
    pub(crate) connected: bool,
    pub(crate) closed: Option<CloseReason>,
    pub(crate) wakes: u64,
    /// False while its owner does not poll messages.
    pub(crate) is_reading: bool,
    pub(crate) bytes_out: u64,
    pub(crate) bytes_in: u64,
    /// Datagrams the session did not take.
    pub(crate) rejects: u64,
}

impl End {
    pub(crate) fn new(session: Option<Box<dyn Session>>) -> Self {
        Self {
            session,
            to_send: VecDeque::new(),
            pace: Duration::ZERO,
            next_offer: Timestamp::ZERO,
            received: Vec::new(),
            connected: false,
            closed: None,
            wakes: 0,
            is_reading: true,
            bytes_out: 0,
            bytes_in: 0,
            rejects: 0,
        }
    }

    pub(crate) fn session_mut(&mut self) -> &mut dyn Session {
        self.session.as_deref_mut().expect("a session")
    }

    pub(crate) fn session(&self) -> &dyn Session {
        self.session.as_deref().expect("a session")
    }
}

/// Two ends and what is in the air. End 0 dials; end 1 gets its session from the acceptor.
pub(crate) struct Pair {
    pub(crate) now: Now,
    pub(crate) ends: [End; 2],
    pub(crate) weather: Conditions,
    /// Datagrams that came after a later one.
    pub(crate) overtaken: u64,
    acceptor: Box<dyn Acceptor>,
    /// Both ways: to which end, and the how manyth of all.
    air: Link<(usize, u64)>,
    serial: u64,
    latest: [u64; 2],
    /// To which end.
    forged: VecDeque<(usize, Vec<u8>)>,
}

pub(crate) const START: Now = Now {
    mono: Timestamp::from_millis(5_000),
    unix_secs: 1_700_000_000,
};

pub(crate) const CLIENT: SocketAddr =
    SocketAddr::new(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 7)), 40_001);

/// What an acceptor makes of a datagram from [`CLIENT`], and what it replies.
pub(crate) fn judge(acceptor: &mut dyn Acceptor, now: Now, datagram: &[u8]) -> (Verdict, Vec<u8>) {
    judge_from(acceptor, now, CLIENT, datagram)
}

pub(crate) fn judge_from(
    acceptor: &mut dyn Acceptor,
    now: Now,
    from: SocketAddr,
    datagram: &[u8],
) -> (Verdict, Vec<u8>) {
    let mut reply = Vec::new();
    let stranger = Stranger {
        from,
        datagram: &mut datagram.to_vec(),
        reply: &mut reply,
    };
    (acceptor.handle_unknown(now, stranger), reply)
}

/// Why a listener that takes nobody refuses a datagram from [`CLIENT`], and what it would have replied.
#[track_caller]
pub(crate) fn refusal(acceptor: &mut dyn Acceptor, now: Now, datagram: &[u8]) -> (Reject, Vec<u8>) {
    let mut reply = Vec::new();
    let stranger = Stranger {
        from: CLIENT,
        datagram: &mut datagram.to_vec(),
        reply: &mut reply,
    };
    match acceptor.handle_refused(now, stranger, Reject::Full) {
        Verdict::Reject(reject) => (reject, reply),
        _ => panic!("{datagram:?} is let in"),
    }
}

impl Pair {
    pub(crate) fn new(
        client: Box<dyn Session>,
        acceptor: Box<dyn Acceptor>,
        weather: Conditions,
        seed: u64,
    ) -> Self {
        Self {
            now: START,
            ends: [End::new(Some(client)), End::new(None)],
            weather,
            overtaken: 0,
            acceptor,
            air: Link::new(weather, seed),
            serial: 0,
            latest: [0; 2],
            forged: VecDeque::new(),
        }
    }

    /// Runs until `done` or for `secs` seconds; true when done.
    pub(crate) fn run(&mut self, secs: u64, mut done: impl FnMut(&Self) -> bool) -> bool {
        let end = self.now.mono + Duration::from_secs(secs);
        let mut still = 0;
        loop {
            self.drain(0);
            self.drain(1);
            if done(self) {
                return true;
            }
            let Some(next) = self.next_wake() else {
                return false;
            };
            if next > end {
                self.now.mono = end;
                return false;
            }
            still = if next > self.now.mono { 0 } else { still + 1 };
            assert!(still < 10_000, "time stands still");
            self.now.mono = self.now.mono.max(next);
            self.turn();
        }
    }

    /// Both ends send what they have to; all of it arrives within so many seconds, whole and in
    /// order, and nobody is put out. `seed` is told if not.
    #[track_caller]
    pub(crate) fn exchange(&mut self, seed: u64, secs: u64, sent: &[Vec<Vec<u8>>; 2]) {
        for (end, sent) in self.ends.iter_mut().zip(sent) {
            end.to_send.extend(sent.iter().cloned());
        }
        let done = self.run(secs, |pair| {
            pair.ends[1].received.len() >= sent[0].len()
                && pair.ends[0].received.len() >= sent[1].len()
        });
        let closed = self.ends[0].closed.or(self.ends[1].closed);
        assert_eq!(closed, None, "seed {seed}");
        assert!(done, "seed {seed}: not everything arrived");
        for (end, sent) in [(1, &sent[0]), (0, &sent[1])] {
            assert_same(&self.ends[end].received, sent);
            let stats = self.ends[end].session().stats();
            let bytes = sent.iter().map(Vec::len).sum::<usize>() as u64;
            let received = (stats.messages_received, stats.message_bytes_received);
            assert_eq!(received, (sent.len() as u64, bytes), "seed {seed}");
        }
    }

    /// A datagram appears out of nowhere at an end, as if from the other one.
    pub(crate) fn forge(&mut self, to: usize, datagram: &[u8]) {
        self.forged.push_back((to, datagram.to_vec()));
    }

    /// What the link did.
    pub(crate) fn done(&self) -> Done {
        self.air.done()
    }

    fn next_wake(&self) -> Option<Timestamp> {
        if !self.forged.is_empty() {
            return Some(self.now.mono);
        }
        let mut next = self.air.next_arrival();
        let mut sooner = |at: Timestamp| next = Some(next.map_or(at, |n| n.min(at)));
        for end in &self.ends {
            let Some(session) = &end.session else {
                continue;
            };
            if let Some(deadline) = session.poll_timeout() {
                sooner(deadline.at);
            }
            if !end.to_send.is_empty()
                && !end.pace.is_zero()
                && end.connected
                && end.closed.is_none()
                && session.has_room()
            {
                sooner(end.next_offer);
            }
        }
        next
    }

    fn turn(&mut self) {
        while let Some((to, datagram)) = self.forged.pop_front() {
            self.arrive(to, datagram);
            self.drain(to);
        }
        while let Some(((to, serial), datagram)) = self.air.pop(self.now.mono) {
            self.overtaken += u64::from(serial < self.latest[to]);
            self.latest[to] = self.latest[to].max(serial);
            self.arrive(to, datagram);
            self.drain(to);
        }
        for index in 0..2 {
            let now = self.now;
            let end = &mut self.ends[index];
            if let Some(session) = &mut end.session
                && session.poll_timeout().is_some_and(|d| d.at <= now.mono)
            {
                end.wakes += 1;
                session.handle_timeout(now);
                self.drain(index);
            }
        }
    }

    fn arrive(&mut self, to: usize, mut datagram: Vec<u8>) {
        let now = self.now;
        let end = &mut self.ends[to];
        end.bytes_in += datagram.len() as u64;
        if let Some(session) = &mut end.session {
            end.rejects += u64::from(session.handle_datagram(now, &mut datagram).is_err());
            return;
        }
        if to == 0 {
            return;
        }
        match judge(self.acceptor.as_mut(), now, &datagram) {
            (Verdict::Accept(session), _) => self.ends[1].session = Some(session),
            (Verdict::Reply, reply) => {
                self.ends[1].bytes_out += reply.len() as u64;
                self.launch(1, &reply);
            }
            (Verdict::Deny(_) | Verdict::Reject(_), _) => {}
        }
    }

    fn drain(&mut self, index: usize) {
        let now = self.now;
        let mut launched = Vec::new();
        let end = &mut self.ends[index];
        let Some(session) = &mut end.session else {
            return;
        };
        // Contract: dry in events and datagrams, messages only while reading.
        for _ in 0..2 {
            while let Some(event) = session.poll_event() {
                match event {
                    Event::Authenticated => session.admit(now),
                    Event::Connected => end.connected = true,
                    Event::Closed(reason) => {
                        assert_eq!(end.closed, None, "closed twice");
                        end.closed = Some(reason);
                    }
                }
            }
        }
        while end.connected
            && end.closed.is_none()
            && (end.pace.is_zero() || now.mono >= end.next_offer)
            && session.has_room()
            && let Some(payload) = end.to_send.front()
        {
            match session.send(now, 0, payload) {
                Ok(()) => drop(end.to_send.pop_front()),
                Err(SendError::Closed) => break,
                Err(error) => panic!("there was room: {error:?}"),
            }
            end.next_offer = now.mono + end.pace;
        }
        if end.is_reading {
            while let Some(message) = session.poll_message() {
                end.received.push(message.payload.to_vec());
            }
        }
        let mut datagram = Vec::new();
        while session.poll_transmit(now, &mut datagram) {
            end.bytes_out += datagram.len() as u64;
            launched.push(std::mem::take(&mut datagram));
        }
        for datagram in launched {
            self.launch(index, &datagram);
        }
    }

    fn launch(&mut self, from: usize, datagram: &[u8]) {
        self.serial += 1;
        self.air.set_conditions(self.weather);
        self.air
            .push(self.now.mono, (1 - from, self.serial), datagram);
    }
}

/// Numbered payloads of varying length.
pub(crate) fn numbered(count: u32, longest: usize) -> Vec<Vec<u8>> {
    (0..count)
        .map(|number| {
            let length = 4 + (number as usize * 31) % (longest - 3);
            let mut payload = vec![number as u8; length];
            payload[..4].copy_from_slice(&number.to_be_bytes());
            payload
        })
        .collect()
}

/// Equality that says where two long lists part instead of printing both.
#[track_caller]
pub(crate) fn assert_same(received: &[Vec<u8>], sent: &[Vec<u8>]) {
    let same = received
        .iter()
        .zip(sent)
        .take_while(|(a, b)| a == b)
        .count();
    assert!(
        same == sent.len() && received.len() == sent.len(),
        "{} received, {} sent, the first {same} equal",
        received.len(),
        sent.len()
    );
}
