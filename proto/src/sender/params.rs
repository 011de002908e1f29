//! The numbers behind "when to send what" that a listener may set, with their reasons; what an operator may change has
//! the operator's name. A number that nobody sets is a constant beside its only user.

use std::time::Duration;

use crate::rate::Penalty;

/// Which rule judges the path, and with it everything that hangs on that rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Profile {
    /// Good and bad mode by the rise over the peer's own base RTT and by loss; redundancy; a byte
    /// rate for bulk.
    #[default]
    Adaptive,
    /// The 2008 article to the letter: 30 or 10 packets a second, and no redundancy (docs/wire/gaffer.md,
    /// section 5).
    Article {
        /// A smoothed round trip above this is bad: 250 ms.
        rtt_max: Duration,
        /// Messages are due again this long after they were sent, whatever was acknowledged: 0.1 s, as in the
        /// reference.
        resend_after: Duration,
    },
}

/// How copies of messages under way go with what is new, before anybody knows whether they are missed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Redundancy {
    /// Bytes of copies for each byte of packets with something new, at a short round trip. A 64-byte
    /// frame costs 122 bytes alone and 67 as a copy, so 1.35 pays for two copies of everything and
    /// for what turns out to be lost.
    pub share: f64,
    /// Bytes of copies for each byte of the new messages alone, if that is less: packets of tiny messages
    /// are nearly all header, and would pay for more copies than help.
    pub share_of_messages: f64,
    /// Both grow with the round trip, up to this many times: a loss that waits for a round
    /// trip costs more the longer that is.
    pub far: f64,
    /// Bytes a second of copies beside that share, for traffic that is too thin to pay for them.
    pub trickle: f64,
    /// The chance to rescue a message that a copy must have. 0.0005: a message that waits for a
    /// round trip holds up those behind it, and about one in a thousand may.
    pub gain_min: f64,
    /// When nothing else is about to leave, copies leave by themselves this long after the last
    /// packet, then after twice that, and so on (an early tail probe).
    pub early_probe: Duration,
}

impl Default for Redundancy {
    fn default() -> Self {
        Self {
            share: 1.35,
            share_of_messages: 2.5,
            far: 2.0,
            trickle: 4000.0,
            gain_min: 0.0005,
            early_probe: Duration::from_millis(10),
        }
    }
}

/// How a [`Sender`](super::Sender) behaves. Shared by all sessions of a listener.
#[derive(Clone, Debug, PartialEq)]
pub struct Params {
    /// The rule in force.
    pub profile: Profile,
    /// Packets a second in good mode. 90 leaves a 60 Hz game room for acks and repairs between its
    /// own packets.
    pub good_rate: f64,
    /// Packets a second in good mode at most, for a game that ticks faster: two in five more than its ticks. 180 is
    /// that of 128 Hz.
    pub good_rate_max: f64,
    /// Packets a second in bad mode. 20 is what a queue of a slow uplink drains beside.
    pub bad_rate: f64,
    /// Packets that may leave at once after a pause: a burst of messages spread over 8 packets is
    /// still well inside a peer's 32-packet ack window.
    pub burst: f64,
    /// An acknowledgement is owed at the latest this long after the first packet that brought
    /// something: less than two 60 Hz frames, so that the peer's RTT stays honest.
    pub ack_delay: Duration,
    /// The longest wait of an acknowledgement of packets that brought nothing new: their sender waits for nothing.
    pub ack_delay_repeat: Duration,
    /// Packets received after which an acknowledgement is owed at once: a quarter of what the 32
    /// ack bits reach, so that losing three acknowledgements in a row loses no news.
    pub ack_every: u32,
    /// Packets that brought nothing are acknowledged this long after anything was last sent, if
    /// there were at least two of them, so that the peer's estimate of the path stays fresh. One
    /// may itself be such an acknowledgement: two ends would answer each other for ever.
    pub keep_alive_interval: Duration,
    /// Something is sent that often in any case. False where the protocol below has keep-alives of its
    /// own, as netcode does.
    pub sends_keep_alives: bool,
    /// What copies may cost; `None`: there are none.
    pub redundancy: Option<Redundancy>,
    /// The round trip's rise over the path's own that is a queue, while bulk is sent: what a player
    /// does not notice.
    pub queue_max: Duration,
    /// The rise that is a queue while only messages are sent: they are not what fills one, so doubt is in
    /// their favour.
    pub queue_max_messages: Duration,
    /// How long a smallest round trip is believed to be the path's own: routes change.
    pub base_window: Duration,
    /// Loss above this, and clearly above what is usual on the path, is bad too.
    pub loss_max: f64,
    /// How long conditions must be good before the mode is good again.
    pub penalty: Penalty,
    /// Bytes a second for bulk on a path that was not measured: half a megabit.
    pub bulk_start: f64,
    /// Bytes a second for bulk at least, however bad the path.
    pub bulk_min: f64,
    /// Bytes a second for bulk at most: four gigabytes, which is to say as fast as the path and the processor let it.
    pub bulk_max: f64,
    /// Bytes of bulk that may leave at once.
    pub bulk_burst: f64,
    /// Bytes of bulk that may leave at once at first and after a pause: ten full datagrams, as a TCP connection
    /// begins with (RFC 6928). What a game says at once now and then, such as where everybody is, waits for no rate
    /// that nobody measured. Once the path's end was met, no more of it than makes a queue of
    /// [`queue_max`](Self::queue_max).
    pub bulk_window: f64,
    /// Bytes of bulk that may leave at once after a pause at most, where more went through before: what most queues
    /// hold.
    pub bulk_window_max: f64,
    /// Share of the delivered rate that is kept when the path turns bad.
    pub bulk_cut: f64,
    /// Share of the delivered rate that is kept on return to good.
    pub bulk_return: f64,
    /// Bytes a second gained per round trip: the same for fast and slow flows, which makes them
    /// fair to each other; 2000 keeps the queue of sixteen flows that find each other under 50 ms. Up to 8 times that,
    /// the longer no queue shows.
    pub bulk_step: f64,
    /// Share of the rate gained beside it, so that a wide path is found within seconds; small,
    /// because it keeps unequal flows unequal.
    pub bulk_growth: f64,
    /// Payload of the largest packet that is tried as one datagram, where much waits to be sent: fewer
    /// and larger datagrams cost both ends less. Not above [`Framing::datagram`]: none is tried.
    pub mtu_payload_max: u16,
    /// Larger datagrams are tried before one was heard from the peer. A peer other than a tidegate may
    /// not take them; one that sends them does.
    pub mtu_asks_first: bool,
    /// The wire has a second cipher, faster than the one that all peers know: a peer that takes larger
    /// datagrams is asked whether it opens that.
    pub second_cipher: bool,
    /// Messages under way on each lane, to a peer that was found to take larger datagrams; no less than
    /// what the lane's [`window`](Lane::Reliable::window) says.
    pub wide_window: u16,
    /// Messages larger than this travel as blocks on lanes that have them, where their protocol
    /// leaves that to [`Sender::push`](super::Sender::push).
    pub inline_max: usize,
    /// Bytes of reliable messages queued or unacknowledged per lane; the last one in may go beyond, or
    /// the longest would never fit a small queue. What is under way over 50 ms at 100 Mbit/s until a lost
    /// part of it has come again. Up to [`OUTBOX_FAR`] times as much to a peer that was found to take larger
    /// datagrams, where the path has so much under way.
    pub outbox_bytes_max: usize,
    /// Unreliable messages waiting per lane; the oldest makes room for a new one.
    pub unreliable_messages_max: usize,
    /// Bytes of unreliable messages waiting per lane; the oldest makes room for a new one.
    pub unreliable_bytes_max: usize,
}

impl Default for Params {
    fn default() -> Self {
        Self {
            profile: Profile::Adaptive,
            good_rate: 90.0,
            good_rate_max: 180.0,
            bad_rate: 20.0,
            burst: 8.0,
            ack_delay: Duration::from_millis(20),
            ack_delay_repeat: Duration::from_millis(40),
            ack_every: 8,
            keep_alive_interval: Duration::from_millis(250),
            sends_keep_alives: true,
            redundancy: Some(Redundancy::default()),
            queue_max: Duration::from_millis(20),
            queue_max_messages: Duration::from_millis(40),
            base_window: Duration::from_secs(30),
            loss_max: 0.15,
            penalty: Penalty::default(),
            bulk_start: 65_536.0,
            bulk_min: 8_192.0,
            bulk_max: 4_294_967_296.0,
            bulk_burst: 3_000.0,
            bulk_window: 12_000.0,
            bulk_window_max: 64_000.0,
            bulk_cut: 0.7,
            bulk_return: 0.85,
            bulk_step: 2_000.0,
            bulk_growth: 0.003,
            mtu_payload_max: 0,
            mtu_asks_first: false,
            second_cipher: false,
            wide_window: 0,
            inline_max: 7000,
            outbox_bytes_max: 2 << 20,
            unreliable_messages_max: 64,
            unreliable_bytes_max: 64 * 1024,
        }
    }
}

impl Params {
    /// The article's sender.
    pub fn article() -> Self {
        Self {
            profile: Profile::Article {
                rtt_max: Duration::from_millis(250),
                resend_after: Duration::from_millis(100),
            },
            good_rate: 30.0,
            good_rate_max: 30.0,
            bad_rate: 10.0,
            // A fixed tick: nothing is saved up.
            burst: 1.0,
            redundancy: None,
            ..Self::default()
        }
    }

    /// When messages are due again, whatever was acknowledged; `None`: by the gaps in acknowledgements and by the
    /// path's own round trip.
    pub(super) fn resend_after(&self) -> Option<Duration> {
        match self.profile {
            Profile::Adaptive => None,
            Profile::Article { resend_after, .. } => Some(resend_after),
        }
    }
}

/// What the protocol around the sender adds to messages, as upper bounds in bytes, so that a plan
/// always fits; and how large its packets may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Framing {
    /// Payload of a packet that stays one datagram on every path.
    pub datagram: u16,
    /// Payload of the largest packet; only messages that do not fit one datagram use it.
    pub packet: u16,
    /// Beside everything, once a packet.
    pub packet_overhead: u16,
    /// Once for each lane that has something in the packet.
    pub lane_overhead: u16,
    /// For each message.
    pub message_overhead: u16,
    /// For a block's fragment.
    pub fragment_overhead: u16,
    /// IP, UDP, encryption and header of a packet in one datagram, as byte rates count them.
    pub wire_overhead: u16,
    /// What a datagram adds to the payload of a packet at most, without IP and UDP.
    pub datagram_overhead: u16,
    /// A packet of several datagrams may go again under its number, and is put together from all that came of
    /// it, while fewer numbers than this followed; 0 where that is not so.
    pub again_within: u16,
}

impl Framing {
    /// The largest message that fits any packet: a larger one would wait for ever.
    pub(super) fn message_max(&self) -> usize {
        let overhead = self.packet_overhead + self.lane_overhead + self.message_overhead;
        usize::from(self.packet.saturating_sub(overhead))
    }
}

/// One channel of the protocol, as the sender sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    /// Ids, acknowledged, in order.
    Reliable {
        /// How what fits no message goes in fragments; without, it is too large.
        blocks: Option<Blocks>,
        /// Messages queued or unacknowledged, which is what the peer takes, counted from the oldest id it
        /// has not acknowledged; an id beyond would be a desync.
        window: u16,
        /// Messages in one packet.
        per_packet: u16,
    },
    /// Sent once, or dropped when newer ones need the room.
    Unreliable {
        /// Messages in one packet.
        per_packet: u16,
    },
}

/// How the blocks of a lane travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blocks {
    /// Bytes of each fragment but the last.
    pub fragment: u16,
    /// Bytes of the largest block.
    pub bytes_max: u32,
    /// Bytes of blocks under way at once, in whole fragments, to a peer that was found to take larger
    /// datagrams; messages go beside them. To others one goes at a time, and nothing beside it.
    pub together_max: u32,
}

/// Over 200 ms at 100 Mbit/s there are 7 MB under way until what was lost again has come.
pub const OUTBOX_FAR: usize = 4;

/// How a message travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Whole, in one packet.
    Inline,
    /// In fragments, a packet each.
    Block,
}
