//! How fast bulk goes.

/// Rates in bytes a second, and what may leave at once in bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BulkRates {
    /// Bytes a second on a path that was not measured: half a megabit.
    pub start: f64,
    /// Bytes a second at least, however bad the path.
    pub min: f64,
    /// Bytes a second at most: four gigabytes, which is to say as fast as the path and the processor let it.
    pub max: f64,
    /// Bytes that may leave at once.
    pub burst: f64,
    /// Bytes that may leave at once at first and after a pause: ten full datagrams, as a TCP connection
    /// begins with (RFC 6928). What a game says at once now and then, such as where everybody is, waits for no rate
    /// that nobody measured. Once the path's end was met, no more of it than makes a queue of
    /// [`queue_max`](super::PathLimits::queue_max).
    pub window: f64,
    /// Bytes that may leave at once after a pause at most, where more went through before: what most queues
    /// hold.
    pub window_max: f64,
    /// Share of the delivered rate that is kept when the path turns bad.
    pub kept_when_bad: f64,
    /// Share of the delivered rate that is kept on return to good.
    pub kept_on_return: f64,
    /// Bytes a second gained per round trip: the same for fast and slow flows, which makes them
    /// fair to each other; 2000 keeps the queue of sixteen flows that find each other under 50 ms. Up to 8 times that,
    /// the longer no queue shows.
    pub step: f64,
    /// Share of the rate gained beside it, so that a wide path is found within seconds; small,
    /// because it keeps unequal flows unequal.
    pub growth: f64,
}

impl Default for BulkRates {
    fn default() -> Self {
        Self {
            start: 65_536.0,
            min: 8_192.0,
            max: 4_294_967_296.0,
            burst: 3_000.0,
            window: 12_000.0,
            window_max: 64_000.0,
            kept_when_bad: 0.7,
            kept_on_return: 0.85,
            step: 2_000.0,
            growth: 0.003,
        }
    }
}
