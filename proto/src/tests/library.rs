//! Peers that do as yojimbo's own library does, client or server: a packet in each frame, in it each message that did
//! not go within 0.1 s and was not acknowledged, whatever the path can carry. Blocks aside.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use crate::inbox::Inbox;
use crate::session::{
    Acceptor, Allowance, Channel, CloseReason, Event, Held, Identity, Message, Reject, SendError,
    Session, Stranger, Verdict,
};
use crate::stats::Stats;
use crate::time::{Deadline, Now, Timestamp, Wake};
use crate::yojimbo::Params;
use crate::yojimbo::channels::{
    self, Carriage, ConnectionPacket, Items, Layout, PacketSize, PacketWriter,
};
use crate::yojimbo::netcode::{
    Client, ClientState, ConnectToken, Handshake, Link, Outcome, Received, Seat,
};
use crate::yojimbo::reliable::{self, Arrival, Header};

/// Of a game that looks at its network sixty times a second.
pub(super) const FRAME: Duration = Duration::from_nanos(16_666_667);
const RESEND_AFTER: Duration = Duration::from_millis(100);
/// The library splits what is longer; we do so later (see [`reliable::Limits`]).
const FRAGMENT_ABOVE: usize = 1024;
/// Packets that are remembered.
const PACKETS_MAX: usize = 256;

/// Lets in whoever the handshake does.
pub(super) struct LibraryServer {
    pub(super) handshake: Handshake,
    pub(super) params: Arc<Params>,
}

impl Acceptor for LibraryServer {
    fn handle_unknown(&mut self, now: Now, stranger: Stranger<'_>) -> Verdict {
        match self.handshake.handle(now, stranger, None) {
            Err(reject) => Verdict::Reject(reject),
            Ok(Outcome::Challenged) => Verdict::Reply,
            Ok(Outcome::Denied(reject)) => Verdict::Deny(reject),
            Ok(Outcome::Seated(seated)) => {
                let stage = Stage::Waiting(seated.link, seated.seat);
                let mut peer = LibraryPeer::new(now, self.params.clone(), FRAME, stage);
                peer.events.push_back(Event::Authenticated);
                Verdict::Accept(Box::new(peer))
            }
        }
    }
}

/// One end of a session.
pub(super) struct LibraryPeer {
    params: Arc<Params>,
    stage: Stage,
    incoming: Incoming,
    outgoing: Outgoing,
    frame: Duration,
    next_frame: Timestamp,
    /// Datagrams of the last frame.
    ready: VecDeque<Vec<u8>>,
    events: VecDeque<Event>,
}

enum Stage {
    Dialing(Box<Client>),
    Waiting(Link, Seat),
    Open { link: Link, _seat: Option<Seat> },
    Closed,
}

impl LibraryPeer {
    /// A client of a game with frames of this length.
    pub(super) fn dial(
        now: Now,
        params: Arc<Params>,
        token: ConnectToken,
        frame: Duration,
    ) -> Self {
        let stage = Stage::Dialing(Box::new(Client::new(now, token)));
        Self::new(now, params, frame, stage)
    }

    fn new(now: Now, params: Arc<Params>, frame: Duration, stage: Stage) -> Self {
        Self {
            incoming: Incoming::new(&params),
            outgoing: Outgoing::default(),
            params,
            stage,
            frame,
            next_frame: now.mono + frame,
            ready: VecDeque::new(),
            events: VecDeque::new(),
        }
    }

    fn end(&mut self, reason: CloseReason) {
        if !matches!(self.stage, Stage::Closed) {
            self.stage = Stage::Closed;
            self.events.push_back(Event::Closed(reason));
        }
    }

    fn follow_client(&mut self, now: Now) {
        let Stage::Dialing(client) = &self.stage else {
            return;
        };
        match client.state() {
            ClientState::Requesting | ClientState::Responding => {}
            ClientState::Connected => {
                let stage = std::mem::replace(&mut self.stage, Stage::Closed);
                let Stage::Dialing(client) = stage else {
                    return;
                };
                let link = client.into_link().expect("it is connected");
                self.open(now, link, None);
            }
            _ => self.end(CloseReason::ConnectTimeout),
        }
    }

    fn open(&mut self, now: Now, link: Link, seat: Option<Seat>) {
        self.stage = Stage::Open { link, _seat: seat };
        self.next_frame = now.mono + self.frame;
        self.events.push_back(Event::Connected);
    }

    fn frame(&mut self, now: Now) {
        let Stage::Open { link, .. } = &mut self.stage else {
            return;
        };
        if link.is_timed_out(now) {
            self.end(CloseReason::PeerTimeout);
            return;
        }
        if now.mono < self.next_frame {
            return;
        }
        // Whose process stood still goes on from now.
        self.next_frame = (self.next_frame + self.frame).max(now.mono);
        let layout = &self.params.layout;
        let (ack, ack_bits) = self.incoming.reliable.ack();
        let (sequence, packet) = self.outgoing.packet(now.mono, layout);
        let header = Header {
            sequence,
            ack,
            ack_bits,
        };
        let limits = reliable::Limits {
            fragment_above: FRAGMENT_ABOVE,
            ..*layout.limits()
        };
        for index in 0..limits.datagrams(packet.len()) {
            let mut datagram = Vec::new();
            if link.preface(now, &mut datagram) {
                self.ready.push_back(std::mem::take(&mut datagram));
                link.preface(now, &mut datagram);
            }
            let sealing = link.begin(&mut datagram);
            limits.emit(header, &packet, index, &mut datagram);
            link.seal(now, &mut datagram, sealing);
            self.ready.push_back(datagram);
        }
    }
}

impl Session for LibraryPeer {
    fn handle_datagram(&mut self, now: Now, datagram: &mut [u8]) -> Result<(), Reject> {
        match &mut self.stage {
            Stage::Closed => return Err(Reject::UnknownPeer),
            Stage::Dialing(client) => {
                let server = client.server();
                client.handle_datagram(now, server, datagram)?;
                self.follow_client(now);
            }
            Stage::Waiting(link, _) | Stage::Open { link, .. } => {
                match link.open(now, datagram)? {
                    Received::Disconnect => self.end(CloseReason::PeerDisconnect),
                    Received::Payload { bytes, .. } => {
                        let outgoing = &mut self.outgoing;
                        let handled =
                            self.incoming
                                .handle(now, bytes, &self.params.layout, |header| {
                                    outgoing.on_acks(header);
                                });
                        if handled == Err(Reject::ProtocolError) {
                            self.end(CloseReason::ProtocolViolation);
                        }
                        return handled;
                    }
                    Received::KeepAlive { .. } | Received::Handshake => {}
                }
            }
        }
        Ok(())
    }

    fn handle_timeout(&mut self, now: Now) {
        if let Stage::Dialing(client) = &mut self.stage {
            client.handle_timeout(now);
            self.follow_client(now);
        }
        self.incoming.reliable.expire(now.mono);
        self.frame(now);
    }

    fn admit(&mut self, now: Now) {
        let stage = std::mem::replace(&mut self.stage, Stage::Closed);
        match stage {
            Stage::Waiting(mut link, seat) => {
                let mut datagram = Vec::new();
                link.admit(now, None, &mut datagram);
                self.ready.push_back(datagram);
                self.open(now, link, Some(seat));
            }
            other => self.stage = other,
        }
    }

    fn send(&mut self, _now: Now, channel: Channel, payload: &[u8]) -> Result<(), SendError> {
        if !matches!(self.stage, Stage::Open { .. }) {
            return Err(SendError::Closed);
        }
        self.outgoing.push(&self.params.layout, channel, payload)
    }

    fn finish(&mut self, _now: Now, reason: CloseReason, _linger: Duration) {
        self.end(reason);
    }

    fn close(&mut self, _now: Now, reason: CloseReason) {
        self.end(reason);
    }

    fn poll_transmit(&mut self, now: Now, out: &mut Vec<u8>) -> bool {
        if let Stage::Dialing(client) = &mut self.stage {
            return client.poll_transmit(now, out);
        }
        let datagram = self.ready.pop_front();
        out.extend(datagram.iter().flatten());
        datagram.is_some()
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    fn poll_message(&mut self) -> Option<Message<'_>> {
        self.incoming.inbox.pop()
    }

    fn inbox_bytes(&self) -> usize {
        self.incoming.inbox.payload_bytes()
    }

    fn held(&self) -> Held {
        Held::default()
    }

    fn set_allowance(&mut self, _allowance: Allowance) {}

    fn release(&mut self) {}

    fn has_room(&self) -> bool {
        matches!(self.stage, Stage::Open { .. }) && self.outgoing.has_room(&self.params.layout)
    }

    fn poll_timeout(&self) -> Option<Deadline> {
        match &self.stage {
            Stage::Closed => None,
            Stage::Dialing(client) => client.poll_timeout(),
            Stage::Waiting(link, _) => link.poll_timeout(),
            Stage::Open { .. } => Deadline::of(Some(self.next_frame), Wake::Resend),
        }
    }

    fn identity(&self) -> Identity<'_> {
        Identity::default()
    }

    /// As acknowledged counts what stands before the oldest message that is not.
    fn stats(&self) -> Stats {
        Stats {
            messages_acked: self.outgoing.acked,
            ..self.incoming.stats
        }
    }
}

struct Incoming {
    reliable: reliable::Receiver,
    channels: channels::Receiver,
    inbox: Inbox,
    stats: Stats,
}

impl Incoming {
    fn new(params: &Params) -> Self {
        Self {
            reliable: reliable::Receiver::new(*params.layout.limits()),
            channels: channels::Receiver::new(params.layout.clone()),
            inbox: Inbox::new(usize::MAX),
            stats: Stats::default(),
        }
    }

    fn handle(
        &mut self,
        now: Now,
        datagram: &[u8],
        layout: &Layout,
        on_acks: impl FnOnce(Header),
    ) -> Result<(), Reject> {
        let datagram = self.reliable.parse(datagram)?;
        let Arrival::Packet { header, payload } = self.reliable.receive(now.mono, datagram)? else {
            return Ok(());
        };
        on_acks(header);
        let mut items = Items::default();
        let packet = ConnectionPacket::parse(payload, layout, &mut items)
            .map_err(|_| Reject::ProtocolError)?;
        let Self {
            channels, inbox, ..
        } = self;
        channels
            .check(now.mono, &packet, inbox)
            .map_err(|objection| match objection.is_violation() {
                true => Reject::ProtocolError,
                false => Reject::Refused,
            })?;
        channels.apply(now.mono, &packet, inbox, &mut self.stats);
        self.reliable.accept(header.sequence);
        Ok(())
    }
}

/// A message that is not acknowledged.
struct Unacked {
    payload: Vec<u8>,
    kind: u8,
    sent_at: Option<Timestamp>,
    is_acked: bool,
}

#[derive(Default)]
struct Outgoing {
    sequence: u16,
    /// From `first_id` on.
    messages: VecDeque<Unacked>,
    first_id: u16,
    /// Messages before that.
    acked: u64,
    unreliable: Vec<(u8, Vec<u8>)>,
    /// The packets sent last, with the ids in them.
    packets: VecDeque<(u16, Vec<u16>)>,
}

impl Outgoing {
    /// Messages that are not acknowledged are as many as the other end keeps track of.
    fn has_room(&self, layout: &Layout) -> bool {
        let window = layout.channels()[usize::from(RELIABLE)].receive_window;
        self.messages.len() < usize::from(window)
    }

    fn push(&mut self, layout: &Layout, channel: Channel, payload: &[u8]) -> Result<(), SendError> {
        let Some(Carriage::Message(kind)) = layout.carriage(channel, (payload, &[])) else {
            return Err(SendError::TooLarge {
                size: payload.len(),
                max: 0,
            });
        };
        if channel == UNRELIABLE {
            self.unreliable.push((kind, payload.to_vec()));
            return Ok(());
        }
        if !self.has_room(layout) {
            return Err(SendError::Full);
        }
        self.messages.push_back(Unacked {
            payload: payload.to_vec(),
            kind,
            sent_at: None,
            is_acked: false,
        });
        Ok(())
    }

    /// This frame's packet, and its number.
    fn packet(&mut self, now: Timestamp, layout: &Layout) -> (u16, Vec<u8>) {
        let (ids, size) = self.choose(now, layout);
        let mut unreliable = std::mem::take(&mut self.unreliable);
        let mut size = size.with_list(layout, UNRELIABLE);
        let most = usize::from(layout.channels()[usize::from(UNRELIABLE)].messages_per_packet_max);
        let mut count = 0;
        unreliable.retain(|(kind, payload)| {
            if count == most {
                return false;
            }
            let larger = size.with_message(layout, 0, *kind, payload.len());
            let fits = larger.bytes() <= layout.limits().packet_bytes_max;
            if fits {
                size = larger;
                count += 1;
            }
            fits
        });
        let mut packet = Vec::new();
        let mut writer = PacketWriter::new(layout, &mut packet);
        if !ids.is_empty() {
            writer.reliable(RELIABLE, ids.iter().copied());
            for id in &ids {
                let message = &self.messages[usize::from(id.wrapping_sub(self.first_id))];
                writer.message(message.kind, (&message.payload, &[]));
            }
        }
        if !unreliable.is_empty() {
            writer.unreliable(UNRELIABLE, unreliable.len());
            for (kind, payload) in &unreliable {
                writer.message(*kind, (payload, &[]));
            }
        }
        writer.finish();
        let sequence = self.sequence;
        self.sequence = sequence.wrapping_add(1);
        self.packets.push_back((sequence, ids));
        if self.packets.len() > PACKETS_MAX {
            self.packets.pop_front();
        }
        (sequence, packet)
    }

    /// The reliable messages that are due and fit, oldest first.
    fn choose(&mut self, now: Timestamp, layout: &Layout) -> (Vec<u16>, PacketSize) {
        let most = usize::from(layout.channels()[usize::from(RELIABLE)].messages_per_packet_max);
        let mut size = PacketSize::new(layout).with_list(layout, RELIABLE);
        let mut ids = Vec::new();
        for (index, message) in self.messages.iter_mut().enumerate() {
            let is_due = message.sent_at.is_none_or(|at| at + RESEND_AFTER <= now);
            if message.is_acked || !is_due {
                continue;
            }
            let id = self.first_id.wrapping_add(index as u16);
            let larger = size.with_message(layout, id, message.kind, message.payload.len());
            if larger.bytes() > layout.limits().packet_bytes_max {
                continue;
            }
            size = larger;
            message.sent_at = Some(now);
            ids.push(id);
            if ids.len() == most {
                break;
            }
        }
        (ids, size)
    }

    fn on_acks(&mut self, header: Header) {
        for sequence in header.acked() {
            let Some(at) = self.packets.iter().position(|(sent, _)| *sent == sequence) else {
                continue;
            };
            for id in std::mem::take(&mut self.packets[at].1) {
                let index = usize::from(id.wrapping_sub(self.first_id));
                if let Some(message) = self.messages.get_mut(index) {
                    message.is_acked = true;
                }
            }
        }
        while self
            .messages
            .front()
            .is_some_and(|message| message.is_acked)
        {
            self.messages.pop_front();
            self.first_id = self.first_id.wrapping_add(1);
            self.acked += 1;
        }
    }
}

const RELIABLE: Channel = 0;
const UNRELIABLE: Channel = 1;
