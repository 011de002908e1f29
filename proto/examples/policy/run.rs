//! The simulation: flows over a shared pair of links, from event to event, in virtual time.

use std::ops::Range;
use std::time::Duration;

use tidegate_proto::ip::IPV4_UDP_HEADER_BYTES;
use tidegate_proto::sim::{Conditions, Done, Link, Random};
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
    /// When it begins to be measured, the path becomes longer by so much each way.
    pub(crate) longer_by: Duration,
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
    /// Delay of in-order delivery at end 0 beyond the link's own, in ms; for echoed messages, the time since they first
    /// left end 0.
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

    /// Quantiles of the delay beyond the link's own, in ms: messages at end 1.
    pub(crate) fn extra<const N: usize>(&self, shares: [f64; N]) -> [f64; N] {
        let mut sorted = self.extra_ms.clone();
        sorted.sort_by(f64::total_cmp);
        shares.map(|share| quantile(&sorted, share))
    }

    /// Wire bytes per useful byte.
    pub(crate) fn expansion(&self) -> f64 {
        self.wire_bytes as f64 / self.useful_bytes.max(1) as f64
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

/// A run under way.
struct Run<'a> {
    setup: &'a Setup,
    flows: Vec<Flow>,
    apps: Vec<AppState>,
    /// Forward, which is what end 0 sends, and back.
    links: [Link<(u32, Wire)>; 2],
    /// What is sent or pushed then counts.
    measured: Range<Timestamp>,
    /// When the forward bottleneck has sent all that is in its queue.
    busy_until: Timestamp,
    outcome: Outcome,
}

const START: Timestamp = Timestamp::from_millis(1_000);

pub(crate) fn run(setup: &Setup, flows: Vec<Flow>) -> Outcome {
    let mut run = Run::new(setup, flows);
    let mut now = START;
    let mut before = None;
    // After the end nothing new is pushed, and what is under way has time to arrive.
    while now < run.measured.end + Duration::from_secs(5) {
        if now >= run.measured.start && before.is_none() {
            before = Some(run.links[0].done());
            run.lengthen();
        }
        run.push(now);
        run.arrive(now);
        run.act(now);
        // A saturating application is asked again whenever something happened.
        now = run.next_event().max(now + Duration::from_nanos(1));
    }
    run.finish(before.unwrap_or_default())
}

impl<'a> Run<'a> {
    fn lengthen(&mut self) {
        for link in &mut self.links {
            let before = link.conditions();
            let delay = before.delay + self.setup.longer_by;
            link.set_conditions(Conditions { delay, ..before });
        }
    }

    fn new(setup: &'a Setup, flows: Vec<Flow>) -> Self {
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
        Self {
            setup,
            apps,
            links: [
                Link::new(setup.forward, setup.seed * 7 + 1),
                Link::new(setup.back, setup.seed * 7 + 2),
            ],
            measured: from..from + setup.measured,
            busy_until: Timestamp::ZERO,
            outcome: Outcome {
                bulk_bytes: vec![0; flows.len()],
                ..Outcome::default()
            },
            flows,
        }
    }

    /// Applications say what they have to say.
    fn push(&mut self, now: Timestamp) {
        for app in &mut self.apps {
            if now < self.measured.end {
                step(app, now, self.flows[app.flow].ends[app.end].as_mut());
            } else {
                app.next = Timestamp::MAX;
            }
        }
    }

    /// Packets come out of the links.
    fn arrive(&mut self, now: Timestamp) {
        for side in [0, 1] {
            while let Some(((flow, packet), _)) = self.links[1 - side].pop(now) {
                let flow = flow as usize;
                self.flows[flow].ends[side].handle(now, &packet);
                // Answers leave as they would between two datagrams, not after the whole batch.
                self.transmit(now, flow, side);
            }
        }
    }

    /// Ends do what is due, and their applications take what arrived.
    fn act(&mut self, now: Timestamp) {
        for flow in 0..self.flows.len() {
            for side in [0, 1] {
                self.flows[flow].ends[side].handle_timeout(now);
                self.transmit(now, flow, side);
                self.deliver(now, flow, side);
            }
        }
    }

    /// What an end has to send goes into its link.
    fn transmit(&mut self, now: Timestamp, flow: usize, side: usize) {
        let is_forward = side == 0;
        while let Some((packet, bytes)) = self.flows[flow].ends[side].transmit(now) {
            let counts = self.measured.contains(&now);
            if counts {
                self.outcome.wire_bytes += bytes as u64;
                self.outcome.forward_bytes += if is_forward { bytes as u64 } else { 0 };
            }
            let link = &mut self.links[side];
            let overflowed = link.done().overflowed;
            let payload = vec![0; bytes - IPV4_UDP_HEADER_BYTES];
            link.push(now, (flow as u32, packet), &payload);
            let rate = link.conditions().rate;
            if !is_forward || rate == 0 || link.conditions().polices {
                continue;
            }
            if counts {
                let at = now.since(START).as_secs_f64();
                let waits = self.busy_until.since(now).as_secs_f64();
                self.outcome.queue.push((at, waits * 1e3));
            }
            if link.done().overflowed == overflowed {
                let nanos = bytes as u64 * 8_000_000_000 / rate;
                self.busy_until = self.busy_until.max(now) + Duration::from_nanos(nanos);
            }
        }
    }

    /// What arrived in order at an end is counted, and echoed where there is an echo.
    fn deliver(&mut self, now: Timestamp, flow: usize, side: usize) {
        let is_echo =
            |app: &AppState| app.flow == flow && app.end == side && matches!(app.app, App::Echo);
        let echoes = self.apps.iter().any(is_echo);
        while let Some((lane, payload)) = self.flows[flow].ends[side].deliver() {
            if echoes {
                self.flows[flow].ends[side].push(now, lane, &payload);
            }
            self.count(now, flow, side, lane, &payload);
        }
    }

    fn count(&mut self, now: Timestamp, flow: usize, side: usize, lane: u8, payload: &[u8]) {
        let Some(Ok(nanos)) = payload.get(..8).map(<[u8; 8]>::try_from) else {
            return;
        };
        let pushed = Timestamp::from_nanos(u64::from_le_bytes(nanos));
        let outcome = &mut self.outcome;
        if lane == crate::end::BULK {
            if self.measured.contains(&now) {
                outcome.useful_bytes += payload.len() as u64;
                outcome.bulk_bytes[flow] += payload.len() as u64;
            }
        } else if self.measured.contains(&pushed) {
            outcome.useful_bytes += payload.len() as u64;
            let (delay, list) = if side == 1 {
                (self.setup.forward.delay, &mut outcome.extra_ms)
            } else {
                (self.setup.back.delay, &mut outcome.back_ms)
            };
            let took = now.since(pushed).as_secs_f64() - delay.as_secs_f64();
            list.push(took * 1e3);
        }
    }

    fn next_event(&self) -> Timestamp {
        let apps = self.apps.iter().map(|app| app.next);
        let ends = self.flows.iter().flat_map(|flow| &flow.ends);
        let arrivals = self.links.iter().filter_map(Link::next_arrival);
        let events = apps.chain(ends.map(|end| end.deadline())).chain(arrivals);
        events.min().unwrap_or(Timestamp::MAX)
    }

    /// `before`: what the forward link had done when the measuring began.
    fn finish(self, before: Done) -> Outcome {
        let done = self.links[0].done();
        Outcome {
            drops: done.overflowed - before.overflowed,
            offered: done.offered - before.offered,
            stats: self.flows.iter().map(|flow| flow.ends[0].stats()).collect(),
            ..self.outcome
        }
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

/// The value below which this share of the sorted list lies.
pub(crate) fn quantile(sorted: &[f64], share: f64) -> f64 {
    let index = (sorted.len() as f64 * share) as usize;
    sorted
        .get(index.min(sorted.len().saturating_sub(1)))
        .copied()
        .unwrap_or(f64::NAN)
}
