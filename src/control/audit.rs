//! Who asked for what: a line for each request, in fields that can be searched for.

use super::Request;
use crate::config::Refusal;

/// A watching program asks every second, which is for debug; a change is worth a line. What a request names
/// is in fields of their own; one that names nothing of a kind has no such field.
pub(super) fn log(uid: u32, request: &Request, refused: Option<&anyhow::Error>) {
    // As it stood on the line, so all of it is text.
    let said = serde_json::to_value(request).unwrap_or_default();
    let text = |name: &str| said[name].as_str();
    // As it is typed: `backend drain`.
    let command = text("command").unwrap_or_default().replace('-', " ");
    let (whom, listener) = (text("whom"), text("listener"));
    let (ok, error) = (refused.is_none(), refused.map(on_one_line));
    if request.is_query() {
        tracing::debug!(
            event = "control_query",
            uid,
            command,
            whom,
            listener,
            ok,
            error
        );
        return;
    }
    tracing::info!(
        event = "control_command",
        uid,
        command,
        whom,
        listener,
        target = text("target"),
        // Not `level`, which is that of the line.
        log_level = text("level"),
        seconds = said["seconds"].as_u64(),
        file = text("file"),
        from = text("peer"),
        content = said["content"].as_bool(),
        ok,
        error,
    );
}

/// For the log: mistakes of a file come with its lines and carets, which belong on a terminal.
pub(super) fn on_one_line(error: &anyhow::Error) -> String {
    match error.downcast_ref::<Refusal>() {
        Some(refusal) => refusal.brief(),
        None => format!("{error:#}").replace('\n', ";"),
    }
}
