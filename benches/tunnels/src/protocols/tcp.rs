//! The limit of one fast connection: the kernel's own TCP between the ends, nothing encrypted and nothing
//! decided here. Only over loopback, as the links of the bench carry UDP.

use std::net::SocketAddr;

use tokio::net::TcpStream;

use crate::carry;

/// TCP connections come here and leave as others to a server.
pub(crate) async fn connect(listen: SocketAddr, server: SocketAddr) -> anyhow::Result<()> {
    carry::pass_on(listen, server, pass).await
}

/// Those come here and leave as connections to a backend: the same work.
pub(crate) async fn serve(listen: SocketAddr, backend: SocketAddr) -> anyhow::Result<()> {
    carry::pass_on(listen, backend, pass).await
}

async fn pass(tcp: TcpStream, onward: TcpStream) -> anyhow::Result<()> {
    let (receive, send) = onward.into_split();
    carry::join(tcp, receive, send).await
}
