//! Whether targets are there, asked by the control plane: names looked up again, connects tried.

use std::collections::BTreeSet;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tidegate_proto::Timestamp;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};

use super::advice::{log_turned, warn_of_crash, warn_of_name};
use super::socket::refuse_itself;
use super::{Address, Pick, Pool};
use crate::clock::Clock;
use crate::config::{Backend, Health, Target};
use crate::counters::ConnectFailure;
use crate::names;
use crate::sizing::open_files;

/// Watches a backend's targets for as long as the tasks are kept.
pub fn watch(backend: &Arc<Backend>, pool: &Arc<Pool>, clock: &Clock) -> (JoinSet<()>, FirstLook) {
    let mut tasks = JoinSet::new();
    let (looks, looked) = mpsc::channel(1);
    for index in pool.in_use() {
        tasks.spawn(watch_one(
            backend.clone(),
            pool.clone(),
            index,
            clock.clone(),
            looks.clone(),
        ));
    }
    (tasks, FirstLook(looked))
}

/// Tells when each name was looked up once, found or not, so that the first peer finds its backend.
#[derive(Debug)]
pub struct FirstLook(mpsc::Receiver<()>);

impl FirstLook {
    /// Waits for it, `NAMES_PATIENCE` at most.
    pub async fn done(mut self) {
        // Nothing is ever sent. The channel closes when the last look-up is done.
        while self.0.recv().await.is_some() {}
    }
}

/// What the names of these targets stand for, those that are found within `NAMES_PATIENCE`. Who watches over the others
/// says why they were not.
pub async fn find(targets: BTreeSet<Target>) -> Vec<(Target, Vec<SocketAddr>)> {
    let mut looks = JoinSet::new();
    for target in targets {
        looks.spawn(async move {
            let found = resolve_within(NAMES_PATIENCE, &target).await.ok()?;
            Some((target, found))
        });
    }
    let found = looks.join_all().await;
    found.into_iter().flatten().collect()
}

async fn watch_one(
    backend: Arc<Backend>,
    pool: Arc<Pool>,
    index: usize,
    clock: Clock,
    looks: mpsc::Sender<()>,
) {
    let has_name = pool.target(index).has_name();
    if has_name {
        let found = timeout(NAMES_PATIENCE, look_up(&pool, index)).await;
        if let Err(error) = found.unwrap_or_else(|_| Err(silence(NAMES_PATIENCE))) {
            warn_of_name(&pool, index, &error);
        }
    }
    drop(looks);
    let names = async {
        if has_name {
            refresh(&pool, index, backend.dns_refresh).await;
        }
    };
    let checks = async {
        if let Some(health) = backend.health {
            check(&backend, &pool, index, health, clock).await;
        }
    };
    tokio::join!(names, checks);
}

/// A service manager waits for a start, and an operator for the answer to a reload; and others need no
/// name.
const NAMES_PATIENCE: Duration = Duration::from_secs(3);

/// Not of the kind of [`no_answer`], whose cause is looked for at the target.
fn silence(patience: Duration) -> io::Error {
    io::Error::other(format!(
        "the name servers have not answered in {patience:?}"
    ))
}

/// Looks a name up again and again, and as soon as somebody could not be connected: what it stands for
/// may have moved.
async fn refresh(pool: &Pool, index: usize, every: Duration) {
    let failed = pool.failed(index);
    let mut ticks = interval(every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    if pool
        .addresses(index)
        .iter()
        .any(|(_, known)| known.is_some())
    {
        ticks.reset();
    }
    loop {
        let is_due = tokio::select! {
            _ = ticks.tick() => true,
            () = failed.notified() => false,
        };
        // Failures are told of by those who failed.
        if let Err(error) = look_up(pool, index).await
            && is_due
        {
            warn_of_name(pool, index, &error);
        }
        sleep(WAITING).await;
    }
}

/// Keeps what was known when the name does not resolve now.
async fn look_up(pool: &Pool, index: usize) -> io::Result<()> {
    let found = resolve(&pool.target(index)).await?;
    if let Some(turned) = pool.set_addresses(index, &found) {
        log_turned(&turned, None);
    }
    Ok(())
}

/// What a target's name stands for; nothing of one that is no name.
async fn resolve(target: &Target) -> io::Result<Vec<SocketAddr>> {
    match target {
        Target::Tcp { host, port } if target.has_name() => names::look_up(host, *port).await,
        Target::Tcp { .. } | Target::Unix(_) => Ok(Vec::new()),
    }
}

async fn resolve_within(patience: Duration, target: &Target) -> io::Result<Vec<SocketAddr>> {
    told_within(patience, resolve(target)).await
}

/// What name servers tell, or an error that blames them and not the target.
async fn told_within(
    patience: Duration,
    told: impl Future<Output = io::Result<Vec<SocketAddr>>>,
) -> io::Result<Vec<SocketAddr>> {
    let told = timeout(patience, told).await;
    told.unwrap_or_else(|_| Err(silence(patience)))
}

/// Asks each address of a target, all at the same time; and at once where one has ended many streams. Whoever starts a
/// crashed game server again is mostly quicker than the next check would be.
async fn check(
    backend: &Arc<Backend>,
    pool: &Pool,
    index: usize,
    health: Health,
    mut clock: Clock,
) {
    let suspect = pool.suspect(index);
    loop {
        let mut asked = JoinSet::new();
        for (pick, address) in pool.addresses(index) {
            let backend = backend.clone();
            let suspected = pool.take_suspicion(pick);
            asked.spawn(async move {
                let answer = try_one(&backend, address, health.timeout).await;
                (pick, suspected, answer)
            });
        }
        while let Some(answer) = asked.join_next().await {
            let Ok((pick, suspected, answer)) = answer else {
                continue;
            };
            note(pool, pick, answer, clock.now().mono, suspected, &health);
        }
        let pause = if pool.is_suspect(index) {
            LOOK_AGAIN
        } else if pool.states()[index].up {
            health.interval
        } else {
            health.interval.min(WAITING)
        };
        // One that ended them on purpose answers, and nothing comes of it.
        timeout(pause, suspect.notified()).await.ok();
    }
}

/// What an address answered, which may have been suspected of a crash. Where no file could be opened to ask it, that is
/// not the target's doing, and newcomers are not to be denied for longer than it lasts.
fn note(
    pool: &Pool,
    pick: Pick,
    answer: io::Result<()>,
    now: Timestamp,
    suspected: bool,
    health: &Health,
) {
    let error = answer.err();
    if let Some(error) = error.as_ref().filter(|it| open_files::are_used_up(it)) {
        tracing::warn!(
            event = "check_not_made",
            backend = %pool.name(),
            target = %pool.target(pick.target),
            %error,
            help = open_files::help(error),
        );
        return;
    }
    pool.note_failure(now, pick, error.as_ref().map(ConnectFailure::of));
    if let Some(error) = &error
        && suspected
        && pool.on_crash(now, pick)
    {
        warn_of_crash(pool, pick, error);
    }
    if let Some(turned) = pool.on_checked(pick, error.is_none(), health) {
        log_turned(&turned, error.as_ref());
    }
}

/// How often a target is asked for that is down, and its name: players wait for it.
const WAITING: Duration = Duration::from_secs(1);

/// How soon after it was found there a target is asked again that has ended many streams.
const LOOK_AGAIN: Duration = Duration::from_millis(200);

/// One connect to each address of a target that no pool knows yet; where they went. An error when
/// none answered.
pub async fn try_out(backend: &Backend, target: &Target) -> io::Result<String> {
    let patience = backend.connect_timeout;
    let found = resolve_within(patience, target).await?;
    let pool = Pool::new(backend.balance, std::slice::from_ref(target));
    pool.set_addresses(0, &found);
    let (mut said, mut answered, mut failed) = (Vec::new(), false, None);
    for (_, address) in pool.addresses(0) {
        let of = match &address {
            Some(Address::Tcp(address)) => address.to_string(),
            Some(Address::Unix(_)) | None => String::new(),
        };
        match try_one(backend, address, patience).await {
            Ok(()) => {
                answered = true;
                said.push(of);
            }
            Err(error) => {
                said.push(format!("not {of}: {error}"));
                failed.get_or_insert(error);
            }
        }
    }
    match failed {
        Some(error) if !answered => Err(error),
        Some(_) | None => Ok(said.join(", ")),
    }
}

async fn try_one(
    backend: &Backend,
    address: Option<Address>,
    patience: Duration,
) -> io::Result<()> {
    match timeout(patience, connect(backend, address)).await {
        Ok(answer) => answer,
        Err(_) => Err(no_answer(patience)),
    }
}

async fn connect(backend: &Backend, address: Option<Address>) -> io::Result<()> {
    let mut greeting = Vec::new();
    if let Some(header) = &backend.proxy {
        header.emit_local(&mut greeting);
    }
    match address.ok_or_else(no_address)? {
        Address::Tcp(address) => {
            let mut stream = TcpStream::connect(address).await?;
            refuse_itself(stream.local_addr()?, stream.peer_addr())?;
            stream.write_all(&greeting).await
        }
        Address::Unix(path) => UnixStream::connect(path).await?.write_all(&greeting).await,
    }
}

/// The error for a target whose name was never found.
pub fn no_address() -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, "its name has no address")
}

/// The error for a connect that took too long.
pub fn no_answer(patience: Duration) -> io::Error {
    io::Error::new(
        io::ErrorKind::TimedOut,
        format!("no answer in {patience:?}"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::advice;

    fn health(down_after: u32) -> Health {
        Health {
            interval: Duration::from_secs(5),
            timeout: Duration::from_secs(1),
            up_after: 1,
            down_after,
        }
    }

    /// Who is told of a firewall looks for it at the game server, which was never asked.
    #[tokio::test]
    async fn name_servers_that_do_not_answer_are_no_target_that_does_not() {
        let target = Target::Tcp {
            host: "no.such.name.invalid.".into(),
            port: 7000,
        };
        let never = std::future::pending();
        let error = told_within(Duration::from_millis(1), never)
            .await
            .unwrap_err();
        assert_eq!(
            error.to_string(),
            "the name servers have not answered in 1ms"
        );
        assert_eq!(advice::help(&target, &error), None);
    }

    /// A target that is there after all, or that nobody suspected, has not crashed.
    #[test]
    fn a_suspected_target_that_is_not_there_has_crashed() {
        let pool = Pool::with_two_targets();
        let health = health(2);
        let (pick, _) = pool.addresses(0)[0];
        let refused = || Err(io::Error::from_raw_os_error(libc::ECONNREFUSED));
        let now = Timestamp::from_millis(7_000);
        for (answer, suspected) in [(Ok(()), true), (refused(), false)] {
            note(&pool, pick, answer, now, suspected, &health);
            let state = pool.states()[0];
            assert_eq!((state.crashes, state.last_crash), (0, None));
        }
        note(&pool, pick, Ok(()), now, false, &health);
        note(&pool, pick, refused(), now, true, &health);
        let state = pool.states()[0];
        assert_eq!(
            (state.up, state.crashes, state.last_crash),
            (true, 1, Some(now))
        );
        // The streams that had not ended when it was asked.
        let later = Timestamp::from_millis(7_010);
        note(&pool, pick, refused(), later, true, &health);
        assert_eq!(pool.states()[0].crashes, 1, "the same crash");
        note(&pool, pick, Ok(()), later, false, &health);
        note(&pool, pick, refused(), later, true, &health);
        assert_eq!(pool.states()[0].crashes, 2);
    }

    #[test]
    fn a_check_for_which_no_file_is_left_says_nothing_of_its_target() {
        let pool = Pool::with_two_targets();
        let health = health(1);
        let (pick, _) = pool.addresses(0)[0];
        let asked = |errno| {
            let answer = Err(io::Error::from_raw_os_error(errno));
            note(&pool, pick, answer, Timestamp::ZERO, false, &health);
            pool.states()[0]
        };
        let before = pool.states()[0];
        for used_up in [libc::EMFILE, libc::ENFILE] {
            assert_eq!(asked(used_up), before);
        }
        assert!(!asked(libc::ECONNREFUSED).up);
    }
}
