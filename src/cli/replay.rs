//! `tidegate replay`.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use anyhow::Context;

use super::print;
use crate::capture::pcapng;
use crate::exit::{Exit, Unavailable};
use crate::replay;

pub(super) fn run(file: &Path) -> anyhow::Result<Exit> {
    let reading = || format!("reading {}", file.display());
    let mut recording = File::open(file)
        .map_err(|error| Unavailable(format!("cannot read {}: {error}", file.display())))?;
    // What does not begin like a recording is not read to its end: a device has none.
    let mut bytes = Vec::new();
    let mut beginning = (&mut recording).take(pcapng::BEGIN_BYTES);
    beginning.read_to_end(&mut bytes).with_context(reading)?;
    pcapng::Packets::new(&bytes).with_context(reading)?;
    recording.read_to_end(&mut bytes).with_context(reading)?;
    let report = replay::replay(&bytes)?;
    if let Some(difference) = report.difference {
        print(&format!("first difference: {difference}\n"))?;
        return Ok(Exit::Failure);
    }
    print(&format!(
        "the same result: {} sessions, {} calls, {:.1} s\n",
        report.sessions,
        report.calls,
        report.span.as_secs_f64()
    ))
}
