//! TCP connections through somebody else's protocol, both ends of it: what `tidegate connect` and
//! `tidegate serve` are measured beside (`benches/neighbours/`).
//!
//! ```text
//!   tidegate-tunnels quinn|kcp|tcp|sealed-tcp connect TCP-ADDRESS SERVER
//!   tidegate-tunnels quinn|kcp|tcp|sealed-tcp serve   ADDRESS TCP-BACKEND
//! ```
//!
//! Each TCP connection is a connection of the protocol, from a UDP port of its own, as a session of
//! ours is. One thread at each end, as one worker of ours.

mod carry;
mod key;
mod protocols;

use std::net::SocketAddr;

use anyhow::{Context, bail};
use protocols::{kcp, quic, sealed_tcp, tcp};

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [protocol, end, listen, to] = &arguments[..] else {
        bail!("write: tidegate-tunnels quinn|kcp|tcp|sealed-tcp connect|serve ADDRESS ADDRESS");
    };
    let (listen, to) = (address(listen)?, address(to)?);
    match (protocol.as_str(), end.as_str()) {
        ("quinn", "connect") => quic::connect(listen, to).await,
        ("quinn", "serve") => quic::serve(listen, to).await,
        ("kcp", "connect") => kcp::connect(listen, to).await,
        ("kcp", "serve") => kcp::serve(listen, to).await,
        ("tcp", "connect") => tcp::connect(listen, to).await,
        ("tcp", "serve") => tcp::serve(listen, to).await,
        ("sealed-tcp", "connect") => sealed_tcp::connect(listen, to).await,
        ("sealed-tcp", "serve") => sealed_tcp::serve(listen, to).await,
        _ => bail!(
            "{protocol} {end}: the protocols are quinn, kcp, tcp and sealed-tcp, the ends connect and serve"
        ),
    }
}

fn address(text: &str) -> anyhow::Result<SocketAddr> {
    text.parse()
        .with_context(|| format!("{text:?} is not an address with a port, as in 127.0.0.1:4000"))
}
