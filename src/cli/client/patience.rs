//! How long a service that is away is waited for, and how often it is asked meanwhile.

use std::time::Duration;

use tokio::time::{Instant, sleep};

/// How long in all, since somebody was there.
const MOST: Duration = Duration::from_mins(1);
const FIRST: Duration = Duration::from_millis(500);
/// The longest pause, whatever somebody asks for.
const LONGEST: Duration = Duration::from_secs(15);
/// What many clients add to their pauses, each another part of it, so that they do not all come
/// back together.
const SPREAD_MS: u64 = 250;

/// What is left of it.
#[derive(Debug, Default)]
pub(super) struct Patience {
    until: Option<Instant>,
    tries: u32,
}

impl Patience {
    /// Somebody is there again.
    pub(super) fn renew(&mut self) {
        *self = Self::default();
    }

    /// Pauses, for as long as was asked for or else for longer each time; false if that would be
    /// too long.
    pub(super) async fn wait(&mut self, asked: Option<Duration>) -> bool {
        let now = Instant::now();
        let until = *self.until.get_or_insert(now + MOST);
        let own = FIRST * 2u32.pow(self.tries.min(5));
        let spread = Duration::from_millis(fastrand::u64(0..SPREAD_MS));
        let pause = asked.unwrap_or(own).min(LONGEST) + spread;
        self.tries += 1;
        if now + pause > until {
            return false;
        }
        sleep(pause).await;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn pauses_grow_and_end() {
        let (mut patience, begun) = (Patience::default(), Instant::now());
        let mut times = 0;
        while patience.wait(None).await {
            times += 1;
        }
        assert_eq!(times, 7);
        assert!(begun.elapsed() <= MOST);
        patience.renew();
        assert!(patience.wait(None).await);
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_asked_for_is_kept_to() {
        let (mut patience, begun) = (Patience::default(), Instant::now());
        assert!(patience.wait(Some(Duration::from_secs(5))).await);
        let waited = begun.elapsed();
        assert!((5000..5300).contains(&waited.as_millis()), "{waited:?}");
    }
}
