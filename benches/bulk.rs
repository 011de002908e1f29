//! How fast is one connection through `connect` and `serve`?
//!
//! A local program writes frames as fast as it can; the backend swallows them. On loopback, or with
//! `--link` through `tidegate lag` with a delay of 25 ms each way, 1 % loss and 100 Mbit/s.
//!
//! `--seconds 6`; `--size BYTES` for one frame size only

mod stand;

use std::time::Duration;

use stand::backend::{Backend, Habit};
use stand::program::{Place, Program};
use stand::writer::Writer;
use stand::{flag, link, nanos, option, table};
use tidegate::lag::Lag;

fn main() {
    if flag("test") {
        return;
    }
    table::circumstances();
    table::head(&[
        "path",
        "frame bytes",
        "Mbit/s",
        "serve, of a core",
        "connect, of a core",
        "serve CPU ns/byte",
    ]);
    let one = option("size", 0.0) as usize;
    for size in [64, 512, 1024, 1500, 7000, 32_768, 60_000] {
        if one == 0 || one == size {
            measure(size, option("seconds", 6.0), flag("link"));
        }
    }
}

fn measure(size: usize, seconds: f64, through_link: bool) {
    let backend = Backend::start(Habit::Swallow);
    let place = Place::new();
    let server = Program::serve(&place, &backend.targets(), "u16be");
    let link = through_link.then(|| {
        link::start(
            server.address,
            "delay=25ms loss=1% rate=100mbit mtu=1500",
            1,
        )
    });
    let remote = link.as_ref().map_or(server.address, Lag::address);
    let client = Program::connect(&place, remote, "u16be");
    let writer = Writer::start(client.address, size);
    let warm_up = if through_link { 8 } else { 2 };
    std::thread::sleep(Duration::from_secs(warm_up));
    let start = (nanos(), backend.bytes(), server.usage(), client.usage());
    std::thread::sleep(Duration::from_secs_f64(seconds));
    let end = (nanos(), backend.bytes(), server.usage(), client.usage());
    writer.stop();
    let span = (end.0 - start.0) as f64;
    let bytes = (end.1 - start.1) as f64;
    // A connection that stands still is no figure.
    assert!(bytes > 0.0, "{size} bytes: none arrived in {seconds} s");
    let serve = (end.2.cpu_nanos - start.2.cpu_nanos) as f64;
    let connect = (end.3.cpu_nanos - start.3.cpu_nanos) as f64;
    table::row(&[
        if through_link {
            "50 ms, 1 % loss, 100 Mbit/s"
        } else {
            "loopback"
        }
        .to_owned(),
        size.to_string(),
        format!("{:.1}", bytes * 8e3 / span),
        format!("{:.0} %", 100.0 * serve / span),
        format!("{:.0} %", 100.0 * connect / span),
        format!("{:.2}", serve / bytes.max(1.0)),
    ]);
}
