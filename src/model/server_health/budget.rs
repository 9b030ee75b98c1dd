//! A retry budget over all runs of the process with one model.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Retries earned by each first try.
const EARNED_PER_FIRST_TRY: f64 = 0.2;
/// Retries earned per second, also without requests.
const EARNED_PER_SECOND: f64 = 1.0;
/// The maximum balance.
const MAX_BALANCE: f64 = 20.0;
/// The maximum debt: waiting callers reserve retries in advance, at most one minute's earnings.
const MAX_DEBT: f64 = 60.0;

/// A token bucket for retries: first tries fill it, retries drain it, and a retry without a token
/// waits for one.
#[derive(Debug)]
pub struct RetryBudget(Mutex<Account>);

#[derive(Debug)]
struct Account {
    balance: f64,
    at: Option<Instant>,
}

impl Default for RetryBudget {
    fn default() -> Self {
        Self(Mutex::new(Account { balance: MAX_BALANCE, at: None }))
    }
}

impl RetryBudget {
    /// Adds to the balance for a first try.
    pub fn earn(&self, now: Instant) {
        let mut account = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        account.catch_up(now);
        account.balance = (account.balance + EARNED_PER_FIRST_TRY).min(MAX_BALANCE);
    }

    /// Returns true if no retry was reserved that has not been earned since.
    pub(super) fn is_full(&self, now: Instant) -> bool {
        let mut account = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        account.catch_up(now);
        account.balance >= MAX_BALANCE
    }

    /// Reserves one retry and returns the delay until it may be sent, or `None` if too many retries
    /// are already waiting.
    pub fn spend(&self, now: Instant) -> Option<Duration> {
        let mut account = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        account.catch_up(now);
        let left = account.balance - 1.0;
        if left < -MAX_DEBT {
            return None;
        }
        account.balance = left;
        Some(Duration::from_secs_f64((-left / EARNED_PER_SECOND).max(0.0)))
    }
}

impl Account {
    fn catch_up(&mut self, now: Instant) {
        let since = self.at.replace(now).map_or(Duration::ZERO, |at| now.duration_since(at));
        self.balance = (self.balance + since.as_secs_f64() * EARNED_PER_SECOND).min(MAX_BALANCE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NO_WAIT: Option<Duration> = Some(Duration::ZERO);

    /// A budget whose balance is zero.
    fn spent(now: Instant) -> RetryBudget {
        let budget = RetryBudget::default();
        for _ in 0..20 {
            assert_eq!(budget.spend(now), NO_WAIT);
        }
        budget
    }

    #[test]
    fn five_first_tries_earn_one_retry() {
        let now = Instant::now();
        let budget = spent(now);
        for _ in 0..5 {
            budget.earn(now);
        }
        assert!(budget.spend(now).unwrap() < Duration::from_millis(1));
        assert_eq!(budget.spend(now).unwrap().as_millis(), 1000);
    }

    #[test]
    fn one_retry_per_second_is_earned_without_requests() {
        let start = Instant::now();
        let budget = spent(start);
        assert_eq!(budget.spend(start + Duration::from_secs(1)), NO_WAIT);
        let later = start + Duration::from_hours(1);
        for _ in 0..20 {
            assert_eq!(budget.spend(later), NO_WAIT);
        }
        assert_eq!(budget.spend(later), Some(Duration::from_secs(1)), "no more than 20 are saved");
    }

    #[test]
    fn waiting_retries_queue_up_to_a_limit() {
        let now = Instant::now();
        let budget = spent(now);
        for second in 1..=60 {
            assert_eq!(budget.spend(now), Some(Duration::from_secs(second)));
        }
        assert_eq!(budget.spend(now), None);
    }
}
