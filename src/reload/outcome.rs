//! What a reload did, or why there was none.

use std::fmt;

use serde::Serialize;

/// What a reload did.
#[derive(Debug, Default, Serialize)]
pub struct Outcome {
    /// Tables that are served from now on.
    pub added: Vec<String>,
    /// Tables that are not.
    pub removed: Vec<String>,
    /// Paths whose new values are in force.
    pub applied: Vec<String>,
    /// Paths whose new values wait for a restart.
    pub needs_restart: Vec<String>,
    /// What is as the file says, and hardly meant.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// A worker has not said in time that it has all this: it does when it turns again.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub unconfirmed: bool,
}

/// Why nothing can be reloaded here, or now. Nobody made a mistake, so it is answered and not counted.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct NoReload(pub &'static str);

impl Outcome {
    /// The file and the process differ, and nothing else would say so tomorrow.
    pub fn warn_of_what_waits(&self) {
        if !self.needs_restart.is_empty() {
            tracing::warn!(
                event = "needs_restart",
                values = self.needs_restart.join(" "),
                help = "the old values are in force until a restart",
            );
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = [
            ("added", &self.added),
            ("removed", &self.removed),
            ("applied", &self.applied),
            ("needs restart", &self.needs_restart),
        ];
        let said = parts.iter().filter(|(_, names)| !names.is_empty());
        let said: Vec<String> = said
            .map(|(what, names)| format!("{what}: {}", names.join(" ")))
            .collect();
        if said.is_empty() {
            return f.write_str("nothing has changed");
        }
        f.write_str(&said.join("; "))
    }
}
