//! KCP, as the crate tokio_kcp speaks it: one session for each TCP connection. Nothing is encrypted.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use tokio::net::{TcpStream, UdpSocket};
use tokio_kcp::{KcpConfig, KcpListener, KcpNoDelayConfig, KcpStream};

use crate::carry;

/// TCP connections come here and leave as sessions to a server.
pub(crate) async fn connect(listen: SocketAddr, server: SocketAddr) -> anyhow::Result<()> {
    let listener = carry::listen(listen).await?;
    loop {
        let (tcp, _) = listener.accept().await?;
        carry::start(async move {
            let socket = carry::udp_socket((Ipv4Addr::LOCALHOST, 0).into())?;
            let socket = UdpSocket::from_std(socket)?;
            let session = KcpStream::connect_with_socket(&config(), socket, server).await?;
            join(tcp, session).await
        });
    }
}

/// Sessions come here and leave as TCP connections to a backend.
pub(crate) async fn serve(listen: SocketAddr, backend: SocketAddr) -> anyhow::Result<()> {
    let socket = UdpSocket::from_std(carry::udp_socket(listen)?)?;
    carry::announce(socket.local_addr()?);
    let mut listener = KcpListener::from_socket(config(), socket).await?;
    loop {
        let (session, _) = listener.accept().await?;
        carry::start(async move { join(TcpStream::connect(backend).await?, session).await });
    }
}

async fn join(tcp: TcpStream, session: KcpStream) -> anyhow::Result<()> {
    let (receive, send) = tokio::io::split(session);
    carry::join(tcp, receive, send).await
}

fn config() -> KcpConfig {
    KcpConfig {
        // The crate's default, and KCP's: with headers it fits any path.
        mtu: 1400,
        // No delay, the clock looked at every 10 ms, sent again after two newer acknowledgements,
        // and no congestion control: KCP's own recommendation for games.
        nodelay: KcpNoDelayConfig::fastest(),
        wnd_size: (WINDOW, WINDOW),
        session_expire: Duration::from_secs(60),
        // What is written leaves at once and not with the next look at the clock; so do
        // acknowledgements.
        flush_write: true,
        flush_acks_input: true,
        // Small writes share a segment, as TCP's bytes may.
        stream: true,
        allow_recv_empty_packet: false,
    }
}

/// Segments under way at most, all that holds a fast connection back: the crate's default. Over a link
/// of 100 Mbit/s and 50 ms with losses, half of it and up to twice as many carry less, as what waited
/// behind a loss leaves at once and overruns the queue; on loopback half is slower, and twice too.
const WINDOW: u16 = 256;
