//! The provider's keys, kept in step with those that it publishes.
//!
//! One task asks for them, so that there is one question at a time, whoever wants to know. A request
//! only says that it misses a key, and waits a little for the answer.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep_until, timeout};

use super::Pace;
use super::fetch::Provider;
use super::jwks::KeySet;

/// How long a request waits for keys that are being asked for.
const WAIT: Duration = Duration::from_secs(2);

/// The keys of a provider.
#[derive(Debug)]
pub(super) struct Keeper {
    provider: Provider,
    pace: Pace,
    known: watch::Sender<Known>,
    /// Somebody misses a key.
    missed: Notify,
}

/// What the last questions brought.
#[derive(Debug, Clone, Default)]
struct Known {
    keys: Arc<KeySet>,
    /// When the provider last told them.
    told_at: Option<Instant>,
    /// Until when it is not asked because somebody misses a key.
    deaf_until: Option<Instant>,
}

impl Keeper {
    pub(super) fn new(provider: Provider, pace: Pace) -> Self {
        Self { provider, pace, known: watch::Sender::default(), missed: Notify::new() }
    }

    /// The keys that are good now.
    pub(super) fn current(&self) -> Arc<KeySet> {
        let known = self.known.borrow();
        let is_good = known.told_at.is_some_and(|at| at.elapsed() < self.pace.kept_for);
        if is_good { Arc::clone(&known.keys) } else { Arc::default() }
    }

    /// The keys after the provider was asked again because one is missed, if it may be asked now
    /// and answers soon; else those that are good anyway.
    pub(super) async fn renewed(&self) -> Arc<KeySet> {
        let mut news = self.known.subscribe();
        self.missed.notify_one();
        let deaf_until = news.borrow().deaf_until;
        if deaf_until.is_none_or(|until| until <= Instant::now()) {
            let _ = timeout(WAIT, news.changed()).await;
        }
        self.current()
    }

    /// Asks now, from time to time, and when a key is missed.
    pub(super) async fn keep(&self) {
        let mut hears_from = Instant::now();
        loop {
            let is_told = self.ask(hears_from).await;
            // Whoever has missed a key until now is answered by this.
            let _ = self.missed.notified().now_or_never();
            let next = if is_told { self.pace.every } else { self.pace.pause };
            let due = sleep_until(Instant::now() + next);
            let missed = async {
                sleep_until(hears_from).await;
                self.missed.notified().await;
            };
            tokio::select! {
                () = due => {}
                () = missed => hears_from = Instant::now() + self.pace.pause,
            }
        }
    }

    /// Asks for the keys, and says whether the provider told them. Those that it has told before
    /// stay when it does not.
    async fn ask(&self, hears_from: Instant) -> bool {
        let asked_at = Instant::now();
        let answer = self.provider.keys().await;
        let told = match answer {
            Ok(keys) => {
                tracing::debug!(keys = keys.len(), "the identity provider has told its keys");
                Some(Arc::new(keys))
            }
            Err(error) => {
                tracing::warn!(%error, "the keys of the identity provider are not refreshed");
                None
            }
        };
        let is_told = told.is_some();
        self.known.send_modify(|known| {
            known.deaf_until = Some(hears_from);
            if let Some(keys) = told {
                (known.keys, known.told_at) = (keys, Some(asked_at));
            }
        });
        is_told
    }
}
