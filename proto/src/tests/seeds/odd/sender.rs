//! Senders as few have them: the article's, slow ones, ones without copies, and ones whose queue takes a message at a time.

use super::pick;
use crate::sender::Params;
use crate::sim::Random;

pub(super) fn draw(random: &mut Random) -> Params {
    let mut params = if random.happens(0.2) {
        Params::article()
    } else {
        let mut params = Params::default();
        params.packets.good = pick(random, [20.0, 90.0, 180.0]);
        params.packets.good_max = 180.0;
        params.packets.bad = pick(random, [10.0, 20.0]);
        params
    };
    if random.happens(0.2) {
        params.redundancy = false;
    }
    params.outbox_bytes_max = pick(random, [1, 1_000, 20_000, 2 << 20]);
    params
}
