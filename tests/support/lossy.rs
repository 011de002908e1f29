//! A bad network between two processes: `tidegate lag`'s, inside the test.

use std::net::SocketAddr;
use std::time::Duration;

use tidegate::lag::{Impairments, Lag, Setup};
use tidegate_proto::sim::{Conditions, Done};

/// One datagram in ten is lost, a few are late or come twice.
pub fn bad_network() -> Conditions {
    Conditions {
        delay: Duration::from_millis(10),
        jitter: Duration::from_millis(5),
        loss: 0.1,
        reorder: (0.02, Duration::from_millis(20)),
        duplicate: 0.01,
        ..Conditions::default()
    }
}

/// One in ten is overtaken by others besides, and one in twenty comes twice.
pub fn worse_network() -> Conditions {
    Conditions {
        reorder: (0.1, Duration::from_millis(20)),
        duplicate: 0.05,
        ..bad_network()
    }
}

/// Relays datagrams to one server, each client from a socket of its own, and loses some.
pub struct Lossy {
    pub address: SocketAddr,
    lag: Lag,
}

impl Lossy {
    pub fn start(server: SocketAddr, conditions: Conditions, seed: u64) -> Self {
        let setup = Setup {
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            to: server,
            impairments: Impairments {
                up: conditions,
                down: conditions,
                rebind: None,
            },
            seed,
            clients_max: 256,
            idle: Duration::from_secs(60),
        };
        let lag = Lag::start(setup).unwrap();
        Self {
            address: lag.address(),
            lag,
        }
    }

    /// Datagrams lost so far.
    pub fn lost(&self) -> u64 {
        self.done().lost
    }

    /// What it did both ways: the proof that it was bad.
    pub fn done(&self) -> Done {
        self.lag.report().unwrap().both()
    }
}
