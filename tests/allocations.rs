//! Memory: in steady state nothing is allocated per datagram, and a session that is idle is small.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    dead_code,
    unreachable_pub,
    reason = "a test whose sessions do not connect has failed; the bench uses more of its stand"
)]

#[path = "../benches/stand/in_memory.rs"]
mod in_memory;

use std::alloc::System;
use std::time::Duration;

use in_memory::InMemory;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Alone in its process: the counts are of all threads.
#[test]
fn steady_state_allocates_nothing_and_idle_sessions_are_small() {
    const PEERS: u32 = 200;
    let mut world = InMemory::empty(PEERS, 64);
    let before = Region::new(ALLOCATOR);
    world.join_all();
    for _ in 0..50 {
        world.idle_step();
    }
    let held = before.change();
    let net =
        held.bytes_allocated + held.bytes_reallocated.max(0) as usize - held.bytes_deallocated;
    // Both ends of each session, and everything around them.
    let per_end = net / (2 * PEERS as usize);
    println!("an idle session holds {per_end} bytes");
    assert!(per_end <= 8 * 1024, "{per_end} bytes for an idle session");

    for _ in 0..100 {
        world.round();
    }
    let (mut calls, mut packets) = (0, 0);
    for _ in 0..100 {
        world.wait(Duration::from_micros(33_333));
        world.clients_say();
        world.transmit_up();
        packets += 2 * world.up.len();
        let region = Region::new(ALLOCATOR);
        world.serve_datagrams();
        world.serve_frames();
        world.serve_output();
        let change = region.change();
        calls += change.allocations + change.reallocations;
        world.take_down();
    }
    println!("{calls} allocations for {packets} packets");
    assert!(packets >= 2 * 100 * PEERS as usize);
    // A table may double now and then; a packet may not cost anything.
    assert!(
        calls * 1000 < packets,
        "{calls} allocations for {packets} packets"
    );
}
