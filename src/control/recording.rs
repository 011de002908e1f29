//! Recordings of sessions, begun and ended by hand.

use anyhow::bail;
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use super::Gate;
use crate::blocking;
use crate::capture::Order;

impl Gate {
    pub(super) async fn start_capture(&self, order: Order) -> anyhow::Result<Value> {
        let Some(tap) = self.tap.clone() else {
            bail!("sessions are recorded where they are accepted, by serve");
        };
        self.refuse_misspelt(order.listener.as_deref())?;
        let mut clock = self.clock.clone();
        let start = move || tap.start(order, clock.now());
        let file = blocking::ask("recording", &RECORDINGS, start).await??;
        Ok(json!({ "file": file }))
    }

    pub(super) async fn stop_capture(&self) -> anyhow::Result<Value> {
        let tap = self.tap.clone().unwrap_or_default();
        let taken = blocking::ask("recording", &RECORDINGS, move || tap.stop()).await?;
        let Some(taken) = taken else {
            bail!("there is no recording");
        };
        if let Some(why) = taken.failed {
            bail!("the file ends before the recording did: {why}; what it has can be read");
        }
        Ok(json!({
            "sessions": taken.sessions,
            "cut": taken.cut,
            "bytes": taken.bytes,
        }))
    }
}

/// One after the other: the disk that one waits for is the next one's.
static RECORDINGS: Semaphore = Semaphore::const_new(1);
