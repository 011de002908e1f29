//! How the page and `tidegate top` write figures: short, with a unit, and the same everywhere.

pub(crate) fn count(n: f64) -> String {
    match n {
        n if n >= 1e6 => format!("{:.1} M", n / 1e6),
        n if n >= 1e4 => format!("{:.1} k", n / 1e3),
        n => format!("{n:.0}"),
    }
}

pub(crate) fn bytes(n: f64) -> String {
    const KIB: f64 = 1024.0;
    match n {
        n if n >= KIB * KIB * KIB => format!("{:.1} GiB", n / KIB / KIB / KIB),
        n if n >= KIB * KIB => format!("{:.1} MiB", n / KIB / KIB),
        n if n >= KIB => format!("{:.1} KiB", n / KIB),
        n => format!("{n:.0} B"),
    }
}

pub(crate) fn share(x: f64) -> String {
    format!("{:.1} %", x * 100.0)
}

/// A time that is short, or not known.
pub(crate) fn brief(secs: Option<f64>) -> String {
    match secs {
        None => "-".into(),
        Some(secs) if secs >= 1.0 => format!("{secs:.2} s"),
        Some(secs) if secs >= 0.1 => format!("{:.0} ms", secs * 1000.0),
        Some(secs) => format!("{:.1} ms", secs * 1000.0),
    }
}

/// An age.
pub(crate) fn span(secs: f64) -> String {
    let secs = secs as u64;
    let (days, hours, minutes) = (secs / 86_400, secs / 3_600 % 24, secs / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{secs} s"),
        (0, 0, _) => format!("{minutes} min {} s", secs % 60),
        (0, _, _) => format!("{hours} h {minutes} min"),
        _ => format!("{days} d {hours} h"),
    }
}
