//! The lease of a run, which tools check before they write.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::domain::claim::{LEASE_TRUSTED_FOR, since_boot};

/// The value of a lease that is lost.
const LOST: u64 = 0;

/// The time at which a lease was last claimed or renewed. Each run has one, because a run can be
/// claimed while the leases of other runs cannot be renewed. The worker has one more, which says
/// when the last renewal succeeded.
#[derive(Debug, Clone)]
pub struct LeaseClock(Arc<AtomicU64>);

impl Default for LeaseClock {
    /// A clock whose lease was renewed at this moment.
    fn default() -> Self {
        Self::claimed(since_boot())
    }
}

impl LeaseClock {
    /// The clock of a lease that was requested at this time since boot.
    pub fn claimed(asked_at: Duration) -> Self {
        Self(Arc::new(AtomicU64::new(millis(asked_at))))
    }

    /// Records a renewal that was requested at this time since boot. A lost lease stays lost.
    pub fn renewed(&self, asked_at: Duration) {
        let later = |then| (then != LOST).then(|| millis(asked_at).max(then));
        // The closure returns nothing for a lost lease, which then does not change.
        let _ = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, later);
    }

    /// Marks the lease as lost.
    pub fn lose(&self) {
        self.0.store(LOST, Ordering::Relaxed);
    }

    /// Returns whether the lease is still valid. A process that was stopped, or a machine that was
    /// suspended, finds it expired before anything else reports it.
    pub fn is_fresh(&self) -> bool {
        let renewed_at = self.0.load(Ordering::Relaxed);
        let age = since_boot().saturating_sub(Duration::from_millis(renewed_at));
        renewed_at != LOST && age <= LEASE_TRUSTED_FOR
    }
}

/// Milliseconds of a time since boot, never the value of a lost lease.
fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX).max(LOST + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expired() -> Duration {
        since_boot().saturating_sub(LEASE_TRUSTED_FOR + Duration::from_millis(1))
    }

    #[test]
    fn a_lease_is_fresh_for_a_while_after_its_claim_and_after_each_renewal() {
        assert!(LeaseClock::default().is_fresh());
        let clock = LeaseClock::claimed(expired());
        assert!(!clock.is_fresh());
        clock.renewed(since_boot());
        assert!(clock.is_fresh());
        // A renewal that was requested before the claim does not shorten the lease.
        clock.renewed(expired());
        assert!(clock.is_fresh());
    }

    #[test]
    fn a_lost_lease_cannot_be_renewed() {
        let clock = LeaseClock::default();
        clock.lose();
        clock.renewed(since_boot());
        assert!(!clock.is_fresh());
    }
}
