//! The plots of docs/POLICY.md, as SVG.

use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;
use tidegate_proto::sender::Params;
use tidegate_proto::sim::Conditions;

use crate::end::{BULK, MESSAGES};
use crate::paths::{LOSSES, input60, narrow, path};
use crate::run::{App, Flow, Setup, quantile, run};
use crate::{Policy, players, policies};

type Chart<'a> = ChartContext<'a, SVGBackend<'a>, Cartesian2d<RangedCoordf64, RangedCoordf64>>;
type Line = (&'static str, Vec<(f64, f64)>);

/// Draws them all into the directory.
pub(crate) fn draw(directory: &Path, quick: bool) -> Result<(), Box<dyn Error>> {
    std::fs::create_dir_all(directory)?;
    let trips = trips_by_loss(quick);
    round_trip(&directory.join("round-trip.svg"), &trips)?;
    tail(&directory.join("tail.svg"), &trips)?;
    queue(&directory.join("queue.svg"), quick)?;
    Ok(())
}

/// Sorted round trips of each policy, by column of the tables.
type Trips = Vec<(&'static str, Vec<Vec<f64>>)>;

fn trips_by_loss(quick: bool) -> Trips {
    let shown = ["bound60", "tidegate", "quic-9002", "kcp-fast3", "stock60"];
    let mut all = policies();
    all.retain(|(label, _)| shown.contains(label));
    let columns = |policy: Policy| {
        let column =
            |(_, (loss, burst))| players::round_trips(&policy, path(50, loss, burst), quick).0;
        LOSSES.map(column).to_vec()
    };
    all.into_iter()
        .map(|(label, policy)| (label, columns(policy)))
        .collect()
}

/// The 99th percentile of the echo's round trip against loss.
fn round_trip(file: &Path, trips: &Trips) -> Result<(), Box<dyn Error>> {
    let lines: Vec<Line> = trips
        .iter()
        .map(|(label, columns)| {
            let points = columns.iter().enumerate();
            let p99 = |(n, sorted): (usize, &Vec<f64>)| (n as f64, quantile(sorted, 0.99));
            (*label, points.map(p99).collect())
        })
        .collect();
    let root = canvas(file)?;
    let mut chart = frame(
        &root,
        "Round trip of a 60 Hz echo at 50 ms: 99th percentile",
        (-0.3, 6.3),
        (0.0, 600.0),
    )?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .max_light_lines(1)
        .y_label_formatter(&|ms| format!("{ms:.0}"))
        .x_desc("packets lost, each way")
        .y_desc("ms")
        .x_labels(7)
        .x_label_formatter(&|x| {
            let column = LOSSES.get(x.round().max(0.0) as usize);
            column.map_or_else(String::new, |(label, _)| (*label).to_owned())
        })
        .draw()?;
    series(&mut chart, &lines, true, SeriesLabelPosition::UpperLeft)?;
    root.present()?;
    Ok(())
}

/// How rare is a round trip of so many ms, at 5 % loss.
fn tail(file: &Path, trips: &Trips) -> Result<(), Box<dyn Error>> {
    let lines: Vec<Line> = trips
        .iter()
        .map(|(label, columns)| {
            let sorted = &columns[3];
            let rarity = |step: usize| 10_f64.powf(-(step as f64) / 20.0);
            let point = |step| (quantile(sorted, 1.0 - rarity(step)), -(step as f64) / 20.0);
            (*label, (0..=70).map(point).collect())
        })
        .collect();
    let root = canvas(file)?;
    let mut chart = frame(
        &root,
        "Share of echoes slower than so many ms, at 5 % loss and 50 ms",
        (40.0, 340.0),
        (-3.5, 0.0),
    )?;
    chart
        .configure_mesh()
        .max_light_lines(1)
        .x_label_formatter(&|ms| format!("{ms:.0}"))
        .x_desc("round trip, ms")
        .y_desc("share that is slower")
        .y_label_formatter(&|power| match power.round() as i32 {
            _ if power.fract() != 0.0 => String::new(),
            0 => "all".to_owned(),
            power => format!("1 in {}", 10_u32.pow(power.unsigned_abs())),
        })
        .draw()?;
    series(&mut chart, &lines, false, SeriesLabelPosition::MiddleRight)?;
    root.present()?;
    Ok(())
}

/// The queue that one sender of bulk and messages makes on 1 Mbit/s.
fn queue(file: &Path, quick: bool) -> Result<(), Box<dyn Error>> {
    let seconds = if quick { 10 } else { 30 };
    let lines: Vec<Line> = [
        ("tidegate", Policy::Tide(Arc::new(Params::default()))),
        ("quic-9002", Policy::Quic),
        ("kcp-fast3", Policy::Kcp),
    ]
    .into_iter()
    .map(|(label, policy)| (label, queue_of(&policy, seconds)))
    .collect();
    let root = canvas(file)?;
    let mut chart = frame(
        &root,
        "Queue in front of 1 Mbit/s that holds 200 ms: bulk and 60 messages a second, from the start",
        (0.0, seconds as f64),
        (0.0, 210.0),
    )?;
    chart
        .configure_mesh()
        .max_light_lines(1)
        .x_label_formatter(&|seconds| format!("{seconds:.0}"))
        .y_label_formatter(&|ms| format!("{ms:.0}"))
        .x_desc("seconds")
        .y_desc("queueing delay, ms")
        .draw()?;
    series(&mut chart, &lines, false, SeriesLabelPosition::MiddleRight)?;
    root.present()?;
    Ok(())
}

fn queue_of(policy: &Policy, seconds: u64) -> Vec<(f64, f64)> {
    let forward = narrow(60, 1.0, 200.0, 0.0);
    let setup = Setup {
        forward,
        back: Conditions { rate: 0, ..forward },
        longer_by: Duration::ZERO,
        warm_up: Duration::ZERO,
        measured: Duration::from_secs(seconds),
        seed: 7,
    };
    let messages = (0, MESSAGES, input60());
    let bulk = (0, BULK, App::Saturate { size: 1000 });
    let flows = if matches!(policy, Policy::Tide(_)) {
        let apps = vec![messages, bulk];
        vec![Flow {
            ends: policy.ends(0),
            apps,
        }]
    } else {
        // One ordered stream each: bulk gets a connection of its own.
        [messages, bulk]
            .into_iter()
            .enumerate()
            .map(|(n, app)| Flow {
                ends: policy.ends(n),
                apps: vec![app],
            })
            .collect()
    };
    thinned(&run(&setup, flows).queue)
}

/// The largest delay of each tenth of a second: what can be seen of thousands of points.
fn thinned(queue: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let tenths = queue.chunk_by(|a, b| (a.0 * 10.0) as u64 == (b.0 * 10.0) as u64);
    let largest = |tenth: &[(f64, f64)]| {
        let most = tenth.iter().map(|(_, delay)| *delay).fold(0.0, f64::max);
        (tenth[0].0, most)
    };
    tenths.map(largest).collect()
}

fn canvas(
    file: &Path,
) -> Result<DrawingArea<SVGBackend<'_>, plotters::coord::Shift>, Box<dyn Error>> {
    let root = SVGBackend::new(file, (760, 400)).into_drawing_area();
    root.fill(&WHITE)?;
    Ok(root)
}

fn frame<'a>(
    root: &DrawingArea<SVGBackend<'a>, plotters::coord::Shift>,
    title: &str,
    x: (f64, f64),
    y: (f64, f64),
) -> Result<Chart<'a>, Box<dyn Error>> {
    let mut builder = ChartBuilder::on(root);
    builder
        .caption(title, ("sans-serif", 16))
        .margin(12)
        .x_label_area_size(40)
        .y_label_area_size(60);
    Ok(builder.build_cartesian_2d(x.0..x.1, y.0..y.1)?)
}

fn series(
    chart: &mut Chart<'_>,
    lines: &[Line],
    dots: bool,
    legend: SeriesLabelPosition,
) -> Result<(), Box<dyn Error>> {
    for (label, points) in lines {
        let colour = colour(label);
        let style = colour.stroke_width(if *label == "tidegate" { 3 } else { 2 });
        chart
            .draw_series(LineSeries::new(points.iter().copied(), style))?
            .label(*label)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], style));
        if dots {
            let dot = |point: &(f64, f64)| Circle::new(*point, 3, colour.filled());
            chart.draw_series(points.iter().map(dot))?;
        }
    }
    chart
        .configure_series_labels()
        .position(legend)
        .background_style(WHITE.mix(0.8))
        .border_style(BLACK.mix(0.2))
        .draw()?;
    Ok(())
}

/// One colour per policy in every plot, told apart by people who see fewer.
fn colour(label: &str) -> RGBColor {
    match label {
        "tidegate" => RGBColor(0, 114, 178),
        "bound60" => RGBColor(130, 130, 130),
        "quic-9002" => RGBColor(213, 94, 0),
        "kcp-fast3" => RGBColor(204, 121, 167),
        _ => RGBColor(0, 158, 115),
    }
}
