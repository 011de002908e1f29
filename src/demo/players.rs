//! All players of a demo in one thread, and what they saw since last asked.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::Context;
use hdrhistogram::Histogram;
use mio::{Events, Interest, Poll, Token};
use tidegate_proto::sim::Conditions;
use tidegate_proto::yojimbo::netcode::Key;
use tidegate_proto::{CloseReason, Timestamp};

use super::player::{Habits, Player};
use super::weather::Weather;
use crate::clock::Clock;
use crate::protocol::Dialer;
use crate::tokens;

/// What the demo is asked to do, as far as players are concerned.
pub(super) struct Plan {
    pub(super) server: SocketAddr,
    pub(super) players: usize,
    pub(super) habits: Habits,
    pub(super) weather: Weather,
    pub(super) dialer: Dialer,
    /// What tokens are made from, for the protocol that has them.
    pub(super) token: Option<(tokens::Recipe, Key)>,
    pub(super) seed: u64,
}

/// What players saw.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    pub(super) connected: usize,
    pub(super) closed: usize,
    pub(super) last_close: Option<CloseReason>,
    pub(super) in_bad_mode: usize,
    pub(super) said: u64,
    pub(super) echoed: u64,
    pub(super) wrong_echoes: u64,
    pub(super) outstanding: usize,
    pub(super) datagrams: u64,
    pub(super) lost: u64,
    pub(super) resent: u64,
    pub(super) repeated: u64,
    pub(super) storm: bool,
    /// Round trips since the last look, in microseconds.
    pub(super) round_trips: Histogram<u64>,
}

impl Seen {
    pub(super) fn nothing() -> Self {
        Self {
            connected: 0,
            closed: 0,
            last_close: None,
            in_bad_mode: 0,
            said: 0,
            echoed: 0,
            wrong_echoes: 0,
            outstanding: 0,
            datagrams: 0,
            lost: 0,
            resent: 0,
            repeated: 0,
            storm: false,
            round_trips: new_histogram(),
        }
    }
}

/// One microsecond to one minute, three digits.
fn new_histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 60_000_000, 3).expect("the bounds are in order")
}

/// What the players' thread has counted so far, for the screen; and whether it is to stop.
#[derive(Clone)]
pub(super) struct Progress {
    seen: Arc<Mutex<Seen>>,
    stop: Arc<AtomicBool>,
}

impl Progress {
    pub(super) fn new() -> Self {
        Self {
            seen: Arc::new(Mutex::new(Seen::nothing())),
            stop: Arc::new(AtomicBool::new(false)),
        }
    }

    /// What was seen; round trips start over.
    pub(super) fn look(&self) -> Seen {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let copy = seen.clone();
        seen.round_trips.reset();
        copy
    }

    pub(super) fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// Plays until told to stop.
pub(super) fn play(plan: &Plan, progress: &Progress) -> anyhow::Result<()> {
    let mut clock = Clock::start();
    let mut poll = Poll::new()?;
    let mut events = Events::with_capacity(1024);
    let mut players = Vec::with_capacity(plan.players);
    let mut round_trips = new_histogram();
    let mut echoed = 0;
    let mut next_report = Timestamp::ZERO;
    while !progress.stop.load(Ordering::Relaxed) {
        let now = clock.now();
        // They come in small groups, as players do, and not all in one datagram storm.
        for _ in 0..JOINS_PER_TURN.min(plan.players - players.len()) {
            players.push(join(plan, now, players.len(), &poll)?);
        }
        let weather = plan.weather.at(now.mono);
        for player in &mut players {
            player.set_weather(weather);
            player.turn(now, |round_trip| {
                echoed += 1;
                round_trips.saturating_record(round_trip.as_micros() as u64);
            });
        }
        if now.mono >= next_report {
            next_report = now.mono + Duration::from_millis(200);
            report(
                &players,
                progress,
                &mut round_trips,
                echoed,
                plan.weather.is_storm(now.mono),
            );
        }
        let next = players.iter().filter_map(Player::next_turn).min();
        let wait = next
            .map_or(TURN_MAX, |at| at.since(clock.now().mono))
            .clamp(TURN_MIN, TURN_MAX);
        match poll.poll(&mut events, Some(wait)) {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error.into()),
            _ => {}
        }
        let now = clock.now();
        for event in &events {
            players[event.token().0].receive(now);
        }
    }
    for player in &mut players {
        player.leave(clock.now());
    }
    Ok(())
}

fn join(
    plan: &Plan,
    now: tidegate_proto::Now,
    index: usize,
    poll: &Poll,
) -> anyhow::Result<Player> {
    let mint = |(recipe, key): &(tokens::Recipe, Key)| {
        let recipe = tokens::Recipe {
            client_id: index as u64 + 1,
            ..recipe.clone()
        };
        tokens::mint(recipe, key)
    };
    let token = plan.token.as_ref().map(mint).transpose()?;
    let session = plan.dialer.dial(now, token)?;
    let session = session.context("a player without a token")?;
    let seed = plan
        .seed
        .wrapping_add(index as u64)
        .wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut player = Player::new(now, plan.server, session, plan.habits, seed)?;
    poll.registry()
        .register(&mut player.socket, Token(index), Interest::READABLE)?;
    Ok(player)
}

fn report(
    players: &[Player],
    progress: &Progress,
    round_trips: &mut Histogram<u64>,
    echoed: u64,
    storm: bool,
) {
    let mut seen = progress.seen.lock().unwrap_or_else(PoisonError::into_inner);
    let mut fresh = Seen {
        storm,
        echoed,
        ..Seen::nothing()
    };
    for player in players {
        let stats = player.stats();
        let (lost, datagrams) = player.lost();
        fresh.connected += usize::from(player.connected && player.closed.is_none());
        fresh.closed += usize::from(player.closed.is_some());
        fresh.last_close = player.closed.or(fresh.last_close);
        fresh.in_bad_mode += usize::from(stats.in_bad_mode);
        fresh.said += player.said();
        fresh.wrong_echoes += player.wrong_echoes;
        fresh.outstanding += player.outstanding();
        fresh.datagrams += datagrams;
        fresh.lost += lost;
        fresh.resent += stats.messages_resent;
        fresh.repeated += stats.messages_repeated;
    }
    // Both histograms have the same bounds.
    seen.round_trips.add(&*round_trips).ok();
    round_trips.reset();
    fresh.round_trips = seen.round_trips.clone();
    *seen = fresh;
}

/// Players who begin to connect in one turn.
const JOINS_PER_TURN: usize = 4;
/// Links and pacing are exact to a millisecond; nobody sees less.
const TURN_MIN: Duration = Duration::from_millis(1);
const TURN_MAX: Duration = Duration::from_millis(20);

/// The weather of a plan, so that tests can name it.
pub(super) fn calm(delay: Duration, jitter: Duration, loss: f64) -> Conditions {
    Conditions {
        delay,
        jitter,
        loss,
        ..Conditions::default()
    }
}
