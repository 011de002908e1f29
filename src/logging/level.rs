//! What is logged: a level that lasts, and one that is lent for a while.

use tracing_subscriber::filter::Targets;

/// Whether a level, or a list of directives such as `info,tidegate::listener=debug`, can be
/// understood.
pub fn check_level(level: &str) -> Result<(), String> {
    parse_level(level).map(drop)
}

pub(super) fn parse_level(level: &str) -> Result<Targets, String> {
    // It would be taken for no directive at all: nothing would be said any more, errors included.
    if level.trim().is_empty() {
        return Err("it is empty; for silence, write off".to_owned());
    }
    let targets: Targets = level
        .parse()
        .map_err(|_| "no level and no directive".to_owned())?;
    // A word that is no level would be taken for a target, and everything else be silent.
    let known = |directive: &str| {
        directive.contains(['=', ':'])
            || directive
                .parse::<tracing::level_filters::LevelFilter>()
                .is_ok()
    };
    if let Some(part) = level.split(',').map(str::trim).find(|part| !known(part)) {
        return Err(format!("{part:?} is no level"));
    }
    // It would be taken for "error", of everything or of that target: warnings would be silent.
    let says_none = |directive: &str| directive.is_empty() || directive.ends_with('=');
    if let Some(part) = level.split(',').find(|part| says_none(part)) {
        return Err(format!("{part:?} in it says no level"));
    }
    let says_something = |target: &str| TARGETS.iter().any(|it| it.starts_with(target));
    let mut named = targets.iter().map(|(target, _)| target);
    match named.find(|target| !says_something(target)) {
        Some(target) => Err(format!(
            "nothing is logged by {target:?}; there are {}",
            parts().join(", ")
        )),
        None => Ok(targets),
    }
}

/// The outermost modules that log.
fn parts() -> Vec<&'static str> {
    let part = |target: &'static str| {
        let mut ends = target.match_indices("::").map(|(at, _)| at);
        ends.nth(1).map_or(target, |end| &target[..end])
    };
    let mut parts: Vec<_> = TARGETS.into_iter().map(part).collect();
    parts.dedup();
    parts
}

/// Every module that logs, in order. A directive for another would change nothing, and nobody would be told.
pub(super) const TARGETS: [&str; 43] = [
    "tidegate::admin",
    "tidegate::backend::advice",
    "tidegate::backend::health",
    "tidegate::backend::stream::to_backend",
    "tidegate::backend::stream::to_peer",
    "tidegate::capture",
    "tidegate::capture::writer",
    "tidegate::connect::local_listener",
    "tidegate::connect::tunnel",
    "tidegate::control",
    "tidegate::control::audit",
    "tidegate::control::drain",
    "tidegate::control::log_level",
    "tidegate::control::reload",
    "tidegate::control::signals",
    "tidegate::core_dumps",
    "tidegate::hangs",
    "tidegate::listener::attempt",
    "tidegate::listener::dial",
    "tidegate::listener::handover",
    "tidegate::listener::outage",
    "tidegate::listener::polled_socket",
    "tidegate::listener::refusal_log",
    "tidegate::listener::seats",
    "tidegate::listener::session_log",
    "tidegate::listener::siblings",
    "tidegate::listener::strangers",
    "tidegate::logging",
    "tidegate::notify",
    "tidegate::reload::outcome",
    "tidegate::running_listener::announce",
    "tidegate::serve",
    "tidegate::shutdown",
    "tidegate::sizing::cpu",
    "tidegate::sizing::memory",
    "tidegate::sizing::open_files",
    "tidegate::socket_file",
    "tidegate::token_history",
    "tidegate::token_history::state_directory",
    "tidegate::udp",
    "tidegate::udp::first_link",
    "tidegate::worker",
    "tidegate::worker::handle",
];

/// The levels, as they were typed.
#[derive(Debug)]
pub(super) struct Levels {
    lasting: String,
    lent: Option<String>,
    changes: u64,
}

/// A level that holds until it is given back, unless another one is set before.
#[derive(Debug)]
pub struct Loan(u64);

impl Levels {
    pub(super) fn new(level: &str) -> Self {
        Self {
            lasting: level.to_owned(),
            lent: None,
            changes: 0,
        }
    }

    pub(super) fn in_force(&self) -> &str {
        self.lent.as_ref().unwrap_or(&self.lasting)
    }

    pub(super) fn set(&mut self, level: &str) {
        self.lasting = level.to_owned();
        self.lent = None;
        self.changes += 1;
    }

    pub(super) fn lend(&mut self, level: &str) -> Loan {
        self.lent = Some(level.to_owned());
        self.changes += 1;
        Loan(self.changes)
    }

    /// What is in force without the loan; nothing when something else came meanwhile.
    pub(super) fn give_back(&mut self, loan: &Loan) -> Option<&str> {
        if loan.0 != self.changes {
            return None;
        }
        self.lent = None;
        Some(&self.lasting)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loan_ends_unless_something_else_came() {
        let mut levels = Levels::new("info");
        let first = levels.lend("debug");
        let second = levels.lend("trace");
        assert_eq!(levels.give_back(&first), None, "the second holds longer");
        assert_eq!(levels.in_force(), "trace");
        assert_eq!(levels.give_back(&second), Some("info"));
        let third = levels.lend("debug");
        levels.set("warn");
        assert_eq!(levels.give_back(&third), None);
        assert_eq!(levels.in_force(), "warn");
    }
}
