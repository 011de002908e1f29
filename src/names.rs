//! Names of hosts, which the system's resolver looks up. One is looked up again every half minute: where that fails, what
//! was known before stays in use.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};

use tokio::sync::Semaphore;

use crate::blocking;

/// Look-ups at a time; one whose name servers do not answer may take half a minute.
static PLACES: Semaphore = Semaphore::const_new(256);

/// All addresses of a host, with this port.
pub async fn look_up(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    let host = host.to_owned();
    let ask = move || (host.as_str(), port).to_socket_addrs();
    let found = blocking::ask("look-up", &PLACES, ask).await??;
    Ok(found.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_address_is_its_own_answer() {
        let found = look_up("127.0.0.1", 7000).await.unwrap();
        assert_eq!(found, [SocketAddr::from(([127, 0, 0, 1], 7000))]);
        // Not even a name, so nobody is asked for it: some resolvers know every name, others never answer.
        assert!(look_up("no..name.invalid.", 7000).await.is_err());
    }
}
