//! What the control group leaves to the process: the memory at which the kernel kills it, or holds it up; and how often it
//! was stopped for want of processor time.
//!
//! Format of the files: cgroups(7), the kernel's admin-guide/cgroup-v2 (`memory.max`, `memory.high`, `cpu.stat`),
//! admin-guide/cgroup-v1/memory (`memory.limit_in_bytes`) and scheduler/sched-bwc (`cpu.stat`).

use std::path::{Component, Path, PathBuf};

/// Where the kernel steps in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Limit {
    pub bytes: u64,
    /// What it does then.
    pub beyond: Beyond,
}

/// What becomes of a process that takes more; the worse first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Beyond {
    /// It is killed.
    Killed,
    /// Each allocation waits until memory has been taken back from somebody, for seconds where there is none
    /// (`MemoryHigh=`).
    HeldUp,
}

/// The lowest limit of the group and of those around it. `None`: no limit, or none that can be read.
pub fn memory_limit() -> Option<Limit> {
    let groups = std::fs::read_to_string("/proc/self/cgroup").ok()?;
    lowest(&groups, |file| std::fs::read_to_string(file).ok())
}

/// In how many periods the group, or one around it, has used up its processor time and was stopped for the rest. `None`:
/// nobody counts them, or it cannot be read.
pub fn cpu_throttled() -> Option<u64> {
    let groups = std::fs::read_to_string("/proc/self/cgroup").ok()?;
    throttled(&groups, |file| std::fs::read_to_string(file).ok())
}

/// From the text of `/proc/self/cgroup`, one `HIERARCHY:CONTROLLERS:PATH` a line, and files by name.
fn lowest(groups: &str, read: impl Fn(&Path) -> Option<String>) -> Option<Limit> {
    let mut lowest = None;
    for (hierarchy, directory) in directories(groups, "memory") {
        for &(file, beyond) in hierarchy.memory_files() {
            let text = read(&directory.join(file));
            // v2 has `max` for none; v1 a number that no machine has.
            let bytes = text.and_then(|text| text.trim().parse().ok());
            let bytes = bytes.filter(|&bytes| bytes < NO_MACHINE_HAS);
            let limit = bytes.map(|bytes| Limit { bytes, beyond });
            lowest = lowest.into_iter().chain(limit).min();
        }
    }
    lowest
}

/// An exbibyte: v1 has eight, less a page.
const NO_MACHINE_HAS: u64 = 1 << 60;

/// From the same texts: the periods of all these groups, since each counts those of its own limit.
fn throttled(groups: &str, read: impl Fn(&Path) -> Option<String>) -> Option<u64> {
    let counts = directories(groups, "cpu").filter_map(|(_, directory)| {
        let text = read(&directory.join("cpu.stat"))?;
        let count = |line: &str| line.strip_prefix("nr_throttled ")?.trim().parse().ok();
        text.lines().find_map(count)
    });
    counts.reduce(|sum: u64, count| sum.saturating_add(count))
}

/// The group that this controller has the process in, and those around it, in each hierarchy.
fn directories<'a>(
    groups: &'a str,
    controller: &'a str,
) -> impl Iterator<Item = (Hierarchy, PathBuf)> + 'a {
    let found = groups.lines();
    let found = found.filter_map(move |line| Hierarchy::of_line(line, controller));
    found.flat_map(move |(hierarchy, path)| {
        let mount = match hierarchy {
            Hierarchy::V1 => Path::new("/sys/fs/cgroup").join(controller),
            Hierarchy::V2 => PathBuf::from("/sys/fs/cgroup"),
        };
        path.ancestors()
            .map(move |group| (hierarchy, mount.join(group)))
    })
}

#[derive(Clone, Copy, Debug)]
enum Hierarchy {
    /// One of a few, each with its own controllers.
    V1,
    /// The one of all controllers.
    V2,
}

impl Hierarchy {
    /// With the group's path below the mount. In a container the path may be the host's, and then only
    /// the mount itself is found.
    fn of_line<'a>(line: &'a str, controller: &str) -> Option<(Self, &'a Path)> {
        let mut parts = line.splitn(3, ':');
        let (id, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
        let hierarchy = if controllers.split(',').any(|it| it == controller) {
            Self::V1
        } else if id == "0" && controllers.is_empty() {
            Self::V2
        } else {
            return None;
        };
        let path = Path::new(path.trim_start_matches('/'));
        // `/../group`: outside of what is mounted here.
        let is_inside = path
            .components()
            .all(|part| matches!(part, Component::Normal(_)));
        Some((hierarchy, if is_inside { path } else { Path::new("") }))
    }

    const fn memory_files(self) -> &'static [(&'static str, Beyond)] {
        const V1: [(&str, Beyond); 1] = [("memory.limit_in_bytes", Beyond::Killed)];
        const V2: [(&str, Beyond); 2] = [
            ("memory.max", Beyond::Killed),
            ("memory.high", Beyond::HeldUp),
        ];
        match self {
            Self::V1 => &V1,
            Self::V2 => &V2,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a machine with these files says.
    fn limit(groups: &str, files: &[(&str, &str)]) -> Option<u64> {
        limit_of_a_kind(groups, files).map(|limit| limit.bytes)
    }

    fn limit_of_a_kind(groups: &str, files: &[(&str, &str)]) -> Option<Limit> {
        lowest(groups, |path| {
            let found = files.iter().find(|(name, _)| path == Path::new(name));
            found.map(|(_, text)| format!("{text}\n"))
        })
    }

    /// Nobody is killed at `MemoryHigh=`, and yet everybody waits.
    #[test]
    fn a_limit_that_only_holds_up_counts_as_well() {
        let kind = |max, high| {
            let files = [
                ("/sys/fs/cgroup/memory.max", max),
                ("/sys/fs/cgroup/memory.high", high),
            ];
            limit_of_a_kind("0::/\n", &files).map(|limit| (limit.bytes, limit.beyond))
        };
        assert_eq!(kind("max", "6000"), Some((6_000, Beyond::HeldUp)));
        assert_eq!(kind("7000", "6000"), Some((6_000, Beyond::HeldUp)));
        assert_eq!(kind("6000", "6000"), Some((6_000, Beyond::Killed)));
        assert_eq!(kind("6000", "max"), Some((6_000, Beyond::Killed)));
        assert_eq!(kind("max", "max"), None);
    }

    #[test]
    fn the_lowest_limit_on_the_way_up_counts() {
        let unit = "0::/system.slice/tidegate.service\n";
        let own = "/sys/fs/cgroup/system.slice/tidegate.service/memory.max";
        let around = "/sys/fs/cgroup/system.slice/memory.max";
        assert_eq!(limit(unit, &[(own, "268435456")]), Some(268_435_456));
        assert_eq!(limit(unit, &[(own, "max"), (around, "5000")]), Some(5_000));
        assert_eq!(limit(unit, &[(own, "6000"), (around, "5000")]), Some(5_000));
        assert_eq!(limit(unit, &[(own, "max"), (around, "max")]), None);
        assert_eq!(limit(unit, &[]), None, "nothing can be read");
        assert_eq!(limit(unit, &[(own, "much")]), None);
    }

    #[test]
    fn containers_and_the_first_version_are_read() {
        let mounted = [("/sys/fs/cgroup/memory.max", "7000")];
        assert_eq!(limit("0::/\n", &mounted), Some(7_000));
        assert_eq!(limit("0::/../../other\n", &mounted), Some(7_000));
        let both = "9:name=systemd:/\n4:cpu,memory:/docker/abc\n0::/\n";
        let own = "/sys/fs/cgroup/memory/docker/abc/memory.limit_in_bytes";
        let mount = "/sys/fs/cgroup/memory/memory.limit_in_bytes";
        assert_eq!(limit(both, &[(own, "8000")]), Some(8_000));
        assert_eq!(limit(both, &[(mount, "9000")]), Some(9_000));
        assert_eq!(limit(both, &[(own, "9223372036854771712")]), None);
        assert_eq!(limit("4:memoryless:/\n", &[(mount, "9000")]), None);
        for broken in ["", "\n", "0", "0:", "::", "memory"] {
            assert_eq!(limit(broken, &[(mount, "9000")]), None, "{broken:?}");
        }
    }
    #[test]
    fn periods_without_processor_time_are_those_of_all_groups_around() {
        let count = |groups: &str, files: &[(&str, &str)]| {
            throttled(groups, |path| {
                let found = files.iter().find(|(name, _)| path == Path::new(name));
                found.map(|(_, count)| {
                    format!("nr_periods 900\nnr_throttled {count}\nthrottled_usec 5\n")
                })
            })
        };
        let unit = "0::/system.slice/tidegate.service\n";
        let own = "/sys/fs/cgroup/system.slice/tidegate.service/cpu.stat";
        let around = "/sys/fs/cgroup/system.slice/cpu.stat";
        assert_eq!(count(unit, &[(own, "7")]), Some(7));
        assert_eq!(count(unit, &[(own, "7"), (around, "3")]), Some(10));
        assert_eq!(count(unit, &[(own, "many")]), None);
        assert_eq!(count(unit, &[]), None);
        let first = "4:cpu,cpuacct:/docker/abc\n3:cpuset:/\n0::/\n";
        let own = "/sys/fs/cgroup/cpu/docker/abc/cpu.stat";
        assert_eq!(count(first, &[(own, "5")]), Some(5));
        assert_eq!(
            count("3:cpuset:/\n", &[("/sys/fs/cgroup/cpu.stat", "5")]),
            None
        );
    }
}
