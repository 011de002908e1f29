//! The simulation: flows over a shared pair of links, from event to event, in virtual time.

use std::time::Duration;

use tidegate_proto::ip::IPV4_UDP_HEADER_BYTES;
use tidegate_proto::sim::{Conditions, Link, Random};
use tidegate_proto::{Stats, Timestamp};

use crate::end::{End, Wire};

/// What an application does at one end.
#[derive(Clone, Copy, Debug)]
pub(crate) enum App {
    /// `count` messages at once, every so often, give or take a little.
    Periodic {
        every: Duration,
        wobble: Duration,
        count: usize,
        size: (usize, usize),
    },
    /// Messages at random times.
    Poisson { mean: Duration },
    /// Sends every message back.
    Echo,
    /// Always something to send, in messages of this size.
    Saturate { size: usize },
}

/// Everything about one run.
pub(crate) struct Setup {
    pub(crate) forward: Conditions,
    pub(crate) back: Conditions,
    pub(crate) warm_up: Duration,
    pub(crate) measured: Duration,
    pub(crate) seed: u64,
}

/// One connection and its applications: which end, which lane, what.
pub(crate) struct Flow {
    pub(crate) ends: [Box<dyn End>; 2],
    pub(crate) apps: Vec<(usize, u8, App)>,
}

/// What a run measured.
#[derive(Default)]
pub(crate) struct Outcome {
    /// Delay of in-order delivery at end 1 beyond the link's own, in ms: messages of all flows.
    pub(crate) extra_ms: Vec<f64>,
    /// The same at end 0; for echoed messages, the time since they first left end 0.
    pub(crate) back_ms: Vec<f64>,
    /// Both directions, all flows.
    pub(crate) wire_bytes: u64,
    pub(crate) useful_bytes: u64,
    /// Bulk bytes delivered at end 1, by flow.
    pub(crate) bulk_bytes: Vec<u64>,
    /// Seconds since the start, and the queueing delay that a packet met then at the forward
    /// bottleneck, in ms.
    pub(crate) queue: Vec<(f64, f64)>,
    pub(crate) forward_bytes: u64,
    pub(crate) drops: u64,
    pub(crate) offered: u64,
    pub(crate) stats: Vec<Stats>,
}

impl Outcome {
    /// Queueing delays alone, sorted.
    pub(crate) fn queue_ms(&self) -> Vec<f64> {
        let mut delays: Vec<f64> = self.queue.iter().map(|(_, delay)| *delay).collect();
        delays.sort_by(f64::total_cmp);
        delays
    }

    /// The latencies and bytes of another run of the same.
    pub(crate) fn add(&mut self, other: Self) {
        self.extra_ms.extend(other.extra_ms);
        self.back_ms.extend(other.back_ms);
        self.wire_bytes += other.wire_bytes;
        self.useful_bytes += other.useful_bytes;
    }
}

struct AppState {
    flow: usize,
    end: usize,
    lane: u8,
    app: App,
    next: Timestamp,
    tick: u64,
    random: Random,
}

const START: Timestamp = Timestamp::from_millis(1_000);

pub(crate) fn run(setup: &Setup, mut flows: Vec<Flow>) -> Outcome {
    let mut links = [
        Link::new(setup.forward, setup.seed * 7 + 1),
        Link::new(setup.back, setup.seed * 7 + 2),
    ];
    let mut random = Random::new(setup.seed * 31 + 5);
    let mut apps = Vec::new();
    for (flow, connection) in flows.iter().enumerate() {
        for &(end, lane, app) in &connection.apps {
            let mut random = random.fork();
            let next = START + Duration::from_micros(random.below(100_000));
            apps.push(AppState {
                flow,
                end,
                lane,
                app,
                next,
                tick: 0,
                random,
            });
        }
    }
    let from = START + setup.warm_up;
    let to = from + setup.measured;
    let mut outcome = Outcome {
        bulk_bytes: vec![0; flows.len()],
        ..Outcome::default()
    };
    let mut busy_until = Timestamp::ZERO;
    let mut now = START;
    let mut before = None;
    // After the end nothing new is pushed, and what is under way has time to arrive.
    while now < to + Duration::from_secs(5) {
        if now >= from && before.is_none() {
            before = Some(links[0].done());
        }
        for app in &mut apps {
            if now < to {
                step(app, now, flows[app.flow].ends[app.end].as_mut());
            } else {
                app.next = Timestamp::MAX;
            }
        }
        for side in [0, 1] {
            while let Some(((flow, packet), _)) = links[1 - side].pop(now) {
                let end = &mut flows[flow as usize].ends[side];
                end.handle(now, &packet);
                // Answers leave as they would between two datagrams, not after the whole batch.
                transmit(
                    end.as_mut(),
                    now,
                    flow,
                    &mut links[side],
                    side == 0,
                    (from, to),
                    &mut outcome,
                    &mut busy_until,
                );
            }
        }
        for (flow, connection) in flows.iter_mut().enumerate() {
            for side in [0, 1] {
                let end = connection.ends[side].as_mut();
                end.handle_timeout(now);
                transmit(
                    end,
                    now,
                    flow as u32,
                    &mut links[side],
                    side == 0,
                    (from, to),
                    &mut outcome,
                    &mut busy_until,
                );
                let echo = apps
                    .iter()
                    .any(|app| app.flow == flow && app.end == side && matches!(app.app, App::Echo));
                while let Some((lane, payload)) = end.deliver() {
                    if echo {
                        end.push(now, lane, &payload);
                    }
                    let delay = if side == 1 {
                        setup.forward.delay
                    } else {
                        setup.back.delay
                    };
                    count(
                        &mut outcome,
                        now,
                        flow,
                        side,
                        lane,
                        &payload,
                        delay,
                        (from, to),
                    );
                }
            }
        }
        let ends = flows
            .iter()
            .flat_map(|flow| flow.ends.iter().map(|end| end.deadline()));
        let arrivals = links.iter().filter_map(Link::next_arrival);
        let next = apps
            .iter()
            .map(|app| app.next)
            .chain(ends)
            .chain(arrivals)
            .min();
        let next = next.unwrap_or(Timestamp::MAX);
        // A saturating application is asked again whenever something happened.
        now = next.max(now + Duration::from_nanos(1));
    }
    let done = links[0].done();
    let before = before.unwrap_or_default();
    outcome.drops = done.overflowed - before.overflowed;
    outcome.offered = done.offered - before.offered;
    outcome.stats = flows.iter().map(|flow| flow.ends[0].stats()).collect();
    outcome
}

#[expect(
    clippy::too_many_arguments,
    reason = "the loop's own state, used in two places of it"
)]
fn transmit(
    end: &mut dyn End,
    now: Timestamp,
    flow: u32,
    link: &mut Link<(u32, Wire)>,
    forward: bool,
    (from, to): (Timestamp, Timestamp),
    outcome: &mut Outcome,
    busy_until: &mut Timestamp,
) {
    while let Some((packet, bytes)) = end.transmit(now) {
        if (from..to).contains(&now) {
            outcome.wire_bytes += bytes as u64;
            outcome.forward_bytes += if forward { bytes as u64 } else { 0 };
        }
        let rate = link.conditions().rate;
        if forward && rate > 0 {
            let waits = busy_until.since(now);
            if (from..to).contains(&now) {
                let at = now.since(START).as_secs_f64();
                outcome.queue.push((at, waits.as_secs_f64() * 1e3));
            }
            let overflowed = link.done().overflowed;
            link.push(now, (flow, packet), &vec![0; bytes - IPV4_UDP_HEADER_BYTES]);
            if link.done().overflowed == overflowed {
                let nanos = bytes as u64 * 8_000_000_000 / rate;
                *busy_until = (*busy_until).max(now) + Duration::from_nanos(nanos);
            }
            continue;
        }
        link.push(now, (flow, packet), &vec![0; bytes - IPV4_UDP_HEADER_BYTES]);
    }
}

fn step(app: &mut AppState, now: Timestamp, end: &mut dyn End) {
    match app.app {
        App::Saturate { size } => {
            while end.has_room() && end.push(now, app.lane, &stamp(now, size)) {}
            app.next = Timestamp::MAX;
        }
        App::Periodic {
            every,
            wobble,
            count,
            size,
        } => {
            while app.next <= now {
                for _ in 0..count {
                    let size = size.0 + app.random.below((size.1 - size.0) as u64 + 1) as usize;
                    end.push(now, app.lane, &stamp(now, size));
                }
                app.tick += 1;
                let shift = Duration::from_nanos(app.random.below(wobble.as_nanos() as u64 + 1));
                app.next = START + every.mul_f64(app.tick as f64) + shift;
            }
        }
        App::Echo => app.next = Timestamp::MAX,
        App::Poisson { mean } => {
            while app.next <= now {
                let size = 48 + app.random.below(153) as usize;
                end.push(now, app.lane, &stamp(now, size));
                app.next += Duration::from_secs_f64(app.random.exponential(mean.as_secs_f64()));
            }
        }
    }
}

/// A payload that says when it was pushed.
fn stamp(now: Timestamp, size: usize) -> Vec<u8> {
    let mut payload = vec![0; size.max(8)];
    payload[..8].copy_from_slice(&now.as_nanos().to_le_bytes());
    payload
}

#[expect(clippy::too_many_arguments, reason = "what is known of one delivery")]
fn count(
    outcome: &mut Outcome,
    now: Timestamp,
    flow: usize,
    side: usize,
    lane: u8,
    payload: &[u8],
    delay: Duration,
    (from, to): (Timestamp, Timestamp),
) {
    let Some(Ok(nanos)) = payload.get(..8).map(<[u8; 8]>::try_from) else {
        return;
    };
    let pushed = Timestamp::from_nanos(u64::from_le_bytes(nanos));
    if lane == crate::end::BULK {
        if (from..to).contains(&now) {
            outcome.useful_bytes += payload.len() as u64;
            outcome.bulk_bytes[flow] += payload.len() as u64;
        }
    } else if (from..to).contains(&pushed) {
        outcome.useful_bytes += payload.len() as u64;
        let took = now.since(pushed).as_secs_f64() - delay.as_secs_f64();
        let list = if side == 1 {
            &mut outcome.extra_ms
        } else {
            &mut outcome.back_ms
        };
        list.push(took * 1e3);
    }
}

/// The value below which this share of the sorted list lies.
pub(crate) fn quantile(sorted: &[f64], share: f64) -> f64 {
    let index = (sorted.len() as f64 * share) as usize;
    sorted
        .get(index.min(sorted.len().saturating_sub(1)))
        .copied()
        .unwrap_or(f64::NAN)
}
