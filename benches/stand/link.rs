//! `tidegate lag` in front of a server, inside the bench, where it can be asked what it carried.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use tidegate::lag::{Impairments, Lag, Setup};

/// A network like these words; without any it only carries. The same seed does the same things to the
/// same datagrams.
pub fn start(server: SocketAddr, words: &str, seed: u64) -> Lag {
    let mut impairments = Impairments::default();
    impairments.change(words.split_whitespace()).unwrap();
    Lag::start(Setup {
        listen: (Ipv4Addr::LOCALHOST, 0).into(),
        to: server,
        impairments,
        seed,
        clients_max: 1000,
        idle: Duration::from_secs(60),
    })
    .unwrap()
}
