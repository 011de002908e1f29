//! UDP sockets: options, batches in, batches out. One address has one form here: IPv4 peers of a
//! dual-stack socket are IPv4 addresses, whatever the kernel calls them.

mod errors;
mod first_link;
mod mmsg;
mod outgoing;
mod received;

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::AsFd;

use mio::{Interest, Registry, Token};
use socket2::{Domain, Protocol, SockAddr, Socket, Type};

pub use errors::{UdpError, UdpErrors};
pub use outgoing::{Outgoing, Sent};
pub use received::{Received, Route};

use first_link::{ALWAYS_SENT, FirstLinks};
use mmsg::{BATCH, Departure, Family};

/// How a socket is made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Bytes asked of the kernel, which may grant less; 0 leaves its default.
    pub receive_buffer: usize,
    /// Bytes asked of the kernel for what is sent, which may grant less; 0 leaves its default.
    pub send_buffer: usize,
    /// Several workers share one port. Only then: otherwise a second process could take half of the
    /// players without anybody noticing.
    pub reuse_port: bool,
    /// An IPv6 socket leaves IPv4 to another one.
    pub only_v6: bool,
    /// Long datagrams that a link would cut in IP fragments are lost instead. For sessions that try how long
    /// a datagram may be; others have no shorter way to say what they say, and live by the fragments.
    pub never_cut: bool,
}

/// A bound UDP socket that never blocks.
#[derive(Debug)]
pub struct UdpSocket {
    io: mio::net::UdpSocket,
    local: SocketAddr,
    family: Family,
    segmentation: bool,
    never_cut: bool,
    /// What the kernel was last told, see [`UdpSocket::let_routers_cut`].
    routers_cut: Option<bool>,
    first_links: FirstLinks,
    /// The kernel's running count of drops, to tell what is new.
    dropped: u32,
    /// See [`UdpSocket::new_refusals`].
    refusals: u64,
}

impl UdpSocket {
    /// A socket for many peers.
    pub fn bind(address: SocketAddr, options: Options) -> io::Result<Self> {
        Self::new(address, None, options)
    }

    /// A socket for one peer: the kernel sorts out everybody else, and tells when nobody is there.
    pub fn connect(to: SocketAddr, options: Options) -> io::Result<Self> {
        let any: IpAddr = match to {
            SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => std::net::Ipv6Addr::UNSPECIFIED.into(),
        };
        Self::new(SocketAddr::new(any, 0), Some(to), options)
    }

    fn new(bind: SocketAddr, connect: Option<SocketAddr>, options: Options) -> io::Result<Self> {
        let socket = Socket::new(Domain::for_address(bind), Type::DGRAM, Some(Protocol::UDP))?;
        socket.set_nonblocking(true)?;
        if bind.is_ipv6() {
            socket.set_only_v6(options.only_v6)?;
        }
        socket.set_reuse_port(options.reuse_port)?;
        // Less than asked is not an error: a start warns of it.
        if options.receive_buffer > 0 {
            socket.set_recv_buffer_size(options.receive_buffer)?;
        }
        if options.send_buffer > 0 {
            socket.set_send_buffer_size(options.send_buffer)?;
        }
        socket.bind(&SockAddr::from(bind))?;
        if let Some(to) = connect {
            socket.connect(&SockAddr::from(to))?;
        }
        let io = mio::net::UdpSocket::from_std(socket.into());
        let local = io.local_addr()?;
        let family = match (connect, local) {
            (Some(_), _) => Family::Connected,
            (None, SocketAddr::V4(_)) => Family::V4,
            (None, SocketAddr::V6(_)) => Family::V6,
        };
        let mut socket = Self {
            io,
            local,
            family,
            segmentation: false,
            never_cut: options.never_cut,
            routers_cut: None,
            first_links: FirstLinks::default(),
            dropped: 0,
            refusals: 0,
        };
        socket.set_offloads(bind.ip().is_unspecified());
        socket.let_routers_cut(true);
        Ok(socket)
    }

    /// Each is a help that an old kernel may not have, so none is required.
    fn set_offloads(&mut self, many_addresses: bool) {
        let set = |level, option, value| mmsg::set_option(self.io.as_fd(), level, option, value);
        let joined = set(libc::SOL_UDP, libc::UDP_GRO, 1).is_ok();
        let counted = set(libc::SOL_SOCKET, libc::SO_RXQ_OVFL, 1).is_ok();
        tracing::trace!(joined, counted, "socket options");
        // A socket bound to one address answers from it anyway.
        if many_addresses && self.family != Family::Connected {
            let told = match self.local {
                SocketAddr::V4(_) => set(libc::IPPROTO_IP, libc::IP_PKTINFO, 1),
                // On a dual-stack socket this tells of IPv4 too, in mapped form.
                SocketAddr::V6(_) => set(libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO, 1),
            };
            if let Err(error) = told {
                tracing::warn!(
                    event = "reply_address_unknown",
                    %error,
                    address = %self.local,
                    "replies may leave from another address than the one that players write to"
                );
            }
        }
        // Setting "no segmentation by default" succeeds exactly where segmentation is known.
        self.segmentation = set(libc::SOL_UDP, libc::UDP_SEGMENT, 0).is_ok();
    }

    /// From now on other sockets that ask to share may have the same port.
    pub fn share_port(&self) -> io::Result<()> {
        socket2::SockRef::from(&self.io).set_reuse_port(true)
    }

    /// Where it is bound.
    pub fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// Whether IPv4 datagrams come here: a socket of IPv6 may take them as well.
    pub fn takes_v4(&self) -> bool {
        self.local.is_ipv4() || !self.io.only_v6().unwrap_or(false)
    }

    /// Bytes of receive and send buffer that the kernel granted.
    pub fn granted(&self) -> io::Result<(usize, usize)> {
        let socket = socket2::SockRef::from(&self.io);
        // socket(7): the kernel doubles what it grants, for its own bookkeeping, and reports that.
        Ok((
            socket.recv_buffer_size()? / 2,
            socket.send_buffer_size()? / 2,
        ))
    }

    /// Asks to be told when datagrams come.
    pub fn register(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        registry.register(&mut self.io, token, Interest::READABLE)
    }

    /// Stops being told.
    pub fn deregister(&mut self, registry: &Registry) -> io::Result<()> {
        registry.deregister(&mut self.io)
    }

    /// Receives one batch; see [`Received::may_have_left`].
    pub fn receive(&mut self, received: &mut Received) -> Result<(), UdpError> {
        received
            .fill_from(self.io.as_fd())
            .map_err(|error| UdpError::of(&error))
    }

    /// Datagrams that the kernel dropped since this was last asked, as far as `received` tells.
    pub fn new_drops(&mut self, received: &Received) -> u64 {
        let Some(total) = received.dropped() else {
            return 0;
        };
        let new = total.wrapping_sub(self.dropped);
        self.dropped = total;
        u64::from(new)
    }

    /// How often a connected socket was told of a closed port when it was to send, since this was last asked, and lost
    /// nothing by it.
    pub fn new_refusals(&mut self) -> u64 {
        std::mem::take(&mut self.refusals)
    }

    /// Sends everything in `outgoing`. What cannot be sent is lost and counted; with
    /// [`Options::never_cut`], what the first link would cut in pieces is lost.
    pub fn send(&mut self, outgoing: &Outgoing, sent: &mut Sent) {
        let mut next = 0;
        while next < outgoing.len() {
            let mut departures = [NOTHING; BATCH];
            let mut datagrams = [0; BATCH];
            let mut count = 0;
            let may_be_cut = self.may_be_cut(outgoing.size(next));
            while count < BATCH
                && next < outgoing.len()
                && self.may_be_cut(outgoing.size(next)) == may_be_cut
            {
                let is_whole = self.leaves_uncut(outgoing.to(next), outgoing.size(next));
                // The kernel cuts into fragments only what leaves by itself.
                let run = outgoing.run(next, self.segmentation && (is_whole || self.never_cut));
                let departure = outgoing.departure(next, run);
                if is_whole || !self.never_cut {
                    departures[count] = departure;
                    datagrams[count] = run;
                    count += 1;
                }
                next += run;
            }
            self.let_routers_cut(may_be_cut);
            self.send_batch(outgoing, &departures[..count], &datagrams[..count], sent);
            if !may_be_cut {
                // What routers say is believed only until here, see there.
                self.let_routers_cut(true);
            }
        }
    }

    /// Whether a datagram of this length may arrive in IP fragments: one that every path should take, or that has no
    /// shorter form. Longer ones try what a path takes.
    fn may_be_cut(&self, length: usize) -> bool {
        !self.never_cut || length <= ALWAYS_SENT
    }

    /// Tells the kernel whether routers may cut what leaves from now on, over IPv4; over IPv6 none does. Unless told, it
    /// lets them cut what leaves together, and nothing else: ip(7), IP_MTU_DISCOVER, and its `__ip_make_skb`.
    ///
    /// With OMIT it cuts what the first link would not take, and believes no router's word of a path: anybody may forge that.
    /// With DONT it believes it for ten minutes, in which it cuts every datagram here and lets none leave together.
    fn let_routers_cut(&mut self, may: bool) {
        if self.routers_cut == Some(may) {
            return;
        }
        let value = if may {
            libc::IP_PMTUDISC_OMIT
        } else {
            libc::IP_PMTUDISC_PROBE
        };
        let told = mmsg::set_option(
            self.io.as_fd(),
            libc::IPPROTO_IP,
            libc::IP_MTU_DISCOVER,
            value,
        );
        tracing::trace!(may, ?told, "IP fragments");
        // A kernel that refused once is not asked for each batch.
        self.routers_cut = Some(may);
    }

    fn leaves_uncut(&mut self, to: SocketAddr, length: usize) -> bool {
        let connected = (self.family == Family::Connected).then_some(self.io.as_fd());
        self.first_links.take(connected, to, length)
    }

    fn send_batch(
        &mut self,
        outgoing: &Outgoing,
        departures: &[Departure<'_>],
        datagrams: &[usize],
        sent: &mut Sent,
    ) {
        let mut at = 0;
        let mut tried_again = None;
        while at < departures.len() {
            match mmsg::send(self.io.as_fd(), self.family, &departures[at..]) {
                Ok(count) => {
                    sent.calls += 1;
                    let end = at + count.max(1);
                    for (departure, datagrams) in departures[at..end].iter().zip(&datagrams[at..]) {
                        sent.count(departure, *datagrams);
                    }
                    at = end;
                }
                // It may have waited since an earlier datagram, or be forged: the kernel tells of it once.
                Err(error) if self.hears_of_others(&error) && tried_again != Some(at) => {
                    self.refusals += u64::from(UdpError::of(&error) == UdpError::Refused);
                    tried_again = Some(at);
                }
                Err(error) => {
                    self.handle_failure(outgoing, &departures[at], &error, sent);
                    at += 1;
                }
            }
        }
    }

    /// Whether this may be what ICMP said of another datagram, not why this one did not leave.
    fn hears_of_others(&self, error: &io::Error) -> bool {
        self.family == Family::Connected
            && !matches!(
                UdpError::of(error),
                UdpError::Blocked | UdpError::Broken | UdpError::NoBuffers
            )
    }

    /// A single datagram is lost. A segmented one is tried once more in pieces: where those leave
    /// although the whole did not, and the error was about the whole, segmentation does not work on this path and is not
    /// tried again. But the first link may have become smaller since the kernel was asked, and would cut them.
    fn handle_failure(
        &mut self,
        outgoing: &Outgoing,
        departure: &Departure<'_>,
        error: &io::Error,
        sent: &mut Sent,
    ) {
        let kind = UdpError::of(error);
        if departure.segment == 0 || kind == UdpError::Blocked || kind == UdpError::Broken {
            sent.lose(kind, outgoing.is_unproven(departure.to));
            return;
        }
        self.first_links.forget(departure.to);
        if self.never_cut && !self.leaves_uncut(departure.to, departure.segment.into()) {
            return;
        }
        let left_before = sent.datagrams;
        let mut segments = departure
            .bytes
            .chunks(usize::from(departure.segment))
            .peekable();
        while segments.peek().is_some() {
            let mut pieces = [NOTHING; BATCH];
            let mut count = 0;
            for (piece, bytes) in pieces.iter_mut().zip(segments.by_ref()) {
                *piece = Departure {
                    bytes,
                    segment: 0,
                    ..*departure
                };
                count += 1;
            }
            self.send_batch(outgoing, &pieces[..count], &[1; BATCH][..count], sent);
        }
        if sent.datagrams > left_before && blames_segmentation(error, departure) {
            self.segmentation = false;
            tracing::info!(%error, address = %self.local, "segmentation offload is off");
        }
    }
}

/// Whether a kernel that took the pieces refused the whole because it was to cut it (`udp_send_skb`). It also refuses what
/// is larger than the path's MTU, older ones with EINVAL, and anybody may forge a router's word of that; and it tells of
/// errors that waited in the socket. None of these says anything about other peers.
fn blames_segmentation(error: &io::Error, departure: &Departure<'_>) -> bool {
    match error.raw_os_error() {
        Some(libc::EIO) => true,
        Some(libc::EINVAL) => first_link::fits(departure.to, departure.segment.into()),
        _ => false,
    }
}

const NOTHING: Departure<'static> = Departure {
    to: SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0),
    from: None,
    bytes: &[],
    segment: 0,
};

#[cfg(test)]
mod tests;
