//! Invariants of a server: what it took and gave, in numbers that must agree after every step.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use crate::endpoint::Endpoint;
use crate::ip::IPV4_UDP_HEADER_BYTES;

/// The counts that one server process is held against.
#[derive(Debug, Default)]
pub(super) struct Invariants {
    /// Bytes from and to addresses that had no session at that time, headers included.
    strangers: BTreeMap<SocketAddr, (u64, u64)>,
    sessions_opened: u64,
    sessions_closed: u64,
    messages_polled: u64,
}

impl Invariants {
    /// A stranger sent `offered` bytes and is told `reply` bytes. Over all time nobody is told more
    /// than 1.2 times what came from there (see [`crate::session::Stranger::may_reply`]).
    pub(super) fn on_stranger(&mut self, from: SocketAddr, offered: usize, reply: usize) {
        let (taken, given) = self.strangers.entry(from).or_default();
        *taken += (offered + IPV4_UDP_HEADER_BYTES) as u64;
        if reply > 0 {
            *given += (reply + IPV4_UDP_HEADER_BYTES) as u64;
        }
        assert!(
            *given * 10 <= *taken * 12,
            "{from} sent {taken} bytes and was told {given}"
        );
    }

    pub(super) fn on_opened(&mut self) {
        self.sessions_opened += 1;
    }

    pub(super) fn on_closed(&mut self) {
        self.sessions_closed += 1;
    }

    pub(super) fn on_message(&mut self) {
        self.messages_polled += 1;
    }

    /// After each step: every session that was opened has closed or is there.
    pub(super) fn check_sessions(&self, server: &Endpoint) {
        assert_eq!(
            self.sessions_opened - self.sessions_closed,
            server.len() as u64,
            "{} sessions opened, {} closed",
            self.sessions_opened,
            self.sessions_closed
        );
    }

    /// When every inbox was emptied: what sessions accepted is what was taken from them.
    pub(super) fn check_messages(&self, server: &Endpoint) {
        let live = server
            .peers()
            .map(|(_, _, session)| session.stats().messages_received);
        let accepted = server.retired().messages_received + live.sum::<u64>();
        assert_eq!(accepted, self.messages_polled, "messages accepted, polled");
    }
}
