//! From a local connection to a session that a worker runs: a permit, a token, a name, a socket.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, bail};
use tidegate_proto::Session;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{sleep, timeout};

use super::local_listener::LocalListener;
use crate::backend::Socket;
use crate::board::{Board, State};
use crate::clock::Clock;
use crate::config::{Protocol, Tunnel};
use crate::listener::{Dial, log_dial_refused};
use crate::names;
use crate::protocol::Dialer;
use crate::tokens::{self, Doubt};
use crate::udp::{Options, UdpSocket};
use crate::worker::{Command, Remote};

/// One tunnel, as the accepting side sees it.
pub(super) struct RunningTunnel {
    /// Its place among the workers' listeners.
    pub(super) index: usize,
    pub(super) tunnel: Tunnel,
    pub(super) dialer: Dialer,
    pub(super) workers: Vec<Remote>,
    pub(super) board: Arc<Board>,
    pub(super) clock: Clock,
    pub(super) options: Options,
    /// The last token was doubtful, and that was told.
    pub(super) doubted: AtomicBool,
}

impl RunningTunnel {
    /// Accepts local connections, now that all is bound.
    pub(super) fn open(self, listeners: Vec<LocalListener>) {
        let permits = self.tunnel.max_streams.min(Semaphore::MAX_PERMITS);
        let (tunnel, permits) = (Arc::new(self), Arc::new(Semaphore::new(permits)));
        for listener in listeners {
            listener.announce(&tunnel.tunnel.name);
            tokio::spawn(tunnel.clone().accept_all(listener, permits.clone()));
        }
    }

    /// Accepts for ever. Above the limit of streams, and in a drain, a connection is closed at once: left in
    /// the kernel's queue it would look connected and hang, and a token that is fetched for it would be lost.
    async fn accept_all(self: Arc<Self>, mut listener: LocalListener, permits: Arc<Semaphore>) {
        loop {
            match listener.accept().await {
                Ok(_) if self.board.state() == State::Draining => {
                    log_dial_refused(&self.tunnel.name)
                }
                Ok((stream, client)) => match permits.clone().try_acquire_owned() {
                    Ok(permit) => {
                        tokio::spawn(self.clone().begin(stream, client, permit));
                    }
                    Err(_) => tracing::warn!(
                        event = "streams_full",
                        tunnel = %self.tunnel.name,
                        max_streams = self.tunnel.max_streams,
                        "a local connection was closed at once"
                    ),
                },
                Err(error) => {
                    tracing::warn!(event = "accept_failed", tunnel = %self.tunnel.name, %error);
                    // Out of descriptors, most likely: trying again at once would only spin.
                    sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    /// A failure closes the local connection, which is dropped here: never a hang.
    async fn begin(
        self: Arc<Self>,
        stream: Socket,
        client: Option<SocketAddr>,
        permit: OwnedSemaphorePermit,
    ) {
        let prepared = timeout(self.tunnel.connect_timeout, self.prepare()).await;
        let failed = match prepared {
            Ok(Ok(prepared)) => {
                self.hand_over(Dial {
                    remote: prepared.remote,
                    udp: prepared.udp,
                    stream,
                    session: prepared.session,
                    timeout: self.tunnel.connect_timeout,
                    client,
                    client_id: prepared.client_id,
                    stream_permit: permit,
                });
                return;
            }
            Ok(Err(error)) => format!("{error:#}"),
            Err(_) => format!(
                "no address and no token within connect_timeout ({} s)",
                self.tunnel.connect_timeout.as_secs_f32()
            ),
        };
        tracing::warn!(
            event = "dial_failed",
            tunnel = %self.tunnel.name,
            client = client.map(display),
            error = failed,
        );
    }

    async fn prepare(&self) -> anyhow::Result<Prepared> {
        let remote = self.look_up().await?;
        let now = || self.clock.clone().now();
        let fresh = match (&self.tunnel.tokens, &self.tunnel.protocol) {
            (Some(source), Protocol::Yojimbo(own)) => {
                let idle = self.tunnel.idle_timeout;
                let protocol_id = own.netcode.protocol_id;
                let fresh = tokens::obtain(source, protocol_id, remote, idle).await?;
                let doubts = tokens::doubts_from_afar(&fresh.token, protocol_id, now().unix_secs);
                self.warn_of(doubts);
                Some(fresh)
            }
            (_, Protocol::Yojimbo(_) | Protocol::Gaffer(_) | Protocol::Rudp(_)) => None,
        };
        let client_id = fresh.as_ref().and_then(|fresh| fresh.client_id);
        let token = fresh.map(|fresh| fresh.token);
        let Some(session) = self.dialer.dial(now(), token)? else {
            bail!("no connect token");
        };
        let udp = UdpSocket::connect(remote, self.options)
            .with_context(|| format!("a socket to {remote}"))?;
        Ok(Prepared {
            remote,
            udp,
            session,
            client_id,
        })
    }

    /// A server refuses in silence. What of that can be seen from here is no proof, since the server's protocol id and
    /// clock count, so the session begins all the same. Told once, until a token is good: programs try again and again.
    fn warn_of(&self, doubts: Vec<Doubt>) {
        if self.doubted.swap(!doubts.is_empty(), Ordering::Relaxed) {
            return;
        }
        for Doubt { reject, why, help } in doubts {
            tracing::warn!(
                event = "token_doubtful",
                tunnel = %self.tunnel.name,
                reason = reject.label(),
                why,
                help,
                "a server that sees it so does not answer"
            );
        }
    }

    /// Each time: the name may have moved since the last session.
    async fn look_up(&self) -> anyhow::Result<SocketAddr> {
        let (host, port) = (&self.tunnel.remote_host, self.tunnel.remote_port);
        let found = names::look_up(host, port)
            .await
            .with_context(|| format!("looking up {host}"))?;
        let first = found.first().copied();
        first.with_context(|| format!("{host} has no address"))
    }

    /// Workers take turns.
    fn hand_over(&self, dial: Dial) {
        let turn = usize::from(dial.udp.local_addr().port());
        if let Some(worker) = self.workers.get(turn % self.workers.len().max(1)) {
            worker.tell(Command::Dial(self.index, Box::new(dial)));
        }
    }
}

/// What a session needs beside the local program's stream.
struct Prepared {
    remote: SocketAddr,
    udp: UdpSocket,
    session: Box<dyn Session>,
    client_id: Option<u64>,
}

const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
