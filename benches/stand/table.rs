//! Rows for docs/PERFORMANCE.md.

/// Prints a table's head.
pub fn head(columns: &[&str]) {
    println!("| {} |", columns.join(" | "));
    println!("|{}", "---|".repeat(columns.len()));
}

/// Prints a row.
pub fn row(cells: &[String]) {
    println!("| {} |", cells.join(" | "));
}

/// What machine and moment the figures are of.
pub fn circumstances() {
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let model = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = model
        .lines()
        .find_map(|line| line.strip_prefix("model name"))
        .map_or("unknown CPU", |name| {
            name.trim_start_matches([' ', '\t', ':'])
        });
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    println!(
        "\n{model}, {cores} cores, Linux {}, load before: {}\n",
        kernel.trim(),
        load.split(' ').next().unwrap_or("?")
    );
}
