//! Many small worlds, each drawn from its seed: what must hold in all of them.
//!
//! `TIDEGATE_SEEDS=N` runs N worlds instead of 500, `TIDEGATE_SEED=S` begins at seed S (and with
//! `TIDEGATE_SEEDS=1` replays one). Every failure names its seed; the ones that found something are
//! kept in `kept_seeds.txt` and replayed by every run.
//!
//! What a protocol cannot promise is left out of its worlds:
//! - gaffer and rudp have no integrity: no flipped bits, and nobody uses a player's address;
//! - rudp has no sessions on its wire: its server is not replaced and ends no session of itself,
//!   because when the goodbyes are lost nothing tells a peer that it now talks to another session;
//! - rudp forgets messages that were never asked for: it keeps them longer than any storm here.

use std::sync::Arc;
use std::time::Duration;

use super::games::{self, Game, Rules, client_address};
use super::liars::{Garbler, Liar, Lie};
use super::nonces;
use crate::session::{AckPolicy, CloseReason, Reject};
use crate::sim::{Conditions, Intent, Intruder, Random, Traffic, World};
use crate::{gaffer, rudp, yojimbo};

/// Worlds in a plain `cargo test`.
const WORLDS: u64 = 500;

/// Seeds that found something, one a line, with what it was.
const KEPT: &str = include_str!("kept_seeds.txt");

/// What was drawn for one world.
#[derive(Debug)]
struct Plan {
    rules: Rules,
    clients: usize,
    up: Traffic,
    down: Traffic,
    weather: Conditions,
    storm: Duration,
    /// Players whose session ended dial again.
    come_back: bool,
    replays: bool,
    forges: bool,
    liar: bool,
    deaf: bool,
    acts: Vec<(Duration, Act)>,
}

/// What an operator, a backend or the machine does in the middle of a storm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    Drain,
    Kick,
    Finish,
    BackendAway,
    Restart,
    StepCalendar(i64),
    Pause(Duration),
}

/// What worlds were like.
#[derive(Debug, Default)]
struct Figures {
    worlds: u64,
    delivered: u64,
    lost: u64,
    faults: u64,
    shots: u64,
    sessions: u64,
    time: Duration,
    session_time: Duration,
}

/// Says which seed it was when a world panics.
struct Named(u64);

impl Drop for Named {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!(
                "seed {} failed: TIDEGATE_SEED={} TIDEGATE_SEEDS=1",
                self.0, self.0
            );
        }
    }
}

fn number(name: &str, default: u64) -> u64 {
    #[expect(
        clippy::disallowed_methods,
        reason = "a test is told its seeds from outside"
    )]
    let text = std::env::var(name);
    text.map_or(default, |text| {
        text.parse()
            .unwrap_or_else(|e| panic!("{name}={text:?}: {e}"))
    })
}

/// Each feature is on in half of the worlds, so that rare combinations are common.
fn coin(random: &mut Random) -> bool {
    random.happens(0.5)
}

fn rules(random: &mut Random) -> Rules {
    let (strict, tiny) = (coin(random), coin(random));
    match random.below(4) {
        0 => {
            let mut params = gaffer::Params::default();
            if tiny {
                (params.inbox_refuse_above, params.inbox_accept_below) = (2_000, 500);
            }
            Rules::Gaffer(Arc::new(params))
        }
        1 => {
            let mut params = rudp::Params {
                // A minute, in ticks of 10 ms.
                expired_time: 6_000,
                ..rudp::Params::default()
            };
            if tiny {
                (params.inbox_refuse_above, params.inbox_accept_below) = (2_000, 500);
            }
            Rules::Rudp(params)
        }
        _ => {
            let mut params = yojimbo::Params::default();
            if strict {
                params.ack = AckPolicy::Written;
            }
            if tiny {
                params.inbox_marks = (2_000, 500);
            }
            Rules::Yojimbo(Arc::new(params))
        }
    }
}

fn weather(random: &mut Random, flips: bool) -> Conditions {
    let mut weather = Conditions {
        delay: Duration::from_millis(random.below(150)),
        jitter: Duration::from_millis(random.below(20)),
        ..Conditions::default()
    };
    if coin(random) {
        weather.loss = random.share() * 0.3;
    }
    if coin(random) {
        let bad = Duration::from_millis(20 + random.below(300));
        weather.bursts = Some((bad, bad * (3 + random.below(20) as u32)));
    }
    if coin(random) {
        weather.duplicate = random.share() * 0.25;
    }
    if coin(random) {
        weather.reorder = (
            random.share() * 0.2,
            Duration::from_millis(random.below(1_000)),
        );
    }
    if coin(random) && flips {
        weather.corrupt = random.share() * 0.05;
    }
    if coin(random) {
        weather.rate = 200_000 + random.below(5_000_000);
    }
    weather
}

fn traffic(random: &mut Random, rules: &Rules) -> Traffic {
    let sizes = match rules {
        Rules::Yojimbo(_) => [0, 30, 300, 3_000, 20_000],
        Rules::Gaffer(_) => [0, 30, 300, 3_000, 16_000],
        Rules::Rudp(_) => [0, 30, 300, 600, 1_400],
    };
    let largest = sizes[random.below(5) as usize];
    Traffic {
        messages: random.below(1 + 120_000 / (largest as u64 + 200)),
        sizes: 0..=largest,
        every: Duration::from_millis(1 + random.below(60)),
        burst: 1 + random.below(10),
        unreliable: coin(random) && !matches!(rules, Rules::Rudp(_)),
        reader_sleeps: coin(random).then(|| Duration::from_millis(100 + random.below(2_000))),
    }
}

fn plan(random: &mut Random) -> Plan {
    let rules = rules(random);
    let is_sealed = matches!(rules, Rules::Yojimbo(_));
    let storm = Duration::from_secs(random.below(8));
    let mut acts = Vec::new();
    let kinds = [
        Act::Drain,
        Act::Kick,
        Act::Finish,
        Act::BackendAway,
        Act::Restart,
        Act::StepCalendar([-86_400, -3, 2, 3_600][random.below(4) as usize]),
        Act::Pause(Duration::from_millis(random.below(7_000))),
    ];
    for act in kinds {
        let at = storm.mul_f64(random.share());
        let ends = matches!(
            act,
            Act::Restart | Act::Kick | Act::Finish | Act::BackendAway
        );
        if random.happens(0.15) && !(ends && matches!(rules, Rules::Rudp(_))) {
            acts.push((at, act));
        }
    }
    acts.sort_by_key(|(at, _)| *at);
    Plan {
        clients: 1 + random.below(4) as usize,
        up: traffic(random, &rules),
        down: traffic(random, &rules),
        weather: weather(random, is_sealed),
        storm,
        come_back: coin(random),
        replays: random.happens(0.3),
        forges: random.happens(0.3),
        liar: random.happens(0.3),
        deaf: random.happens(0.3),
        acts,
        rules,
    }
}

/// One world under way.
struct Run {
    plan: Plan,
    game: Game,
    world: World,
    random: Random,
    /// Clients that are not promised anything.
    bad: Vec<usize>,
    /// Clients that somebody here ended on purpose.
    ended: Vec<usize>,
}

impl Run {
    fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let plan = plan(&mut random);
        let mut game = Game::new(plan.rules.clone(), seed);
        let mut world = game.world(seed, plan.clients, plan.weather, &plan.up, &plan.down);
        let is_sealed = matches!(plan.rules, Rules::Yojimbo(_));
        if is_sealed {
            world.set_watch(nonces::ledger());
        }
        if plan.replays || plan.forges {
            let intent = Intent {
                replays: plan.replays,
                forges: plan.forges,
                impersonates: is_sealed,
                every: Duration::from_millis(5 + random.below(100)),
            };
            world.add_intruder(Intruder::new(intent, seed));
        }
        let mut run = Self {
            plan,
            game,
            world,
            random,
            bad: Vec::new(),
            ended: Vec::new(),
        };
        if run.plan.liar {
            run.add_liar();
        }
        if run.plan.deaf {
            let client = run.add_client();
            run.world.deafen(client, Duration::from_secs(600));
            run.bad.push(client);
        }
        run
    }

    fn add_client(&mut self) -> usize {
        let client = self.world.clients();
        let (endpoint, peer) = self.game.dial(self.world.now(), client);
        let (up, down) = (self.plan.up.clone(), &self.plan.down);
        self.world
            .add_client(endpoint, peer, client_address(client), up, down);
        client
    }

    fn add_liar(&mut self) {
        let (client, now) = (self.world.clients(), self.world.now());
        let session = match self.plan.rules {
            Rules::Yojimbo(_) => {
                let lie = Lie::ALL[self.random.below(Lie::ALL.len() as u64) as usize];
                Liar::dial(&mut self.game, now, client, lie)
            }
            Rules::Gaffer(_) | Rules::Rudp(_) => {
                let honest = self.game.session(now, client);
                Box::new(Garbler::new(honest, 0.3, self.random.next()))
            }
        };
        let (endpoint, peer) = games::dial(now, session);
        let (up, down) = (self.plan.up.clone(), &self.plan.down);
        self.world
            .add_client(endpoint, peer, client_address(client), up, down);
        self.world.distrust(client);
        self.bad.push(client);
    }

    fn run_for(&mut self, span: Duration) {
        let (up, down) = (self.plan.up.clone(), self.plan.down.clone());
        self.world.run_for(span, |_| (up.clone(), down.clone()));
    }

    fn storm(&mut self) {
        let begin = self.world.now().mono;
        for (at, act) in self.plan.acts.clone() {
            let span = (begin + at).since(self.world.now().mono);
            self.run_for(span);
            self.act(act);
        }
        let span = (begin + self.plan.storm).since(self.world.now().mono);
        self.run_for(span);
        self.world.server().set_refusing(None);
        self.world.set_backend_up(true);
    }

    fn act(&mut self, act: Act) {
        let now = self.world.now();
        match act {
            Act::Drain => self.world.server().set_refusing(Some(Reject::Draining)),
            Act::BackendAway => self.world.set_backend_up(false),
            Act::Pause(span) => self.world.pause_server(span),
            Act::StepCalendar(secs) => self.world.step_calendar(secs),
            Act::Restart => {
                let server = self.game.server(now.unix_secs);
                self.world.replace_server(server);
            }
            Act::Kick | Act::Finish => {
                let client = self.random.below(self.plan.clients as u64) as usize;
                let linger = Duration::from_secs(5);
                for peer in self.world.server_peers_of(client) {
                    match act {
                        Act::Kick => self.world.server().close(now, peer, CloseReason::Kicked),
                        _ => self.world.server().finish(
                            now,
                            peer,
                            CloseReason::BackendClosed,
                            linger,
                        ),
                    }
                    self.ended.push(client);
                }
            }
        }
    }

    /// Healed, everything accepted must arrive, unless the session ended for a reason.
    fn calm(&mut self) {
        let calm = Conditions {
            delay: Duration::from_millis(20),
            ..Conditions::default()
        };
        self.world.set_weather(calm, calm);
        let mut comers = if self.plan.come_back { 4 } else { 0 };
        for _ in 0..130 {
            self.run_for(Duration::from_secs(1));
            let mut is_over = true;
            for client in 0..self.world.clients() {
                let is_good = !self.bad.contains(&client);
                let outcome = self.world.outcome(client);
                let has_ended = outcome.client_closed.is_some();
                if has_ended && is_good && comers > 0 {
                    comers -= 1;
                    self.add_client();
                    is_over = false;
                }
                is_over &= has_ended || !is_good || self.world.is_delivered(client);
            }
            if is_over {
                break;
            }
        }
    }

    fn happened(&self, kind: impl Fn(&Act) -> bool) -> bool {
        self.plan.acts.iter().any(|(_, act)| kind(act))
    }

    /// Whether what was done in this world explains such an end.
    fn explains(&self, client: usize, reason: CloseReason) -> bool {
        let weather = &self.plan.weather;
        let is_harsh = weather.rate > 0 || weather.bursts.is_some();
        let long_pause =
            |act: &Act| matches!(act, Act::Pause(span) if *span > Duration::from_secs(4));
        let restarted = self.happened(|act| *act == Act::Restart);
        let stepped = self.happened(|act| matches!(act, Act::StepCalendar(_)));
        let refused = self.happened(|act| matches!(act, Act::Drain | Act::BackendAway));
        let silenced = is_harsh || restarted || self.happened(long_pause);
        let outcome = self.world.outcome(client);
        let other_ended = |closed: Option<CloseReason>| closed.is_some_and(|other| other != reason);
        match reason {
            CloseReason::PeerTimeout => {
                silenced
                    || refused
                    || other_ended(outcome.client_closed)
                    || other_ended(outcome.server_closed)
            }
            CloseReason::ConnectTimeout | CloseReason::TokenExpired => {
                silenced || stepped || refused
            }
            CloseReason::PeerDisconnect => {
                self.ended.contains(&client)
                    || refused
                    || other_ended(outcome.client_closed)
                    || other_ended(outcome.server_closed)
            }
            // Who hears nothing hears no acknowledgements either; which clock ends first is chance.
            CloseReason::PeerStalled => silenced,
            // Who gave up on a server that stood still leaves its gaps open.
            CloseReason::PeerGapStall => {
                silenced && outcome.client_closed == Some(CloseReason::PeerTimeout)
            }
            CloseReason::Denied => refused,
            CloseReason::Kicked | CloseReason::BackendClosed => self.ended.contains(&client),
            CloseReason::Shutdown => restarted,
            _ => false,
        }
    }

    fn judge(&mut self, seed: u64) {
        for client in (0..self.world.clients()).filter(|client| !self.bad.contains(client)) {
            let outcome = self.world.outcome(client);
            let ends = [outcome.client_closed, outcome.server_closed];
            for reason in ends.into_iter().flatten() {
                assert!(
                    self.explains(client, reason),
                    "seed {seed}: client {client} ended with {reason:?}: {outcome:?} {:?}",
                    self.plan.acts
                );
            }
            assert!(
                outcome.client_closed.is_some() || self.world.is_delivered(client),
                "seed {seed}: client {client} is stuck: {outcome:?} {:?}",
                self.world.client_stats(client)
            );
            assert!(
                outcome.up.1 <= outcome.up.0 && outcome.down.1 <= outcome.down.0,
                "seed {seed}: {outcome:?}"
            );
            let stats = self.world.client_stats(client);
            // What is acknowledged behind a gap is counted and still kept.
            let kept = u64::from(stats.outbox_messages);
            let (acked, said) = (stats.messages_acked, outcome.up.0);
            assert!(
                outcome.client_closed.is_some()
                    || matches!(self.plan.rules, Rules::Rudp(_))
                    || (acked <= said && said <= acked + kept),
                "seed {seed}: client {client} lost or invented messages: {outcome:?} {stats:?}"
            );
        }
        self.world.close_books();
    }

    fn figures(&self) -> Figures {
        let (up, down) = self.world.network();
        let clients = self.world.clients();
        let heard = |client| {
            let outcome = self.world.outcome(client);
            outcome.up.1 + outcome.down.1
        };
        let faults = |done: crate::sim::Done| {
            done.lost + done.overflowed + done.duplicated + done.reordered + done.corrupted
        };
        let time = self.world.now().mono.since(crate::Timestamp::ZERO);
        Figures {
            worlds: 1,
            delivered: (0..clients).map(heard).sum(),
            lost: up.lost + down.lost,
            faults: faults(up) + faults(down) + self.world.intruder_shots(),
            shots: self.world.intruder_shots(),
            sessions: clients as u64,
            time,
            session_time: time * clients as u32,
        }
    }
}

impl Figures {
    fn add(&mut self, other: &Self) {
        self.worlds += other.worlds;
        self.delivered += other.delivered;
        self.lost += other.lost;
        self.faults += other.faults;
        self.shots += other.shots;
        self.sessions += other.sessions;
        self.time += other.time;
        self.session_time += other.session_time;
    }
}

/// What is promised of one world; the oracles of [`crate::sim::World`] watch the rest.
fn check_world(seed: u64) -> Figures {
    let _named = Named(seed);
    let mut run = Run::new(seed);
    if number("TIDEGATE_SEEDS", WORLDS) == 1 {
        eprintln!("{:#?}", run.plan);
    }
    run.storm();
    run.calm();
    run.judge(seed);
    run.figures()
}

#[test]
fn every_world_keeps_its_promises() {
    let first = number("TIDEGATE_SEED", 1);
    let worlds = number("TIDEGATE_SEEDS", WORLDS);
    #[expect(
        clippy::disallowed_methods,
        reason = "how fast worlds go by, for whoever runs many; nothing depends on it"
    )]
    let began = std::time::Instant::now();
    let (mut all, mut failed) = (Figures::default(), Vec::new());
    for seed in first..first + worlds {
        // One that fails says why and does not keep the others from being seen.
        match std::panic::catch_unwind(|| check_world(seed)) {
            Ok(figures) => all.add(&figures),
            Err(_) => failed.push(seed),
        }
    }
    let spent = began.elapsed().as_secs_f64();
    eprintln!("from seed {first}: {all:?}");
    eprintln!(
        "{:.0} worlds a second, {:.0} session-hours an hour",
        all.worlds as f64 / spent,
        all.session_time.as_secs_f64() / spent
    );
    assert!(failed.is_empty(), "failed: {failed:?}");
    assert!(
        worlds < 100 || (all.delivered > 10_000 && all.lost > 10_000 && all.shots > 1_000),
        "too kind: {all:?}"
    );
}

#[test]
fn kept_seeds_stay_good() {
    let lines = KEPT.lines().filter(|line| !line.starts_with('#'));
    for line in lines {
        let seed = line.split_whitespace().next().expect("a seed first");
        check_world(seed.parse().unwrap_or_else(|e| panic!("{line:?}: {e}")));
    }
}
