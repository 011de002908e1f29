//! What players and servers say to each other: no more than passes in a world's time.

use std::ops::RangeInclusive;
use std::time::Duration;

use super::layout;
use super::pick;
use crate::sim::{Random, Traffic};
use crate::tests::seeds::plan::coin;
use crate::yojimbo::channels::Layout;

/// Packets that what is said takes one way, at most: at ten a second, a minute.
const PACKETS_MAX: u64 = 600;

/// Lengths of unreliable messages.
const UNRELIABLE: RangeInclusive<usize> = 12..=72;

/// Of any of these lengths. So long a message is cut into pieces of `piece` bytes.
pub(super) fn said(random: &mut Random, sizes: RangeInclusive<usize>, piece: usize) -> Traffic {
    let packets = sizes.end().div_ceil(piece).max(1) as u64;
    Traffic {
        messages: random.below(2 + PACKETS_MAX / packets),
        sizes,
        every: Duration::from_millis(1 + random.below(60)),
        burst: pick(random, [1, 2, 10, 100]),
        reader_sleeps: coin(random).then(|| Duration::from_millis(100 + random.below(2_000))),
        ..Traffic::default()
    }
}

/// On the channels of this layout; of the library's, on the first reliable one.
pub(super) fn said_on(random: &mut Random, layout: &Layout, is_stock: bool) -> Traffic {
    let mut on = layout::reliable(layout);
    if is_stock {
        on.truncate(1);
    }
    let runs = layout::lengths(layout, &on);
    let run = runs[random.below(runs.len() as u64) as usize].clone();
    let largest = pick(random, [0, 60, 600, 1_300, 4_000, 7_000, 30_000]);
    let largest = largest.clamp(*run.start(), *run.end());
    let smallest = if coin(random) { *run.start() } else { largest };
    let pieces = on
        .iter()
        .map(|channel| layout::piece(layout, *channel, largest));
    let narrowest = pieces.min().unwrap_or(largest).max(1);
    let mut traffic = said(random, smallest..=largest, narrowest);
    if let Some(channel) = layout::unreliable(layout) {
        let lengths = layout::lengths(layout, &[channel]);
        let are_taken = |run: &RangeInclusive<usize>| {
            run.start() <= UNRELIABLE.start() && run.end() >= UNRELIABLE.end()
        };
        traffic.unreliable = coin(random) && lengths.iter().any(are_taken);
        traffic.on_unreliable = channel;
    }
    traffic.reliable = on;
    traffic
}
