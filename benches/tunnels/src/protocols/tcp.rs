//! The limit of one fast connection: the kernel's own TCP between the ends, nothing encrypted and nothing
//! decided here. Only over loopback, as the links of the bench carry UDP.

use std::net::SocketAddr;

use tokio::net::{TcpListener, TcpStream};

use crate::carry;

/// TCP connections come here and leave as others to a server.
pub(crate) async fn connect(listen: SocketAddr, server: SocketAddr) -> anyhow::Result<()> {
    pass(carry::listen(listen).await?, server).await
}

/// Those come here and leave as connections to a backend: the same work.
pub(crate) async fn serve(listen: SocketAddr, backend: SocketAddr) -> anyhow::Result<()> {
    pass(carry::listen(listen).await?, backend).await
}

async fn pass(listener: TcpListener, to: SocketAddr) -> anyhow::Result<()> {
    loop {
        let (tcp, _) = listener.accept().await?;
        carry::start(async move {
            let onward = TcpStream::connect(to).await?;
            onward.set_nodelay(true)?;
            let (receive, send) = onward.into_split();
            carry::join(tcp, receive, send).await
        });
    }
}
