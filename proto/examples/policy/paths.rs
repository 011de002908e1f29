//! The paths of the tables, and the traffic of a game.

use std::time::Duration;

use tidegate_proto::sim::Conditions;

use crate::run::App;

/// Share of packets lost, or outages instead, as the tables' columns have them.
pub(crate) const LOSSES: [(&str, (f64, bool)); 7] = [
    ("0%", (0.0, false)),
    ("1%", (0.01, false)),
    ("2%", (0.02, false)),
    ("5%", (0.05, false)),
    ("10%", (0.1, false)),
    ("20%", (0.2, false)),
    ("bursts 5%", (0.0, true)),
];

/// So far away, give or take 5 ms each way, with so much loss or with outages of 60 ms every 1.2 s.
pub(crate) fn path(rtt_ms: u64, loss: f64, burst: bool) -> Conditions {
    Conditions {
        delay: Duration::from_micros(rtt_ms * 500),
        jitter: Duration::from_millis(5),
        loss,
        bursts: burst.then_some((Duration::from_millis(60), Duration::from_millis(1140))),
        ..Conditions::default()
    }
}

/// A link of so many Mbit/s in front of a drop-tail queue of so many ms.
pub(crate) fn narrow(rtt_ms: u64, mbit: f64, queue_ms: f64, loss: f64) -> Conditions {
    Conditions {
        delay: Duration::from_micros(rtt_ms * 500),
        jitter: Duration::from_millis(1),
        loss,
        rate: (mbit * 1e6) as u64,
        queue: (mbit * 1e6 / 8.0 * queue_ms / 1e3) as usize,
        ..Conditions::default()
    }
}

/// What a 60 Hz game says.
pub(crate) fn input60() -> App {
    App::Periodic {
        every: Duration::from_nanos(16_666_667),
        wobble: Duration::from_millis(1),
        count: 1,
        size: (32, 64),
    }
}
