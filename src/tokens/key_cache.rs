//! A cache of the provider's keys.
//!
//! One task refreshes the cache, so that at most one request to the provider is in progress. A
//! caller with an unknown key only triggers a refresh and waits for it for a limited time.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep_until, timeout};

use super::KeyRefresh;
use super::fetch::Provider;
use super::jwks::KeySet;

/// Maximum time that a caller waits for a refresh.
const WAIT: Duration = Duration::from_secs(2);

/// The cache of a provider's keys.
#[derive(Debug)]
pub(super) struct KeyCache {
    provider: Provider,
    key_refresh: KeyRefresh,
    cached: watch::Sender<CachedKeys>,
    /// Notified when a token has an unknown key.
    unknown_key: Notify,
}

/// The cached keys and the state of the refresh.
#[derive(Debug, Clone, Default)]
struct CachedKeys {
    keys: Arc<KeySet>,
    /// The time of the last successful refresh.
    refreshed_at: Option<Instant>,
    /// The time before which an unknown key triggers no refresh.
    no_trigger_until: Option<Instant>,
}

impl KeyCache {
    pub(super) fn new(provider: Provider, key_refresh: KeyRefresh) -> Self {
        Self { provider, key_refresh, cached: watch::Sender::default(), unknown_key: Notify::new() }
    }

    /// Returns the cached keys, or an empty set if they have expired.
    pub(super) fn current(&self) -> Arc<KeySet> {
        let cached = self.cached.borrow();
        let is_good = cached.refreshed_at.is_some_and(|at| at.elapsed() < self.key_refresh.max_age);
        if is_good { Arc::clone(&cached.keys) } else { Arc::default() }
    }

    /// Triggers a refresh, waits for it for a limited time, and returns the cached keys. Does not
    /// wait if the last triggered refresh was too recent.
    pub(super) async fn refreshed(&self) -> Arc<KeySet> {
        let mut changes = self.cached.subscribe();
        self.unknown_key.notify_one();
        let no_trigger_until = changes.borrow().no_trigger_until;
        if no_trigger_until.is_none_or(|until| until <= Instant::now()) {
            let _ = timeout(WAIT, changes.changed()).await;
        }
        self.current()
    }

    /// Refreshes the keys now, periodically, and when a token has an unknown key.
    pub(super) async fn run(&self) {
        let mut triggers_from = Instant::now();
        loop {
            let is_refreshed = self.refresh(triggers_from).await;
            // This refresh covers all unknown keys that were reported before it ended.
            let _ = self.unknown_key.notified().now_or_never();
            let next = if is_refreshed {
                self.key_refresh.interval
            } else {
                self.key_refresh.min_interval
            };
            let due = sleep_until(Instant::now() + next);
            let unknown_key = async {
                sleep_until(triggers_from).await;
                self.unknown_key.notified().await;
            };
            tokio::select! {
                () = due => {}
                () = unknown_key => triggers_from = Instant::now() + self.key_refresh.min_interval,
            }
        }
    }

    /// Requests the keys and returns `true` on success. A failure keeps the cached keys.
    async fn refresh(&self, triggers_from: Instant) -> bool {
        let started_at = Instant::now();
        let answer = self.provider.keys().await;
        let new_keys = match answer {
            Ok(keys) => {
                tracing::debug!(keys = keys.len(), "identity provider keys refreshed");
                Some(Arc::new(keys))
            }
            Err(error) => {
                tracing::warn!(%error, "identity provider keys not refreshed");
                None
            }
        };
        let is_refreshed = new_keys.is_some();
        self.cached.send_modify(|cached| {
            cached.no_trigger_until = Some(triggers_from);
            if let Some(keys) = new_keys {
                (cached.keys, cached.refreshed_at) = (keys, Some(started_at));
            }
        });
        is_refreshed
    }
}
