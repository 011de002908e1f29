//! What counts are told apart by: each becomes a label of a metric.

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
    /// No such socket file, or no route.
    NotFound,
    /// The file's permissions are against it.
    Denied,
    /// The host name did not resolve.
    Dns,
    Other,
}

impl ConnectFailure {
    pub const ALL: [Self; 6] = [
        Self::Refused,
        Self::Timeout,
        Self::NotFound,
        Self::Denied,
        Self::Dns,
        Self::Other,
    ];

    pub const fn label(self) -> &'static str {
        match self {
            Self::Refused => "refused",
            Self::Timeout => "timeout",
            Self::NotFound => "not_found",
            Self::Denied => "denied",
            Self::Dns => "dns",
            Self::Other => "other",
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
