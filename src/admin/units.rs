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

/// How long it has been, in full.
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

/// How long it has been, as one figure: what a column of a table has room for.
pub(crate) fn age(secs: f64) -> String {
    let tenths = |of: u64| (secs as u64 * 10 / of) as f64 / 10.0;
    match secs as u64 {
        secs if secs < 60 => format!("{secs} s"),
        secs if secs < 3_600 => format!("{} min", secs / 60),
        secs if secs < 86_400 => format!("{:.1} h", tenths(3_600)),
        _ => format!("{:.1} d", tenths(86_400)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_age_is_one_figure() {
        for (secs, expected) in [
            (59.9, "59 s"),
            (507.0, "8 min"),
            (3_599.0, "59 min"),
            (3_660.0, "1.0 h"),
            (86_399.0, "23.9 h"),
            (90_000.0, "1.0 d"),
        ] {
            assert_eq!(age(secs), expected);
        }
        let longest = (0..99 * 86_400)
            .step_by(59)
            .map(|secs| age(f64::from(secs)).len());
        assert_eq!(
            longest.max(),
            Some("23.9 h".len()),
            "tests/page.py fills its column with that"
        );
    }
}
