//! How many requests are sent again, over all runs of the process.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// The part of a retry that every first try earns.
const EARNED: f64 = 0.2;
/// What is earned in a second without any requests.
const EARNED_PER_SECOND: f64 = 1.0;
/// The most that is saved up.
const MOST: f64 = 20.0;
/// The most that is taken in advance: by what a second earns, a wait of a minute.
const MOST_OWED: f64 = 60.0;

/// Retries as money: first tries earn it, retries spend it, and who has none waits for it.
#[derive(Debug)]
pub struct RetryBudget(Mutex<Account>);

#[derive(Debug)]
struct Account {
    balance: f64,
    at: Option<Instant>,
}

impl Default for RetryBudget {
    fn default() -> Self {
        Self(Mutex::new(Account { balance: MOST, at: None }))
    }
}

impl RetryBudget {
    /// A request is sent for the first time.
    pub fn earn(&self, now: Instant) {
        let mut account = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        account.catch_up(now);
        account.balance = (account.balance + EARNED).min(MOST);
    }

    /// Takes one retry, and says how long to wait for it; none when too many wait already.
    pub fn spend(&self, now: Instant) -> Option<Duration> {
        let mut account = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        account.catch_up(now);
        let left = account.balance - 1.0;
        if left < -MOST_OWED {
            return None;
        }
        account.balance = left;
        Some(Duration::from_secs_f64((-left / EARNED_PER_SECOND).max(0.0)))
    }
}

impl Account {
    fn catch_up(&mut self, now: Instant) {
        let since = self.at.replace(now).map_or(Duration::ZERO, |at| now.duration_since(at));
        self.balance = (self.balance + since.as_secs_f64() * EARNED_PER_SECOND).min(MOST);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NO_WAIT: Option<Duration> = Some(Duration::ZERO);

    /// An account from which all savings are spent.
    fn spent(now: Instant) -> RetryBudget {
        let budget = RetryBudget::default();
        for _ in 0..20 {
            assert_eq!(budget.spend(now), NO_WAIT);
        }
        budget
    }

    #[test]
    fn five_first_tries_earn_a_retry() {
        let now = Instant::now();
        let budget = spent(now);
        for _ in 0..5 {
            budget.earn(now);
        }
        assert!(budget.spend(now).unwrap() < Duration::from_millis(1));
        assert_eq!(budget.spend(now).unwrap().as_millis(), 1000);
    }

    #[test]
    fn without_requests_there_is_one_a_second() {
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
    fn those_who_wait_stand_in_line_and_the_line_has_an_end() {
        let now = Instant::now();
        let budget = spent(now);
        for second in 1..=60 {
            assert_eq!(budget.spend(now), Some(Duration::from_secs(second)));
        }
        assert_eq!(budget.spend(now), None);
    }
}
