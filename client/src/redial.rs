//! Connecting again: a fresh token for each attempt, and pauses that grow.

use std::fmt;
use std::time::Duration;

use crate::client::{Client, ConnectError};
use crate::clock::Clock;
use crate::dial::Dial;
use crate::polled::random_seed;

/// Pauses between attempts: doubling, with jitter, so that a restarted server does not get all its
/// players back in the same second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// Before the second attempt, on average.
    pub first: Duration,
    /// The longest, on average.
    pub most: Duration,
    /// Failures in a row until it gives up; at least 1.
    pub attempts_max: u32,
}

impl Default for Backoff {
    /// From half a second to half a minute, for some five minutes.
    fn default() -> Self {
        Self {
            first: Duration::from_millis(500),
            most: Duration::from_secs(30),
            attempts_max: 15,
        }
    }
}

impl Backoff {
    /// The pause after so many failures in a row (1 and up). `random` chooses within half to one and
    /// a half times the average.
    pub fn pause(&self, failures: u32, random: u64) -> Duration {
        let doublings = failures.saturating_sub(1).min(31);
        let average = self.first.saturating_mul(1 << doublings).min(self.most);
        average.mul_f64(0.5 + (random >> 11) as f64 / (1_u64 << 53) as f64)
    }
}

/// Makes one [`Client`] after the other.
///
/// ```no_run
/// # async fn fetch_token() -> std::io::Result<Vec<u8>> { Ok(Vec::new()) }
/// # async fn play() -> Result<(), Box<dyn std::error::Error>> {
/// use tidegate_client::{Backoff, Dial, Redial};
///
/// let mut redial = Redial::new(Backoff::default(), async || {
///     let token = fetch_token().await?;      // a token carries one session
///     Ok::<_, Box<dyn std::error::Error>>(Dial::yojimbo(&token)?)
/// });
/// loop {
///     let client = redial.connect().await?;
///     while let Ok(message) = client.recv().await {
///         println!("{:?}", message.payload);
///     }
/// }
/// # }
/// ```
///
/// What was sent and not confirmed in one session is not sent again in the next: the server may have
/// it, and only the game knows what saying it twice would do.
pub struct Redial<F> {
    backoff: Backoff,
    dial: F,
    /// In a row.
    failures: u32,
    /// When the last client was handed out; a session that ends at once counts as a failure.
    since: Option<Clock>,
}

/// Without the closure, which may hold anything.
impl<F> fmt::Debug for Redial<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redial")
            .field("backoff", &self.backoff)
            .field("failures", &self.failures)
            .finish_non_exhaustive()
    }
}

impl<F, E> Redial<F>
where
    F: AsyncFnMut() -> Result<Dial, E>,
{
    /// Asks `dial` before each attempt for where to and with which token.
    pub fn new(backoff: Backoff, dial: F) -> Self {
        Self {
            backoff,
            dial,
            failures: 0,
            since: None,
        }
    }

    /// The next client: at once the first time and after a session that lasted, else after a pause.
    /// A failing `dial` is tried again like a server that does not answer; drop the future to stop.
    pub async fn connect(&mut self) -> Result<Client, GaveUp<E>> {
        if let Some(session) = self.since.take() {
            let lasted = Duration::from_nanos(session.now().mono.as_nanos());
            self.failures = failures_after(self.failures, lasted);
        }
        loop {
            if self.failures > 0 {
                // Without randomness the pause is still a pause.
                let random = random_seed().unwrap_or(1 << 63);
                tokio::time::sleep(self.backoff.pause(self.failures, random)).await;
            }
            let cause = match (self.dial)().await {
                Err(error) => GaveUp::Dial(error),
                Ok(dial) => match Client::connect(dial).await {
                    Ok(client) => {
                        self.since = Some(Clock::start());
                        return Ok(client);
                    }
                    Err(error) => GaveUp::Connect(error),
                },
            };
            self.failures = self.failures.saturating_add(1);
            if self.failures >= self.backoff.attempts_max {
                self.failures = 0;
                return Err(cause);
            }
        }
    }
}

/// A session that ends at once is one more failure: a server that lets everybody in and puts everybody out must not have
/// them all back twice a second, for ever.
fn failures_after(failures: u32, lasted: Duration) -> u32 {
    if lasted < LASTED {
        failures.saturating_add(1)
    } else {
        0
    }
}

/// What the last attempt failed of.
#[derive(Debug)]
pub enum GaveUp<E> {
    /// There was nothing to dial.
    Dial(E),
    /// There was no session.
    Connect(ConnectError),
}

impl<E: fmt::Display> fmt::Display for GaveUp<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dial(error) => write!(f, "gave up: {error}"),
            Self::Connect(error) => write!(f, "gave up: {error}"),
        }
    }
}

impl<E: fmt::Debug + fmt::Display> std::error::Error for GaveUp<E> {}

/// A session that ends sooner says nothing good about the server.
const LASTED: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest_and_are_spread() {
        let backoff = Backoff {
            first: Duration::from_millis(100),
            most: Duration::from_millis(1_500),
            attempts_max: 9,
        };
        let (low, high) = (0, u64::MAX);
        for (failures, average) in [(1, 100), (2, 200), (4, 800), (5, 1_500), (u32::MAX, 1_500)] {
            let average = Duration::from_millis(average);
            assert_eq!(backoff.pause(failures, low), average / 2, "{failures}");
            let longest = backoff.pause(failures, high);
            assert!(
                longest > average && longest <= average * 3 / 2,
                "{failures}"
            );
        }
    }

    #[test]
    fn pauses_grow_also_between_sessions_that_end_at_once() {
        let short = LASTED - Duration::from_nanos(1);
        let row = [0, 1, 2].map(|before| failures_after(before, short));
        assert_eq!(row, [1, 2, 3]);
        assert_eq!(failures_after(3, LASTED), 0);
        assert_eq!(failures_after(u32::MAX, short), u32::MAX);
    }

    #[test]
    fn so_many_failures_in_a_row_are_the_end() {
        let runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = { runtime }.enable_time().build().unwrap();
        let backoff = Backoff {
            first: Duration::ZERO,
            most: Duration::ZERO,
            attempts_max: 3,
        };
        let mut asked = 0;
        let mut redial = Redial::new(backoff, async || {
            asked += 1;
            Err::<Dial, _>("no matchmaker")
        });
        for _ in 0..2 {
            let gave_up = runtime.block_on(redial.connect()).unwrap_err();
            assert_eq!(gave_up.to_string(), "gave up: no matchmaker");
        }
        assert_eq!(asked, 6);
    }
}
