//! What an acknowledgement proves of a round trip beside bulk, although the peer may have held it back.

use crate::rtt::Sample;
use crate::time::Span;

/// What the peer may have held back is no sign of a queue. Of the packets of bulk some are acknowledged at
/// once. Where the path is so slow that each has an acknowledgement of its own, that one comes as late as
/// peers let it.
pub(super) fn proven_by_bulk(rtt: Sample, packet: f64) -> Span {
    let held = rtt.took - rtt.least;
    if held <= QUICK {
        rtt.took
    } else if held.as_secs() <= 2.0 * packet {
        rtt.least.max(rtt.took - HELD_MAX)
    } else {
        rtt.least
    }
}

/// Peers do not hold acknowledgements back while packets come in quicker succession than this.
const QUICK: Span = Span::from_millis(50);

/// Otherwise they may hold them back for this long.
const HELD_MAX: Span = Span::from_millis(40);
