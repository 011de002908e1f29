//! One world under way: its storm, what somebody does in the middle of it, and the calm after.

use std::time::Duration;

use super::Figures;
use super::plan::{Act, Maker, Plan};
use crate::Timestamp;
use crate::session::{Allowance, CloseReason, Reject};
use crate::sim::{Conditions, Intent, Intruder, Random, World};
use crate::tests::games::{self, Game, Rules, client_address};
use crate::tests::liars::{Garbler, Liar, Lie};
use crate::tests::nonces;

/// One world under way.
pub(super) struct Run {
    pub(super) plan: Plan,
    pub(super) game: Game,
    pub(super) world: World,
    pub(super) random: Random,
    /// Clients that are not promised anything.
    pub(super) bad: Vec<usize>,
    /// Clients that somebody here ended on purpose.
    pub(super) ended: Vec<usize>,
    /// The server has too little memory all through the storm, and says so to its sessions.
    memory: Option<Random>,
    /// Packets it had not taken when the storm was over.
    refused: u64,
}

impl Run {
    pub(super) fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let plan = Plan::draw(&mut random);
        Self::begin(seed, random, plan)
    }

    /// A world of another kind, drawn from the same seed.
    pub(super) fn odd(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let plan = Plan::draw_odd(&mut random);
        Self::begin(seed, random, plan)
    }

    fn begin(seed: u64, mut random: Random, plan: Plan) -> Self {
        let mut game = Game::new(plan.rules.clone(), seed);
        game = match plan.made_by {
            Maker::Tidegate => game,
            Maker::LibraryClients => game.with_library_clients(),
            Maker::LibraryServer => game.with_library_server(),
            Maker::OlderClients => game.dialled_by(plan.rules.older()),
            Maker::OlderServer => {
                Game::new(plan.rules.older(), seed).dialled_by(plan.rules.clone())
            }
        };
        let mut world = game.world(seed, plan.clients, plan.weather, &plan.up, &plan.down);
        let [up, down] = plan.weathers(plan.weather);
        world.set_weather(up, down);
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
            memory: None,
            refused: 0,
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

    /// The world of this seed on a server that is short of memory.
    pub(super) fn short_of_memory(seed: u64) -> Self {
        Self {
            memory: Some(Random::new(seed.rotate_left(32))),
            ..Self::new(seed)
        }
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

    pub(super) fn storm(&mut self) {
        let begin = self.world.now().mono;
        for (at, act) in self.plan.acts.clone() {
            self.storm_until(begin + at);
            self.act(act);
        }
        self.storm_until(begin + self.plan.storm);
        self.allow(|| Allowance::UNLIMITED);
        let server = self.world.server();
        let live = server.peers().map(|(_, _, session)| session.stats());
        let refused = live.map(|stats| stats.packets_refused).sum::<u64>();
        self.refused = server.retired().packets_refused + refused;
        self.world.server().set_refusing(None);
        self.world.set_backend_up(true);
    }

    fn storm_until(&mut self, end: Timestamp) {
        while self.world.now().mono < end {
            let mut span = end.since(self.world.now().mono);
            if let Some(mut random) = self.memory.take() {
                span = span.min(Duration::from_millis(5 + random.below(200)));
                self.allow(|| {
                    let mut bytes = || [0, 1, 500, 5_000, 50_000][random.below(5) as usize];
                    Allowance {
                        inbox: bytes(),
                        ahead: bytes(),
                        pieces: bytes(),
                    }
                });
                self.memory = Some(random);
            }
            self.run_for(span);
        }
    }

    /// To each session of the server, what is drawn for it.
    fn allow(&mut self, mut allowance: impl FnMut() -> Allowance) {
        for client in 0..self.world.clients() {
            for peer in self.world.server_peers_of(client) {
                self.world.server().set_allowance(peer, allowance());
            }
        }
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
    pub(super) fn calm(&mut self) {
        let calm = Conditions {
            delay: Duration::from_millis(20),
            mtu: self.plan.weather.mtu,
            ..Conditions::default()
        };
        let [up, down] = self.plan.weathers(calm);
        self.world.set_weather(up, down);
        let mut comers = if self.plan.come_back { 4 } else { 0 };
        for _ in 0..260 {
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

    pub(super) fn figures(&self) -> Figures {
        let (up, down) = self.world.network();
        let clients = self.world.clients();
        let heard = |client| {
            let outcome = self.world.outcome(client);
            outcome.up.1 + outcome.down.1
        };
        let faults = |done: crate::sim::Done| {
            done.lost + done.overflowed + done.duplicated + done.reordered + done.corrupted
        };
        let time = self.world.now().mono.since(Timestamp::ZERO);
        Figures {
            worlds: 1,
            delivered: (0..clients).map(heard).sum(),
            lost: up.lost + down.lost,
            faults: faults(up) + faults(down) + self.world.intruder_shots(),
            shots: self.world.intruder_shots(),
            refused: self.refused,
            sessions: clients as u64,
            time,
            session_time: time * clients as u32,
        }
    }
}
