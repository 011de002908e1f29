//! What the operator's browser, Prometheus and probes are told. Reading only: nothing here changes
//! state, and it listens on loopback unless the configuration says otherwise. Who asks on loopback by a name that
//! is not ours gets 421, whatever the route (see `hosts`).
//!
//! | route | for | answer |
//! |---|---|---|
//! | `/` | people | the page, live |
//! | `/status` | the page, scripts | everything on it, as JSON |
//! | `/metrics` | Prometheus | the catalogue of `docs/METRICS.md` |
//! | `/livez`, `/live`, `/healthz` | restart probes | 200 while every worker turns, else 503 and which does not |
//! | `/readyz`, `/ready` | traffic probes | 200 while peers are welcome, else 503 and why not |

use std::collections::VecDeque;
use std::convert::Infallible;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{
    ALLOW, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderValue,
    X_CONTENT_TYPE_OPTIONS,
};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use socket2::{Domain, Socket, Type};
use tidegate_proto::Now;
use tokio::runtime::Runtime;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::board::{Board, Snapshot};
use crate::clock::{self, Clock, Pause};
use crate::exit::{Transport, Unavailable};
use crate::metrics::{self, Usage};
use crate::sizing::threads;

mod findings;
mod history;
mod hosts;
mod page;
mod probe;
mod runbook;
mod status;
pub(crate) mod units;

use history::History;
use hosts::Hosts;
pub use probe::probe;
use status::Status;

/// A running admin server. Ends with its handle.
#[derive(Debug)]
pub struct Admin {
    address: SocketAddr,
    /// Dropped to stop.
    _stop: oneshot::Sender<Infallible>,
}

impl Admin {
    /// Binds, and answers in a thread of its own until the handle is dropped. `allowed_hosts` as in
    /// `admin.allowed_hosts`.
    pub fn start(
        listen: SocketAddr,
        allowed_hosts: &[String],
        board: Arc<Board>,
        clock: Clock,
    ) -> Result<Self, Unavailable> {
        let cannot_bind = |error| {
            let why = Transport::Tcp.cannot_bind(listen, &error);
            Unavailable(format!("admin: {why}"))
        };
        let (listener, address) = bind(listen).map_err(cannot_bind)?;
        let (stop, stopped) = oneshot::channel();
        let view = Arc::new(View {
            hosts: Hosts::new(address.ip(), allowed_hosts),
            board,
            told: Mutex::new(Told {
                clock,
                history: History::default(),
            }),
        });
        let (tell, told) = mpsc::channel();
        // The runtime is built where it ends: a task, as our caller may be one, must not drop it.
        let serve = move || match runtime() {
            Ok(runtime) => {
                tell.send(Ok(())).ok();
                runtime.block_on(run(listener, view, stopped));
            }
            Err(error) => {
                tell.send(Err(error)).ok();
            }
        };
        thread::Builder::new()
            .name(THREAD.into())
            .spawn(serve)
            .map_err(|error| threads::unavailable("the admin address", &error))?;
        // A thread that said nothing has panicked, which was told.
        told.recv().unwrap_or(Ok(())).map_err(cannot_bind)?;
        tracing::info!(event = "admin", listen = %address);
        Ok(Self {
            address,
            _stop: stop,
        })
    }

    /// Where it listens: the port, when 0 was asked for.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

fn bind(listen: SocketAddr) -> io::Result<(TcpListener, SocketAddr)> {
    let socket = Socket::new(Domain::for_address(listen), Type::STREAM, None)?;
    // After a restart at once, although connections of the process before linger.
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&listen.into())?;
    socket.listen(BACKLOG)?;
    let listener = TcpListener::from(socket);
    let address = listener.local_addr()?;
    Ok((listener, address))
}

fn runtime() -> io::Result<Runtime> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
}

/// The name of its thread.
pub(crate) const THREAD: &str = "admin";

/// Requests and connections at most; see also [`TIMEOUT`].
const CONNECTIONS_MAX: usize = 64;
const REQUEST_BYTES_MAX: usize = 8 * 1024;

/// Connections that wait in the kernel. Where that is full, a probe is not heard before it asks again, a second later.
const BACKLOG: i32 = 1024;

/// What a connection has for sure, however many wait: many times what an answer takes.
const TIME_MIN: Duration = Duration::from_millis(100);

/// A request's head must be there in this time.
const TIMEOUT: Duration = Duration::from_secs(5);

/// No connection lives longer: one that does not read its answers must not keep its place.
const CONNECTION_LIFE: Duration = Duration::from_secs(60);

async fn run(listener: TcpListener, view: Arc<View>, mut stopped: oneshot::Receiver<Infallible>) {
    let Ok(listener) = tokio::net::TcpListener::from_std(listener) else {
        tracing::error!(event = "admin_failed", "the admin socket cannot be watched");
        return;
    };
    let mut connections = Connections::new();
    let mut waiting = None;
    let mut second = tokio::time::interval(Duration::from_secs(1));
    loop {
        // One waits for a place, and the others in the kernel's backlog.
        tokio::select! {
            _ = &mut stopped => return,
            _ = second.tick() => view.remember(),
            place = connections.place(), if waiting.is_some() => {
                if let Some(stream) = waiting.take() {
                    connections.add(place, serve_connection(stream, Arc::clone(&view)));
                }
            }
            accepted = listener.accept(), if waiting.is_none() => match accepted {
                Ok((stream, _)) => waiting = Some(stream),
                // Out of descriptors, most likely: come back later instead of spinning.
                Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
            },
        }
    }
}

/// Connections that are open. A probe that nobody answers ends the process, and with it every session:
/// so a client that says nothing, or does not read, goes as soon as somebody else needs the place.
struct Connections {
    places: Arc<Semaphore>,
    /// The oldest first.
    open: VecDeque<(Instant, JoinHandle<()>)>,
}

impl Connections {
    fn new() -> Self {
        Self {
            places: Arc::new(Semaphore::new(CONNECTIONS_MAX)),
            open: VecDeque::new(),
        }
    }

    /// A place for one more; when there is none, that of the oldest, which had the time to be served.
    async fn place(&mut self) -> Option<OwnedSemaphorePermit> {
        self.open.retain(|(_, task)| !task.is_finished());
        if let Some((since, oldest)) = self.open.front() {
            let free = Arc::clone(&self.places).acquire_owned();
            match tokio::time::timeout_at(*since + TIME_MIN, free).await {
                Ok(place) => return place.ok(),
                Err(_) => oldest.abort(),
            }
        }
        Arc::clone(&self.places).acquire_owned().await.ok()
    }

    fn add(
        &mut self,
        place: Option<OwnedSemaphorePermit>,
        served: impl Future<Output = ()> + Send + 'static,
    ) {
        let task = tokio::spawn(async move {
            served.await;
            drop(place);
        });
        self.open.push_back((clock::now(), task));
    }
}

async fn serve_connection(stream: tokio::net::TcpStream, view: Arc<View>) {
    let service = service_fn(move |request: Request<Incoming>| {
        let answer = view.answer(&request);
        async move { Ok::<_, Infallible>(answer) }
    });
    // One answer, or a caller could ask for thousands with a few packets. Each takes this thread a millisecond, and a
    // probe would wait for all of them.
    let connection = hyper::server::conn::http1::Builder::new()
        .keep_alive(false)
        .timer(TokioTimer::new())
        .header_read_timeout(TIMEOUT)
        .max_buf_size(REQUEST_BYTES_MAX)
        .serve_connection(TokioIo::new(stream), service);
    // A client that went away or talked nonsense is nobody's problem but its own.
    if let Ok(Err(error)) = tokio::time::timeout(CONNECTION_LIFE, connection).await {
        tracing::debug!(event = "admin_connection", %error);
    }
}

/// What requests are answered from.
struct View {
    hosts: Hosts,
    board: Arc<Board>,
    told: Mutex<Told>,
}

struct Told {
    clock: Clock,
    history: History,
}

impl Told {
    fn look(&mut self) -> (Now, Option<Pause>) {
        (self.clock.now(), self.clock.last_pause())
    }
}

impl View {
    fn answer<B>(&self, request: &Request<B>) -> Response<Full<Bytes>> {
        if !self.hosts.admit(request) {
            return text(StatusCode::MISDIRECTED_REQUEST, hosts::UNKNOWN.into());
        }
        let method = request.method();
        if method != Method::GET && method != Method::HEAD {
            let mut refusal = text(StatusCode::METHOD_NOT_ALLOWED, "reading only\n".into());
            let allow = HeaderValue::from_static("GET, HEAD");
            refusal.headers_mut().insert(ALLOW, allow);
            return refusal;
        }
        match request.uri().path() {
            "/" => {
                let page = page::render(&self.status());
                let mut answer = typed("text/html; charset=utf-8", page);
                let policy = HeaderValue::from_static(page::CONTENT_POLICY);
                let headers = answer.headers_mut();
                headers.insert(CONTENT_SECURITY_POLICY, policy);
                answer
            }
            "/status" => match serde_json::to_string(&self.status()) {
                Ok(json) => typed("application/json", json),
                Err(error) => text(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
            },
            "/metrics" => {
                let text = metrics::render(&self.snapshot(), &Usage::read());
                typed(metrics::CONTENT_TYPE, text)
            }
            "/livez" | "/live" | "/healthz" => verdict(&self.snapshot().stuck()),
            "/readyz" | "/ready" => verdict(&self.snapshot().not_ready()),
            _ => text(StatusCode::NOT_FOUND, ROUTES.into()),
        }
    }

    fn snapshot(&self) -> Snapshot {
        let (now, last_pause) = self.told().look();
        self.board
            .update_process(|process| process.last_pause = last_pause);
        self.board.snapshot(now)
    }

    fn status(&self) -> Status {
        let snapshot = self.snapshot();
        Status::new(&snapshot, &self.told().history, &Usage::read())
    }

    /// Once a second: what the page's curves and "last minute" figures are made of.
    fn remember(&self) {
        let snapshot = self.snapshot();
        self.told().history.push(&snapshot);
    }

    fn told(&self) -> std::sync::MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

const ROUTES: &str = "not here; there is / /status /metrics /livez /readyz\n";

fn verdict(problems: &[String]) -> Response<Full<Bytes>> {
    if problems.is_empty() {
        return text(StatusCode::OK, "ok\n".into());
    }
    text(StatusCode::SERVICE_UNAVAILABLE, problems.join("\n") + "\n")
}

fn text(status: StatusCode, body: String) -> Response<Full<Bytes>> {
    let mut answer = typed("text/plain; charset=utf-8", body);
    *answer.status_mut() = status;
    answer
}

fn typed(content_type: &'static str, body: String) -> Response<Full<Bytes>> {
    let mut answer = Response::new(Full::new(Bytes::from(body)));
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    // Pages from elsewhere may not even load it without reading it, as an image or a script.
    headers.insert(
        "cross-origin-resource-policy",
        HeaderValue::from_static("same-origin"),
    );
    answer
}

#[cfg(test)]
mod tests;
