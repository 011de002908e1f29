//! QUIC, as quinn speaks it: one connection with one stream for each TCP connection.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use quinn::congestion::BbrConfig;
use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn::{
    AckFrequencyConfig, ClientConfig, Connection, Endpoint, EndpointConfig, ServerConfig,
    TokioRuntime, TransportConfig, VarInt,
};
use tokio::net::TcpStream;

use crate::{carry, key};

/// TCP connections come here and leave as QUIC connections to a server.
pub(crate) async fn connect(listen: SocketAddr, server: SocketAddr) -> anyhow::Result<()> {
    let crypto = QuicClientConfig::try_from(key::client()?)?;
    let mut config = ClientConfig::new(Arc::new(crypto));
    config.transport_config(transport());
    let listener = carry::listen(listen).await?;
    loop {
        let (tcp, _) = listener.accept().await?;
        let config = config.clone();
        carry::start(async move {
            let endpoint = endpoint((Ipv4Addr::LOCALHOST, 0).into(), None)?;
            let connecting = endpoint.connect_with(config, server, "tunnel")?;
            let connection = connecting.await.context("no QUIC connection")?;
            let (send, receive) = connection.open_bi().await?;
            carry::join(tcp, receive, send).await
        });
    }
}

/// QUIC connections come here and leave as TCP connections to a backend.
pub(crate) async fn serve(listen: SocketAddr, backend: SocketAddr) -> anyhow::Result<()> {
    let crypto = QuicServerConfig::try_from(key::server()?)?;
    let mut config = ServerConfig::with_crypto(Arc::new(crypto));
    config.transport_config(transport());
    let endpoint = endpoint(listen, Some(config))?;
    carry::announce(endpoint.local_addr()?);
    while let Some(incoming) = endpoint.accept().await {
        carry::start(async move { deliver(incoming.await?, backend).await });
    }
    Ok(())
}

async fn deliver(connection: Connection, backend: SocketAddr) -> anyhow::Result<()> {
    let (send, receive) = connection.accept_bi().await?;
    carry::join(TcpStream::connect(backend).await?, receive, send).await
}

fn endpoint(address: SocketAddr, server: Option<ServerConfig>) -> anyhow::Result<Endpoint> {
    let socket = carry::udp_socket(address)?;
    let runtime = Arc::new(TokioRuntime);
    let endpoint = Endpoint::new(EndpointConfig::default(), server, socket, runtime)?;
    Ok(endpoint)
}

fn transport() -> Arc<TransportConfig> {
    // Every packet is acknowledged at once, so that a loss is known as early as can be; as it comes,
    // every second one is, and waits for 25 ms.
    let mut acks = AckFrequencyConfig::default();
    acks.ack_eliciting_threshold(VarInt::from_u32(0))
        .max_ack_delay(Some(Duration::from_millis(1)))
        .reordering_threshold(VarInt::from_u32(1));
    let mut transport = TransportConfig::default();
    transport
        .ack_frequency_config(Some(acks))
        // The first probes wait for three of these; as it comes it is 333 ms.
        .initial_rtt(Duration::from_millis(60))
        // The default is CUBIC, which takes each loss for a full queue.
        .congestion_controller_factory(Arc::new(BbrConfig::default()))
        // An outage of some round trips is no reason to begin again with the smallest window.
        .persistent_congestion_threshold(1000)
        // Twice what 1 Gbit/s carries in 50 ms, so that no window ends a fast connection.
        .stream_receive_window(VarInt::from_u32(WINDOW_BYTES))
        .receive_window(VarInt::from_u32(WINDOW_BYTES))
        .send_window(u64::from(WINDOW_BYTES));
    Arc::new(transport)
}

const WINDOW_BYTES: u32 = 12 << 20;
