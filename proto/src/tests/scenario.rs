//! A world in which everybody says the same and is told the same, so that a test reads like a story.

use std::ops::{Deref, DerefMut};
use std::time::Duration;

use super::games::Game;
use crate::session::CloseReason;
use crate::sim::{Conditions, Traffic, World};

/// A world, and what is said in it.
pub(super) struct Scenario {
    world: World,
    up: Traffic,
    down: Traffic,
}

impl Scenario {
    /// So many clients that say `up` and are told `down`.
    pub(super) fn new(
        game: &mut Game,
        clients: usize,
        weather: Conditions,
        up: &Traffic,
        down: &Traffic,
    ) -> Self {
        let seed = game.seed();
        Self {
            world: game.world(seed, clients, weather, up, down),
            up: up.clone(),
            down: down.clone(),
        }
    }

    /// One client that says this, to a server that answers with the same at once.
    pub(super) fn echoed(game: &mut Game, weather: Conditions, says: &Traffic) -> Self {
        let answers = Traffic {
            echoes: true,
            ..says.clone()
        };
        Self::new(game, 1, weather, says, &answers)
    }

    pub(super) fn run_for(&mut self, span: Duration) {
        let (up, down) = (&self.up, &self.down);
        self.world.run_for(span, |_| (up.clone(), down.clone()));
    }

    /// Whether it was enough within the span.
    pub(super) fn run_until(&mut self, span: Duration, enough: impl Fn(&World) -> bool) -> bool {
        let (up, down) = (&self.up, &self.down);
        let told = |_| (up.clone(), down.clone());
        self.world.run_until(span, told, enough)
    }

    /// Everything that anybody wants to say must be heard within the span.
    pub(super) fn deliver_all_within(&mut self, span: Duration) {
        let delivered = self.run_until(span, World::all_delivered);
        let outcomes = 0..self.world.clients();
        let outcomes: Vec<_> = outcomes.map(|c| self.world.outcome(c)).collect();
        assert!(delivered, "{outcomes:?}");
    }

    /// From now on nothing arrives.
    pub(super) fn cut(&mut self) {
        self.world.set_weather(dead(), dead());
    }

    /// The first client says goodbye, once everything it said is acknowledged.
    pub(super) fn leave(&mut self) {
        let now = self.world.now();
        let (endpoint, peer) = self.world.client(0);
        let linger = Duration::from_secs(5);
        endpoint.finish(now, peer, CloseReason::BackendClosed, linger);
    }

    /// Why the session of the first client ended, on its side and on the server's.
    pub(super) fn ends(&self) -> [Option<CloseReason>; 2] {
        let outcome = self.world.outcome(0);
        [outcome.client_closed, outcome.server_closed]
    }
}

impl Deref for Scenario {
    type Target = World;

    fn deref(&self) -> &World {
        &self.world
    }
}

impl DerefMut for Scenario {
    fn deref_mut(&mut self) -> &mut World {
        &mut self.world
    }
}

/// A little of everything that networks do.
pub(super) fn bad_weather() -> Conditions {
    Conditions {
        delay: Duration::from_millis(40),
        jitter: Duration::from_millis(10),
        loss: 0.1,
        duplicate: 0.05,
        reorder: (0.05, Duration::from_millis(60)),
        ..Conditions::default()
    }
}

/// A path that takes so long, and loses so much.
pub(super) fn path(millis: u64, loss: f64) -> Conditions {
    Conditions {
        delay: Duration::from_millis(millis),
        loss,
        ..Conditions::default()
    }
}

/// A path on which nothing arrives.
pub(super) fn dead() -> Conditions {
    path(0, 1.0)
}
