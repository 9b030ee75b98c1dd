//! Suspicion that a run kills its workers.
//!
//! A worker that dies leaves no cause behind: all runs that it held may have killed it, or none of
//! them. So the deaths during a run, without progress in between, only make it a suspect. Few
//! suspects are executed at once, and a suspect whose worker dies again is executed without other
//! suspects until it has made progress or the worker has survived it for [`ISOLATION_PERIOD`]. Only
//! a run on which workers keep dying then fails as a crash loop.

use std::ops::RangeInclusive;
use std::time::Duration;

/// Deaths of workers after which a run is a suspect.
pub const SUSPECTED_AFTER: i32 = 3;
/// Deaths of workers after which a run is executed without other suspects at first.
pub const ISOLATED_AFTER: i32 = 4;
/// Deaths of workers after which a run fails. For the last three of them it was isolated.
pub const CRASH_LOOP_AFTER: i32 = ISOLATED_AFTER + 3;
/// Deaths of workers after which a run fails without being read: the workers that read it in order to
/// settle it have died as well.
pub const GIVEN_UP_AFTER: i32 = CRASH_LOOP_AFTER + 2;
/// Time of its execution after which a suspect no longer delays other suspects, although it has
/// made no progress: the worker has survived the run for so long, and a run that only hangs, or
/// whose model is slow, must not block the suspects of other tenants.
pub const ISOLATION_PERIOD: Duration = Duration::from_secs(10);
/// Pause before the first claim of a suspect. It doubles with every further death.
pub const FIRST_BACKOFF: Duration = Duration::from_secs(2);

/// The degree of suspicion against a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Suspicion {
    /// None: the run is executed like any other.
    None,
    /// The run is executed together with few other suspects.
    Suspected,
    /// The run is executed without other suspects, at most for the isolation period.
    Isolated,
}

impl Suspicion {
    /// The degree of suspicion after this number of deaths.
    pub const fn after(takeovers: i32) -> Self {
        match takeovers {
            ..SUSPECTED_AFTER => Self::None,
            SUSPECTED_AFTER..ISOLATED_AFTER => Self::Suspected,
            ISOLATED_AFTER.. => Self::Isolated,
        }
    }

    /// The numbers of deaths that lead to this degree.
    pub const fn takeovers(self) -> RangeInclusive<i32> {
        match self {
            Self::None => 0..=SUSPECTED_AFTER - 1,
            Self::Suspected => SUSPECTED_AFTER..=ISOLATED_AFTER - 1,
            Self::Isolated => ISOLATED_AFTER..=i32::MAX,
        }
    }
}

/// The pause before a run is claimed after this number of deaths.
pub fn backoff(takeovers: i32) -> Duration {
    let doublings = takeovers.saturating_sub(SUSPECTED_AFTER);
    if takeovers >= CRASH_LOOP_AFTER {
        return Duration::ZERO;
    }
    u32::try_from(doublings)
        .map_or(Duration::ZERO, |doublings| FIRST_BACKOFF * 2_u32.pow(doublings))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_of_deaths_has_one_degree() {
        for takeovers in 0..=2 * CRASH_LOOP_AFTER {
            let degrees = [Suspicion::None, Suspicion::Suspected, Suspicion::Isolated];
            let found: Vec<Suspicion> =
                degrees.into_iter().filter(|one| one.takeovers().contains(&takeovers)).collect();
            assert_eq!(found, [Suspicion::after(takeovers)], "{takeovers}");
        }
    }

    #[test]
    fn the_pauses_double_until_the_run_is_settled() {
        let seconds: Vec<u64> = (0..=8).map(|takeovers| backoff(takeovers).as_secs()).collect();
        assert_eq!(seconds, [0, 0, 0, 2, 4, 8, 16, 0, 0]);
    }
}
