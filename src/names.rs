//! Names of hosts. The system's resolver blocks, so each look-up has a thread of its own.
//!
//! tokio does the same, but where no thread can be had it panics, which ends the process and all sessions with it:
//! a name that is looked up again every half minute would meet a limit of threads sooner or later. Here such a
//! look-up has failed, and what was known before stays in use.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::thread;

use tokio::sync::{Semaphore, oneshot};

/// Look-ups at a time; one whose name servers do not answer may take half a minute.
static PLACES: Semaphore = Semaphore::const_new(256);

/// All addresses of a host, with this port.
pub async fn look_up(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    let place = PLACES.acquire().await.map_err(io::Error::other)?;
    let host = host.to_owned();
    let (tell, told) = oneshot::channel();
    let ask = move || {
        let _place = place;
        let found = (host.as_str(), port).to_socket_addrs();
        // Whoever asked may have stopped waiting.
        tell.send(found.map(Iterator::collect)).ok();
    };
    thread::Builder::new()
        .name("look-up".to_owned())
        .spawn(ask)
        .map_err(|error| io::Error::new(error.kind(), format!("no thread to ask in: {error}")))?;
    told.await.map_err(io::Error::other)?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_address_is_its_own_answer() {
        let found = look_up("127.0.0.1", 7000).await.unwrap();
        assert_eq!(found, [SocketAddr::from(([127, 0, 0, 1], 7000))]);
        assert!(look_up("no.such.name.invalid.", 7000).await.is_err());
    }
}
