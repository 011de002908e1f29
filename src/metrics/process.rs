//! What the process itself uses, from /proc/self. The names are those every exporter uses.

use std::fs;

/// The process's use of the machine. Nothing where the system does not say, as in a container without /proc, or where no
/// file can be opened: zero would be believed.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Usage {
    pub cpu_seconds: Option<f64>,
    pub resident_bytes: Option<u64>,
    pub open_fds: Option<u64>,
    pub max_fds: Option<u64>,
    pub threads: Option<u64>,
}

impl Usage {
    /// As of now.
    pub fn read() -> Self {
        let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let limits = fs::read_to_string("/proc/self/limits").unwrap_or_default();
        let open_fds = fs::read_dir("/proc/self/fd").map(Iterator::count);
        Self {
            open_fds: open_fds.ok().map(|count| count as u64),
            ..Self::parse(&stat, &status, &limits)
        }
    }

    fn parse(stat: &str, status: &str, limits: &str) -> Self {
        // The second field is the program's name in parentheses and may hold anything.
        let after_name = stat.rsplit_once(") ").map_or("", |(_, rest)| rest);
        let fields: Vec<&str> = after_name.split_whitespace().collect();
        let number = |index: usize| -> Option<u64> { fields.get(index)?.parse().ok() };
        // proc(5) counts from 1 and from the process id: utime is 14, stime 15, threads 20.
        let ticks = number(14 - 3).zip(number(15 - 3));
        Self {
            cpu_seconds: ticks.map(|(user, system)| (user + system) as f64 / CLOCK_TICKS_PER_SEC),
            threads: number(20 - 3),
            resident_bytes: labelled(status, "VmRSS:").map(|kilobytes| kilobytes * 1024),
            max_fds: labelled(limits, "Max open files"),
            open_fds: None,
        }
    }
}

/// USER_HZ is 100 on every Linux there is.
const CLOCK_TICKS_PER_SEC: f64 = 100.0;

/// The first number after a label at the start of a line.
fn labelled(text: &str, label: &str) -> Option<u64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(label))?;
    rest.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_spaces_and_parentheses_shifts_nothing() {
        let stat =
            "42 (a) b) S 1 42 42 0 -1 4194304 100 0 0 0 150 50 0 0 20 0 7 0 100 1000 25 18446744";
        let status = "Name:\ta) b\nVmRSS:\t  2048 kB\n";
        let limits = "Limit  Soft Limit  Hard Limit  Units\nMax open files  1024  4096  files\n";
        let usage = Usage::parse(stat, status, limits);
        assert_eq!(
            usage,
            Usage {
                cpu_seconds: Some(2.0),
                resident_bytes: Some(2 << 20),
                open_fds: None,
                max_fds: Some(1024),
                threads: Some(7),
            }
        );
    }

    #[test]
    fn what_the_system_does_not_say_is_not_made_up() {
        assert_eq!(Usage::parse("", "", ""), Usage::default());
        let no_limit = "Max open files  unlimited  unlimited  files\n";
        assert_eq!(Usage::parse("", "", no_limit).max_fds, None);
    }

    #[test]
    fn this_process_uses_something() {
        let usage = Usage::read();
        for some in [usage.resident_bytes, usage.open_fds, usage.threads] {
            assert!(some > Some(0), "{usage:?}");
        }
    }
}
