//! What counts are told apart by: each becomes a label of a metric.

use std::io::{self, ErrorKind};

/// Which way a message travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    ToBackend,
    ToPeer,
}

impl Direction {
    pub const ALL: [Self; 2] = [Self::ToBackend, Self::ToPeer];

    pub const fn label(self) -> &'static str {
        match self {
            Self::ToBackend => "to_backend",
            Self::ToPeer => "to_peer",
        }
    }
}

/// Why a message went no further.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DropReason {
    /// It fits no frame, or no message of the protocol.
    TooLarge,
    /// An unreliable message met a full queue.
    QueueFull,
    /// Its session ended before it could leave.
    SessionClosed,
    /// Its session had ended, and the memory it waited in was needed.
    Overload,
}

impl DropReason {
    pub const ALL: [Self; 4] = [
        Self::TooLarge,
        Self::QueueFull,
        Self::SessionClosed,
        Self::Overload,
    ];

    pub const fn label(self) -> &'static str {
        match self {
            Self::TooLarge => "too_large",
            Self::QueueFull => "queue_full",
            Self::SessionClosed => "session_closed",
            Self::Overload => "overload",
        }
    }
}

/// Why a connection to a backend was not made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectFailure {
    Refused,
    Timeout,
    /// No such socket file.
    NotFound,
    /// No route leads there.
    Unreachable,
    /// The file's permissions are against it.
    Denied,
    /// The host name did not resolve.
    Dns,
    /// No port of this host is free to connect from, or it has no address of that family.
    NoPort,
    Other,
}

impl ConnectFailure {
    pub const ALL: [Self; 8] = [
        Self::Refused,
        Self::Timeout,
        Self::NotFound,
        Self::Unreachable,
        Self::Denied,
        Self::Dns,
        Self::NoPort,
        Self::Other,
    ];

    pub const fn label(self) -> &'static str {
        match self {
            Self::Refused => "refused",
            Self::Timeout => "timeout",
            Self::NotFound => "not_found",
            Self::Unreachable => "unreachable",
            Self::Denied => "denied",
            Self::Dns => "dns",
            Self::NoPort => "no_port",
            Self::Other => "other",
        }
    }

    pub fn of(error: &io::Error) -> Self {
        match error.kind() {
            ErrorKind::ConnectionRefused => Self::Refused,
            // A Unix socket says at once that its queue is full; over TCP nothing comes back.
            ErrorKind::TimedOut | ErrorKind::WouldBlock => Self::Timeout,
            // Where the kernel was not asked, there was no address to ask it for.
            ErrorKind::NotFound if error.raw_os_error().is_none() => Self::Dns,
            ErrorKind::NotFound => Self::NotFound,
            ErrorKind::NetworkUnreachable | ErrorKind::HostUnreachable => Self::Unreachable,
            ErrorKind::PermissionDenied => Self::Denied,
            ErrorKind::AddrNotAvailable => Self::NoPort,
            _ => Self::Other,
        }
    }
}

/// Who ended a connection to a backend.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClosedBy {
    Backend,
    /// Because the session ended.
    #[default]
    Tidegate,
    /// It broke.
    Error,
}

impl ClosedBy {
    pub const ALL: [Self; 3] = [Self::Backend, Self::Tidegate, Self::Error];

    pub const fn label(self) -> &'static str {
        match self {
            Self::Backend => "backend",
            Self::Tidegate => "tidegate",
            Self::Error => "error",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each calls for something else: to start the game server, to mend a path, a route, a name.
    #[test]
    fn a_connect_that_fails_has_the_reason_that_the_runbook_explains() {
        for (errno, why) in [
            (libc::ECONNREFUSED, "refused"),
            (libc::ETIMEDOUT, "timeout"),
            (libc::EAGAIN, "timeout"),
            (libc::ENOENT, "not_found"),
            (libc::ENETUNREACH, "unreachable"),
            (libc::EHOSTUNREACH, "unreachable"),
            (libc::EACCES, "denied"),
            (libc::EADDRNOTAVAIL, "no_port"),
            (libc::ENOTDIR, "other"),
        ] {
            let error = io::Error::from_raw_os_error(errno);
            assert_eq!(ConnectFailure::of(&error).label(), why, "{error}");
        }
        let nameless = crate::backend::health::no_address();
        assert_eq!(ConnectFailure::of(&nameless), ConnectFailure::Dns);
    }
}
