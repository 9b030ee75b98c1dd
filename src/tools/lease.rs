//! The lease of a run, which tools check before they write.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use crate::domain::claim::LEASE_TRUSTED_FOR;

/// The time at which the leases of a worker were last renewed.
#[derive(Debug, Clone)]
pub struct LeaseClock(Arc<AtomicU64>);

impl Default for LeaseClock {
    /// A clock whose leases were renewed at this moment.
    fn default() -> Self {
        let clock = Self(Arc::default());
        clock.renewed(since_boot());
        clock
    }
}

impl LeaseClock {
    /// Records a renewal that was requested at this time since boot.
    pub fn renewed(&self, asked_at: Duration) {
        let millis = u64::try_from(asked_at.as_millis()).unwrap_or(u64::MAX);
        self.0.store(millis, Ordering::Relaxed);
    }

    /// Returns whether the leases are still valid. A process that was stopped, or a machine that
    /// was suspended, finds them expired before anything else reports it.
    pub fn is_fresh(&self) -> bool {
        let renewed_at = Duration::from_millis(self.0.load(Ordering::Relaxed));
        since_boot().saturating_sub(renewed_at) <= LEASE_TRUSTED_FOR
    }
}

/// Time since boot, including time in suspend.
pub fn since_boot() -> Duration {
    let now = clock_gettime(ClockId::Boottime);
    Duration::new(now.tv_sec.try_into().unwrap_or(0), now.tv_nsec.try_into().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_is_fresh_for_a_while_after_its_renewal() {
        let clock = LeaseClock::default();
        assert!(clock.is_fresh());
        clock.renewed(since_boot().saturating_sub(LEASE_TRUSTED_FOR + Duration::from_millis(1)));
        assert!(!clock.is_fresh());
    }
}
