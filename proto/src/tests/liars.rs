//! Clients gone bad: they hold a real token, or speak a protocol that asks for none, and then do
//! what no honest client does. The same lies are told by servers (`bad_servers.rs`).

use std::time::Duration;

use super::games::Game;
use crate::session::{
    Allowance, Channel, CloseReason, Event, Held, Identity, Message, Reject, SendError, Session,
};
use crate::sim::Random;
use crate::stats::Stats;
use crate::time::{Deadline, Now, Timestamp, Wake};
use crate::yojimbo::channels::{FragmentPlace, Layout, PacketWriter};
use crate::yojimbo::netcode::{Client, ClientState, ConnectToken, Link};
use crate::yojimbo::reliable::{Fragment, Header};

/// What a liar does with a seat at a yojimbo server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lie {
    /// Only first fragments of packets, ever new ones.
    FirstFragments,
    /// Only last fragments, which claim that much came before them.
    LastFragments,
    /// Message 0 never comes, all that the window takes does, again and again.
    WithheldMessage,
    /// Ids at the edge of the window and beyond it.
    WindowEdge,
    /// 256 empty messages in each packet.
    EmptyMessages,
    /// Acknowledges everything, sent or not.
    FalseAcks,
    /// Changes its mind about how long a block is.
    BlockCounts,
    /// Pieces of a block that never becomes whole.
    EndlessBlock,
    /// Payloads of chance.
    Noise,
    /// Takes a seat and acknowledges nothing, but stays alive.
    NoAcks,
}

impl Lie {
    pub(super) const ALL: [Self; 10] = [
        Self::FirstFragments,
        Self::LastFragments,
        Self::WithheldMessage,
        Self::WindowEdge,
        Self::EmptyMessages,
        Self::FalseAcks,
        Self::BlockCounts,
        Self::EndlessBlock,
        Self::Noise,
        Self::NoAcks,
    ];
}

/// An authenticated client of yojimbo, built on the public pieces of the stack.
pub(super) struct Liar {
    lie: Lie,
    stage: Stage,
    layout: Layout,
    random: Random,
    next_at: Timestamp,
    every: Duration,
    /// Packets sent.
    count: u64,
    connected: bool,
    closed: Option<CloseReason>,
}

enum Stage {
    Dialing(Box<Client>),
    Seated(Box<Link>),
    Over,
}

impl Liar {
    pub(super) fn new(now: Now, token: ConnectToken, lie: Lie, every: Duration, seed: u64) -> Self {
        Self {
            stage: Stage::Dialing(Box::new(Client::new(now, token))),
            next_at: now.mono,
            every,
            ..Self::prompter(lie, seed)
        }
    }

    /// A liar whose words somebody else sends.
    pub(super) fn prompter(lie: Lie, seed: u64) -> Self {
        Self {
            lie,
            stage: Stage::Over,
            layout: Layout::default(),
            random: Random::new(seed),
            next_at: Timestamp::ZERO,
            every: Duration::ZERO,
            count: 0,
            connected: false,
            closed: None,
        }
    }

    /// A liar with a token of this game.
    pub(super) fn dial(game: &mut Game, now: Now, client: usize, lie: Lie) -> Box<dyn Session> {
        let token = game.token(now, client);
        let every = Duration::from_millis(2);
        Box::new(Self::new(now, token, lie, every, client as u64))
    }

    fn follow_client(&mut self) {
        let Stage::Dialing(client) = &self.stage else {
            return;
        };
        match client.state() {
            ClientState::Requesting | ClientState::Responding => {}
            ClientState::Connected => {
                if let Stage::Dialing(client) = std::mem::replace(&mut self.stage, Stage::Over)
                    && let Some(link) = client.into_link()
                {
                    self.stage = Stage::Seated(Box::new(link));
                    self.connected = true;
                }
            }
            _ => self.end(CloseReason::ConnectTimeout),
        }
    }

    fn end(&mut self, reason: CloseReason) {
        self.stage = Stage::Over;
        self.closed = Some(reason);
    }

    fn header(&mut self) -> Header {
        let sequence = self.count as u16;
        match self.lie {
            Lie::FalseAcks => Header {
                sequence,
                ack: self.random.next() as u16,
                ack_bits: u32::MAX,
            },
            // Nothing was received yet; that is how it is said.
            _ => Header {
                sequence,
                ack: u16::MAX,
                ack_bits: 0,
            },
        }
    }

    /// The next payload under the cipher.
    pub(super) fn payload(&mut self, out: &mut Vec<u8>) {
        let header = self.header();
        let count = self.count;
        self.count += 1;
        match self.lie {
            Lie::FirstFragments | Lie::LastFragments => {
                self.fragment(header, out);
                return;
            }
            Lie::Noise => {
                let length = 1 + self.random.below(1100) as usize;
                let random = &mut self.random;
                out.extend((0..length).map(|_| random.next() as u8));
                return;
            }
            _ => header.emit(out),
        }
        let mut writer = PacketWriter::new(&self.layout, out);
        match self.lie {
            Lie::WithheldMessage => {
                let first = 1 + (count * 20 % 1_000) as u16;
                writer.reliable(0, first..first + 20);
                (0..20).for_each(|_| writer.message(0, (&[7; 40], &[])));
            }
            Lie::WindowEdge => {
                let id = [1022, 1023, 1024, 1025, 32_767, 32_768, 65_535][count as usize % 7];
                writer.reliable(0, [id].into_iter());
                writer.message(0, (b"edge", &[]));
            }
            Lie::EmptyMessages => {
                let channel = (count % 2) as u8;
                if channel == 0 {
                    let first = (count / 2 * 256) as u16;
                    writer.reliable(
                        0,
                        (0..256)
                            .map(|n| first.wrapping_add(n))
                            .collect::<Vec<_>>()
                            .into_iter(),
                    );
                } else {
                    writer.unreliable(1, 256);
                }
                (0..256).for_each(|_| writer.message(0, (&[], &[])));
            }
            Lie::BlockCounts | Lie::EndlessBlock => {
                let changes = self.lie == Lie::BlockCounts && count % 3 == 2;
                let fragments = if changes { 200 } else { 256 };
                let place = FragmentPlace {
                    channel: 0,
                    id: 0,
                    count: fragments,
                    // The last one never comes.
                    index: (count % 199) as u16,
                };
                writer.fragment(place, 1, (&[9; 1024], &[]));
            }
            Lie::FirstFragments
            | Lie::LastFragments
            | Lie::FalseAcks
            | Lie::Noise
            | Lie::NoAcks => {}
        }
        writer.finish();
    }

    fn fragment(&mut self, header: Header, out: &mut Vec<u8>) {
        let is_first = self.lie == Lie::FirstFragments;
        let limits = self.layout.limits();
        let last = limits.fragments_max as u16 - 1;
        let data = vec![3; if is_first { limits.fragment_size } else { 1 }];
        let fragment = Fragment {
            sequence: header.sequence,
            index: if is_first { 0 } else { last as u8 },
            count: last + 1,
            header: is_first.then_some(header),
            data: &data,
        };
        fragment.emit(out);
    }
}

impl Session for Liar {
    fn handle_datagram(&mut self, now: Now, datagram: &mut [u8]) -> Result<(), Reject> {
        match &mut self.stage {
            Stage::Dialing(client) => {
                let server = client.server();
                client.handle_datagram(now, server, datagram).ok();
                self.follow_client();
            }
            Stage::Seated(link) => {
                let goodbye = matches!(
                    link.open(now, datagram),
                    Ok(crate::yojimbo::netcode::Received::Disconnect)
                );
                if goodbye {
                    self.end(CloseReason::PeerDisconnect);
                }
            }
            Stage::Over => {}
        }
        Ok(())
    }

    fn handle_timeout(&mut self, now: Now) {
        match &mut self.stage {
            Stage::Dialing(client) => client.handle_timeout(now),
            Stage::Seated(link) if link.is_timed_out(now) => self.end(CloseReason::PeerTimeout),
            Stage::Seated(_) | Stage::Over => {}
        }
        self.follow_client();
    }

    fn poll_transmit(&mut self, now: Now, out: &mut Vec<u8>) -> bool {
        let Self {
            stage,
            next_at,
            every,
            ..
        } = self;
        match stage {
            Stage::Dialing(client) => return client.poll_transmit(now, out),
            Stage::Over => return false,
            Stage::Seated(_) if now.mono < *next_at => return false,
            Stage::Seated(_) => *next_at = now.mono + *every,
        }
        let mut payload = Vec::new();
        self.payload(&mut payload);
        if let Stage::Seated(link) = &mut self.stage {
            let sealing = link.begin(out);
            out.extend_from_slice(&payload);
            link.seal(now, out, sealing);
        }
        true
    }

    fn poll_event(&mut self) -> Option<Event> {
        if std::mem::take(&mut self.connected) {
            return Some(Event::Connected);
        }
        self.closed.take().map(Event::Closed)
    }

    fn poll_timeout(&self) -> Option<Deadline> {
        match &self.stage {
            Stage::Dialing(client) => client.poll_timeout(),
            Stage::Seated(_) => Some(Deadline {
                at: self.next_at,
                why: Wake::SendSlot,
            }),
            Stage::Over => None,
        }
    }

    fn admit(&mut self, _now: Now) {}
    fn send(&mut self, _now: Now, _channel: Channel, _payload: &[u8]) -> Result<(), SendError> {
        Err(SendError::Full)
    }
    fn finish(&mut self, _now: Now, reason: CloseReason, _linger: Duration) {
        self.end(reason);
    }
    fn close(&mut self, _now: Now, reason: CloseReason) {
        self.end(reason);
    }
    fn poll_message(&mut self) -> Option<Message<'_>> {
        None
    }
    fn inbox_bytes(&self) -> usize {
        0
    }
    fn held(&self) -> Held {
        Held::default()
    }
    fn set_allowance(&mut self, _allowance: Allowance) {}
    fn release(&mut self) {}
    fn has_room(&self) -> bool {
        false
    }
    fn identity(&self) -> Identity<'_> {
        Identity::default()
    }
    fn stats(&self) -> Stats {
        Stats::default()
    }
}

/// An honest session whose datagrams are altered on their way out: what a bad client can do where
/// nothing is sealed.
pub(super) struct Garbler {
    honest: Box<dyn Session>,
    random: Random,
    share: f64,
}

impl Garbler {
    pub(super) fn new(honest: Box<dyn Session>, share: f64, seed: u64) -> Self {
        Self {
            honest,
            random: Random::new(seed),
            share,
        }
    }
}

impl Session for Garbler {
    fn poll_transmit(&mut self, now: Now, out: &mut Vec<u8>) -> bool {
        let start = out.len();
        let sent = self.honest.poll_transmit(now, out);
        let length = out.len() - start;
        if sent && length > 0 && self.random.happens(self.share) {
            for _ in 0..=self.random.below(3) {
                let at = start + self.random.below(length as u64) as usize;
                out[at] = self.random.next() as u8;
            }
        }
        sent
    }

    fn handle_datagram(&mut self, now: Now, datagram: &mut [u8]) -> Result<(), Reject> {
        self.honest.handle_datagram(now, datagram)
    }
    fn handle_timeout(&mut self, now: Now) {
        self.honest.handle_timeout(now);
    }
    fn admit(&mut self, now: Now) {
        self.honest.admit(now);
    }
    fn send(&mut self, now: Now, channel: Channel, payload: &[u8]) -> Result<(), SendError> {
        self.honest.send(now, channel, payload)
    }
    fn finish(&mut self, now: Now, reason: CloseReason, linger: Duration) {
        self.honest.finish(now, reason, linger);
    }
    fn close(&mut self, now: Now, reason: CloseReason) {
        self.honest.close(now, reason);
    }
    fn poll_event(&mut self) -> Option<Event> {
        self.honest.poll_event()
    }
    fn poll_message(&mut self) -> Option<Message<'_>> {
        self.honest.poll_message()
    }
    fn inbox_bytes(&self) -> usize {
        self.honest.inbox_bytes()
    }
    fn held(&self) -> Held {
        self.honest.held()
    }
    fn set_allowance(&mut self, allowance: Allowance) {
        self.honest.set_allowance(allowance);
    }
    fn release(&mut self) {
        self.honest.release();
    }
    fn has_room(&self) -> bool {
        self.honest.has_room()
    }
    fn poll_timeout(&self) -> Option<Deadline> {
        self.honest.poll_timeout()
    }
    fn identity(&self) -> Identity<'_> {
        self.honest.identity()
    }
    fn stats(&self) -> Stats {
        self.honest.stats()
    }
}
