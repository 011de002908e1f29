//! What may wait for others, name servers or a pipe, in a thread of its own: the control plane is one thread, and while
//! that waits, no signal and no command is heard.
//!
//! tokio does the same, but where no thread can be had it panics, which ends the process and all sessions with it.
//! Here what was asked has failed.

use std::{io, thread};

use tokio::sync::{Semaphore, oneshot};

/// Asks in a thread of this name, once there is a place for it. A caller that stops waiting leaves the thread behind, and
/// the place is taken until it ends.
pub async fn ask<T: Send + 'static>(
    name: &str,
    places: &'static Semaphore,
    question: impl FnOnce() -> T + Send + 'static,
) -> io::Result<T> {
    let place = places.acquire().await.map_err(io::Error::other)?;
    let (tell, told) = oneshot::channel();
    let ask = move || {
        let _place = place;
        // The caller may have stopped waiting.
        tell.send(question()).ok();
    };
    thread::Builder::new()
        .name(name.to_owned())
        .spawn(ask)
        .map_err(|error| io::Error::new(error.kind(), format!("no thread to ask in: {error}")))?;
    told.await.map_err(io::Error::other)
}
