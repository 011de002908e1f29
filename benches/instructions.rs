//! How many instructions does the protocol take? Not a timing: run under callgrind by
//! benches/instructions.sh, which compares with what it was.

mod stand;

use stand::in_memory::InMemory;

fn main() {
    let mut arguments = std::env::args().skip(1);
    match arguments.next().as_deref() {
        // 100 peers, 64 B, 30 Hz: 20 rounds of 100 packets each way.
        Some("game") => {
            let mut world = InMemory::new(100, 64);
            for _ in 0..20 {
                world.round();
            }
            assert_eq!(world.heard, 2000, "each packet brought one message");
        }
        // Full packets.
        Some("large") => {
            let mut world = InMemory::new(20, 1_000);
            for _ in 0..20 {
                world.round();
            }
            assert_eq!(world.heard, 400);
        }
        // 100 idle peers for 20 seconds.
        Some("idle") => {
            let mut world = InMemory::new(100, 0);
            for _ in 0..200 {
                world.idle_step();
            }
        }
        // 100 joins.
        Some("joins") => drop(InMemory::new(100, 0)),
        // Cargo passes flags of its own to benches.
        _ => println!("run by benches/instructions.sh"),
    }
}
