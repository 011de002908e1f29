//! The functions around one handle.

use std::ffi::c_char;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use tidegate_client::{
    Dial, Ended, GAFFER_PROTOCOL_ID, Machine, Now, Polled, State, Timestamp, random_seed,
};

use crate::border::{self, Client};
use crate::ended::{self, TIDEGATE_ENDED_NOT};
use crate::{
    TIDEGATE_ERROR_INVALID, TIDEGATE_ERROR_REFUSED, TIDEGATE_ERROR_SOCKET, TIDEGATE_ERROR_TOKEN,
    TIDEGATE_OK, send_code,
};

/// With a socket of its own.
pub const TIDEGATE_SOCKET: i32 = 1;
/// You carry the datagrams.
pub const TIDEGATE_NO_SOCKET: i32 = 2;

/// The handshake is under way; nothing can be sent yet.
pub const TIDEGATE_CONNECTING: i32 = 1;
/// Messages go both ways.
pub const TIDEGATE_CONNECTED: i32 = 2;
/// What was sent is being delivered; then it closes.
pub const TIDEGATE_CLOSING: i32 = 3;
/// Over; tidegate_client_ended() says how. Messages that came before can still be polled.
pub const TIDEGATE_CLOSED: i32 = 4;

/// An IP address and a port.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Address {
    /// As on the wire, first byte first; IPv4 uses the first four.
    pub ip: [u8; 16],
    /// In your machine's byte order.
    pub port: u16,
    /// 0 or 1.
    pub is_ipv6: u8,
}

/// A message from the server. `payload` is good until the next tidegate_client_poll_message() or
/// tidegate_client_free() of the same handle.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Message {
    /// What the server sent; not null, but nothing to read when `length` is 0.
    pub payload: *const u8,
    /// Its bytes.
    pub length: usize,
    /// The channel it came on: 0 is reliable, 1 is not, unless the profile says otherwise.
    pub channel: u8,
    /// 1 when that channel is reliable and ordered, else 0.
    pub reliable: u8,
}

/// A datagram to be sent. `bytes` is good until the next call with the same handle.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Datagram {
    /// The UDP payload.
    pub bytes: *const u8,
    /// Its bytes.
    pub length: usize,
    /// Where to.
    pub to: Address,
}

/// How a session is doing. Times are nanoseconds, 0 before there is something to say.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Stats {
    /// Latest round trip.
    pub rtt_latest: u64,
    /// Smoothed round trip.
    pub rtt: u64,
    /// Smallest round trip of the recent past.
    pub rtt_min: u64,
    /// Mean deviation of the round trip.
    pub rtt_variation: u64,
    /// Estimated share of own packets that get lost, 0 to 1.
    pub loss: f64,
    /// 1 while sending at the bad mode's rate.
    pub in_bad_mode: u32,
    /// Reliable messages queued or not confirmed.
    pub outbox_messages: u32,
    /// Packets sent.
    pub packets_sent: u64,
    /// Packets taken.
    pub packets_received: u64,
    /// Own packets given up.
    pub packets_lost: u64,
    /// Messages put into packets, each counted once.
    pub messages_sent: u64,
    /// Reliable messages put into a packet again after a loss.
    pub messages_resent: u64,
    /// Messages taken from the server.
    pub messages_received: u64,
}

/// What a handle holds.
pub(crate) struct Inner {
    flavour: Flavour,
    /// The latest `now`: a caller's clock that steps back stands still instead.
    latest: Timestamp,
    /// What the caller was last shown.
    message: Vec<u8>,
    datagram: Vec<u8>,
}

enum Flavour {
    Socket(Box<Polled>),
    Bare(Box<Machine>),
}

impl Inner {
    fn new(now: u64, dial: Dial, io: i32) -> Result<Self, i32> {
        let latest = Timestamp::from_nanos(now);
        let now = Now {
            mono: latest,
            unix_secs: 0,
        };
        let flavour = match io {
            TIDEGATE_SOCKET => {
                let polled = Polled::connect(now, dial).map_err(|_| TIDEGATE_ERROR_SOCKET)?;
                Flavour::Socket(Box::new(polled))
            }
            TIDEGATE_NO_SOCKET => {
                let seed = random_seed().map_err(|_| TIDEGATE_ERROR_SOCKET)?;
                Flavour::Bare(Box::new(Machine::new(now, dial, seed)))
            }
            _ => return Err(TIDEGATE_ERROR_INVALID),
        };
        Ok(Self {
            flavour,
            latest,
            message: Vec::new(),
            datagram: Vec::new(),
        })
    }

    fn now(&mut self, now: u64) -> Now {
        self.latest = self.latest.max(Timestamp::from_nanos(now));
        Now {
            mono: self.latest,
            unix_secs: 0,
        }
    }

    fn machine(&self) -> &Machine {
        match &self.flavour {
            Flavour::Socket(polled) => polled.machine(),
            Flavour::Bare(machine) => machine,
        }
    }

    fn machine_mut(&mut self) -> &mut Machine {
        match &mut self.flavour {
            Flavour::Socket(polled) => polled.machine_mut(),
            Flavour::Bare(machine) => machine,
        }
    }

    fn state(&self) -> i32 {
        match self.machine().state() {
            State::Connecting => TIDEGATE_CONNECTING,
            State::Connected => TIDEGATE_CONNECTED,
            State::Closing => TIDEGATE_CLOSING,
            State::Closed(_) => TIDEGATE_CLOSED,
        }
    }

    fn ended(&self) -> Option<Ended> {
        match self.machine().state() {
            State::Closed(ended) => Some(ended),
            State::Connecting | State::Connected | State::Closing => None,
        }
    }

    /// For the flavour with a socket only.
    fn socketed(&mut self, act: impl FnOnce(&mut Polled) -> i64) -> i64 {
        match &mut self.flavour {
            Flavour::Socket(polled) => act(polled),
            Flavour::Bare(_) => TIDEGATE_ERROR_INVALID.into(),
        }
    }

    fn flush(&mut self, now: Now) {
        if let Flavour::Socket(polled) = &mut self.flavour {
            polled.flush(now);
        }
    }
}

/// Begins to connect with a connect token: 2048 bytes, or its base64 text. A token carries one
/// session; ask your matchmaker for another one each time. `io` is TIDEGATE_SOCKET or
/// TIDEGATE_NO_SOCKET. On success `*client` is a handle to be freed, else null.
///
/// # Safety
///
/// `token` points to `token_length` bytes; `client` to a pointer that may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidegate_client_yojimbo(
    token: *const u8,
    token_length: usize,
    io: i32,
    now: u64,
    client: *mut *mut Client,
) -> i32 {
    // SAFETY: the caller's promises are those of `bytes` and `hand_out`.
    unsafe {
        let token = border::bytes(token, token_length);
        border::hand_out(client, || {
            let token = token.ok_or(TIDEGATE_ERROR_INVALID)?;
            let dial = Dial::yojimbo(token).map_err(|_| TIDEGATE_ERROR_TOKEN)?;
            Inner::new(now, dial, io)
        })
    }
}

/// Begins to connect without authentication: `server` is `10.0.0.7:40001` or `[fd00::7]:40001`,
/// `protocol_id` the server's, or 0 for tidegate's default. Closed networks only.
///
/// # Safety
///
/// `server` is a string; `client` points to a pointer that may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidegate_client_gaffer(
    server: *const c_char,
    protocol_id: u32,
    io: i32,
    now: u64,
    client: *mut *mut Client,
) -> i32 {
    let protocol_id = if protocol_id == 0 {
        GAFFER_PROTOCOL_ID
    } else {
        protocol_id
    };
    // SAFETY: the caller's promises are those of `text` and `hand_out`.
    unsafe {
        let server = border::text(server);
        border::hand_out(client, || {
            let dial = Dial::gaffer(parse_address(server)?, protocol_id);
            Inner::new(now, dial, io)
        })
    }
}

/// Begins to connect to a cloudwu/rudp server. Closed networks only.
///
/// # Safety
///
/// `server` is a string; `client` points to a pointer that may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidegate_client_rudp(
    server: *const c_char,
    io: i32,
    now: u64,
    client: *mut *mut Client,
) -> i32 {
    // SAFETY: the caller's promises are those of `text` and `hand_out`.
    unsafe {
        let server = border::text(server);
        border::hand_out(client, || {
            Inner::new(now, Dial::rudp(parse_address(server)?), io)
        })
    }
}

fn parse_address(text: Option<&str>) -> Result<SocketAddr, i32> {
    let address = text.and_then(|text| text.parse().ok());
    address.ok_or(TIDEGATE_ERROR_INVALID)
}

/// Says goodbye, if it is not over, and frees the handle. Null is fine. Without a socket, the goodbye
/// is yours to send: tidegate_client_close() and tidegate_client_poll_transmit() before this.
///
/// # Safety
///
/// `client` is null or a handle that was not freed, and no other call uses it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidegate_client_free(client: *mut Client) {
    // SAFETY: the caller's promise is `take_back`'s.
    unsafe {
        border::take_back(client, |inner| {
            let now = inner.now(0);
            inner.machine_mut().close(now);
            inner.flush(now);
        });
    }
}

/// With a socket: takes what arrived, does what is due, sends what is ready, and returns the state,
/// a TIDEGATE_CONNECTING to TIDEGATE_CLOSED. Call it once a frame, at least ten times a second.
///
/// # Safety
///
/// `client` is null or a handle that was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidegate_client_update(client: *mut Client, now: u64) -> i32 {
    // SAFETY: the caller's promise is `with`'s.
    unsafe {
        border::with_code(client, |inner| {
            let now = inner.now(now);
            let updated = inner.socketed(|polled| {
                polled.update(now);
                TIDEGATE_OK.into()
            });
            if updated < 0 {
                return updated as i32;
            }
            inner.state()
        })
    }
}

/// With a socket: sends what is ready. For the end of a frame that queued messages after its update.
///
/// # Safety
///
/// `client` is null or a handle that was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidegate_client_flush(client: *mut Client, now: u64) -> i32 {
    // SAFETY: the caller's promise is `with`'s.
    unsafe {
        border::with_code(client, |inner| {
            let now = inner.now(now);
            let flushed = inner.socketed(|polled| {
                polled.flush(now);
                TIDEGATE_OK.into()
            });
            flushed as i32
        })
    }
}

/// With a socket: its descriptor (on Windows its SOCKET), to wait on until something can be read; do
/// not read, write or close it. It may change in an update when a token's servers have addresses of
/// both kinds. Negative is an error.
///
/// # Safety
///
/// `client` is null or a handle that was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidegate_client_socket(client: *const Client) -> i64 {
    // SAFETY: the caller's promise is `with`'s.
    unsafe { border::with(client, |inner| inner.socketed(|polled| descriptor(polled))) }
}

#[cfg(unix)]
fn descriptor(polled: &Polled) -> i64 {
    use std::os::fd::AsRawFd;
    polled.socket().as_raw_fd().into()
}

#[cfg(windows)]
fn descriptor(polled: &Polled) -> i64 {
    use std::os::windows::io::AsRawSocket;
    polled.socket().as_raw_socket() as i64
}

/// Nanoseconds until tidegate_client_update() or tidegate_client_handle_timeout() has something to do
/// although nothing arrives: the longest useful wait. INT64_MAX when it is over; negative is an error.
///
/// # Safety
///
/// `client` is null or a handle that was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidegate_client_next_update(client: *const Client, now: u64) -> i64 {
    // SAFETY: the caller's promise is `with`'s.
    unsafe {
        border::with(client, |inner| {
            let now = inner.now(now);
            let wait = inner.machine().poll_timeout().map(|at| at.since(now.mono));
            wait.map_or(i64::MAX, |wait| {
                i64::try_from(wait.as_nanos()).unwrap_or(i64::MAX)
            })
        })
    }
}

/// Without a socket: a datagram arrived. TIDEGATE_ERROR_REFUSED is normal on a network and needs no
/// action. Afterwards poll tidegate_client_poll_transmit() until it is dry.
///
/// # Safety
///
/// `client` is null or a handle that was not freed; `from` points to an address; `datagram` points
/// to `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidegate_client_handle_datagram(
    client: *mut Client,
    now: u64,
    from: *const Address,
    datagram: *const u8,
    length: usize,
) -> i32 {
    // SAFETY: the caller's promises are those of `read`, `bytes` and `with`.
    unsafe {
        let from = border::read(from);
        let datagram = border::bytes(datagram, length);
        border::with_code(client, |inner| {
            let (Some(from), Some(datagram)) = (from, datagram) else {
                return TIDEGATE_ERROR_INVALID;
            };
            let now = inner.now(now);
            let Flavour::Bare(machine) = &mut inner.flavour else {
                return TIDEGATE_ERROR_INVALID;
            };
            if datagram.len() > DATAGRAM_BYTES_MAX {
                return TIDEGATE_ERROR_REFUSED;
            }
            // A copy: it is decrypted in place, and the caller's bytes are not ours to change.
            inner.datagram.clear();
            inner.datagram.extend_from_slice(datagram);
            match machine.handle_datagram(now, from.into(), &mut inner.datagram) {
                Ok(()) => TIDEGATE_OK,
                Err(_) => TIDEGATE_ERROR_REFUSED,
            }
        })
    }
}

/// Without a socket: does what time decides. Harmless when called early or often; see
/// tidegate_client_next_update(). Afterwards poll tidegate_client_poll_transmit() until it is dry.
///
/// # Safety
///
/// `client` is null or a handle that was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidegate_client_handle_timeout(client: *mut Client, now: u64) -> i32 {
    // SAFETY: the caller's promise is `with`'s.
    unsafe {
        border::with_code(client, |inner| {
            let now = inner.now(now);
            let Flavour::Bare(machine) = &mut inner.flavour else {
                return TIDEGATE_ERROR_INVALID;
            };
            machine.handle_timeout(now);
            TIDEGATE_OK
        })
    }
}

/// Without a socket: the next datagram to be sent. 1 when there is one, 0 when there is none; negative
/// is an error.
///
/// # Safety
///
/// `client` is null or a handle that was not freed; `datagram` points to memory that may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidegate_client_poll_transmit(
    client: *mut Client,
    now: u64,
    datagram: *mut Datagram,
) -> i32 {
    // SAFETY: the caller's promises are those of `with` and `store`.
    unsafe {
        border::with_code(client, |inner| {
            if datagram.is_null() {
                return TIDEGATE_ERROR_INVALID;
            }
            let now = inner.now(now);
            let Flavour::Bare(machine) = &mut inner.flavour else {
                return TIDEGATE_ERROR_INVALID;
            };
            inner.datagram.clear();
            let Some(to) = machine.poll_transmit(now, &mut inner.datagram) else {
                return 0;
            };
            let shown = Datagram {
                bytes: inner.datagram.as_ptr(),
                length: inner.datagram.len(),
                to: to.into(),
            };
            border::store(datagram, shown).into()
        })
    }
}

/// Queues a reliable message: it arrives once and in order, or the session ends. It leaves with the
/// next update, flush or poll_transmit.
///
/// # Safety
///
/// `client` is null or a handle that was not freed; `payload` points to `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidegate_client_send(
    client: *mut Client,
    now: u64,
    payload: *const u8,
    length: usize,
) -> i32 {
    // SAFETY: the caller's promises are those of `bytes` and `with`.
    unsafe {
        let payload = border::bytes(payload, length);
        border::with_code(client, |inner| {
            let Some(payload) = payload else {
                return TIDEGATE_ERROR_INVALID;
            };
            let now = inner.now(now);
            send_code(inner.machine_mut().send(now, payload))
        })
    }
}

/// Queues an unreliable message: it arrives soon, or never.
///
/// # Safety
///
/// `client` is null or a handle that was not freed; `payload` points to `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidegate_client_send_unreliable(
    client: *mut Client,
    now: u64,
    payload: *const u8,
    length: usize,
) -> i32 {
    // SAFETY: the caller's promises are those of `bytes` and `with`.
    unsafe {
        let payload = border::bytes(payload, length);
        border::with_code(client, |inner| {
            let Some(payload) = payload else {
                return TIDEGATE_ERROR_INVALID;
            };
            let now = inner.now(now);
            send_code(inner.machine_mut().send_unreliable(now, payload))
        })
    }
}

/// Whether tidegate_client_send() takes another message of any legal size: 1 or 0; negative is an
/// error.
///
/// # Safety
///
/// `client` is null or a handle that was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidegate_client_has_room(client: *const Client) -> i32 {
    // SAFETY: the caller's promise is `with`'s.
    unsafe { border::with_code(client, |inner| inner.machine().has_room().into()) }
}

/// The next message from the server: 1 when there is one, 0 when there is none; negative is an error.
/// Messages that are not polled fill a bounded queue, and then hold the server back.
///
/// # Safety
///
/// `client` is null or a handle that was not freed; `message` points to memory that may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidegate_client_poll_message(
    client: *mut Client,
    message: *mut Message,
) -> i32 {
    // SAFETY: the caller's promises are those of `with` and `store`.
    unsafe {
        border::with_code(client, |inner| {
            if message.is_null() {
                return TIDEGATE_ERROR_INVALID;
            }
            let mut kept = std::mem::take(&mut inner.message);
            kept.clear();
            let found = inner.machine_mut().poll_message().map(|found| {
                kept.extend_from_slice(found.payload);
                (found.channel, found.reliable)
            });
            inner.message = kept;
            let Some((channel, reliable)) = found else {
                return 0;
            };
            let shown = Message {
                payload: inner.message.as_ptr(),
                length: inner.message.len(),
                channel,
                reliable: reliable.into(),
            };
            border::store(message, shown).into()
        })
    }
}

/// Delivers what was sent, then says goodbye; gives up after `linger` nanoseconds without any
/// progress. Go on calling update (or your three functions) until the state is TIDEGATE_CLOSED.
///
/// # Safety
///
/// `client` is null or a handle that was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidegate_client_finish(client: *mut Client, now: u64, linger: u64) -> i32 {
    // SAFETY: the caller's promise is `with`'s.
    unsafe {
        border::with_code(client, |inner| {
            let now = inner.now(now);
            let linger = Duration::from_nanos(linger);
            inner.machine_mut().finish(now, linger);
            inner.flush(now);
            TIDEGATE_OK
        })
    }
}

/// Says goodbye at once.
///
/// # Safety
///
/// `client` is null or a handle that was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidegate_client_close(client: *mut Client, now: u64) -> i32 {
    // SAFETY: the caller's promise is `with`'s.
    unsafe {
        border::with_code(client, |inner| {
            let now = inner.now(now);
            inner.machine_mut().close(now);
            inner.flush(now);
            TIDEGATE_OK
        })
    }
}

/// TIDEGATE_CONNECTING to TIDEGATE_CLOSED; negative is an error.
///
/// # Safety
///
/// `client` is null or a handle that was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidegate_client_state(client: *const Client) -> i32 {
    // SAFETY: the caller's promise is `with`'s.
    unsafe { border::with_code(client, |inner| inner.state()) }
}

/// How it ended, a TIDEGATE_ENDED_*; negative is an error.
///
/// # Safety
///
/// `client` is null or a handle that was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidegate_client_ended(client: *const Client) -> i32 {
    // SAFETY: the caller's promise is `with`'s.
    unsafe {
        border::with_code(client, |inner| {
            inner.ended().map_or(TIDEGATE_ENDED_NOT, ended::number)
        })
    }
}

/// Reliable messages that the server has not confirmed: it may have them or not. Negative is an
/// error. rudp never confirms; there it is 0.
///
/// # Safety
///
/// `client` is null or a handle that was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidegate_client_unconfirmed(client: *const Client) -> i64 {
    // SAFETY: the caller's promise is `with`'s.
    unsafe {
        border::with(client, |inner| match inner.ended() {
            Some(Ended::Here { unconfirmed }) => unconfirmed.into(),
            Some(Ended::Session(_) | Ended::Socket(_)) | None => {
                inner.machine().stats().outbox_messages.into()
            }
        })
    }
}

/// The server that is dialled, or talked to.
///
/// # Safety
///
/// `client` is null or a handle that was not freed; `address` points to memory that may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidegate_client_server(
    client: *const Client,
    address: *mut Address,
) -> i32 {
    // SAFETY: the caller's promises are those of `with` and `store`.
    unsafe {
        border::with_code(client, |inner| {
            match border::store(address, inner.machine().server().into()) {
                true => TIDEGATE_OK,
                false => TIDEGATE_ERROR_INVALID,
            }
        })
    }
}

/// How the session is doing.
///
/// # Safety
///
/// `client` is null or a handle that was not freed; `stats` points to memory that may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidegate_client_stats(client: *const Client, stats: *mut Stats) -> i32 {
    // SAFETY: the caller's promises are those of `with` and `store`.
    unsafe {
        border::with_code(client, |inner| {
            match border::store(stats, inner.machine().stats().into()) {
                true => TIDEGATE_OK,
                false => TIDEGATE_ERROR_INVALID,
            }
        })
    }
}

impl From<tidegate_client::Stats> for Stats {
    fn from(stats: tidegate_client::Stats) -> Self {
        let nanos = |span: Duration| u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
        Self {
            rtt_latest: nanos(stats.rtt_latest),
            rtt: nanos(stats.rtt),
            rtt_min: nanos(stats.rtt_min),
            rtt_variation: nanos(stats.rtt_variation),
            loss: stats.loss.into(),
            in_bad_mode: stats.in_bad_mode.into(),
            outbox_messages: stats.outbox_messages,
            packets_sent: stats.packets_sent,
            packets_received: stats.packets_received,
            packets_lost: stats.packets_lost,
            messages_sent: stats.messages_sent_reliable + stats.messages_sent_unreliable,
            messages_resent: stats.messages_resent,
            messages_received: stats.messages_received,
        }
    }
}

impl From<SocketAddr> for Address {
    fn from(address: SocketAddr) -> Self {
        let mut ip = [0; 16];
        match address.ip() {
            IpAddr::V4(v4) => ip[..4].copy_from_slice(&v4.octets()),
            IpAddr::V6(v6) => ip = v6.octets(),
        }
        Self {
            ip,
            port: address.port(),
            is_ipv6: address.is_ipv6().into(),
        }
    }
}

impl From<Address> for SocketAddr {
    fn from(address: Address) -> Self {
        let [a, b, c, d, ..] = address.ip;
        let ip: IpAddr = if address.is_ipv6 == 0 {
            Ipv4Addr::new(a, b, c, d).into()
        } else {
            Ipv6Addr::from(address.ip).into()
        };
        Self::new(ip, address.port)
    }
}

/// No UDP payload is longer.
const DATAGRAM_BYTES_MAX: usize = 65_535;
