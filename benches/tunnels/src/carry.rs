//! What both protocols need around them: TCP, UDP sockets, bytes from one to the other.

use std::io;
use std::net::{SocketAddr, UdpSocket};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// A listener of TCP connections, announced.
pub(crate) async fn listen(address: SocketAddr) -> anyhow::Result<TcpListener> {
    let listener = TcpListener::bind(address).await?;
    announce(listener.local_addr()?);
    Ok(listener)
}

/// Each TCP connection that comes here has another to `to`, and `work` is done with the two.
pub(crate) async fn pass_on<Work>(
    here: SocketAddr,
    to: SocketAddr,
    work: fn(TcpStream, TcpStream) -> Work,
) -> anyhow::Result<()>
where
    Work: Future<Output = anyhow::Result<()>> + 'static + Send,
{
    let listener = listen(here).await?;
    loop {
        let (tcp, _) = listener.accept().await?;
        start(async move {
            let onward = TcpStream::connect(to).await?;
            onward.set_nodelay(true)?;
            work(tcp, onward).await
        });
    }
}

/// Says where this end listens, in the words of `tidegate`'s log: who starts it waits for them.
pub(crate) fn announce(address: SocketAddr) {
    eprintln!(r#"{{"event":"listening","address":"{address}"}}"#);
}

/// A UDP socket whose buffers are asked for as those of `tidegate serve` in the same bench.
pub(crate) fn udp_socket(address: SocketAddr) -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind(address)?;
    socket.set_nonblocking(true)?;
    let options = socket2::SockRef::from(&socket);
    options.set_recv_buffer_size(UDP_BUFFER_BYTES)?;
    options.set_send_buffer_size(UDP_BUFFER_BYTES)?;
    Ok(socket)
}

/// Joins a TCP connection to the two halves of the protocol's, until both ways have ended.
pub(crate) async fn join(
    tcp: TcpStream,
    receive: impl AsyncRead + Unpin,
    send: impl AsyncWrite + Unpin,
) -> anyhow::Result<()> {
    tcp.set_nodelay(true)?;
    let (read, write) = tcp.into_split();
    tokio::try_join!(carry(read, send), carry(receive, write))?;
    Ok(())
}

async fn carry(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
) -> io::Result<()> {
    let mut buffer = vec![0; READ_BYTES];
    loop {
        match from.read(&mut buffer).await? {
            0 => return to.shutdown().await,
            count => to.write_all(&buffer[..count]).await?,
        }
    }
}

/// Runs one connection in the background. One that breaks is over, and the others go on.
pub(crate) fn start(connection: impl Future<Output = anyhow::Result<()>> + 'static + Send) {
    tokio::spawn(async move {
        if let Err(error) = connection.await {
            eprintln!("a connection broke: {error:#}");
        }
    });
}

/// As much as ours reads at once.
pub(crate) const READ_BYTES: usize = 64 * 1024;
const UDP_BUFFER_BYTES: usize = 32 << 20;
