//! What a world is drawn from its seed: who is there, what they say, what happens to them.

use std::sync::Arc;
use std::time::Duration;

use crate::session::AckPolicy;
use crate::sim::{Conditions, Random, Traffic};
use crate::tests::games::Rules;
use crate::{gaffer, rudp, yojimbo};

/// What was drawn for one world.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) rules: Rules,
    pub(super) clients: usize,
    pub(super) up: Traffic,
    pub(super) down: Traffic,
    pub(super) weather: Conditions,
    /// What is lost by turns, up and down, in the calm as well: see [`Conditions::nth`].
    pub(super) turns: [(u32, u32); 2],
    pub(super) made_by: Maker,
    pub(super) storm: Duration,
    /// Players whose session ended dial again.
    pub(super) come_back: bool,
    pub(super) replays: bool,
    pub(super) forges: bool,
    pub(super) liar: bool,
    pub(super) deaf: bool,
    pub(super) acts: Vec<(Duration, Act)>,
}

/// Whose make the ends are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Maker {
    Tidegate,
    LibraryClients,
    LibraryServer,
    /// One end runs a tidegate that knows no long fragments.
    OlderClients,
    OlderServer,
}

impl Maker {
    /// One end is of the library's make.
    pub(super) fn is_of_library(self) -> bool {
        matches!(self, Self::LibraryClients | Self::LibraryServer)
    }
}

/// What an operator, a backend or the machine does in the middle of a storm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Act {
    Drain,
    Kick,
    Finish,
    BackendAway,
    Restart,
    StepCalendar(i64),
    Pause(Duration),
}

impl Act {
    /// Whether a session ends of it.
    pub(super) fn ends(self) -> bool {
        matches!(
            self,
            Self::Restart | Self::Kick | Self::Finish | Self::BackendAway
        )
    }
}

impl Plan {
    pub(super) fn draw(random: &mut Random) -> Self {
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
            if random.happens(0.15) && !(act.ends() && matches!(rules, Rules::Rudp(_))) {
                acts.push((at, act));
            }
        }
        acts.sort_by_key(|(at, _)| *at);
        let mut plan = Self {
            clients: 1 + random.below(4) as usize,
            up: traffic(random, &rules),
            down: traffic(random, &rules),
            weather: weather(random, is_sealed),
            turns: [(0, 0); 2],
            made_by: Maker::Tidegate,
            storm,
            come_back: coin(random),
            replays: random.happens(0.3),
            forges: random.happens(0.3),
            liar: random.happens(0.3),
            deaf: random.happens(0.3),
            acts,
            rules,
        };
        plan.draw_sizes(random);
        plan
    }

    /// This weather, up and down.
    pub(super) fn weathers(&self, weather: Conditions) -> [Conditions; 2] {
        self.turns.map(|nth| Conditions { nth, ..weather })
    }

    /// Datagrams that may grow, over a path that may be narrower, with enough to say to find out.
    fn draw_sizes(&mut self, random: &mut Random) {
        let Rules::Yojimbo(params) = &self.rules else {
            return;
        };
        if coin(random) {
            return;
        }
        let params = yojimbo::Params::clone(params).with_path_mtu(9_000, coin(random));
        // Whatever the processor: a seed is the same world everywhere.
        let params = params.with_second_cipher(true);
        self.rules = Rules::Yojimbo(Arc::new(params));
        self.weather.mtu = [0, 1_500, 1_400, 1_300][random.below(4) as usize];
        // Blocks go one at a time until datagrams have grown: so many would take longer than a world lasts.
        if coin(random) {
            let are_messages = *self.up.sizes.end() <= 3_000;
            (self.up.messages, self.up.burst) = if are_messages { (2_000, 200) } else { (60, 30) };
        }
    }
}

/// Each feature is on in half of the worlds, so that rare combinations are common.
pub(super) fn coin(random: &mut Random) -> bool {
    random.happens(0.5)
}

fn rules(random: &mut Random) -> Rules {
    let (strict, tiny) = (coin(random), coin(random));
    match random.below(4) {
        0 => {
            let mut params = gaffer::Params::default();
            if tiny {
                params.inbox_max = 2_000;
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
                params.inbox_max = 2_000;
            }
            Rules::Rudp(params)
        }
        _ => {
            let mut params = yojimbo::Params::default();
            if strict {
                params.ack = AckPolicy::Strict;
            }
            if tiny {
                params.inbox_max = 2_000;
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
        ..Traffic::default()
    }
}
