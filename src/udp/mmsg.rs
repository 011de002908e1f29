//! Many datagrams per system call: recvmmsg and sendmmsg with their control messages.
//!
//! The only unsafe code of the program, behind two safe functions. It exists because the ready-made
//! wrappers send one peer's datagrams per call, set "don't fragment", and turn segmentation off for
//! everybody when one destination is refused. What stays unsafe is what the kernel needs: headers
//! full of pointers, which live for one call and point into arrays that outlive it.

use std::io;
use std::mem::{self, MaybeUninit};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::os::fd::{AsRawFd, BorrowedFd};

/// Headers per system call, both ways: the gain of larger batches is below what can be measured.
pub(super) const BATCH: usize = 32;

/// Room for one receive: the kernel joins datagrams of one peer up to 64 KiB (GRO). The extra bytes
/// keep the starts of neighbouring buffers out of the same cache sets.
const BUFFER_BYTES: usize = 65_536 + 192;

/// Room for control messages: packet info of either family, segment size, drop count.
const CONTROL_BYTES: usize = 128;

#[repr(C, align(8))]
#[derive(Clone, Copy)]
struct Control([u8; CONTROL_BYTES]);

/// What one receive call brought, and the memory for it.
pub(super) struct Arrivals {
    buffers: Box<[u8]>,
    arrived: Vec<Arrival>,
}

/// One buffer of [`Arrivals`]: a datagram, or several of equal size from one peer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrival {
    pub(super) from: SocketAddr,
    /// The address it was sent to, when the socket reports it.
    pub(super) to: Option<IpAddr>,
    pub(super) length: usize,
    /// Size of each joined datagram but the last; 0 when there is only one.
    pub(super) segment: usize,
    /// The socket's count of datagrams dropped for want of buffer, when it reports one.
    pub(super) dropped: Option<u32>,
}

impl Arrivals {
    pub(super) fn new() -> Self {
        Self {
            // Pages that no datagram reaches are never touched, so this costs what traffic needs.
            buffers: vec![0; BATCH * BUFFER_BYTES].into_boxed_slice(),
            arrived: Vec::with_capacity(BATCH),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.arrived.len()
    }

    pub(super) fn dropped(&self, index: usize) -> Option<u32> {
        self.arrived[index].dropped
    }

    pub(super) fn take(&mut self, index: usize) -> (Arrival, &mut [u8]) {
        let arrival = self.arrived[index];
        let start = index * BUFFER_BYTES;
        (arrival, &mut self.buffers[start..start + arrival.length])
    }

    /// One recvmmsg call for at most `limit` buffers.
    pub(super) fn receive(&mut self, socket: BorrowedFd<'_>, limit: usize) -> io::Result<()> {
        self.arrived.clear();
        let limit = limit.min(BATCH);
        let mut names = [const { MaybeUninit::<libc::sockaddr_storage>::uninit() }; BATCH];
        let mut controls = [const { MaybeUninit::<Control>::uninit() }; BATCH];
        let mut vectors = [EMPTY_VECTOR; BATCH];
        let mut headers = [EMPTY_HEADER; BATCH];
        for (index, header) in headers[..limit].iter_mut().enumerate() {
            let buffer = &mut self.buffers[index * BUFFER_BYTES..(index + 1) * BUFFER_BYTES];
            vectors[index] = libc::iovec {
                iov_base: buffer.as_mut_ptr().cast(),
                iov_len: buffer.len(),
            };
            let header = &mut header.msg_hdr;
            header.msg_name = names[index].as_mut_ptr().cast();
            header.msg_namelen = size_of::<libc::sockaddr_storage>() as libc::socklen_t;
            header.msg_iov = &raw mut vectors[index];
            header.msg_iovlen = 1;
            header.msg_control = controls[index].as_mut_ptr().cast();
            header.msg_controllen = CONTROL_BYTES as _;
        }
        // SAFETY: the first `limit` headers point at arrays above, which live until after the loop
        // below, with their true lengths; the kernel writes nowhere else.
        let count = unsafe {
            libc::recvmmsg(
                socket.as_raw_fd(),
                headers.as_mut_ptr(),
                limit as libc::c_uint,
                libc::MSG_DONTWAIT as _,
                std::ptr::null_mut(),
            )
        };
        let count = usize::try_from(count).map_err(|_| io::Error::last_os_error())?;
        for (header, name) in headers[..count].iter().zip(&names) {
            // SAFETY: the kernel filled header, name and control of the first `count` entries;
            // `from_name` reads the family first and then no more than that family has.
            let (from, notes) = unsafe { (from_name(name.as_ptr()), notes(&header.msg_hdr)) };
            self.arrived.push(Arrival {
                // A source of no known family cannot be answered; port 0 marks it as such.
                from: from.unwrap_or(SocketAddr::from(([0, 0, 0, 0], 0))),
                to: notes.to,
                length: (header.msg_len as usize).min(BUFFER_BYTES),
                segment: notes.segment,
                dropped: notes.dropped,
            });
        }
        Ok(())
    }
}

/// One header of a send call: one datagram, or several to one peer with all but the last of
/// `segment` bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Departure<'a> {
    pub(super) to: SocketAddr,
    /// The source address to use, where the socket has several.
    pub(super) from: Option<IpAddr>,
    pub(super) bytes: &'a [u8],
    /// 0 when `bytes` is one datagram.
    pub(super) segment: u16,
}

/// How a socket wants its destinations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Family {
    V4,
    V6,
    /// Connected: no destination is given.
    Connected,
}

/// One sendmmsg call. Returns how many headers left, at least one; an error is about the first.
pub(super) fn send(
    socket: BorrowedFd<'_>,
    family: Family,
    departures: &[Departure<'_>],
) -> io::Result<usize> {
    let count = departures.len().min(BATCH);
    let mut names = [const { MaybeUninit::<libc::sockaddr_storage>::uninit() }; BATCH];
    let mut controls = [const { MaybeUninit::<Control>::uninit() }; BATCH];
    let mut vectors = [EMPTY_VECTOR; BATCH];
    let mut headers = [EMPTY_HEADER; BATCH];
    for (index, departure) in departures[..count].iter().enumerate() {
        vectors[index] = libc::iovec {
            // The kernel only reads through this pointer; iovec has no const form.
            iov_base: departure.bytes.as_ptr().cast_mut().cast(),
            iov_len: departure.bytes.len(),
        };
        let header = &mut headers[index].msg_hdr;
        header.msg_iov = &raw mut vectors[index];
        header.msg_iovlen = 1;
        if family != Family::Connected {
            let name = &mut names[index];
            header.msg_namelen = write_name(name, departure.to, family);
            header.msg_name = name.as_mut_ptr().cast();
        }
        let wants_source = departure.from.filter(|_| family != Family::Connected);
        if wants_source.is_some() || departure.segment != 0 {
            let control = controls[index].write(Control([0; CONTROL_BYTES]));
            header.msg_control = control.0.as_mut_ptr().cast();
            header.msg_controllen =
                write_controls(control, wants_source, departure.segment, family) as _;
        }
    }
    // SAFETY: the first `count` headers point at the arrays above and at the departures' bytes, all
    // of which outlive the call, with their true lengths; the kernel writes only `msg_len`.
    let sent = unsafe {
        libc::sendmmsg(
            socket.as_raw_fd(),
            headers.as_mut_ptr(),
            count as libc::c_uint,
            (libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL) as _,
        )
    };
    usize::try_from(sent).map_err(|_| io::Error::last_os_error())
}

/// Sets an integer option that the socket crate does not know.
pub(super) fn set_option(
    socket: BorrowedFd<'_>,
    level: libc::c_int,
    option: libc::c_int,
    value: libc::c_int,
) -> io::Result<()> {
    // SAFETY: the pointer is to a c_int and the length says so.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            option,
            (&raw const value).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Reads an integer option that the socket crate does not know.
pub(super) fn get_option(
    socket: BorrowedFd<'_>,
    level: libc::c_int,
    option: libc::c_int,
) -> io::Result<libc::c_int> {
    let mut value: libc::c_int = 0;
    let mut length = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: the pointers are to a c_int and to its length.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            level,
            option,
            (&raw mut value).cast(),
            &raw mut length,
        )
    };
    if result == 0 {
        Ok(value)
    } else {
        Err(io::Error::last_os_error())
    }
}

const EMPTY_VECTOR: libc::iovec = libc::iovec {
    iov_base: std::ptr::null_mut(),
    iov_len: 0,
};

const EMPTY_HEADER: libc::mmsghdr = {
    // SAFETY: a header of null pointers and zero lengths is what the kernel takes for "none".
    unsafe { mem::zeroed() }
};

/// What the control messages of one receive said.
#[derive(Default)]
struct Notes {
    to: Option<IpAddr>,
    segment: usize,
    dropped: Option<u32>,
}

/// # Safety
/// `header` was filled by a receive call and its control buffer is alive.
unsafe fn notes(header: &libc::msghdr) -> Notes {
    let mut notes = Notes::default();
    // SAFETY: the macros walk within `msg_controllen`, which the kernel set.
    let mut next = unsafe { libc::CMSG_FIRSTHDR(header) };
    // SAFETY: a non-null pointer from the macros is a whole control message header.
    while let Some(message) = unsafe { next.as_ref() } {
        // SAFETY: each kind carries at least the type that is read, and nothing promises alignment.
        unsafe {
            let data = libc::CMSG_DATA(message);
            match (message.cmsg_level, message.cmsg_type) {
                (libc::IPPROTO_IP, libc::IP_PKTINFO) => {
                    let info = data.cast::<libc::in_pktinfo>().read_unaligned();
                    let address = Ipv4Addr::from(info.ipi_addr.s_addr.to_ne_bytes());
                    notes.to = Some(address.into());
                }
                (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
                    let info = data.cast::<libc::in6_pktinfo>().read_unaligned();
                    let address = Ipv6Addr::from(info.ipi6_addr.s6_addr);
                    notes.to = Some(IpAddr::from(address).to_canonical());
                }
                (libc::SOL_UDP, libc::UDP_GRO) => {
                    notes.segment = data.cast::<libc::c_int>().read_unaligned().max(0) as usize;
                }
                (libc::SOL_SOCKET, libc::SO_RXQ_OVFL) => {
                    notes.dropped = Some(data.cast::<u32>().read_unaligned());
                }
                _ => {}
            }
            next = libc::CMSG_NXTHDR(header, message);
        }
    }
    notes
}

/// # Safety
/// `name` points at an address that the kernel wrote.
unsafe fn from_name(name: *const libc::sockaddr_storage) -> Option<SocketAddr> {
    // SAFETY: the family comes first in every address; the rest is read as the family says.
    unsafe {
        match libc::c_int::from((*name).ss_family) {
            libc::AF_INET => {
                let name = &*name.cast::<libc::sockaddr_in>();
                let ip = Ipv4Addr::from(name.sin_addr.s_addr.to_ne_bytes());
                Some(SocketAddr::from((ip, u16::from_be(name.sin_port))))
            }
            libc::AF_INET6 => {
                let name = &*name.cast::<libc::sockaddr_in6>();
                let ip = Ipv6Addr::from(name.sin6_addr.s6_addr);
                let port = u16::from_be(name.sin6_port);
                Some(match ip.to_ipv4_mapped() {
                    Some(ip) => SocketAddr::from((ip, port)),
                    None => SocketAddrV6::new(ip, port, 0, name.sin6_scope_id).into(),
                })
            }
            _ => None,
        }
    }
}

fn write_name(
    name: &mut MaybeUninit<libc::sockaddr_storage>,
    to: SocketAddr,
    family: Family,
) -> libc::socklen_t {
    let start = name.as_mut_ptr();
    match (to, family) {
        (SocketAddr::V4(to), Family::V4) => {
            let address = libc::sockaddr_in {
                sin_family: libc::AF_INET as libc::sa_family_t,
                sin_port: to.port().to_be(),
                sin_addr: libc::in_addr {
                    s_addr: u32::from_ne_bytes(to.ip().octets()),
                },
                sin_zero: [0; 8],
            };
            // SAFETY: sockaddr_storage is made to hold, and is aligned for, any address.
            unsafe { start.cast::<libc::sockaddr_in>().write(address) };
            size_of::<libc::sockaddr_in>() as libc::socklen_t
        }
        (to, _) => {
            let (ip, scope) = match to {
                SocketAddr::V4(to) => (to.ip().to_ipv6_mapped(), 0),
                SocketAddr::V6(to) => (*to.ip(), to.scope_id()),
            };
            let address = libc::sockaddr_in6 {
                sin6_family: libc::AF_INET6 as libc::sa_family_t,
                sin6_port: to.port().to_be(),
                sin6_flowinfo: 0,
                sin6_addr: libc::in6_addr {
                    s6_addr: ip.octets(),
                },
                sin6_scope_id: scope,
            };
            // SAFETY: as above.
            unsafe { start.cast::<libc::sockaddr_in6>().write(address) };
            size_of::<libc::sockaddr_in6>() as libc::socklen_t
        }
    }
}

/// Writes the control messages one after the other; returns their length.
fn write_controls(
    control: &mut Control,
    from: Option<IpAddr>,
    segment: u16,
    family: Family,
) -> usize {
    let mut end = 0;
    match (from, family) {
        (Some(IpAddr::V4(from)), Family::V4) => {
            let info = libc::in_pktinfo {
                ipi_ifindex: 0,
                ipi_spec_dst: libc::in_addr {
                    s_addr: u32::from_ne_bytes(from.octets()),
                },
                ipi_addr: libc::in_addr { s_addr: 0 },
            };
            end = append_control(control, end, libc::IPPROTO_IP, libc::IP_PKTINFO, info);
        }
        (Some(from), _) => {
            let from = match from {
                IpAddr::V4(from) => from.to_ipv6_mapped(),
                IpAddr::V6(from) => from,
            };
            let info = libc::in6_pktinfo {
                ipi6_addr: libc::in6_addr {
                    s6_addr: from.octets(),
                },
                ipi6_ifindex: 0,
            };
            end = append_control(control, end, libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, info);
        }
        (None, _) => {}
    }
    if segment != 0 {
        end = append_control(control, end, libc::SOL_UDP, libc::UDP_SEGMENT, segment);
    }
    end
}

fn append_control<T: Copy>(
    control: &mut Control,
    at: usize,
    level: libc::c_int,
    kind: libc::c_int,
    value: T,
) -> usize {
    // SAFETY: these two only compute sizes.
    let (space, length) = unsafe {
        let size = size_of::<T>() as libc::c_uint;
        (libc::CMSG_SPACE(size) as usize, libc::CMSG_LEN(size))
    };
    let room = &mut control.0[at..at + space];
    let header = room.as_mut_ptr().cast::<libc::cmsghdr>();
    // SAFETY: `room` is `space` bytes long, 8-byte aligned since both the array and every CMSG_SPACE
    // are, and CMSG_SPACE holds a header and a T.
    unsafe {
        (*header).cmsg_len = length as _;
        (*header).cmsg_level = level;
        (*header).cmsg_type = kind;
        libc::CMSG_DATA(header).cast::<T>().write_unaligned(value);
    }
    at + space
}
