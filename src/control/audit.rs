//! Who asked for what: a line for each request, in fields that can be searched for.

use super::Request;
use crate::config::Refusal;

/// What a request names. One that names nothing of a kind has no such field.
#[derive(Debug, Default, PartialEq, Eq)]
struct Named<'a> {
    whom: Option<&'a str>,
    listener: Option<&'a str>,
    target: Option<&'a str>,
    /// Not `level`, which is that of the line.
    log_level: Option<&'a str>,
    seconds: Option<u64>,
    file: Option<String>,
    from: Option<String>,
    content: Option<bool>,
}

/// Whoever watches asks every second, which is for debug; who changes something is worth a line.
pub(super) fn log(uid: u32, request: &Request, refused: Option<&anyhow::Error>) {
    let (command, named) = words(request);
    let (ok, error) = (refused.is_none(), refused.map(on_one_line));
    if request.is_query() {
        tracing::debug!(
            event = "control_query",
            uid,
            command,
            whom = named.whom,
            listener = named.listener,
            ok,
            error,
        );
        return;
    }
    tracing::info!(
        event = "control_command",
        uid,
        command,
        whom = named.whom,
        listener = named.listener,
        target = named.target,
        log_level = named.log_level,
        seconds = named.seconds,
        file = named.file,
        from = named.from,
        content = named.content,
        ok,
        error,
    );
}

/// The command as it is typed, and what it names.
fn words(request: &Request) -> (&'static str, Named<'_>) {
    let none = Named::default();
    match request {
        Request::Peers { listener } => {
            let listener = listener.as_deref();
            ("peers", Named { listener, ..none })
        }
        Request::Peer { whom } => ("peer", whom_alone(whom)),
        Request::Kick { whom } => ("kick", whom_alone(whom)),
        Request::Ban { whom, seconds } => {
            let seconds = *seconds;
            let named = Named {
                seconds,
                ..whom_alone(whom)
            };
            ("ban", named)
        }
        Request::Unban { whom } => ("unban", whom_alone(whom)),
        Request::Bans => ("bans", none),
        Request::Backends => ("backends", none),
        Request::BackendDrain { target } => ("backend drain", target_alone(target)),
        Request::BackendEnable { target } => ("backend enable", target_alone(target)),
        Request::Drain { seconds } => {
            let seconds = *seconds;
            ("drain", Named { seconds, ..none })
        }
        Request::Undrain => ("undrain", none),
        Request::Reload => ("reload", none),
        Request::Log { level, seconds } => {
            let (log_level, seconds) = (level.as_deref(), *seconds);
            let named = Named {
                log_level,
                seconds,
                ..none
            };
            ("log", named)
        }
        Request::CaptureStart(order) => {
            let named = Named {
                file: Some(order.file.display().to_string()),
                listener: order.listener.as_deref(),
                from: order.peer.map(|peer| peer.to_string()),
                content: Some(order.content),
                ..none
            };
            ("capture start", named)
        }
        Request::CaptureStop => ("capture stop", none),
        Request::Stats => ("stats", none),
    }
}

fn whom_alone(whom: &str) -> Named<'_> {
    Named {
        whom: Some(whom),
        ..Named::default()
    }
}

fn target_alone(target: &str) -> Named<'_> {
    Named {
        target: Some(target),
        ..Named::default()
    }
}

/// For the log: mistakes of a file come with its lines and carets, which belong on a terminal.
pub(super) fn on_one_line(error: &anyhow::Error) -> String {
    match error.downcast_ref::<Refusal>() {
        Some(refusal) => refusal.brief(),
        None => format!("{error:#}").replace('\n', ";"),
    }
}
