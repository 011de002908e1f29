//! A reload that somebody asked for, and what the board and the log are told of it.

use serde_json::Value;

use super::Gate;
use super::audit::on_one_line;
use crate::notify;
use crate::reload::{NoReload, Outcome};

impl Gate {
    pub(super) async fn reload(&self) -> anyhow::Result<Value> {
        notify::reloading();
        let outcome = self.try_reload().await;
        self.note_reload(&outcome);
        notify::ready();
        let outcome = outcome?;
        let mut answer = serde_json::to_value(&outcome)?;
        answer["outcome"] = outcome.to_string().into();
        Ok(answer)
    }

    async fn try_reload(&self) -> anyhow::Result<Outcome> {
        let Some(reloader) = &self.reloader else {
            return Err(NoReload("a tunnel changes with a restart only").into());
        };
        reloader.lock().await.reload().await
    }

    fn note_reload(&self, outcome: &anyhow::Result<Outcome>) {
        if let Err(error) = outcome
            && error.is::<NoReload>()
        {
            tracing::info!(event = "reload", outcome = %error);
            return;
        }
        let now = self.clock.clone().now();
        let error = outcome.as_ref().err().map(on_one_line);
        match outcome {
            Ok(done) => tracing::info!(event = "reload", outcome = %done),
            Err(_) => tracing::error!(event = "reload_refused", error),
        }
        self.board
            .update_process(|process| process.on_reload(now, error));
        if let Ok(done) = outcome {
            done.warn_of_what_waits();
        }
        if outcome.as_ref().is_ok_and(|done| done.unconfirmed) {
            tracing::warn!(
                event = "reload_unconfirmed",
                help = "the new configuration is in force, but a worker has not turned for two seconds and \
                        takes its part of it when it does; /livez says which one, if it hangs"
            );
        }
    }
}
