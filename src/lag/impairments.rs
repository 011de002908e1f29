//! What a bad network is like, in words: on the command line, on standard input and over the control
//! socket the same ones.
//!
//! ```text
//!   delay=25ms jitter=5ms loss=5% up.loss=10%      both ways, and then one of them
//! ```

use std::fmt;
use std::time::Duration;

use tidegate_proto::sim::Conditions;

use crate::config::{parse_duration, parse_size, show_duration, show_size};

/// Both directions, and what happens to addresses.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Impairments {
    /// From clients to the server.
    pub up: Conditions,
    /// From the server to clients.
    pub down: Conditions,
    /// Every client gets a new source port so often.
    pub rebind: Option<Duration>,
}

/// What can be said, with an example each.
pub const WORDS: [(&str, &str); 13] = [
    ("delay=25ms", "one-way delay"),
    (
        "jitter=5ms",
        "varies the delay by up to this; keeps the order",
    ),
    ("loss=5%", "independent loss of datagrams"),
    (
        "nth=4/2",
        "loses the second of every four datagrams; nth=4 the fourth",
    ),
    (
        "burst=60ms/1s",
        "outages of 60 ms on average, 1 s apart on average",
    ),
    (
        "reorder=1%/10ms",
        "this share is 10 ms late and overtaken by others",
    ),
    ("duplicate=1%", "this share is duplicated"),
    ("corrupt=1%", "this share has one bit flipped"),
    (
        "rate=10Mbit",
        "rate limit; 28 bytes of headers count for each datagram",
    ),
    ("queue=64KiB", "queue in front of the rate limit; drop-tail"),
    (
        "police=on",
        "the rate limit drops and delays nothing; queue is the burst that passes",
    ),
    (
        "mtu=1500",
        "longest IP packet in bytes; longer ones are dropped silently",
    ),
    (
        "rebind=30s",
        "interval at which every client gets a new source port, as by a NAT",
    ),
];

/// A word that means nothing here.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{word:?}: {why}")]
pub struct BadWord {
    word: String,
    why: String,
}

impl Impairments {
    /// Changes what the words say. On a mistake nothing changes.
    pub fn change<'a>(&mut self, words: impl IntoIterator<Item = &'a str>) -> Result<(), BadWord> {
        let mut next = *self;
        for word in words {
            let blame = |why| BadWord {
                word: word.to_owned(),
                why,
            };
            next.take(word).map_err(blame)?;
        }
        for (way, conditions) in [("up", next.up), ("down", next.down)] {
            if conditions.jitter > conditions.delay {
                return Err(BadWord {
                    word: format!("jitter={}", show_duration(conditions.jitter)),
                    why: format!(
                        "more than the delay of {} ({way}): nothing arrives before it was sent",
                        show_duration(conditions.delay)
                    ),
                });
            }
        }
        *self = next;
        Ok(())
    }

    fn take(&mut self, word: &str) -> Result<(), String> {
        if word == "perfect" {
            *self = Self::default();
            return Ok(());
        }
        let (name, value) = word.split_once('=').ok_or_else(|| unknown(word))?;
        if name == "rebind" {
            let span = span(value, DAY)?;
            self.rebind = (!span.is_zero()).then_some(span.max(REBIND_MIN));
            return Ok(());
        }
        match name.split_once('.') {
            None => {
                set(&mut self.up, name, value)?;
                set(&mut self.down, name, value)
            }
            Some(("up", name)) => set(&mut self.up, name, value),
            Some(("down", name)) => set(&mut self.down, name, value),
            Some((way, _)) => Err(format!(
                "there is no way {way:?}: up is from clients to the server, down is back"
            )),
        }
    }
}

fn set(conditions: &mut Conditions, name: &str, value: &str) -> Result<(), String> {
    match name {
        "delay" => conditions.delay = span(value, DELAY_MAX)?,
        "jitter" => conditions.jitter = span(value, DELAY_MAX)?,
        "loss" => conditions.loss = share(value)?,
        "nth" => conditions.nth = turns(value)?,
        "burst" if value == "0" => conditions.bursts = None,
        "burst" => {
            let (bad, good) = pair(value, "outage and the time between two, burst=60ms/1s")?;
            let spells = (span(bad, DAY)?, span(good, DAY)?);
            if spells.0.min(spells.1).is_zero() {
                return Err("neither of the two may be 0; burst=0 is none".to_owned());
            }
            conditions.bursts = Some(spells);
        }
        "reorder" if value == "0" => conditions.reorder = (0.0, Duration::ZERO),
        "reorder" => {
            let (part, late) = pair(value, "share and by how much, reorder=1%/10ms")?;
            conditions.reorder = (share(part)?, span(late, DELAY_MAX)?);
        }
        "duplicate" => conditions.duplicate = share(value)?,
        "corrupt" => conditions.corrupt = share(value)?,
        "rate" => conditions.rate = rate(value)?,
        "queue" => {
            let size = parse_size(value)?;
            conditions.queue = usize::try_from(size).map_err(|_| "too much".to_owned())?;
        }
        "police" => conditions.polices = police(value)?,
        "mtu" => conditions.mtu = mtu(value)?,
        _ => return Err(unknown(name)),
    }
    Ok(())
}

/// The word was meant to be one of ours: which?
fn unknown(word: &str) -> String {
    let examples: Vec<_> = WORDS.iter().map(|(example, _)| *example).collect();
    let name = word.trim_start_matches('-');
    let guess = match name.get(..3).unwrap_or(name) {
        "dup" => "did you mean duplicate=1%? ",
        "lat" | "del" | "pin" => "did you mean delay=25ms? ",
        "los" | "dro" => "did you mean loss=5%? ",
        "jit" => "did you mean jitter=5ms? ",
        "cor" | "fli" => "did you mean corrupt=1%? ",
        "ban" | "rat" | "bit" => "did you mean rate=10Mbit? ",
        "eve" | "per" => "did you mean nth=4? ",
        "reo" => "did you mean reorder=1%/10ms? ",
        "pol" => "did you mean police=on? ",
        "mtu" | "fra" => "did you mean mtu=1500? ",
        "bur" | "out" => "did you mean burst=60ms/1s? ",
        _ => "",
    };
    format!(
        "{guess}say {}, perfect; up. or down. in front is for one way",
        examples.join(", ")
    )
}

fn span(value: &str, most: Duration) -> Result<Duration, String> {
    let span = match value {
        "0" => Duration::ZERO,
        _ => parse_duration(value)?,
    };
    if span > most {
        return Err(format!("more than {}", show_duration(most)));
    }
    Ok(span)
}

fn share(value: &str) -> Result<f64, String> {
    if value == "0" {
        return Ok(0.0);
    }
    let Some(number) = value.strip_suffix('%') else {
        return Err(format!("a share is written in per cent, such as {value}%"));
    };
    match number.parse::<f64>() {
        Ok(percent) if (0.0..=100.0).contains(&percent) => Ok(percent / 100.0),
        Ok(_) | Err(_) => Err("a share goes from 0% to 100%".to_owned()),
    }
}

/// One of so many, and which: the last one unless it says.
fn turns(value: &str) -> Result<(u32, u32), String> {
    if value == "0" {
        return Ok((0, 0));
    }
    let (of, which) = value.split_once('/').unwrap_or((value, value));
    match (of.parse(), which.parse()) {
        (Ok(of), Ok(which)) if of >= 2 && (1..=of).contains(&which) => Ok((of, which)),
        _ => Err(
            "one of at least 2, and if not the last, then which: nth=4/2; nth=0 is none".to_owned(),
        ),
    }
}

fn police(value: &str) -> Result<bool, String> {
    match value {
        "on" => Ok(true),
        "0" => Ok(false),
        _ => Err("police=on drops what the rate limit would delay; police=0 does not".to_owned()),
    }
}

/// Bytes, as everybody writes it; 0 is no limit.
fn mtu(value: &str) -> Result<usize, String> {
    match value.parse() {
        Ok(bytes) if bytes == 0 || (MTU_MIN..=MTU_MAX).contains(&bytes) => Ok(bytes),
        Ok(_) | Err(_) => Err(format!(
            "an MTU is a number of bytes from {MTU_MIN} to {MTU_MAX}, or 0 for none: mtu=1500"
        )),
    }
}

fn pair<'a>(value: &'a str, meaning: &str) -> Result<(&'a str, &'a str), String> {
    value
        .split_once('/')
        .ok_or_else(|| format!("two values with / between: {meaning}"))
}

/// Bits a second; factors of 1000, as everywhere with rates.
fn rate(value: &str) -> Result<u64, String> {
    if value == "0" {
        return Ok(0);
    }
    let digits = value.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = value.split_at(digits);
    let wrong = || {
        "a rate is a whole number with a unit, bit kbit Mbit or Gbit a second: rate=10Mbit"
            .to_owned()
    };
    let scale = RATE_UNITS
        .iter()
        .find(|(name, _)| unit.eq_ignore_ascii_case(name))
        .map(|(_, scale)| *scale);
    let number = number.parse::<u64>().ok();
    let bits = number
        .zip(scale)
        .and_then(|(n, scale)| n.checked_mul(scale));
    bits.ok_or_else(wrong)
}

const RATE_UNITS: [(&str, u64); 4] = [
    ("Gbit", 1_000_000_000),
    ("Mbit", 1_000_000),
    ("kbit", 1_000),
    ("bit", 1),
];

const DAY: Duration = Duration::from_secs(86_400);
/// What arrives meanwhile is stored, so there is a bound; no player's network is this slow.
const DELAY_MAX: Duration = Duration::from_secs(10);
/// What IPv4 asks of any link, and what a packet can say.
const MTU_MIN: usize = 68;
const MTU_MAX: usize = 65_535;
/// Each makes a socket for every client.
const REBIND_MIN: Duration = Duration::from_millis(100);

/// In the words that would make it.
impl fmt::Display for Impairments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (up, down) = (words(&self.up), words(&self.down));
        let mut said: Vec<String> = Vec::new();
        for word in &up {
            let way = if down.contains(word) { "" } else { "up." };
            said.push(format!("{way}{word}"));
        }
        let only_down = down.iter().filter(|word| !up.contains(word));
        said.extend(only_down.map(|word| format!("down.{word}")));
        if let Some(span) = self.rebind {
            said.push(format!("rebind={}", show_duration(span)));
        }
        if said.is_empty() {
            return f.write_str("perfect");
        }
        f.write_str(&said.join(" "))
    }
}

/// What differs from a perfect link, in the order of [`WORDS`].
fn words(conditions: &Conditions) -> Vec<String> {
    let perfect = Conditions::default();
    let span = |name: &str, span: Duration, usual: Duration| {
        (span != usual).then(|| format!("{name}={}", show_duration(span)))
    };
    let share =
        |name: &str, share: f64| (share > 0.0).then(|| format!("{name}={}", percent(share)));
    let words = [
        span("delay", conditions.delay, perfect.delay),
        span("jitter", conditions.jitter, perfect.jitter),
        share("loss", conditions.loss),
        nth(conditions.nth),
        conditions.bursts.map(burst),
        reorder(conditions.reorder),
        share("duplicate", conditions.duplicate),
        share("corrupt", conditions.corrupt),
        (conditions.rate > 0).then(|| format!("rate={}", bits(conditions.rate))),
        queue(conditions, &perfect),
        conditions.polices.then(|| "police=on".to_owned()),
        (conditions.mtu > 0).then(|| format!("mtu={}", conditions.mtu)),
    ];
    words.into_iter().flatten().collect()
}

fn nth((of, which): (u32, u32)) -> Option<String> {
    let which = match which == of {
        true => String::new(),
        false => format!("/{which}"),
    };
    (of > 0).then(|| format!("nth={of}{which}"))
}

fn burst((bad, good): (Duration, Duration)) -> String {
    format!("burst={}/{}", show_duration(bad), show_duration(good))
}

fn reorder((part, late): (f64, Duration)) -> Option<String> {
    (part > 0.0).then(|| format!("reorder={}/{}", percent(part), show_duration(late)))
}

/// A queue says something only in front of a rate.
fn queue(conditions: &Conditions, perfect: &Conditions) -> Option<String> {
    let is_said = conditions.rate > 0 || conditions.queue != perfect.queue;
    is_said.then(|| format!("queue={}", show_size(conditions.queue as u64)))
}

/// A share was typed with few digits; more are the float's noise.
fn percent(share: f64) -> String {
    format!("{}%", (share * 1e8).round() / 1e6)
}

fn bits(rate: u64) -> String {
    let unit = RATE_UNITS
        .iter()
        .find(|(_, scale)| rate.is_multiple_of(*scale));
    unit.map_or_else(String::new, |(name, scale)| {
        format!("{}{name}", rate / scale)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(words: &str) -> Result<Impairments, String> {
        let mut impairments = Impairments::default();
        impairments
            .change(words.split_whitespace())
            .map_err(|error| error.to_string())?;
        Ok(impairments)
    }

    #[test]
    fn every_word_means_what_it_says() {
        let all: Vec<_> = WORDS.iter().map(|(example, _)| *example).collect();
        let impairments = said(&all.join(" ")).unwrap();
        let both = Conditions {
            delay: Duration::from_millis(25),
            jitter: Duration::from_millis(5),
            loss: 0.05,
            nth: (4, 2),
            bursts: Some((Duration::from_millis(60), Duration::from_secs(1))),
            reorder: (0.01, Duration::from_millis(10)),
            duplicate: 0.01,
            corrupt: 0.01,
            rate: 10_000_000,
            queue: 64 * 1024,
            polices: true,
            mtu: 1_500,
        };
        let expected = Impairments {
            up: both,
            down: both,
            rebind: Some(Duration::from_secs(30)),
        };
        assert_eq!(impairments, expected);
        assert_eq!(impairments.to_string(), all.join(" "));
    }

    #[test]
    fn what_is_shown_can_be_said_again() {
        for words in [
            "perfect",
            "loss=0.01%",
            "delay=25ms up.loss=12.5% down.rate=512kbit down.queue=16KiB",
            "up.delay=1s up.jitter=1s",
            "rate=10Mbit queue=64KiB up.police=on",
            "nth=4",
            "up.nth=3/1 down.nth=2",
            "burst=100ms/2s up.corrupt=100% rebind=1m",
        ] {
            let impairments = said(words).unwrap();
            assert_eq!(impairments.to_string(), words);
            assert_eq!(said(&impairments.to_string()), Ok(impairments));
        }
    }

    #[test]
    fn later_words_win_and_nothing_turns_it_off() {
        let mut impairments =
            said("delay=25ms loss=5% nth=4 burst=60ms/1s reorder=1%/10ms police=on").unwrap();
        let change = "up.loss=0 nth=0 burst=0 reorder=0 delay=0 rate=0 police=0";
        impairments.change(change.split_whitespace()).unwrap();
        assert_eq!(impairments.to_string(), "down.loss=5%");
        impairments.change(["perfect"]).unwrap();
        assert_eq!(impairments, Impairments::default());
    }

    /// Each mistake says what to write instead, and changes nothing.
    #[test]
    fn mistakes_speak() {
        for (words, hint) in [
            ("loss=5", "such as 5%"),
            ("loss=101%", "0% to 100%"),
            ("loss=NaN%", "0% to 100%"),
            ("delay=25", "a number without a unit: write \"25ms\""),
            ("delay=11s", "more than 10s"),
            ("delay=5ms jitter=6ms", "more than the delay of 5ms"),
            ("latency=25ms", "did you mean delay=25ms?"),
            ("--loss", "did you mean loss=5%?"),
            ("nth=1", "at least 2"),
            ("nth=4/5", "nth=4/2"),
            ("nth=4/0", "nth=4/2"),
            ("nth=25%", "nth=4/2"),
            ("--every=4", "did you mean nth=4?"),
            ("burst=60ms", "burst=60ms/1s"),
            ("burst=0ms/1s", "burst=0 is none"),
            ("reorder=1%", "reorder=1%/10ms"),
            ("rate=10MB", "rate=10Mbit"),
            ("rate=Mbit", "rate=10Mbit"),
            ("queue=64K", "64KiB"),
            ("police=10Mbit", "police=on"),
            ("policer=on", "did you mean police=on?"),
            ("left.loss=1%", "up is from clients to the server"),
            ("impairments", "say delay=25ms, jitter=5ms"),
        ] {
            let mut impairments = said("duplicate=3%").unwrap();
            let error = impairments
                .change(words.split_whitespace())
                .expect_err(words)
                .to_string();
            assert!(error.contains(hint), "{words}: {error}");
            assert_eq!(impairments, said("duplicate=3%").unwrap());
        }
    }
}
