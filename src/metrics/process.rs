//! What the process itself uses, from /proc/self. The names are those every exporter uses.

use std::fs;

/// The process's use of the machine. Zero where the system does not say.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Usage {
    pub cpu_seconds: f64,
    pub resident_bytes: u64,
    pub open_fds: u64,
    pub max_fds: u64,
    pub threads: u64,
}

impl Usage {
    /// As of now.
    pub fn read() -> Self {
        let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let limits = fs::read_to_string("/proc/self/limits").unwrap_or_default();
        let open_fds = fs::read_dir("/proc/self/fd").map_or(0, Iterator::count) as u64;
        Self {
            open_fds,
            ..Self::parse(&stat, &status, &limits)
        }
    }

    fn parse(stat: &str, status: &str, limits: &str) -> Self {
        // The second field is the program's name in parentheses and may hold anything.
        let after_name = stat.rsplit_once(") ").map_or("", |(_, rest)| rest);
        let fields: Vec<&str> = after_name.split_whitespace().collect();
        let number = |index: usize| -> u64 {
            fields
                .get(index)
                .and_then(|field| field.parse().ok())
                .unwrap_or(0)
        };
        Self {
            // proc(5) counts from 1 and from the process id: utime is 14, stime 15, threads 20.
            cpu_seconds: (number(14 - 3) + number(15 - 3)) as f64 / CLOCK_TICKS_PER_SEC,
            threads: number(20 - 3),
            resident_bytes: labelled(status, "VmRSS:") * 1024,
            max_fds: labelled(limits, "Max open files"),
            open_fds: 0,
        }
    }
}

/// USER_HZ is 100 on every Linux there is.
const CLOCK_TICKS_PER_SEC: f64 = 100.0;

/// The first number after a label at the start of a line; 0 when there is none.
fn labelled(text: &str, label: &str) -> u64 {
    text.lines()
        .find_map(|line| line.strip_prefix(label))
        .and_then(|rest| rest.split_whitespace().next())
        .and_then(|number| number.parse().ok())
        .unwrap_or(0)
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
                cpu_seconds: 2.0,
                resident_bytes: 2 << 20,
                open_fds: 0,
                max_fds: 1024,
                threads: 7,
            }
        );
    }

    #[test]
    fn this_process_uses_something() {
        let usage = Usage::read();
        assert!(usage.resident_bytes > 0 && usage.open_fds > 0 && usage.threads > 0);
    }
}
