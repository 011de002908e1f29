//! What an operator, a backend, the weather and the machine do to a world.

use std::time::Duration;

use super::World;
use super::server::Seat;
use crate::endpoint::Endpoint;
use crate::session::CloseReason;
use crate::sim::invariants::Invariants;
use crate::sim::link::Conditions;

impl World {
    /// The weather in both directions from now on.
    pub fn set_weather(&mut self, up: Conditions, down: Conditions) {
        self.wires.up.set_conditions(up);
        self.wires.down.set_conditions(down);
    }

    /// The server process stands still for a while, and finds its datagrams waiting.
    pub fn pause_server(&mut self, span: Duration) {
        self.server_sleeps_until = self.now.mono + span;
    }

    /// The calendar is set, forward or back.
    pub fn step_calendar(&mut self, secs: i64) {
        self.now.unix_secs = self.now.unix_secs.saturating_add_signed(secs);
    }

    /// The server process is killed; another takes over its address and knows nothing.
    pub fn replace_server(&mut self, server: Endpoint) {
        self.server = server;
        self.invariants = Invariants::default();
        self.owners.clear();
        let lost = std::mem::take(&mut self.server_peers).into_values();
        self.lost_peers.extend(lost.map(|seat| Seat {
            closed: seat.closed.or(Some(CloseReason::Shutdown)),
            gone: true,
            ..seat
        }));
    }

    /// Whether new sessions find a backend.
    pub fn set_backend_up(&mut self, up: bool) {
        self.backend_up = up;
    }

    /// The server's endpoint, for what only an operator does.
    pub fn server(&mut self) -> &mut Endpoint {
        &mut self.server
    }
}
