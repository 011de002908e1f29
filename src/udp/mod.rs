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
        };
        socket.set_offloads(bind.ip().is_unspecified());
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
            self.send_batch(&departures[..count], &datagrams[..count], sent);
        }
    }

    /// Whether a datagram of this length may arrive in IP fragments: one that every path should take, or that has no
    /// shorter form. Longer ones try what a path takes.
    fn may_be_cut(&self, length: usize) -> bool {
        !self.never_cut || length <= ALWAYS_SENT
    }

    /// Tells the kernel whether routers may cut what leaves from now on, over IPv4; over IPv6 none does. Unless told, it
    /// lets them cut what leaves together, and nothing else: ip(7), IP_MTU_DISCOVER, and its `__ip_make_skb`.
    fn let_routers_cut(&mut self, may: bool) {
        if self.routers_cut == Some(may) {
            return;
        }
        let value = if may {
            libc::IP_PMTUDISC_DONT
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

    fn send_batch(&mut self, departures: &[Departure<'_>], datagrams: &[usize], sent: &mut Sent) {
        let mut at = 0;
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
                Err(error) => {
                    self.handle_failure(&departures[at], &error, sent);
                    at += 1;
                }
            }
        }
    }

    /// A single datagram is lost. A segmented one is tried once more in pieces: where those leave
    /// although the whole did not, segmentation does not work on this path and is not tried again. But
    /// the first link may have become smaller since the kernel was asked, and would cut them.
    fn handle_failure(&mut self, departure: &Departure<'_>, error: &io::Error, sent: &mut Sent) {
        let kind = UdpError::of(error);
        if departure.segment == 0 || kind == UdpError::Blocked || kind == UdpError::Broken {
            sent.errors.count(kind);
            return;
        }
        self.first_links.forget(departure.to);
        if self.never_cut && !self.leaves_uncut(departure.to, departure.segment.into()) {
            return;
        }
        let mut pieces_left = false;
        for bytes in departure.bytes.chunks(usize::from(departure.segment)) {
            let piece = Departure {
                bytes,
                segment: 0,
                ..*departure
            };
            match mmsg::send(self.io.as_fd(), self.family, &[piece]) {
                Ok(_) => {
                    sent.calls += 1;
                    pieces_left = true;
                    sent.count(&piece, 1);
                }
                Err(error) => sent.errors.count(UdpError::of(&error)),
            }
        }
        // A segment larger than the path's MTU says nothing about segmentation elsewhere.
        if pieces_left && kind != UdpError::TooLarge {
            self.segmentation = false;
            tracing::info!(%error, address = %self.local, "segmentation offload is off");
        }
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
