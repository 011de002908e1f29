//! The numbers behind "when to send what" that a listener may set, with their reasons. A number that nobody sets is a
//! constant beside its only user.

use std::time::Duration;

use crate::mode::Penalty;

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

/// How a [`Sender`](super::Sender) behaves. Shared by all sessions of a listener.
#[derive(Clone, Debug, PartialEq)]
pub struct Params {
    /// The rule in force.
    pub profile: Profile,
    /// How many packets a peer gets.
    pub packets: PacketRates,
    /// How long conditions must be good before the mode is good again.
    pub penalty: Penalty,
    /// What makes the path bad.
    pub path: PathLimits,
    /// How fast bulk goes.
    pub bulk: BulkRates,
    /// Copies of messages under way go with what is new, before anybody knows whether they are missed.
    pub redundancy: bool,
    /// Something leaves every quarter of a second although there is nothing to say. False where the protocol below has
    /// keep-alives of its own, as netcode does.
    pub keep_alive: bool,
    /// Bytes of reliable messages queued or unacknowledged per lane; the last one in may go beyond, or
    /// the longest would never fit a small queue. What is under way over 50 ms at 100 Mbit/s until a lost
    /// part of it has come again. To a peer that was found to take larger datagrams the path decides: half of this, up
    /// to [`OUTBOX_FAR`] times as much where so much is under way.
    pub outbox_bytes_max: usize,
    /// Messages larger than this travel as blocks on lanes that have them, where their protocol
    /// leaves that to [`Sender::push`](super::Sender::push).
    pub inline_max: usize,
    /// What goes beyond the standard wire.
    pub extensions: Extensions,
}

impl Default for Params {
    fn default() -> Self {
        Self {
            profile: Profile::Adaptive,
            packets: PacketRates::default(),
            penalty: Penalty::default(),
            path: PathLimits::default(),
            bulk: BulkRates::default(),
            redundancy: true,
            keep_alive: true,
            outbox_bytes_max: 2 << 20,
            inline_max: 7000,
            extensions: Extensions::default(),
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
            packets: PacketRates::article(),
            redundancy: false,
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

/// Packets a second in either mode, and at once.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PacketRates {
    /// Packets a second in good mode. 90 leaves a 60 Hz game room for acks and repairs between its
    /// own packets.
    pub good: f64,
    /// Packets a second in good mode at most, for a game that ticks faster: two in five more than its ticks. 180 is
    /// that of 128 Hz.
    pub good_max: f64,
    /// Packets a second in bad mode. 20 is what a queue of a slow uplink drains beside.
    pub bad: f64,
    /// Packets that may leave at once after a pause: a burst of messages spread over 8 packets is
    /// still well inside a peer's 32-packet ack window.
    pub burst: f64,
}

impl Default for PacketRates {
    fn default() -> Self {
        Self {
            good: 90.0,
            good_max: 180.0,
            bad: 20.0,
            burst: 8.0,
        }
    }
}

impl PacketRates {
    /// The article's.
    pub fn article() -> Self {
        Self {
            good: 30.0,
            good_max: 30.0,
            bad: 10.0,
            // A fixed tick: nothing is saved up.
            burst: 1.0,
        }
    }
}

/// Delay and loss that are too much.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PathLimits {
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
}

impl Default for PathLimits {
    fn default() -> Self {
        Self {
            queue_max: Duration::from_millis(20),
            queue_max_messages: Duration::from_millis(40),
            base_window: Duration::from_secs(30),
            loss_max: 0.15,
        }
    }
}

/// Rates in bytes a second, and what may leave at once in bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BulkRates {
    /// Bytes a second on a path that was not measured: half a megabit.
    pub start: f64,
    /// Bytes a second at least, however bad the path.
    pub min: f64,
    /// Bytes a second at most: four gigabytes, which is to say as fast as the path and the processor let it.
    pub max: f64,
    /// Bytes that may leave at once at first and after a pause: ten full datagrams, as a TCP connection
    /// begins with (RFC 6928). What a game says at once now and then, such as where everybody is, waits for no rate
    /// that nobody measured. Once the path's end was met, no more of it than makes a queue of
    /// [`PathLimits::queue_max`].
    pub window: f64,
    /// Bytes that may leave at once after a pause at most, where more went through before: what most queues
    /// hold.
    pub window_max: f64,
}

impl Default for BulkRates {
    fn default() -> Self {
        Self {
            start: 65_536.0,
            min: 8_192.0,
            max: 4_294_967_296.0,
            window: 12_000.0,
            window_max: 64_000.0,
        }
    }
}

/// Over 200 ms at 100 Mbit/s there are 7 MB under way until what was lost again has come.
pub const OUTBOX_FAR: usize = 4;

/// Larger datagrams, and what follows once they are taken. By default there is nothing of this.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extensions {
    /// Payload of the largest packet that is tried as one datagram, where much waits to be sent: fewer
    /// and larger datagrams cost both ends less. Not above [`Framing::datagram`](super::Framing::datagram): none
    /// is tried.
    pub mtu_payload_max: u16,
    /// Larger datagrams are tried before one was heard from the peer. A peer other than a tidegate may
    /// not take them; one that sends them does.
    pub mtu_asks_first: bool,
    /// The wire has a second cipher, faster than the one that all peers know: a peer that takes larger
    /// datagrams is asked whether it opens that.
    pub second_cipher: bool,
    /// What a fragment of a block adds to its bytes that is as long as a datagram takes, beside
    /// [`Framing::packet_overhead`](super::Framing::packet_overhead). 0: the wire has none, and all fragments
    /// are as long as the lane's [`Blocks`](super::Blocks) say.
    pub long_fragment_overhead: u16,
    /// Messages under way on each lane, to a peer that was found to take larger datagrams; no less than
    /// what the lane's [`window`](super::Lane::Reliable::window) says.
    pub wide_window: u16,
}
