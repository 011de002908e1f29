//! The process: its build, its state, its configuration, its log.

use crate::board::{LOG_LEVELS, State};
use crate::metrics::Family;
use crate::metrics::Kind::{Counter, Gauge};

pub(super) const FAMILIES: &[Family] = &[
    Family {
        name: "tidegate_build_info",
        kind: Gauge,
        labels: &["version", "revision"],
        help: "Constant 1; the labels say what runs.",
        read: |_, out| out.add(&[env!("CARGO_PKG_VERSION"), REVISION], 1.0),
    },
    Family {
        name: "tidegate_state",
        kind: Gauge,
        labels: &["state"],
        help: "1 for the present state, 0 for the others.",
        read: |source, out| {
            let now = source.snapshot.process.state;
            for state in State::ALL {
                out.add(&[state.label()], f64::from(state == now));
            }
        },
    },
    Family {
        name: "tidegate_config_last_reload_successful",
        kind: Gauge,
        labels: &[],
        help: "0 after a refused reload: the old configuration is still in force.",
        read: |source, out| {
            out.add(
                &[],
                f64::from(source.snapshot.process.reload_error.is_none()),
            )
        },
    },
    Family {
        name: "tidegate_config_last_reload_timestamp_seconds",
        kind: Gauge,
        labels: &[],
        help: "When the configuration in force was loaded, in seconds since 1970.",
        read: |source, out| out.add(&[], source.snapshot.process.loaded_unix as f64),
    },
    Family {
        name: "tidegate_config_reloads_total",
        kind: Counter,
        labels: &["result"],
        help: "Reload attempts.",
        read: |source, out| {
            let process = &source.snapshot.process;
            out.add(&["ok"], process.reloads_ok as f64);
            out.add(&["refused"], process.reloads_refused as f64);
        },
    },
    Family {
        name: "tidegate_config_needs_restart",
        kind: Gauge,
        labels: &[],
        help: "Changed values that the last reload found and that need a restart to take effect.",
        read: |source, out| out.add(&[], source.snapshot.process.needs_restart.len() as f64),
    },
    Family {
        name: "tidegate_clock_timestamp_seconds",
        kind: Gauge,
        labels: &[],
        help: "What this host's clock says, in seconds since 1970.",
        read: |source, out| out.add(&[], source.snapshot.now.unix_secs as f64),
    },
    Family {
        name: "tidegate_drain_deadline_timestamp_seconds",
        kind: Gauge,
        labels: &[],
        help: "When the drain under way ends whatever is left, in seconds since 1970; 0 when it ends nothing, or nothing is left.",
        read: |source, out| {
            let deadline = source.snapshot.process.drain_deadline;
            out.add(
                &[],
                deadline.map_or(0.0, |at| source.snapshot.now.unix_at(at)),
            );
        },
    },
    Family {
        name: "tidegate_log_lines_suppressed_total",
        kind: Counter,
        labels: &["level"],
        help: "Log lines held back because they repeat.",
        read: |source, out| {
            let suppressed = source.snapshot.process.log_lines_suppressed;
            for (level, lines) in LOG_LEVELS.iter().zip(suppressed) {
                out.add(&[level], lines as f64);
            }
        },
    },
    Family {
        name: "tidegate_log_lines_dropped_total",
        kind: Counter,
        labels: &[],
        help: "Log lines lost because standard error took them too slowly, or not at all.",
        read: |source, out| out.add(&[], source.snapshot.process.log_lines_dropped as f64),
    },
    Family {
        name: "tidegate_token_history_failures_total",
        kind: Counter,
        labels: &[],
        help: "Times the file of used tokens could not be read, or was given up because it could not be written.",
        read: |source, out| out.add(&[], source.snapshot.process.token_history_failures as f64),
    },
    Family {
        name: "tidegate_token_histories_given_up",
        kind: Gauge,
        labels: &[],
        help: "Listeners whose file of used tokens cannot be written now: a restart would refuse the tokens from before it.",
        read: |source, out| out.add(&[], source.snapshot.process.token_histories_given_up as f64),
    },
    Family {
        name: "tidegate_memory_limit_bytes",
        kind: Gauge,
        labels: &[],
        help: "Memory of the process's control group, beyond which the kernel ends it or holds it up; absent without such a limit.",
        read: |source, out| out.add_known(source.usage.memory_limit_bytes.map(|it| it as f64)),
    },
    Family {
        name: "tidegate_cpu_throttled_periods_total",
        kind: Counter,
        labels: &[],
        help: "Periods, of 100 ms mostly, in which the control group's CPU limit stopped the process; looked at every ten seconds.",
        read: |source, out| out.add(&[], source.snapshot.process.cpu_throttled as f64),
    },
    Family {
        name: "tidegate_invariant_violations_total",
        kind: Counter,
        labels: &[],
        help: "Checks of the sums of datagrams, messages or sessions that failed. Anything but 0 is a bug in tidegate.",
        read: |source, out| {
            let listeners = source.snapshot.listeners.iter();
            let sum: u64 = listeners.map(|l| l.counters.invariant_violations).sum();
            out.add(&[], sum as f64);
        },
    },
];

/// Set when a release is built; a build from a source tree does not know it.
const REVISION: &str = match option_env!("TIDEGATE_REVISION") {
    Some(revision) => revision,
    None => "unknown",
};
