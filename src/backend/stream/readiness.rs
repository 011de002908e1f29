//! What an edge-triggered poll has said of a socket, until a call says otherwise.

/// Starts with nothing known to be possible, as on a socket whose connect is under way.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Readiness {
    /// A read may find something.
    pub(super) readable: bool,
    /// A write may take something.
    pub(super) writable: bool,
    /// The other side has closed: the end of the stream is behind what can be read.
    pub(super) hung_up: bool,
}

impl Readiness {
    /// For a connected socket that the poll has said nothing of yet: both may be possible.
    pub(super) const UNKNOWN: Self = Self {
        readable: true,
        writable: true,
        hung_up: false,
    };

    /// Another poll tells from now on. That the other side has closed stays known.
    pub(super) fn forget(&mut self) {
        (self.readable, self.writable) = (true, true);
    }

    /// The poll reports a change.
    pub(super) fn on_event(&mut self, event: &mio::event::Event) {
        self.readable |= event.is_readable() || event.is_read_closed() || event.is_error();
        self.writable |= event.is_writable() || event.is_write_closed() || event.is_error();
        self.hung_up |= event.is_read_closed() || event.is_error();
    }
}
