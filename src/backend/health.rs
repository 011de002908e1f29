//! Whether targets are there, asked by the control plane: names looked up again, connects tried.

use std::io;
use std::os::unix::fs::FileTypeExt;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::net::{TcpStream, UnixStream, lookup_host};
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};

use super::socket::refuse_itself;
use super::{Address, Pool};
use crate::board::Board;
use crate::config::{Backend, Health, Target};

/// Looks up every name once, so that the first peer finds its backend.
pub async fn look_up_all(backend: &Backend, pool: &Pool) {
    for index in 0..pool.len() {
        look_up(backend, pool, index).await;
    }
}

/// Watches a backend's targets for as long as the answer is kept.
pub fn watch(backend: &Arc<Backend>, pool: &Arc<Pool>, board: &Arc<Board>) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    for index in 0..pool.len() {
        if matches!(pool.target(index), Target::Tcp { host, .. } if host.parse::<std::net::IpAddr>().is_err())
        {
            tasks.spawn(refresh(backend.clone(), pool.clone(), index));
        }
        if let Some(health) = backend.health {
            tasks.spawn(check(
                backend.clone(),
                pool.clone(),
                board.clone(),
                index,
                health,
            ));
        }
    }
    tasks
}

async fn refresh(backend: Arc<Backend>, pool: Arc<Pool>, index: usize) {
    let mut ticks = interval(backend.dns_refresh.max(Duration::from_secs(1)));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        look_up(&backend, &pool, index).await;
    }
}

/// Keeps what was known when the name does not resolve now.
async fn look_up(backend: &Backend, pool: &Pool, index: usize) {
    let Target::Tcp { host, port } = pool.target(index) else {
        return;
    };
    match lookup_host((host.as_str(), *port)).await {
        Ok(found) => {
            let found: Vec<_> = found.collect();
            if !found.is_empty() {
                pool.set_addresses(index, found);
            }
        }
        Err(error) => {
            tracing::warn!(event = "dns_failed", backend = %backend.name, target = %host, %error);
        }
    }
}

/// A target is down after some failures in a row, and up again after some successes. Until it has
/// been reached once, a single answer decides: nobody is ready in front of a server that never was
/// there, and nobody waits for one that has just started.
async fn check(
    backend: Arc<Backend>,
    pool: Arc<Pool>,
    board: Arc<Board>,
    index: usize,
    health: Health,
) {
    let (mut up, mut reached, mut run) = (true, false, 0);
    loop {
        let answer = match timeout(health.timeout, try_connect(&backend, &pool, index)).await {
            Ok(answer) => answer,
            Err(_) => Err(io::ErrorKind::TimedOut.into()),
        };
        let well = answer.is_ok();
        run = if well == up { 0 } else { run + 1 };
        let needed = match (reached, up) {
            (false, _) => 1,
            (true, true) => health.down_after,
            (true, false) => health.up_after,
        };
        reached |= well;
        if run >= needed {
            (up, run) = (well, 0);
            pool.set_up(index, up);
            let (backend, target) = (&backend.name, pool.target(index));
            match answer {
                Ok(()) => tracing::info!(event = "target_up", %backend, %target),
                Err(error) => {
                    let help = help(target, &error);
                    tracing::warn!(event = "target_down", %backend, %target, %error, help);
                }
            }
        }
        board.update_target(&backend.name, index, |state| {
            state.up = up;
            state.checks_ok += u64::from(well);
            state.checks_failed += u64::from(!well);
        });
        let pause = if reached && up {
            health.interval
        } else {
            health.interval.min(WAITING)
        };
        sleep(pause).await;
    }
}

/// What to do about a target that cannot be reached.
pub fn help(target: &Target, error: &io::Error) -> Option<&'static str> {
    match (error.kind(), target) {
        (io::ErrorKind::ConnectionRefused, Target::Tcp { .. }) => {
            Some("nothing listens there; start the game server")
        }
        // The kernel says the same of a socket whose program has ended and of any other file.
        (io::ErrorKind::ConnectionRefused, Target::Unix(path)) => match path.metadata() {
            Ok(found) if !found.file_type().is_socket() => Some("this file is no socket"),
            Ok(_) | Err(_) => Some(
                "the file is there, but nobody listens any more; start the game server, which makes it \
                 anew",
            ),
        },
        (io::ErrorKind::NotFound, Target::Unix(_)) => {
            Some("the game server makes this file when it starts")
        }
        (io::ErrorKind::PermissionDenied, Target::Unix(_)) => {
            Some("the socket's mode keeps out the user that runs this")
        }
        (io::ErrorKind::NotFound, Target::Tcp { .. }) => Some(
            "the warning dns_failed says why; correct the name in targets, or what resolves it",
        ),
        _ => None,
    }
}

/// How often a target is asked for that is down: players wait for it.
const WAITING: Duration = Duration::from_secs(1);

/// One connect to a target that no pool knows yet; where it went.
pub async fn try_out(backend: &Backend, target: &Target) -> io::Result<String> {
    let pool = Pool::new(backend.balance, std::slice::from_ref(target));
    if let Target::Tcp { host, port } = target {
        let found: Vec<_> = lookup_host((host.as_str(), *port)).await?.collect();
        pool.set_addresses(0, found);
    }
    try_connect(backend, &pool, 0).await?;
    Ok(match pool.addresses(0).first() {
        Some(Address::Tcp(address)) => address.to_string(),
        Some(Address::Unix(_)) | None => String::new(),
    })
}

async fn try_connect(backend: &Backend, pool: &Pool, index: usize) -> io::Result<()> {
    let mut greeting = Vec::new();
    if let Some(header) = &backend.proxy {
        header.emit_local(&mut greeting);
    }
    let address = pool.addresses(index).into_iter().next();
    match address
        .ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "its name has no address"))?
    {
        Address::Tcp(address) => {
            let mut stream = TcpStream::connect(address).await?;
            refuse_itself(stream.local_addr()?, stream.peer_addr())?;
            stream.write_all(&greeting).await
        }
        Address::Unix(path) => UnixStream::connect(path).await?.write_all(&greeting).await,
    }
}
