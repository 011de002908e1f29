//! What is logged, while the process runs.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::sleep;

use super::Gate;

impl Gate {
    pub(super) fn log(&self, level: Option<&str>, seconds: Option<u64>) -> anyhow::Result<Value> {
        match (level, seconds) {
            (None, _) => return Ok(json!({ "level": self.logging.level() })),
            (Some(level), None) => self.logging.set_level(level).map_err(anyhow::Error::msg)?,
            (Some(level), Some(seconds)) => {
                let loan = self.logging.lend_level(level).map_err(anyhow::Error::msg)?;
                let logging = self.logging.clone();
                tokio::spawn(async move {
                    sleep(Duration::from_secs(seconds)).await;
                    if let Err(error) = logging.give_back(&loan) {
                        tracing::debug!(event = "log_level", error);
                    }
                });
            }
        }
        Ok(json!({}))
    }
}
