//! How long does the protocol take for a packet, without sockets?

mod stand;

use std::time::Duration;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use stand::in_memory::InMemory;

const PEERS: u32 = 1000;

/// 1000 peers, so that caches are as cold as in earnest; one packet each way for every peer.
fn packets(criterion: &mut Criterion) {
    for size in [64, 256, 1000] {
        let mut world = InMemory::new(PEERS, size);
        let mut group = criterion.benchmark_group(format!("{size} bytes"));
        group.throughput(Throughput::Elements(u64::from(PEERS)));
        group.sample_size(20);
        group.measurement_time(Duration::from_secs(4));
        group.bench_function("open, parse, order, frame", |bencher| {
            bencher.iter_custom(|rounds| time(&mut world, rounds, Way::Up));
        });
        group.bench_function("cut, queue, compose, seal", |bencher| {
            bencher.iter_custom(|rounds| time(&mut world, rounds, Way::Down));
        });
        group.finish();
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Up,
    Down,
}

fn time(world: &mut InMemory, rounds: u64, way: Way) -> Duration {
    let mut spent = Duration::ZERO;
    for _ in 0..rounds {
        world.wait(Duration::from_micros(33_333));
        world.clients_say();
        world.transmit_up();
        let start = stand::nanos();
        world.serve_datagrams();
        let between = stand::nanos();
        world.serve_frames();
        world.serve_output();
        let end = stand::nanos();
        world.take_down();
        spent += Duration::from_nanos(match way {
            Way::Up => between - start,
            Way::Down => end - between,
        });
    }
    spent
}

criterion_group!(benches, packets);
criterion_main!(benches);
