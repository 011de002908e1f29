//! How a listener goes while its worker stays: a reload took its address away.
//!
//! ```text
//!   serving ──retire──▶ everybody is told to go ──grace over──▶ everybody is ended ──empty──▶ closed
//! ```

use std::net::SocketAddr;
use std::time::Duration;

use mio::Registry;
use tidegate_proto::Now;

use super::Listener;
use super::stage::Stage;

/// An address that a listener's socket is bound to, and that nobody else can bind meanwhile.
#[derive(Clone, Debug)]
pub struct HeldAddress {
    /// Whose it is.
    pub listener: String,
    /// Where its socket is bound.
    pub address: SocketAddr,
    /// It takes IPv4 datagrams, whichever family the socket has.
    pub takes_v4: bool,
}

impl Listener {
    /// No newcomers from now on; those who are here are told to go and get `grace` to take what
    /// was accepted for them.
    pub fn retire(&mut self, now: Now, grace: Duration) {
        if self.is_retiring() {
            return;
        }
        self.drain(now, grace);
        self.stage = Stage::Retiring {
            ends: now.mono + grace,
            ended: false,
        };
    }

    /// Whether [`Listener::retire`] was asked of it.
    pub fn is_retiring(&self) -> bool {
        self.stage.is_retiring()
    }

    /// Ends sessions that outlasted the grace; true once no peer is left.
    pub fn poll_retired(&mut self, now: Now) -> bool {
        if self.stage.take_grace_over(now.mono) {
            self.stop(now);
        }
        self.is_retiring() && self.is_over()
    }

    /// Whether nobody is left, and nobody is on the way from another worker. Nobody comes then.
    pub fn is_over(&self) -> bool {
        self.is_empty() && self.siblings.close()
    }

    /// Its last word. The socket closes with it; true when no other worker has one for the same address.
    pub fn close(&mut self, now: Now, registry: &Registry) -> bool {
        self.publish_last(now);
        if let Some(reporter) = &self.reporter {
            reporter.finish();
        }
        if let Some(socket) = &mut self.socket {
            socket.deregister(registry);
        }
        self.siblings.let_go()
    }

    /// The address of its socket; `None` for a listener whose peers each have a socket of their own.
    pub fn held_address(&self) -> Option<HeldAddress> {
        let socket = &self.socket.as_ref()?.socket;
        Some(HeldAddress {
            listener: self.name.to_string(),
            address: socket.local_addr(),
            takes_v4: socket.takes_v4(),
        })
    }
}
