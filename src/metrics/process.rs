//! What the process itself uses. The names are those every exporter uses.

use std::fs;

use crate::cgroup;
use crate::clock;
use crate::sizing::open_files;

/// The process's use of the machine. Nothing where the system does not say, as in a container without /proc, or where no
/// file can be opened: zero would be believed.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Usage {
    pub cpu_seconds: f64,
    pub resident_bytes: Option<u64>,
    /// What the control group leaves it; beyond, the kernel ends it or holds it up.
    pub memory_limit_bytes: Option<u64>,
    pub open_fds: Option<u64>,
    pub max_fds: Option<u64>,
    pub threads: Option<u64>,
}

impl Usage {
    /// As of now.
    pub fn read() -> Self {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let open_fds = fs::read_dir("/proc/self/fd").map(Iterator::count);
        Self {
            cpu_seconds: clock::cpu_seconds(),
            resident_bytes: labelled(&status, "VmRSS:").map(|kilobytes| kilobytes * 1024),
            memory_limit_bytes: cgroup::memory_limit().map(|limit| limit.bytes),
            open_fds: open_fds.ok().map(|count| count as u64),
            max_fds: open_files::allowed(),
            threads: labelled(&status, "Threads:"),
        }
    }
}

/// The number after a label at the start of a line.
fn labelled(text: &str, label: &str) -> Option<u64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(label))?;
    rest.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_system_does_not_say_is_not_made_up() {
        let status = "Name:\tVmRSS: 1\nVmRSS:\t  2048 kB\nThreads:\t7\n";
        let known = ["VmRSS:", "Threads:", "VmSize:"].map(|label| labelled(status, label));
        assert_eq!(known, [Some(2048), Some(7), None]);
    }

    #[test]
    fn this_process_uses_something() {
        let usage = Usage::read();
        for some in [usage.resident_bytes, usage.open_fds, usage.threads] {
            assert!(some > Some(0), "{usage:?}");
        }
        assert!(usage.cpu_seconds > 0.0, "{usage:?}");
    }
}
