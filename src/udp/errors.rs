//! What a socket error means for the loop: one table, so that no error ends a listener by accident.
//!
//! After any send error the datagram is lost, as on the network; it is counted and never tried again
//! in a loop, and once where the socket is connected. Rule: docs/RELIABILITY.md, "UDP errors".

use std::io;

/// Kinds of errors on a UDP socket; also the metric label.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum UdpError {
    /// The kernel's queue is full.
    Blocked,
    /// A packet filter said no (EPERM), or the route does (EACCES).
    Denied,
    /// No route, or the interface is down.
    Unreachable,
    /// The destination's port is closed: only connected sockets hear of it.
    Refused,
    /// Larger than the path or the protocol takes.
    TooLarge,
    /// A destination that cannot be sent to (port 0), a blackhole route, an option not taken.
    Invalid,
    /// The kernel is out of memory for this.
    NoBuffers,
    /// The descriptor is not a socket (any more): the listener cannot go on.
    Broken,
    /// Anything else; a datagram is lost, nothing more.
    Other,
}

impl UdpError {
    /// Every kind, in the order of the enum.
    pub const ALL: [Self; 9] = [
        Self::Blocked,
        Self::Denied,
        Self::Unreachable,
        Self::Refused,
        Self::TooLarge,
        Self::Invalid,
        Self::NoBuffers,
        Self::Broken,
        Self::Other,
    ];

    /// The metric label.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Blocked => "blocked",
            Self::Denied => "denied",
            Self::Unreachable => "unreachable",
            Self::Refused => "refused",
            Self::TooLarge => "too_large",
            Self::Invalid => "invalid",
            Self::NoBuffers => "no_buffers",
            Self::Broken => "broken",
            Self::Other => "other",
        }
    }

    /// Which kind an error is.
    pub fn of(error: &io::Error) -> Self {
        match error.raw_os_error() {
            Some(libc::EAGAIN) => Self::Blocked,
            Some(libc::EPERM | libc::EACCES) => Self::Denied,
            Some(
                libc::ENETUNREACH
                | libc::EHOSTUNREACH
                | libc::ENETDOWN
                | libc::EHOSTDOWN
                | libc::EADDRNOTAVAIL
                | libc::ENODEV
                | libc::ENONET,
            ) => Self::Unreachable,
            Some(libc::ECONNREFUSED) => Self::Refused,
            Some(libc::EMSGSIZE) => Self::TooLarge,
            Some(libc::EINVAL | libc::EAFNOSUPPORT | libc::EDESTADDRREQ) => Self::Invalid,
            Some(libc::ENOBUFS | libc::ENOMEM) => Self::NoBuffers,
            Some(libc::EBADF | libc::ENOTSOCK) => Self::Broken,
            _ => Self::Other,
        }
    }
}

/// Counts of errors by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UdpErrors(pub [u64; UdpError::ALL.len()]);

impl UdpErrors {
    /// One more of this kind.
    pub fn count(&mut self, error: UdpError) {
        self.0[error as usize] += 1;
    }

    /// Adds others.
    pub fn merge(&mut self, others: &Self) {
        for (mine, theirs) in self.0.iter_mut().zip(others.0) {
            *mine += theirs;
        }
    }

    /// How many of all kinds.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// How many of this kind.
    pub fn of(&self, error: UdpError) -> u64 {
        self.0[error as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every error number there is has a kind, and only two of them end a listener.
    #[test]
    fn only_a_lost_descriptor_is_fatal() {
        let broken: Vec<i32> = (1..=133)
            .filter(|&errno| UdpError::of(&io::Error::from_raw_os_error(errno)) == UdpError::Broken)
            .collect();
        assert_eq!(broken, [libc::EBADF, libc::ENOTSOCK]);
    }

    #[test]
    fn the_usual_errors_are_told_apart() {
        for (errno, kind) in [
            (libc::EAGAIN, UdpError::Blocked),
            (libc::EPERM, UdpError::Denied),
            (libc::EACCES, UdpError::Denied),
            (libc::ENETUNREACH, UdpError::Unreachable),
            (libc::EHOSTUNREACH, UdpError::Unreachable),
            (libc::ECONNREFUSED, UdpError::Refused),
            (libc::EMSGSIZE, UdpError::TooLarge),
            (libc::EINVAL, UdpError::Invalid),
            (libc::ENOBUFS, UdpError::NoBuffers),
            (libc::EIO, UdpError::Other),
        ] {
            let found = UdpError::of(&io::Error::from_raw_os_error(errno));
            assert_eq!(found, kind, "errno {errno}");
        }
    }

    #[test]
    fn labels_follow_the_enum() {
        for (index, error) in UdpError::ALL.iter().enumerate() {
            assert_eq!(*error as usize, index);
        }
    }
}
